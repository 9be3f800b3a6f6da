"""Values are read unchanged: every dtype, shape and nesting, with each of the writers."""

from __future__ import annotations

import collections

import numpy as np
import pytest
import tree

from support.tables import table

NUMERIC = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
           "uint64", "bool", "complex64", "complex128"]
SHAPES = [(), (1,), (0,), (7,), (2, 3), (0, 4), (2, 1, 3, 2)]


def some(dtype: str, shape: tuple, seed: int) -> np.ndarray:
    """Random numbers, so that every bit of the payload matters; none is NaN, so that results can be compared."""
    generator = np.random.default_rng(seed)
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        return generator.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    values = generator.normal(size=shape) * 100
    if np.dtype(dtype).kind == "c":
        values = values + 1j * generator.normal(size=shape)
    return np.asarray(values).astype(dtype)


def sample_one(client, name="replay"):
    [sample] = client.sample(name, num_samples=1, emit_timesteps=False)
    return sample


@pytest.mark.parametrize("dtype", NUMERIC)
def test_numbers_of_every_dtype_and_shape_round_trip(start, dtype):
    server = start(table())
    client = server.client()
    steps = [{str(shape): some(dtype, shape, seed) for shape in SHAPES} for seed in range(5)]
    with client.trajectory_writer(num_keep_alive_refs=5) as writer:
        for name in steps[0]:
            writer.configure((name,), num_keep_alive_refs=5, max_chunk_length=3)
        for step in steps:
            writer.append(step)
        writer.create_item("replay", 1.0, {name: column[:] for name, column in writer.history.items()})
    sample = sample_one(client)
    columns = [np.stack([step[name] for step in steps]) for name in sorted(steps[0])]
    assert len(sample.data) == len(columns)
    for got, wanted in zip(sample.data, columns):
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)


def test_special_numbers_are_returned_bit_for_bit(start):
    client = start(table()).client()
    values = np.asarray([np.nan, -np.nan, np.inf, -np.inf, -0.0, 5e-324, 1.7976931348623157e308])
    singles = np.asarray([np.nan, -np.nan, np.inf, -np.inf, -0.0, 1e-45, 3.4028235e38], np.float32)
    client.insert([values, singles], {"replay": 1.0})
    for got, wanted in zip(sample_one(client).data, [values, singles]):
        assert got[0].tobytes() == wanted.tobytes()


def test_strings_are_returned_as_bytes(start):
    client = start(table()).client()
    values = [b"x", "yä€", "", "z" * 70_000, b"\x00\xff"]
    wanted = [b"x", "yä€".encode(), b"", b"z" * 70_000, b"\x00\xff"]
    with client.trajectory_writer(num_keep_alive_refs=5) as writer:
        for value in values:
            writer.append([np.asarray(value, object), np.asarray([[value, "tail"]], object)])
        writer.create_item("replay", 1.0, [column[:] for column in writer.history])
    scalars, matrices = sample_one(client).data
    assert scalars.tolist() == wanted
    assert matrices.tolist() == [[[value, b"tail"]] for value in wanted]


def test_a_large_step_round_trips(start):
    client = start(table()).client()
    data = np.random.default_rng(0).integers(0, 256, 5 << 20, np.uint8)
    client.insert([data], {"replay": 1.0})
    np.testing.assert_array_equal(sample_one(client).data[0][0], data)


Point = collections.namedtuple("Point", ["y", "x"])


def test_nested_structures_are_returned_in_order(start):
    """Structures are flattened by sorted key in dicts and by position elsewhere, and then rebuilt from the table's
    signature."""
    import tensorflow as tf

    step = {
        "b": [np.int64(1), (np.float32(2.0), {"z": np.int32(3), "a": np.uint8(4)})],
        "a": Point(y=np.asarray([5.0, 6.0]), x="seven"),
    }
    signature = tree.map_structure_with_path(
        lambda path, leaf: tf.TensorSpec(
            [1, *np.shape(leaf)], tf.string if isinstance(leaf, str) else np.asarray(leaf).dtype,
            "/".join(map(str, path))),
        step)
    client = start(table(signature=signature)).client()
    with client.trajectory_writer(num_keep_alive_refs=1) as writer:
        writer.append(step)
        writer.create_item("replay", 1.0, tree.map_structure(lambda column: column[-1:], writer.history))
    [flat] = client.sample("replay", num_samples=1, emit_timesteps=False)
    assert [np.asarray(column[0]).tolist() for column in flat.data] == [[5.0, 6.0], b"seven", 1, 2.0, 4, 3]
    [nested] = client.sample("replay", num_samples=1, emit_timesteps=False, unpack_as_table_signature=True)
    assert isinstance(nested.data["a"], tuple) and nested.data["a"].x[0] == b"seven"
    assert nested.data["b"][1][1]["a"][0] == 4


