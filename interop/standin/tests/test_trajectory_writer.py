"""`TrajectoryWriter`: histories, columns, items, and refused calls."""

from __future__ import annotations

import threading
import time
from unittest import mock

import numpy as np
import pytest
import reverb
import tree


@pytest.fixture
def client(serve):
    return serve(reverb.Table.queue("queue", 1000), reverb.Table.queue("small", 2))


def _items(client, table="queue"):
    size = client.server_info(timeout=5)[table].current_size
    return [sample.data for sample in client.sample(table, size, emit_timesteps=False)] if size else []


def test_items_of_all_kinds_of_references(client):
    with client.trajectory_writer(5) as writer:
        for number in range(5):
            writer.append({"x": np.int64(number), "y": np.full(2, number, np.float32)})
        x, y = writer.history["x"], writer.history["y"]
        writer.create_item("queue", 1.0, [x[-1], x[-2:], x[:2], x[1:4:2], x[[0, 1]], y[0], y[-3:-1], x[::-1][0:1]])
    ((last, two, start, odd, listed, first, middle, flipped),) = _items(client)
    assert (last.item(), last.shape) == (4, ())
    assert two.tolist() == [3, 4]
    assert start.tolist() == [0, 1]
    assert odd.tolist() == [1, 3]
    assert listed.tolist() == [0, 1]
    assert first.tolist() == [0, 0]
    assert middle.tolist() == [[2, 2], [3, 3]]
    assert flipped.tolist() == [4]


def test_create_item_does_not_wait_for_a_full_table(client):
    writer = client.trajectory_writer(1)
    for number in range(10_101):
        writer.append(number)
        writer.create_item("small", 1.0, writer.history[-1:])
    numbers = [sample.data[0].item() for sample in client.sample("small", 5, emit_timesteps=False)]
    assert numbers == [0, 1, 2, 3, 4]
    writer.close()


def test_history_mirrors_the_structure(client):
    writer = client.trajectory_writer(2)
    with pytest.raises(RuntimeError):
        _ = writer.history
    writer.append({"a": 1, "b": [2, (3, {"c": 4})]})
    numbers = tree.map_structure(lambda column: column[-1].numpy().item(), writer.history)
    assert numbers == {"a": 1, "b": [2, (3, {"c": 4})]}
    assert len(writer.history["a"]) == 1
    writer.close()


def test_columns(client):
    writer = client.trajectory_writer(4)
    for number in range(3):
        writer.append({"x": np.full([2, 3], number, np.float32)})
    column = writer.history["x"][-2:]
    assert isinstance(column, reverb.TrajectoryColumn)
    assert not column.is_squeezed
    assert len(column) == 2
    assert tuple(column.shape) == (2, 2, 3)
    assert column.dtype == np.float32
    assert column.numpy().tolist() == [[[1] * 3] * 2, [[2] * 3] * 2]
    one = writer.history["x"][-1]
    assert one.is_squeezed
    assert tuple(one.shape) == (2, 3)
    assert one.numpy().tolist() == [[2] * 3] * 2
    again = reverb.TrajectoryColumn(list(column))
    assert again.numpy().tolist() == column.numpy().tolist()
    squeezed = reverb.TrajectoryColumn(list(one), squeeze=True)
    assert squeezed.numpy().shape == (2, 3)
    with pytest.raises(ValueError):
        reverb.TrajectoryColumn(list(column), squeeze=True)
    writer.close()


def test_cells_are_kept_for_num_keep_alive_refs_steps(client):
    writer = client.trajectory_writer(2)
    for number in range(4):
        writer.append({"x": number})
    x = writer.history["x"]
    assert [x[-1].numpy().item(), x[-2].numpy().item()] == [3, 2]
    assert x[-2:].numpy().tolist() == [2, 3]
    for gone in (lambda: x[0], lambda: x[-3], lambda: x[:]):
        with pytest.raises(ValueError):
            gone()
    with pytest.raises(IndexError):
        _ = x[9]
    with pytest.raises(TypeError):
        _ = x["x"]
    writer.close()


