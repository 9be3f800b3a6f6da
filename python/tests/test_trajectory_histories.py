"""The history of a trajectory writer, whose columns grow with its steps."""

from __future__ import annotations

import collections

import numpy as np
import pytest
from trajectories import Connect, Step, data_of, fifo_table

import relive


def test_histories_are_like_lists(connect: Connect) -> None:
    writer = connect().trajectory_writer(3)
    with pytest.raises(RuntimeError, match="first append"):
        writer.history
    for step in range(5):
        writer.append([step])
    (history,) = writer.history
    assert len(history) == 5
    assert [ref.numpy().item() if ref else None for ref in history] == [None, None, 2, 3, 4]
    assert history.path() == (0,)
    assert history[-1].shape == () and history[-1].is_squeezed and history[-1].dtype == np.int64
    assert history[-2:].shape == (2,) and not history[-2:].is_squeezed
    for index in (5, [5]):
        with pytest.raises(IndexError, match="list index out of range"):
            history[index]
    for index in (-6, [-6], slice(-6, None)):
        with pytest.raises(ValueError, match="before the first.*None"):
            history[index]
    for index in (0, slice(0, 4), slice(None), [1, 4]):
        with pytest.raises(ValueError, match="no longer available"):
            history[index]
    for bad in ("a", 1.5, [1.5]):
        with pytest.raises(TypeError):
            history[bad]
    assert len(history[5:]) == 0
    with pytest.raises(ValueError, match="no steps"):
        writer.create_item("table", 1.0, [history[5:]])
    column = history[-3:]
    assert [column[1:].numpy().tolist(), column[[2, 0]].numpy().tolist(), column[-1].numpy().item()] == [[3, 4], [4, 2], 4]


def test_steps_of_a_column_have_no_leading_dimension(connect: Connect) -> None:
    client = connect()
    with client.trajectory_writer(3) as writer:
        for step in range(3):
            writer.append(np.full(2, step))
        column = writer.history[-2:]
        assert column[-1].shape == (2,) and column[-1].is_squeezed and column[-1].numpy().tolist() == [2, 2]
        assert [reference.numpy().shape for reference in column] == [(2,), (2,)]
        assert column[1:].shape == (1, 2) and column[[1]].shape == (1, 2)
        writer.create_item("table", 1.0, [column[-1], relive.TrajectoryColumn(list(column))])
    assert [column.tolist() for column in data_of(client)[0]] == [[2, 2], [[1, 1], [2, 2]]]


def test_a_writer_forgets_columns(connect: Connect) -> None:
    client = connect(fifo_table())
    with client.trajectory_writer(2) as writer:
        writer.append({"a": 1})
        former = writer.history["a"]
        writer.create_item("table", 1.0, {"x": former[-1]})
        writer.forget_columns()
        with pytest.raises(relive.errors.FailedPreconditionError, match="has forgotten this column; read writer.history again"):
            former[-1]
        writer.append({"b": np.float32(2.5)})
        writer.create_item("table", 1.0, {"x": writer.history["b"][-1]})
        writer.append({"b": np.float32(3)}, partial_step=True)
        with pytest.raises(relive.errors.FailedPreconditionError, match="while a step is open"):
            writer.forget_columns()
    assert data_of(client, 2) == [[1], [2.5]]


def test_columns_can_be_built_from_references(connect: Connect) -> None:
    client = connect()
    with client.trajectory_writer(4) as writer:
        for step in range(4):
            writer.append({"a": step})
        references = list(writer.history["a"])
        column = relive.TrajectoryColumn([references[3], references[1]], path=("a",))
        assert column.numpy().tolist() == [3, 1] and column.path == ("a",) and column.shape == (2,)
        assert references[0].shape == () and not references[0].expired
        writer.create_item("table", 1.0, {"x": column, "y": relive.TrajectoryColumn(references[:1], squeeze=True)})
    assert [column.tolist() for column in data_of(client)[0]] == [[3, 1], 0]
    with pytest.raises(ValueError, match="exactly one"):
        relive.TrajectoryColumn(references[:2], squeeze=True)
    with pytest.raises(ValueError, match="None"):
        relive.TrajectoryColumn([None, references[0]])


def test_structures_grow(connect: Connect) -> None:
    client = connect()
    with client.trajectory_writer(3) as writer:
        writer.append({"a": 1, "b": [2, None]})
        writer.append({"a": 3, "b": [4, (5,)], "c": Step(6, None)})
        writer.append({"c": Step(None, 7)})
        history = writer.history
        assert isinstance(history["c"], Step) and list(history) == ["a", "b", "c"]
        read = [ref and ref.numpy().item() for ref in history["b"][1][0]]
        assert read == [None, 5, None]
        assert [ref and ref.numpy().item() for ref in history["a"]] == [1, 3, None]
        with pytest.raises(ValueError, match="nothing was appended"):
            history["a"][-1]
        writer.create_item("table", 1.0, (history["a"][:2], history["b"][1][0][-2], history["c"].reward[-1:]))
    assert [column.tolist() for column in data_of(client)[0]] == [[1, 3], 5, [7]]


def test_histories_keep_the_containers_of_the_steps(connect: Connect) -> None:
    client = connect(fifo_table())
    with client.trajectory_writer(2) as writer:
        writer.append(collections.defaultdict(list, z=1, a=2))
        writer.append({"a": 4, "z": 3, "late": 5})
        history = writer.history
        assert type(history) is collections.defaultdict and history.default_factory is list
        assert list(history) == ["z", "a", "late"]
        writer.create_item("table", 1.0, {key: column[-1] for key, column in writer.history.items()})
    (columns,) = data_of(client)
    assert [column.item() for column in columns] == [4, 5, 3]


def test_deques_and_tuples_are_lists(connect: Connect) -> None:
    client = connect(fifo_table())
    frames = collections.deque([np.zeros(2), np.ones(2)])
    client.insert({"frames": frames, "reward": 1.0}, {"table": 1.0})
    with client.trajectory_writer(3) as writer:
        for sequence in (frames, list(frames), tuple(frames), collections.deque(frames)):
            writer.append({"frames": sequence, "reward": 1.0}, partial_step=0)  # type: ignore[arg-type]
        assert [len(column) for column in writer.history["frames"]] == [4, 4]
        newest = collections.deque(column[-2:] for column in writer.history["frames"])
        writer.create_item("table", 1.0, {"frames": newest, "reward": writer.history["reward"][-2:]})
    with client.writer(1) as legacy:
        legacy.append({"frames": frames, "reward": 1.0})
        legacy.create_item("table", 1, 1.0)
    shapes = [[column.shape for column in columns] for columns in data_of(client, 3)]
    assert shapes == [[(1, 2), (1, 2), (1,)], [(2, 2), (2, 2), (2,)], [(1, 2), (1, 2), (1,)]]
