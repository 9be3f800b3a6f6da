"""The trajectory writer against servers."""

from __future__ import annotations

import collections
import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import PATIENCE_S, uniform_table
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import relive

Connect = Callable[..., relive.Client]
Serve = Callable[..., relive.Server]

Step = collections.namedtuple("Step", ["observation", "reward"])


def fifo_table(**rules: object) -> relive.Table:
    return uniform_table(sampler=relive.selectors.Fifo(), max_times_sampled=1, **rules)


def data_of(client: relive.Client, count: int = 1) -> list[list[np.ndarray]]:
    samples = client.sample("table", count, emit_timesteps=False, timeout=PATIENCE_S)
    return [list(sample.data) for sample in samples]


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


def test_a_closed_writer_reports_that_it_is_closed(connect: Connect) -> None:
    writer = connect().trajectory_writer(1)
    writer.append(1)
    writer.create_item("table", 1.0, writer.history[-1:])
    writer.flush()
    column = writer.history[-1:]
    writer.close()
    writer.close()
    for call in (lambda: writer.append(1), lambda: writer.create_item("table", 1.0, column), writer.flush,
                 writer.end_episode, lambda: writer.history[-1:]):
        with pytest.raises(RuntimeError, match="TrajectoryWriter::Close has been called"):
            call()
    assert column.numpy().tolist() == [1]


@pytest.mark.parametrize("reason", [KeyError, SystemExit, GeneratorExit])
def test_leaving_the_context_flushes(connect: Connect, reason: type[BaseException]) -> None:
    client = connect()
    with pytest.raises(reason), client.trajectory_writer(1) as writer:
        writer.append(1)
        writer.create_item("table", 1.0, writer.history[-1:])
        raise reason("user's own")
    assert client.server_info()["table"].current_size == 1


def test_leaving_the_context_by_a_refused_argument_flushes(connect: Connect) -> None:
    client = connect()
    with pytest.raises(relive.errors.InvalidArgumentError), client.trajectory_writer(1) as writer:
        writer.append(1)
        writer.create_item("table", 1.0, writer.history[-1:])
        writer.create_item("table", float("nan"), writer.history[-1:])
    assert client.server_info()["table"].current_size == 1


@pytest.mark.parametrize("reason", [KeyboardInterrupt, relive.errors.UnavailableError, relive.DeadlineExceededError])
def test_leaving_the_context_by_an_interrupt_or_server_error_does_not_wait(
    serve: Serve, reason: type[BaseException]
) -> None:
    client = serve(relive.Table.queue("table", 1)).localhost_client()
    with pytest.raises(reason), client.trajectory_writer(1) as writer:
        for step in range(2):
            writer.append(step)
            writer.create_item("table", 1.0, writer.history[-1:])
        raise reason("without a flush, which would wait for a sample")


def test_later_calls_raise_the_refusal_of_the_server(connect: Connect) -> None:
    client = connect(uniform_table(sampler=relive.selectors.Prioritized(1.0)))
    writer = client.trajectory_writer(1)
    writer.append(1)
    with pytest.raises(ValueError, match="-1"):
        writer.create_item("table", -1.0, writer.history[-1:])
        writer.flush()


def test_two_threads_cannot_use_one_writer(serve: Serve) -> None:
    server = serve(relive.Table.queue("table", 1))
    client = server.localhost_client()
    writer = client.trajectory_writer(1)
    for step in range(2):
        writer.append(step)
        writer.create_item("table", 1.0, writer.history[-1:])
    flusher = threading.Thread(target=writer.flush)
    flusher.start()
    while not client.status(timeout=PATIENCE_S)["tables"]["table"].waiters:
        pass
    # The flush is using the writer; this call must not wait for it.
    with pytest.raises(RuntimeError, match="another thread"):
        while flusher.is_alive():
            writer.append(3)
    next(client.sample("table", timeout=PATIENCE_S))
    flusher.join(PATIENCE_S)
    assert not flusher.is_alive()


def test_writers_in_several_threads(connect: Connect) -> None:
    client = connect(uniform_table(max_size=10_000))

    def write() -> None:
        with client.trajectory_writer(1) as writer:
            for step in range(200):
                writer.append(step)
                writer.create_item("table", 1.0, writer.history[-1:])

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert client.server_info()["table"].current_size == 800


def test_a_garbage_collected_writer_frees_everything(connect: Connect) -> None:
    client = connect()
    writer = client.trajectory_writer(1)
    writer.append(np.zeros(1_000))
    del writer
    gc.collect()
    assert client.status()["num_chunks"] == 0


DTYPES = st.one_of(
    arrays.integer_dtypes(endianness="="), arrays.unsigned_integer_dtypes(endianness="="),
    arrays.floating_dtypes(sizes=(16, 32, 64), endianness="="), arrays.complex_number_dtypes(sizes=(64, 128), endianness="="),
    arrays.boolean_dtypes(),
)


@st.composite
def steps(draw: st.DrawFn) -> list[np.ndarray]:
    """One column: some steps of one type and shape."""
    dtype = draw(DTYPES)
    shape = draw(arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    return draw(st.lists(arrays.arrays(dtype, shape), min_size=1, max_size=5))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=steps(), chunk_length=st.integers(1, 5), data=st.data())