def test_partial_steps(client):
    with client.trajectory_writer(3) as writer:
        writer.append({"x": 1}, partial_step=True)
        assert writer.episode_steps == 0
        writer.append({"y": 2.0})
        assert writer.episode_steps == 1
        writer.append({"y": 3.0, "z": 5})
        assert writer.episode_steps == 2
        history = writer.history
        writer.create_item("queue", 1.0, [history["x"][0], history["y"][:], history["z"][-1]])
        with pytest.raises(ValueError):
            _ = history["x"][-1]
        writer.append({"x": 7}, partial_step=True)
        with pytest.raises(ValueError, match=r"x") as raised:
            writer.append({"x": 8})
        assert "8" in str(raised.value)
    ((x, y, z),) = _items(client)
    assert (x.item(), y.tolist(), z.item()) == (1, [2.0, 3.0], 5)


def test_none_is_skipped(client):
    with client.trajectory_writer(2) as writer:
        writer.append({"x": 1, "y": None})
        writer.append({"x": None, "y": 2})
        writer.create_item("queue", 1.0, [writer.history["x"][0], writer.history["y"][1]])
    ((x, y),) = _items(client)
    assert (x.item(), y.item()) == (1, 2)


def test_episodes(client):
    writer = client.trajectory_writer(3)
    writer.append({"x": 1})
    writer.end_episode(clear_buffers=False)
    assert writer.episode_steps == 0
    assert len(writer.history["x"]) == 1
    writer.append({"x": 2})
    writer.create_item("queue", 1.0, {"x": writer.history["x"][-2:]})
    writer.end_episode()
    assert len(writer.history["x"]) == 0
    ((x,),) = _items(client)
    assert x.tolist() == [1, 2]
    writer.close()


def test_a_flush_waits_until_few_items_are_pending(client):
    writer = client.trajectory_writer(1)
    writer.append({"x": 1})
    for _ in range(2):
        writer.create_item("small", 1.0, {"x": writer.history["x"][-1]})
    writer.flush(timeout_ms=5000)
    assert client.server_info(timeout=5)["small"].current_size == 2
    # The table is full: the third item must wait for a sample.
    writer.create_item("small", 1.0, {"x": writer.history["x"][-1]})
    writer.flush(block_until_num_items=1, timeout_ms=5000)
    started = time.monotonic()
    with pytest.raises(reverb.DeadlineExceededError):
        writer.flush(timeout_ms=200)
    assert time.monotonic() - started >= 0.2
    with pytest.raises(reverb.DeadlineExceededError):
        writer.end_episode(timeout_ms=100)
    sampling = threading.Timer(0.2, lambda: next(client.sample("small", 1, emit_timesteps=False)))
    sampling.start()
    writer.flush()
    sampling.join()
    writer.close()


def test_numbers_out_of_range(client):
    with pytest.raises(ValueError):
        client.trajectory_writer(0)
    writer = client.trajectory_writer(1)
    with pytest.raises(ValueError):
        writer.flush(block_until_num_items=-1)
    writer.close()


def test_invalid_items_are_refused(client):
    writer = client.trajectory_writer(4)
    for number in range(3):
        writer.append({"x": np.float32(number), "y": np.int64(number)})
    x, y = writer.history["x"], writer.history["y"]
    with pytest.raises(TypeError):
        writer.create_item("queue", 1.0, {"x": 1})
    with pytest.raises(ValueError):
        writer.create_item("queue", 1.0, {})
    with pytest.raises(ValueError):
        writer.create_item("queue", float("nan"), {"x": x[-1]})
    with pytest.raises(ValueError, match="nowhere"):
        writer.create_item("nowhere", 1.0, {"x": x[-1]})
    with pytest.raises(ValueError):
        writer.create_item("queue", 1.0, {"x": reverb.TrajectoryColumn([*x[-1:], *y[-1:]])})
    writer.create_item("queue", 1.0, {"x": x[-1]})
    writer.flush(timeout_ms=5000)
    assert len(_items(client)) == 1
    writer.close()


def test_items_that_violate_the_signature_are_refused(serve):
    import tensorflow as tf

    client = serve(reverb.Table.queue("queue", 10, signature={"x": tf.TensorSpec([None, 2], tf.float32)}))
    writer = client.trajectory_writer(3)
    writer.append({"x": np.zeros(2, np.float32), "y": np.zeros(2), "z": np.zeros(3, np.float32)})
    history = writer.history
    writer.create_item("queue", 1.0, {"x": history["x"][-1:]})
    x, y, z = (history[name][-1:] for name in "xyz")
    for wrong in ({"x": history["x"][-1]}, {"y": y}, {"z": z}, {"x": x, "y": y}):
        with pytest.raises(ValueError):
            writer.create_item("queue", 1.0, wrong)
    unchecked = client.trajectory_writer(3, validate_items=False)
    unchecked.append({"y": np.zeros(2)})
    unchecked.create_item("queue", 1.0, {"y": unchecked.history["y"][-1]})
    unchecked.flush(timeout_ms=5000)
    writer.flush(timeout_ms=5000)
    assert client.server_info(timeout=5)["queue"].current_size == 2
    writer.close()


