"""Errors raised by `TFClient`, in eager mode and within graphs."""

from __future__ import annotations

import numpy as np
import pytest
import reverb
import tensorflow as tf
from raising import check, raises
from support_tables import queue, selectors, table


def tf_client(serve, *tables):
    return reverb.TFClient(serve(*(tables or (queue(), queue("other")))).server_address)


def filled_client(serve):
    """Returns a client for a table with a time step, and for a table with an item that is no time steps."""
    client = serve(table(sampler=selectors.Prioritized(1.0)), queue(), queue("uneven"))
    client.insert([np.zeros(2, np.float32), np.int64(1)], {"table": 1.0})
    with client.trajectory_writer(3) as writer:
        for step in range(3):
            writer.append(step)
        writer.create_item("uneven", 1.0, [writer.history[-3:], writer.history[-2:]])
    return reverb.TFClient(client.server_address)


@raises(tf.errors.NotFoundError, "Priority table nowhere was not found")
def test_sample_unknown(serve):
    tf_client(serve).sample("nowhere", [tf.float32])


@raises(
    tf.errors.InvalidArgumentError,
    "Number of tensors in the replay sample did not match the expected count. Got 7 but wanted 6",
)
def test_sample_number(serve):
    filled_client(serve).sample("table", [tf.float32])


@raises(tf.errors.InvalidArgumentError, "Type mismatch: actual int64 vs. expect int32")
def test_sample_dtype(serve):
    filled_client(serve).sample("table", [tf.float32, tf.int32])


@raises(tf.errors.InvalidArgumentError, "Sampled trajectory cannot be decomposed into timesteps.")
def test_sample_of_no_time_steps(serve):
    filled_client(serve).sample("uneven", [tf.int64, tf.int64])


@raises(ValueError, "tables must be a string tensor of rank 1")
def test_insert_tables(serve):
    tf_client(serve).insert([tf.constant(1)], tf.constant("queue"), tf.constant([1.0], tf.float64))


@raises(ValueError, "tables must be a string tensor of rank 1")
def test_insert_tables_type(serve):
    tf_client(serve).insert([tf.constant(1)], tf.constant([1]), tf.constant([1.0], tf.float64))


@raises(ValueError, "priorities must be a float64 tensor of rank 1")
def test_insert_priority_type(serve):
    tf_client(serve).insert([tf.constant(1)], tf.constant(["queue"]), tf.constant([1.0], tf.float32))


@raises(ValueError, "priorities must be a float64 tensor of rank 1")
def test_insert_priority_rank(serve):
    tf_client(serve).insert([tf.constant(1)], tf.constant(["queue"]), tf.constant(1.0, tf.float64))


@raises(ValueError, "priorities and tables must have the same shape")
def test_insert_lengths(serve):
    tf_client(serve).insert([tf.constant(1)], tf.constant(["queue", "other"]), tf.constant([1.0], tf.float64))


@raises(
    tf.errors.InvalidArgumentError,
    "Unable to find signatures for table 'nowhere' in signature cache.  Available tables: […].",
)
def test_insert_unknown(serve):
    tf_client(serve).insert([tf.constant(1)], tf.constant(["nowhere"]), tf.constant([1.0], tf.float64))


@raises(tf.errors.InvalidArgumentError, "`priority` must not be nan.")
def test_insert_nan(serve):
    tf_client(serve).insert([tf.constant(1)], tf.constant(["queue"]), tf.constant([float("nan")], tf.float64))


@raises(
    tf.errors.InvalidArgumentError,
    "Unable to CreateItem in table 'queue' because Append was called with a tensor signature "
    "inconsistent with the table signature. At timestep offset 0, flattened index 0, saw a tensor of"
    " dtype int32, shape [], but expected tensor 'a/a' of dtype float and shape compatible with [?]."
    "  (Flattened) table signature: 0: Tensor<name: 'a/a', dtype: float, shape: [?]>, data "
    "signature: 0: Tensor<name: '', dtype: int32, shape: []>.",
)
def test_insert_signature(serve):
    tf_client(serve, queue(signature={"a": tf.TensorSpec([None], tf.float32, "a")})).insert(
        [tf.constant(1)], tf.constant(["queue"]), tf.constant([1.0], tf.float64)
    )


