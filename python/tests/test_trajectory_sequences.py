"""Sequences of steps that a trajectory writer takes at once, and windows of them as items."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import PATIENCE_S
from trajectories import Connect, data_of, fifo_table


def test_sequences_and_windows(connect: Connect) -> None:
    client = connect(fifo_table())
    # Unchecked, since these items have different columns.
    with client.trajectory_writer(6, validate_items=False) as writer:
        writer.append_sequence({"x": np.arange(6), "y": np.arange(12.0).reshape(6, 2)})
        assert writer.episode_steps == 6
        keys = writer.create_window_items("table", [1.0, 2.0], [-2, -1], length=3)
        assert keys.dtype == np.uint64 and len(set(keys.tolist())) == 2
        single = writer.create_window_items("table", [1.0], [-6], squeeze=True)
        many = writer.create_items("table", np.ones(2), [[writer.history["x"][:2]], [writer.history["y"][-1]]])
    items = client.get_items("table", np.concatenate([keys, single, many]))
    read = [[column.tolist() for column in columns] for columns in data_of(client, 5)]
    assert [item and item.info.priority for item in items] == [1.0, 2.0, 1.0, 1.0, 1.0]
    assert read[0][0] == [2, 3, 4] and read[1][1] == [[6.0, 7.0], [8.0, 9.0], [10.0, 11.0]]
    assert read[2] == [0, [0.0, 1.0]] and read[3] == [[0, 1]] and read[4] == [[10.0, 11.0]]


def test_steps_can_be_appended_as_items(connect: Connect) -> None:
    client = connect(fifo_table())
    with client.trajectory_writer(2) as writer:
        steps = [{"b": np.full(2, step, np.float32), "a": {"x": step}} for step in range(3)]
        keys = [writer.append_item("table", float(step), data) for step, data in enumerate(steps)]
        assert writer.episode_steps == 3 and writer.history["a"]["x"][-2:].numpy().tolist() == [1, 2]
        with pytest.raises(ValueError, match="nowhere"):
            writer.append_item("nowhere", 1.0, steps[0])
        assert writer.episode_steps == 4, "the step is there, though no item could be made of it"
        with pytest.raises(ValueError, match="NaN"):
            writer.append_item("table", float("nan"), steps[0])
        with pytest.raises(ValueError, match=r"path=\('a', 'x'\)"):
            writer.append_item("table", 1.0, {"b": steps[0]["b"], "a": {"x": np.zeros(2)}})
    items = client.get_items("table", keys)
    assert [item and item.info.priority for item in items] == [0.0, 1.0, 2.0]
    assert [[column.tolist() for column in columns] for columns in data_of(client, 3)] == [[n, [n, n]] for n in range(3)]


def test_invalid_sequences_and_windows_are_refused(connect: Connect) -> None:
    writer = connect().trajectory_writer(4)
    for sequence in ({"x": 1}, {"x": np.ones(2), "y": np.ones(3)}):
        with pytest.raises(ValueError, match=r"path=\('[xy]',\).*(scalar|steps)"):
            writer.append_sequence(sequence)
    writer.append_sequence({"x": np.arange(5)})
    for priorities, ends, options in (
        ([1.0], [-1, -2], {}), ([1.0], [-5], {}), ([1.0], [-1], {"length": 5}), ([1.0], [5], {}), ([1.0], [-1], {"length": 0}),
        ([float("nan")], [-1], {}), ([1.0], [-1], {"length": 2, "squeeze": True}),
    ):
        with pytest.raises(ValueError):
            writer.create_window_items("table", priorities, ends, **options)
    with pytest.raises(ValueError, match="priorities"):
        writer.create_items("table", [1.0, 2.0], [writer.history["x"][-1:]])
    with pytest.raises(ValueError, match="nowhere"):
        writer.create_window_items("nowhere", [1.0], [-1])
    for bad in (np.array([-1.5]), [-1.0], [True], ["-1"], [2**70]):
        with pytest.raises(TypeError, match=r"^ends are .*, but they must be whole numbers"):
            writer.create_window_items("table", [1.0], bad)
    for good in (np.array([-1], np.int8), [np.int64(-1)], (-1,), range(-1, 0)):
        assert len(writer.create_window_items("table", [1.0], good)) == 1
    assert len(writer.create_window_items("table", [], np.array([]))) == 0


def test_frames_are_stored_once(connect: Connect) -> None:
    """Stacks of four frames share their frames: 97 stacks of 100 frames take as many bytes as the frames alone."""
    client = connect()
    frames = np.random.default_rng(0).integers(0, 255, (100, 84, 84), dtype=np.uint8)
    with client.trajectory_writer(4) as writer:
        for step, frame in enumerate(frames):
            writer.append(frame)
            if step >= 3:
                writer.create_item("table", 1.0, writer.history[-4:])
    assert client.status()["encoded_bytes"] < 1.05 * frames.nbytes
    batch = next(client.batches("table", 16, timeout=PATIENCE_S))
    assert batch.data.shape == (16, 4, 84, 84)