@pytest.mark.parametrize("delta_encoded", [False, True])
def test_the_older_writer(start, delta_encoded):
    """All columns are in one chunk. Delta encoding changes the stored data, but not the data that is read."""
    client = start(table()).client()
    steps = [[some("uint8", (2, 4), i), some("int16", (3,), i), np.float32(i), np.int64(i), f"step {i}"]
             for i in range(11)]
    with client.writer(max_sequence_length=6, delta_encoded=delta_encoded, chunk_length=3) as writer:
        for step in steps:
            writer.append(step)
        writer.create_item("replay", num_timesteps=6, priority=2.5)
    sample = sample_one(client)
    assert sample.info.priority == 2.5
    for got, wanted in zip(sample.data[:4], zip(*steps)):
        np.testing.assert_array_equal(got, np.stack(wanted[-6:]))
    assert sample.data[4].tolist() == [f"step {i}".encode() for i in range(5, 11)]


def test_a_sequence_through_the_older_writer(start):
    client = start(table()).client()
    sequence = {"a": np.arange(8.0), "b": np.arange(16).reshape(8, 2)}
    with client.writer(max_sequence_length=8) as writer:
        writer.append_sequence(sequence)
        writer.create_item("replay", num_timesteps=8, priority=1.0)
    for got, name in zip(sample_one(client).data, "ab"):
        np.testing.assert_array_equal(got, sequence[name])


def test_timesteps_of_an_item_share_their_info(start):
    client = start(table()).client()
    with client.trajectory_writer(num_keep_alive_refs=4) as writer:
        for step in range(4):
            writer.append([np.int32(step)])
        writer.create_item("replay", 3.0, [writer.history[0][:]])
    [timesteps] = client.sample("replay", num_samples=1)
    assert [step.data[0] for step in timesteps] == [0, 1, 2, 3]
    assert len({step.info.key for step in timesteps}) == 1
    assert {step.info.priority for step in timesteps} == {3.0}


def test_partial_steps_and_missing_columns(start):
    client = start(table()).client()
    with client.trajectory_writer(num_keep_alive_refs=6) as writer:
        for step in range(6):
            if step % 2 == 0:
                writer.append({"rare": np.asarray([step, -step])}, partial_step=True)
            writer.append({"always": np.int64(step)})
        history = writer.history
        writer.create_item("replay", 1.0, {"always": history["always"][:], "rare": history["rare"][::2]})
    always, rare = sample_one(client).data
    assert always.tolist() == [0, 1, 2, 3, 4, 5]
    assert rare.tolist() == [[0, 0], [2, -2], [4, -4]]


def test_columns_of_different_lengths_and_squeezed_columns(start):
    client = start(table()).client()
    with client.trajectory_writer(num_keep_alive_refs=5) as writer:
        for step in range(5):
            writer.append([np.full([2], step, np.float32), np.float64(step)])
        observation, reward = writer.history
        writer.create_item("replay", 1.0, [observation[-4:], reward[-1], reward[0:1]])
    long, last, first = sample_one(client).data
    assert long[:, 0].tolist() == [1, 2, 3, 4]
    assert last.shape == () and last == 4.0
    assert first.tolist() == [0.0]


def test_items_across_episodes(start):
    """With `clear_buffers=False`, a trajectory may extend back beyond the end of an episode."""
    client = start(table()).client()
    with client.trajectory_writer(num_keep_alive_refs=4) as writer:
        for step in range(2):
            writer.append([np.int32(step)])
        writer.end_episode(clear_buffers=False)
        for step in range(2, 4):
            writer.append([np.int32(step)])
        writer.create_item("replay", 1.0, [writer.history[0][-4:]])
        writer.end_episode()
    assert sample_one(client).data[0].tolist() == [0, 1, 2, 3]


def test_chunks_are_cut_by_the_auto_tuner(start):
    """The sequence is long enough for the writer to change its chunk length several times; every item can still be
    read."""
    server = start(table(max_size=300))
    client = server.client()
    with client.trajectory_writer(num_keep_alive_refs=10) as writer:
        for step in range(300):
            writer.append([np.full([20], step, np.float32)])
            if step >= 9:
                writer.create_item("replay", 1.0, [writer.history[0][-5:]])
            if step % 50 == 0:
                writer.flush()
    seen = 0
    for sample in client.sample("replay", num_samples=50, emit_timesteps=False):
        first = sample.data[0][0, 0]
        assert sample.data[0][:, 3].tolist() == [first + i for i in range(5)]
        seen += 1
    assert seen == 50