@raises(tf.errors.NotFoundError, "Priority table nowhere was not found")
def test_update_unknown(serve):
    tf_client(serve).update_priorities("nowhere", tf.constant([1], tf.uint64), tf.constant([1.0], tf.float64))


@raises(tf.errors.InvalidArgumentError, "Tensors `keys` and `priorities` do not match in shape ([2] vs. [1])")
def test_update_lengths(serve):
    tf_client(serve).update_priorities("queue", tf.constant([1, 2], tf.uint64), tf.constant([1.0], tf.float64))


@raises(tf.errors.InvalidArgumentError, "Tensors `keys` and `priorities` must be of rank 1.")
def test_update_rank(serve):
    tf_client(serve).update_priorities("queue", tf.constant(1, tf.uint64), tf.constant(1.0, tf.float64))


@raises(ValueError, "…")
def test_update_key_type(serve):
    tf_client(serve).update_priorities("queue", tf.constant([1], tf.int64), tf.constant([1.0], tf.float64))


@raises(ValueError, "…")
def test_update_priority_type(serve):
    tf_client(serve).update_priorities("queue", tf.constant([1], tf.uint64), tf.constant([1.0], tf.float32))


@raises(tf.errors.InvalidArgumentError, "Priority must not be NaN.")
def test_update_nan(serve):
    client = filled_client(serve)
    s = client.sample("table", [tf.float32, tf.int64])
    client.update_priorities("table", tf.reshape(s.info.key, [1]), tf.constant([float("nan")], tf.float64))


@raises(tf.errors.InvalidArgumentError, "Priority must not be negative.")
def test_update_negative(serve):
    client = filled_client(serve)
    s = client.sample("table", [tf.float32, tf.int64])
    client.update_priorities("table", tf.reshape(s.info.key, [1]), tf.constant([-1.0], tf.float64))


_IN_GRAPHS = {
    "sample unknown": (
        tf.errors.NotFoundError,
        "Priority table nowhere was not found",
        lambda client: client.sample("nowhere", [tf.float32]),
    ),
    "sample number": (
        tf.errors.InvalidArgumentError,
        "Number of tensors in the replay sample did not match the expected count. Got 7 but wanted 6",
        lambda client: client.sample("table", [tf.float32]),
    ),
    "sample of no time steps": (
        tf.errors.InvalidArgumentError,
        "Sampled trajectory cannot be decomposed into timesteps.",
        lambda client: client.sample("uneven", [tf.int64, tf.int64]),
    ),
    "insert unknown": (
        tf.errors.InvalidArgumentError,
        "Unable to find signatures for table 'nowhere' in signature cache.  Available tables: […].",
        lambda client: client.insert([tf.constant(1)], tf.constant(["nowhere"]), tf.constant([1.0], tf.float64)),
    ),
    "insert NaN": (
        tf.errors.InvalidArgumentError,
        "`priority` must not be nan.",
        lambda client: client.insert([tf.constant(1)], tf.constant(["queue"]), tf.constant([float("nan")], tf.float64)),
    ),
    "update unknown": (
        tf.errors.NotFoundError,
        "Priority table nowhere was not found",
        lambda client: client.update_priorities("nowhere", tf.constant([1], tf.uint64), tf.constant([1.0], tf.float64)),
    ),
    "update lengths": (
        tf.errors.InvalidArgumentError,
        "Tensors `keys` and `priorities` do not match in shape ([2] vs. [1])",
        lambda client: client.update_priorities(
            "queue", tf.constant([1, 2], tf.uint64), tf.constant([1.0], tf.float64)
        ),
    ),
}


@pytest.mark.parametrize(("kind", "text", "program"), _IN_GRAPHS.values(), ids=_IN_GRAPHS)
@pytest.mark.parametrize("is_session", [False, True], ids=["function", "session"])
def test_in_graphs(serve, kind, text, program, is_session):
    client = filled_client(serve)

    def in_a_session():
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            session.run(program(reverb.TFClient(client.server_address)))

    with pytest.raises(kind) as raised:
        in_a_session() if is_session else tf.function(lambda: program(client) and None)()
    check(raised.value, kind, text)
