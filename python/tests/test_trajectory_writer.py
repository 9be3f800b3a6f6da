"""The trajectory writer against servers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import uniform_table
from trajectories import Connect, Serve, data_of, fifo_table

import relive


def test_num_keep_alive_refs_is_at_least_one() -> None:
    with pytest.raises(ValueError, match=r"num_keep_alive_refs \(0\)"):
        relive.Client("localhost:1").trajectory_writer(0)


def test_create_item_returns_the_key(connect: Connect) -> None:
    client = connect()
    with client.trajectory_writer(1) as writer:
        writer.append(np.float32(1))
        key = writer.create_item("table", 1.5, writer.history[-1])
    (sample,) = client.sample("table", emit_timesteps=False)
    assert (sample.info.key, sample.info.priority) == (key, 1.5)
    assert sample.data[0].shape == () and sample.data[0] == 1


@pytest.mark.parametrize("chunk_length", [None, 1, 2, 4])
def test_any_steps_in_any_order(connect: Connect, chunk_length: int | None) -> None:
    """Includes cases that dm-reverb stores incorrectly: strides and lists within one chunk."""
    client = connect(fifo_table())
    with client.trajectory_writer(8, chunk_length=chunk_length) as writer:
        for step in range(8):
            writer.append(np.int32(step))
        history = writer.history
        columns = [history[-1:], history[[0, 2]], history[[2, 0]], history[0:7:2], history[::-1], history[[3, 3]],
                   history[0:8], history[-8:], history[:3]]
        expected = [[7], [0, 2], [2, 0], [0, 2, 4, 6], [7, 6, 5, 4, 3, 2, 1, 0], [3, 3], list(range(8)),
                    list(range(8)), [0, 1, 2]]
        assert [column.numpy().tolist() for column in columns] == expected
        assert [len(column) for column in columns] == [len(values) for values in expected]
        for column in columns:
            writer.create_item("table", 1.0, column)
    assert [column.tolist() for (column,) in data_of(client, len(columns))] == expected


def test_partial_steps(connect: Connect) -> None:
    client = connect()
    with client.trajectory_writer(2) as writer:
        writer.append({"a": 1}, partial_step=True)
        assert writer.episode_steps == 0 and writer.step_is_open
        with pytest.raises(ValueError, match=r"path=\('a',\).*already set.*2"):
            writer.append({"a": 2})
        writer.append({"b": 2})
        assert writer.episode_steps == 1
        writer.create_item("table", 1.0, {name: column[-1] for name, column in writer.history.items()})
    assert data_of(client)[0] == [1, 2]


def test_a_refused_step_leaves_no_trace(connect: Connect) -> None:
    client = connect()
    with client.trajectory_writer(2) as writer:
        writer.append({"a": np.float32(1), "b": np.zeros(2, np.int32)})
        for step, why in (
            ({"a": np.float32(2), "b": np.zeros(3, np.int32)}, r"path=\('b',\).*\(3,\).*\(2,\)"),
            ({"a": np.float32(2), "b": np.zeros(2, np.int64)}, r"path=\('b',\).*int64.*int32"),
            ({"a": np.float64(2), "b": np.zeros(2, np.int32)}, r"path=\('a',\).*float64.*float32"),
        ):
            with pytest.raises(ValueError, match=why):
                writer.append(step)
        with pytest.raises(TypeError, match=r"\('a',\).*incompatible function arguments"):
            writer.append({"a": object(), "b": np.zeros(2, np.int32)})
        with pytest.raises(TypeError, match="container"):
            writer.append({"a": {"x": 1}, "b": np.zeros(2, np.int32)})
        assert writer.episode_steps == 1
        writer.append({"a": np.float32(2), "b": np.ones(2, np.int32)})
        writer.create_item("table", 1.0, [writer.history["a"][-2:], writer.history["b"][-2:]])
    assert [column.tolist() for column in data_of(client)[0]] == [[1, 2], [[0, 0], [1, 1]]]


def test_create_item_refuses_invalid_items(connect: Connect) -> None:
    client = connect(uniform_table(signature=[relive.ArraySpec((None,), np.int64, "x")]))
    writer, other = client.trajectory_writer(2), client.trajectory_writer(2)
    writer.append([1, 1.0])
    other.append([1])
    column, floats = writer.history
    for trajectory, error, why in (
        ([], ValueError, "no columns"),
        ([1], TypeError, "TrajectoryColumn"),
        ([column[-1:], column[1:]], ValueError, "no steps"),
        ([column[-1:], column[-1:]], ValueError, "2|column"),
        ([floats[-1:]], ValueError, "float64"),
        ([column[-1]], ValueError, "shape|int64 \\(\\)"),
        ([other.history[0][-1:]], ValueError, "another writer"),
    ):
        with pytest.raises(error, match=why):
            writer.create_item("table", 1.0, trajectory)
    with pytest.raises(ValueError, match="NaN"):
        writer.create_item("table", float("nan"), [column[-1:]])
    with pytest.raises(ValueError, match="nowhere"):
        writer.create_item("nowhere", 1.0, [column[-1:]])
    writer.create_item("table", 1.0, [column[-1:]])
    writer.flush()
    with pytest.raises(ValueError, match="block_until_num_items"):
        writer.flush(-1)


def test_items_are_not_checked_unless_wanted(connect: Connect) -> None:
    client = connect(uniform_table(signature=[relive.ArraySpec((3,), np.int64, "x")]))
    with client.trajectory_writer(1, validate_items=False) as writer:
        writer.append([1.0])
        writer.create_item("table", 1.0, [writer.history[0][-1:]])
    assert data_of(client)[0] == [1.0]


def test_episodes(connect: Connect) -> None:
    client = connect()
    with client.trajectory_writer(4) as writer:
        for episode in range(3):
            for step in range(2):
                writer.append(10 * episode + step)
            writer.create_item("table", 1.0, writer.history[-2:])
            assert writer.episode_steps == 2
            writer.end_episode(timeout_ms=30_000)
            assert writer.episode_steps == 0 and len(writer.history) == 0
        writer.append(1)
        writer.end_episode(clear_buffers=False)
        writer.append(2)
        assert writer.history[-2:].numpy().tolist() == [1, 2] and writer.episode_steps == 1
    assert client.server_info()["table"].num_episodes == 3


def test_configured_columns(connect: Connect) -> None:
    writer = connect().trajectory_writer(1)
    writer.configure(("long",), num_keep_alive_refs=3, max_chunk_length=2)
    for step in range(4):
        writer.append({"long": step, "short": step})
    assert writer.history["long"][-3:].numpy().tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="no longer available"):
        writer.history["short"][-2]
    for arguments in ({"num_keep_alive_refs": 0, "max_chunk_length": 1},
                      {"num_keep_alive_refs": 2, "max_chunk_length": 3}, {"num_keep_alive_refs": 2, "max_chunk_length": 0}):
        with pytest.raises(ValueError):
            writer.configure(("short",), **arguments)
    writer.append({"long": 4, "short": 4})
    with pytest.raises(RuntimeError, match="long"):
        writer.configure(("long",), num_keep_alive_refs=3, max_chunk_length=1)


def test_an_item_retains_little_unreferenced_data(serve: Serve) -> None:
    client = serve(uniform_table(max_size=200)).localhost_client()
    with client.trajectory_writer(1) as writer:
        for step in range(200):
            wide = {f"wide{number}": np.random.rand(128) for number in range(20)}
            writer.append({"reward": np.float32(step), **wide})
            writer.create_item("table", 1.0, {"reward": writer.history["reward"][-1]})
    held = client.status()["tables"]["table"].referenced_bytes
    assert held <= 200 * 4096, held


@pytest.mark.parametrize(
    ("arguments", "kind", "said"),
    [
        (("table", [1.0], [-1], -1), ValueError, "length is -1, which is out of range"),
        (("table", [1.0], [-1], 2**64), ValueError, "length is 18446744073709551616, which is out of range"),
        (("table", [1.0], [-1], "x"), TypeError, "'str' object .*\nwhile processing 'length'"),
        (("table", [1.0], np.array([2**64 - 1], np.uint64), 1), ValueError, "ends have 18446744073709551615, but they must be below"),
        (("table", np.array([1], "M8[s]"), [-1], 1), TypeError, "numbers are required"),
        (("table", np.array([1], "m8[s]"), [-1], 1), TypeError, "numbers are required"),
        (("table", np.array([1j]), [-1], 1), TypeError, "numbers are required"),
        ((5, [1.0], [-1], 1), TypeError, "'int' object is not an instance of 'str'\nwhile processing 'table'"),
    ],
)
def test_windows_with_wrong_arguments_are_refused(connect: Connect, arguments: Any, kind: type[Exception], said: str) -> None:
    writer = connect().trajectory_writer(2)
    writer.append([1.0])
    *positional, length = arguments
    with pytest.raises(kind, match=said):
        writer.create_window_items(*positional, length=length)
    assert writer.pending_items == 0


def test_wrong_arguments_of_an_item_are_named(connect: Connect) -> None:
    writer = connect().trajectory_writer(2)
    writer.append({"x": 1.0})
    for table, priority, said in (
        (5, 1.0, "'int' object .*\nwhile processing 'table'"), ("table", None, "must be real number, not NoneType\nwhile processing 'priority'"),
        ("table", np.complex64(1), "priority must be real number"),
    ):
        with pytest.raises(TypeError, match=said):
            writer.create_item(table, priority, {"x": writer.history["x"][-1:]})  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=said):
            writer.append_item(table, priority, {"x": 1.0})  # type: ignore[arg-type]


def test_text_that_utf8_cannot_encode_is_refused_with_its_path(connect: Connect) -> None:
    writer = connect().trajectory_writer(2)
    with pytest.raises(ValueError, match=r"at \('z',\): .* surrogates not allowed"):
        writer.append({"x": 1.0, "z": "a\ud800"})
