"""Errors of `TrajectoryDataset` and `TimestepDataset`."""

from __future__ import annotations

import numpy as np
import pytest
import reverb
import tensorflow as tf
from raising import check, raises
from support_tables import queue

_SHAPE = tf.TensorShape
_TABLE = "Table signature: 0: Tensor<name: 'a/a', dtype: float, shape: {a}>, 1: Tensor<name: 'b/b', dtype: int64, shape: {b}>"

kinds = pytest.mark.parametrize("kind", ["TrajectoryDataset", "TimestepDataset"])


def _columns(kind, dtypes, shapes):
    """Returns the data types, and the shapes of steps in the dataset's form."""
    rows = [] if kind == "TimestepDataset" else [None]
    return dtypes, [_SHAPE(rows + shape) for shape in shapes]


def _first(kind, client, table, columns):
    return next(iter(getattr(reverb, kind)(client.server_address, table, *columns, 1)))


def _rows(kind, text):
    """Returns the text, with the row dimension of whole items in its shapes if the dataset has one."""
    return text if kind == "TimestepDataset" else text.replace("[", "[?,").replace("[?,]", "[?]")


@kinds
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"max_in_flight_samples_per_worker": 0}, "max_in_flight_samples_per_worker (0) must be a positive integer"),
        ({"num_workers_per_iterator": 0}, "num_workers_per_iterator (0) must be a positive integer or -1"),
        ({"num_workers_per_iterator": -2}, "num_workers_per_iterator (-2) must be a positive integer or -1"),
        ({"max_samples_per_stream": 0}, "max_samples_per_stream (0) must be a positive integer or -1"),
        ({"rate_limiter_timeout_ms": -2}, "rate_limiter_timeout_ms (-2) must be an integer >= -1"),
        ({"max_samples": 0}, "max_samples (0) must be a positive integer or -1"),
    ],
)
def test_options(kind, options, text):
    with pytest.raises(ValueError) as raised:
        getattr(reverb, kind)(
            "localhost:1", "table", tf.float32, _SHAPE([]), **{"max_in_flight_samples_per_worker": 1, **options}
        )
    check(raised.value, ValueError, text)


@kinds
def test_a_table_that_does_not_exist_has_no_signature(serve, kind):
    client = serve(queue("b"), queue("a"))
    with pytest.raises(ValueError) as raised:
        getattr(reverb, kind).from_table_signature(client.server_address, "nowhere", 1)
    text = f"Server at {client.server_address} does not contain any table named nowhere. Found: a, b."
    check(raised.value, ValueError, text)


@kinds
def test_a_table_without_signature(serve, kind):
    client = serve(queue("b"), queue("a"))
    with pytest.raises(ValueError) as raised:
        getattr(reverb, kind).from_table_signature(client.server_address, "b", 1)
    check(raised.value, ValueError, f"Table b at {client.server_address} does not have a signature.")


@raises(reverb.DeadlineExceededError, "ServerInfo call did not complete within provided timeout of 1s")
@kinds
def test_a_missing_signature_times_out(kind):
    getattr(reverb, kind).from_table_signature("localhost:1", "b", 1, get_signature_timeout_secs=1)


@raises(tf.errors.NotFoundError, "Priority table nowhere was not found")
@kinds
def test_an_unknown_table(serve, kind):
    _first(kind, serve(queue()), "nowhere", _columns(kind, [tf.float32], [[]]))


@kinds
@pytest.mark.parametrize(
    ("dtypes", "shapes", "text"),
    [
        (
            [tf.float32],
            [[2]],
            "Inconsistent number of tensors requested from table 'queue'.  Requested 1 tensors, but table signature shows 2 "
            "tensors.  Table",
        ),
        (
            [tf.float32, tf.int32],
            [[2], []],
            "Requested incompatible tensor at flattened index 1 from table 'queue'.  Requested (dtype, shape): (int32, []).  "
            "Signature (dtype, shape): (int64, []).  Table",
        ),
        (
            [tf.float32, tf.int64],
            [[2], [3]],
            "Requested incompatible tensor at flattened index 1 from table 'queue'.  Requested (dtype, shape): (int64, [3]).  "
            "Signature (dtype, shape): (int64, []).  Table",
        ),
    ],
    ids=["number", "dtype", "shape"],
)
def test_requests_that_contradict_the_signature(serve, kind, dtypes, shapes, text):
    _, (first, second) = _columns(kind, dtypes, [[2], []])
    signature = {"a": tf.TensorSpec(first, tf.float32, "a"), "b": tf.TensorSpec(second, tf.int64, "b")}
    client = serve(queue(signature=signature))
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        _first(kind, client, "queue", _columns(kind, dtypes, shapes))
    table = _TABLE.format(a="[2]", b="[]").removeprefix("Table")
    check(raised.value, tf.errors.InvalidArgumentError, _rows(kind, text + table))


@kinds
@pytest.mark.parametrize(
    ("dtypes", "shapes", "text"),
    [
        (
            [tf.float32],
            [[2]],
            "Inconsistent number of tensors received from table 'queue'.  Specification has 1 tensors, but data coming from the "
            "table shows 2 tensors.\nTable signature: 0: Tensor<name: '?', dtype: float, shape: …>.\nIncoming tensor "
            "signature: 0: Tensor<name: '', dtype: float, shape: …>, 1: Tensor<name: '', dtype: int64, shape: …>",
        ),
        (
            [tf.float32, tf.int32],
            [[2], []],
            "Received incompatible tensor at flattened index 1 from table 'queue'.  Specification has (dtype, shape): (int32, "
            "…).  Tensor has (dtype, shape): (int64, …).\nTable signature: 0: Tensor<name: '?', dtype: float, shape: …>",
        ),
        (
            [tf.float32, tf.int64],
            [[2], [3]],
            "Received incompatible tensor at flattened index 1 from table 'queue'.  Specification has (dtype, shape): (int64, "
            "…3]).  Tensor has (dtype, shape): (int64, …).\nTable signature: 0: Tensor<name: '?', dtype: float, shape: …>",
        ),
    ],
    ids=["number", "dtype", "shape"],
)
def test_data_that_violates_the_requested_specs(serve, kind, dtypes, shapes, text):
    client = serve(queue())
    client.insert([np.zeros(2, np.float32), np.int64(1)], {"queue": 1.0})
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        _first(kind, client, "queue", _columns(kind, dtypes, shapes))
    check(raised.value, tf.errors.InvalidArgumentError, text)


@raises(tf.errors.InvalidArgumentError, "Sampled trajectory cannot be decomposed into timesteps.")
def test_items_that_are_not_time_steps_are_refused(serve):
    client = serve(queue())
    writer = client.trajectory_writer(3)
    for step in range(3):
        writer.append({"a": step})
    writer.create_item("queue", 1.0, {"a": writer.history["a"][-3:], "b": writer.history["a"][-2:]})
    writer.flush()
    _first("TimestepDataset", client, "queue", ([tf.int64, tf.int64], [_SHAPE([]), _SHAPE([])]))