def test_written_data_is_read_back(
    connect_once: relive.Client, values: list[np.ndarray], chunk_length: int, data: Any
) -> None:
    rows = data.draw(st.lists(st.integers(0, len(values) - 1), min_size=1, max_size=6))
    with connect_once.trajectory_writer(5, chunk_length=chunk_length) as writer:
        for value in values:
            writer.append(value)
        writer.create_item("table", 1.0, writer.history[rows])
    (found,) = data_of(connect_once)[0]
    expected = np.stack([values[row] for row in rows])
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.one_of(st.text(max_size=20), st.binary(max_size=20)), min_size=1, max_size=5))
def test_strings_are_read_back_as_bytes(connect_once: relive.Client, texts: list[str | bytes]) -> None:
    with connect_once.trajectory_writer(5) as writer:
        for text in texts:
            writer.append(text)
        writer.create_item("table", 1.0, writer.history[-len(texts):])
    (found,) = data_of(connect_once)[0]
    assert found.tolist() == [text.encode() if isinstance(text, str) else text for text in texts]


@pytest.fixture(params=["in-process", "tcp"])
def connect_once(request: pytest.FixtureRequest, serve: Serve) -> relive.Client:
    """One server for all examples: each item is read before the next item is written."""
    server = serve(fifo_table())
    return relive.Client(f"localhost:{server.port}", transport=request.param)


@pytest.mark.parametrize("value", [
    np.arange(6).reshape(2, 3).T, np.arange(10)[::2], np.array(1.5, ">f8"), np.arange(4, dtype=">i4"), np.float16(0.5),
    [[1, 2], [3, 4]], True, 3, 2**63, 1.25, np.True_, np.zeros((0, 3), np.float32),
], ids=str)
def test_all_kinds_of_values(connect: Connect, value: Any) -> None:
    client = connect()
    step = {"x": np.asarray(value)} if isinstance(value, list) else {"x": value}
    client.insert(step, {"table": 1.0})
    (found,) = data_of(client)[0]
    expected = np.asarray(value)
    assert found.dtype == expected.dtype.newbyteorder("=")
    np.testing.assert_array_equal(found[0], expected)


def test_values_of_jax(connect: Connect) -> None:
    import jax.numpy as jnp

    client = connect()
    client.insert([jnp.arange(3, dtype=jnp.bfloat16), jnp.float32(2)], {"table": 1.0})
    half, single = data_of(client)[0]
    assert half.dtype == jnp.bfloat16 and half[0].tolist() == [0, 1, 2] and single[0] == 2


@pytest.mark.parametrize("value", [
    np.datetime64("2020-01-01"), np.longdouble(1), object(), None, 2**64, -(2**63) - 1, np.array([object()]), {1, 2},
], ids=["date", "longdouble", "object", "None", "beyond-uint64", "below-int64", "array-of-objects", "set"])
def test_values_that_are_not_tensors_are_refused(connect: Connect, value: Any) -> None:
    with pytest.raises(TypeError, match="incompatible function arguments|None in the place of a tensor"):
        connect().insert([value], {"table": 1.0})


@pytest.mark.parametrize("name", ["float8_e5m2", "float8_e4m3fn", "bfloat16", "int4", "uint4"])
def test_scalars_of_ml_dtypes_keep_their_value(connect: Connect, name: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    client = connect(uniform_table(sampler=relive.selectors.Lifo()))
    with client.trajectory_writer(1) as writer:
        for number in (1, 2, 3):
            writer.append({"value": getattr(ml_dtypes, name)(number)})
            writer.create_item("table", 1.0, {"value": writer.history["value"][-1]})
            writer.flush()
            assert float(data_of(client)[0][0]) == number


def test_scalars_of_numpy_keep_type_and_value(connect: Connect) -> None:
    scalars = [np.float16(1.5), np.float32(-2), np.int8(-3), np.uint64(2**63), np.bool_(True), np.complex128(1 - 2j)]
    client = connect(uniform_table())
    with client.trajectory_writer(1) as writer:
        writer.append(scalars)
        writer.create_item("table", 1.0, [column[-1] for column in writer.history])
    for scalar, stored in zip(scalars, data_of(client)[0], strict=True):
        assert (stored.dtype, stored.shape, stored[()]) == (scalar.dtype, (), scalar)


def test_a_step_modified_while_being_read_is_refused(connect: Connect) -> None:
    array = np.arange(4.0)

    class Meddling:
        def __array__(self, *_: Any, **__: Any) -> Any:
            array.resize((1000,), refcheck=False)
            return np.zeros(1)

    writer = connect(uniform_table()).trajectory_writer(1)
    with pytest.raises(ValueError, match="changed while it was read"):
        writer.append({"a": array, "b": Meddling()})


def test_an_item_retains_little_unreferenced_data(serve: Serve) -> None:
    client = serve(uniform_table(max_size=200)).localhost_client()
    with client.trajectory_writer(1) as writer:
        for step in range(200):
            wide = {f"wide{number}": np.random.rand(128) for number in range(20)}
            writer.append({"reward": np.float32(step), **wide})
            writer.create_item("table", 1.0, {"reward": writer.history["reward"][-1]})
    held = client.status()["tables"]["table"].referenced_bytes
    assert held <= 200 * 4096, held