@pytest.mark.parametrize(
    ("second", "got", "expected"),
    [
        ({"a": {"b": np.float64(1)}}, "double", "float"),
        ({"a": {"b": np.int32(1)}}, "int32", "float"),
        ({"a": {"b": np.zeros(3, np.float32)}}, "[3]", "[]"),
    ],
)
def test_a_step_that_does_not_fit_its_columns_is_refused(client, second, got, expected):
    writer = client.trajectory_writer(3)
    writer.append({"a": {"b": np.float32(1)}})
    with pytest.raises(ValueError) as raised:
        writer.append(second)
    text = str(raised.value)
    assert text.index("('a', 'b')") < text.index(got) < text.rindex(expected)
    writer.close()


def test_after_close(client):
    writer = client.trajectory_writer(3)
    writer.append({"x": 1})
    column = writer.history["x"][-1]
    writer.close()
    writer.close()
    calls = (
        lambda: writer.append({"x": 2}),
        lambda: writer.create_item("queue", 1.0, {"x": column}),
        writer.flush,
        writer.end_episode,
    )
    for call in calls:
        with pytest.raises(RuntimeError, match="TrajectoryWriter::Close has been called."):
            call()


def test_configuration(client):
    writer = client.trajectory_writer(3)
    writer.configure(("x",), num_keep_alive_refs=1, max_chunk_length=1)
    for number in range(3):
        writer.append({"x": number, "y": number})
    assert writer.history["y"][-3:].numpy().tolist() == [0, 1, 2]
    assert writer.history["x"][-1].numpy().item() == 2
    with pytest.raises((RuntimeError, ValueError)):
        writer.history["x"][-2:].numpy()
    writer.configure(("z",), num_keep_alive_refs=3, max_chunk_length=2)
    writer.append({"z": 1})
    with pytest.raises(RuntimeError):
        # The step is in a chunk that is not complete yet.
        writer.configure(("z",), num_keep_alive_refs=2, max_chunk_length=1)
    for wrong in ({"num_keep_alive_refs": 0, "max_chunk_length": 1}, {"num_keep_alive_refs": 1, "max_chunk_length": 2}):
        with pytest.raises(ValueError):
            writer.configure(("x",), **wrong)
    writer.close()


def _fake_writer():
    fake = mock.Mock()
    fake.max_num_keep_alive_refs = 2
    fake.episode_steps = 3
    fake.Append.side_effect = lambda columns: [mock.Mock(expired=False) if c is not None else None for c in columns]
    fake.AppendPartial.side_effect = fake.Append.side_effect
    return fake


def test_a_writer_around_any_object():
    fake = _fake_writer()
    writer = reverb.trajectory_writer.TrajectoryWriter(fake)
    assert isinstance(writer, reverb.TrajectoryWriter)
    writer.append({"b": 1, "a": 2})
    fake.Append.assert_called_with([2, 1])
    writer.append({"c": 3}, partial_step=True)
    fake.AppendPartial.assert_called_with([None, None, 3])
    assert writer.episode_steps == 3
    writer.flush(2, timeout_ms=7)
    fake.Flush.assert_called_with(2, 7)
    writer.end_episode(False, timeout_ms=9)
    fake.EndEpisode.assert_called_with(False, 9)
    options = {"num_keep_alive_refs": 2, "max_chunk_length": 1}
    writer.configure(("a",), **options)
    (column, chunker), _ = fake.ConfigureChunker.call_args
    assert column == 0
    assert chunker == reverb.pybind.ConstantChunkerOptions(num_keep_alive_refs=2, max_chunk_length=1)
    writer.configure(("b",), num_keep_alive_refs=2, max_chunk_length=None)
    (column, chunker), _ = fake.ConfigureChunker.call_args
    assert column == 1
    assert chunker == reverb.pybind.AutoTunedChunkerOptions(2, 1.0)
    writer.close()
    fake.Close.assert_called_once()
