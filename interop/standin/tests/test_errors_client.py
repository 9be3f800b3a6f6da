"""Errors of `Client`."""

from __future__ import annotations

import numpy as np
import reverb
from raising import raises
from support_tables import SIGNATURE, queue, selectors, table


@raises(ValueError, "priorities must contain at least one item")
def test_insert_no_priorities(serve):
    serve(queue()).insert([1], {})


@raises(ValueError, "Unable to create item in table 'nowhere' since the table could not be found.")
def test_insert_unknown_table(serve):
    client = serve(queue("a"), queue("b"))
    with client.trajectory_writer(1) as writer:
        writer.append([1])
        writer.create_item("nowhere", 1.0, [writer.history[0][:]])


@raises(ValueError, "Unable to find signatures for table 'nowhere' in signature cache.  Available tables: […].")
def test_insert_direct_unknown(serve):
    serve(queue("a"), queue("b")).insert([1], {"nowhere": 1.0})


@raises(TypeError, "Append(): incompatible function arguments.…")
def test_insert_object(serve):
    serve(queue()).insert([object()], {"queue": 1.0})


@raises(TypeError, "Append(): incompatible function arguments.…")
def test_insert_none(serve):
    serve(queue()).insert([None], {"queue": 1.0})


@raises(TypeError, "CreateItem(): incompatible function arguments.…")
def test_insert_priority_none(serve):
    serve(queue()).insert([1], {"queue": None})


@raises(ValueError, "max_sequence_length (0) must be a positive integer")
def test_writer_length_zero(serve):
    serve(queue()).writer(0)


@raises(ValueError, "chunk_length (0) must be a positive integer le to max_sequence_length (2)")
def test_writer_chunk_zero(serve):
    serve(queue()).writer(2, chunk_length=0)


@raises(ValueError, "chunk_length (3) must be a positive integer le to max_sequence_length (2)")
def test_writer_chunk_too_long(serve):
    serve(queue()).writer(2, chunk_length=3)


@raises(ValueError, "max_in_flight_items (0) must be a positive integer")
def test_writer_in_flight_zero(serve):
    serve(queue()).writer(2, max_in_flight_items=0)


@raises(RuntimeError, "Priority table nowhere was not found")
def test_sample_unknown(serve):
    next(serve(queue("a"), queue("b")).sample("nowhere"))


@raises(ValueError, "max_samples (0) must be -1 or >= 1")
def test_sample_zero(serve):
    next(serve(queue()).sample("queue", 0))


@raises(ValueError, "Can't split non timestep trajectory into timesteps.")
def test_sample_unsplittable(serve):
    client = serve(queue())
    writer = client.trajectory_writer(3)
    for i in range(3):
        writer.append({"a": i})
    writer.create_item("queue", 1.0, {"a": writer.history["a"][-3:], "b": writer.history["a"][-2:]})
    writer.flush()
    next(client.sample("queue"))


@raises(ValueError, 'Could not find table "nowhere". The following tables exists: ….')
def test_sample_unpack_unknown(serve):
    next(serve(queue("a"), queue("b")).sample("nowhere", unpack_as_table_signature=True))


@raises(RuntimeError, "Priority table nowhere was not found")
def test_mutate_unknown(serve):
    serve(queue()).mutate_priorities("nowhere", updates={1: 1.0})


@raises(ValueError, "Priority must not be negative.")
def test_mutate_negative(serve):
    client = serve(table(sampler=selectors.Prioritized(1.0)))
    client.insert([1], {"table": 1.0})
    s = next(client.sample("table", emit_timesteps=False))
    client.mutate_priorities("table", updates={s.info.key: -1.0})


@raises(ValueError, "Priority must not be NaN.")
def test_mutate_nan(serve):
    client = serve(table(sampler=selectors.Prioritized(1.0)))
    client.insert([1], {"table": 1.0})
    s = next(client.sample("table", emit_timesteps=False))
    client.mutate_priorities("table", updates={s.info.key: float("nan")})


@raises(TypeError, "MutatePriorities(): incompatible function arguments.…")
def test_mutate_key_type(serve):
    serve(queue()).mutate_priorities("queue", updates={"x": 1.0})


@raises(TypeError, "MutatePriorities(): incompatible function arguments.…")
def test_mutate_priority_type(serve):
    serve(queue()).mutate_priorities("queue", updates={1: "x"})


@raises(TypeError, "MutatePriorities(): incompatible function arguments.…")
def test_mutate_delete_type(serve):
    serve(queue()).mutate_priorities("queue", deletes=["x"])


@raises(TypeError, "MutatePriorities(): incompatible function arguments.…")
def test_mutate_negative_key(serve):
    serve(queue()).mutate_priorities("queue", deletes=[-1])


@raises(RuntimeError, "Priority table nowhere was not found")
def test_reset_unknown(serve):
    serve(queue()).reset("nowhere")


@raises(reverb.DeadlineExceededError, "ServerInfo call did not complete within provided timeout of 1s")
def test_info_timeout():
    reverb.Client("localhost:1").server_info(timeout=1)


@raises(TypeError, "ServerInfo(): incompatible function arguments.…")
def test_info_timeout_type(serve):
    serve(queue()).server_info(timeout="x")


@raises(RuntimeError, "…")
def test_checkpoint_no_server():
    reverb.Client("localhost:1").checkpoint()


@raises(ValueError, "num_keep_alive_refs (0) must be a positive integer")
def test_trajectory_writer_without_references(serve):
    serve(queue()).trajectory_writer(0)


@raises(ValueError, "At least one config must be provided.")
def test_structured_writer_without_configurations(serve):
    serve(queue()).structured_writer([])


@raises(TypeError, "…")
def test_address_type():
    reverb.Client(5)


@raises(
    ValueError,
    "Unable to CreateItem in table 'queue' because Append was called with a tensor signature "
    "inconsistent with the table signature. At timestep offset 0, flattened index 1, saw a tensor of"
    " dtype float, shape [], but expected tensor 'b/b' of dtype int64 and shape compatible with [?]."
    "  (Flattened) table signature: 0: Tensor<name: 'a/a', dtype: float, shape: [?,2]>, 1: "
    "Tensor<name: 'b/b', dtype: int64, shape: [?]>, data signature: 0: Tensor<name: '', dtype: "
    "float, shape: [2]>, 1: Tensor<name: '', dtype: float, shape: []>.",
)
def test_insert_signature_dtype(serve):
    serve(queue(signature=SIGNATURE)).insert({"a": np.zeros(2, np.float32), "b": np.float32(1)}, {"queue": 1.0})
