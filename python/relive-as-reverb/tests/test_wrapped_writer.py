"""The trajectory writer around replacements of dm-reverb's compiled writer, as in existing test suites."""

import collections
import types
from typing import Any, NamedTuple

import numpy as np
import pytest

import relive
from relive import errors, pybind
from reverb import trajectory_writer
from reverb._column_history import ColumnHistory as _ColumnHistory
from reverb.trajectory_writer import TrajectoryColumn, TrajectoryWriter


class Ref:
    """A reference to a value."""

    expired = False

    def __init__(self, value: Any) -> None:
        self.value = value

    @property
    def shape(self) -> list[int]:
        return list(np.shape(self.value))

    @property
    def dtype(self) -> Any:
        return np.asarray(self.value).dtype

    def numpy(self) -> Any:
        return np.asarray(self.value)

    def __repr__(self) -> str:
        return f"Ref({self.value!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ref) and self.value == other.value

    def __hash__(self) -> int:
        return hash(repr(self))


class Recorder:
    """Records every call."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.failure: Exception | None = None
        self.max_num_keep_alive_refs = 10
        self.episode_steps = 0

    def Append(self, leaves: list[Any]) -> list[Any]:
        return self._append("Append", leaves)

    def AppendPartial(self, leaves: list[Any]) -> list[Any]:
        return self._append("AppendPartial", leaves)

    def _append(self, name: str, leaves: list[Any]) -> list[Any]:
        assert type(leaves) is list
        self._record(name, list(leaves))
        return [None if leaf is None else Ref(leaf) for leaf in leaves]

    def CreateItem(self, *arguments: Any) -> int:
        self._record("CreateItem", *arguments)
        return 17

    def Flush(self, *arguments: Any) -> None:
        self._record("Flush", *arguments)

    def EndEpisode(self, *arguments: Any) -> None:
        self._record("EndEpisode", *arguments)

    def ConfigureChunker(self, *arguments: Any) -> None:
        self._record("ConfigureChunker", *arguments)

    def Close(self, *arguments: Any) -> None:
        self._record("Close", *arguments)

    def _record(self, *call: Any) -> None:
        self.calls.append(call)
        if self.failure is not None:
            raise self.failure


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def writer(recorder: Recorder) -> Any:
    writer = TrajectoryWriter(recorder)
    yield writer
    recorder.failure = None


def values(column: Any) -> list[Any]:
    return [None if ref is None else ref.value for ref in column]


def history(writer: Any) -> Any:
    return {name: values(column) for name, column in writer.history.items()}


def appended(recorder: Recorder) -> list[Any]:
    return [call[1] for call in recorder.calls if call[0].startswith("Append")]


class Two(NamedTuple):
    u: Any
    v: Any


class Three(NamedTuple):
    u: Any
    v: Any
    w: Any


def test_both_writers_are_trajectory_writers(writer: Any) -> None:
    assert isinstance(writer, relive.TrajectoryWriter)
    with relive.Server([relive.Table.queue("t", 1)], host="127.0.0.1") as server:
        native = server.localhost_client().trajectory_writer(2)
        assert isinstance(native, relive.TrajectoryWriter)
        native.close()


class TestAppend:
    def test_flat_lists_in_order(self, writer: Any, recorder: Recorder) -> None:
        writer.append({"b": [2, 3], "a": 1})
        assert recorder.calls == [("Append", [1, 2, 3])]

    @pytest.mark.parametrize("step", [3, [3], (3,), {"x": 3}])
    def test_any_structure(self, writer: Any, recorder: Recorder, step: Any) -> None:
        writer.append(step)
        assert appended(recorder) == [[3]]

    def test_missing_leaves_are_none(self, writer: Any, recorder: Recorder) -> None:
        writer.append({"a": 1, "b": [2, 3]})
        writer.append({"b": [5]})
        writer.append({"a": None, "c": 9})
        assert appended(recorder) == [[1, 2, 3], [None, 5, None], [None, None, None, 9]]
        assert values(writer.history["c"]) == [None, None, 9]
        assert values(writer.history["a"]) == [1, None, None]

    def test_new_columns_are_appended(self, writer: Any, recorder: Recorder) -> None:
        writer.append(collections.OrderedDict(z=1, a=2))
        writer.append({"b": 3, "a": 4, "z": 5})
        assert appended(recorder) == [[2, 1], [4, 5, 3]]
        assert list(writer.history) == ["z", "a", "b"]
        assert type(writer.history) is collections.OrderedDict

    def test_none_in_the_first_step_has_a_column(self, writer: Any, recorder: Recorder) -> None:
        writer.append({"a": None, "b": 1})
        writer.append({"a": 5, "b": 1})
        assert appended(recorder) == [[None, 1], [5, 1]]

    def test_growing_containers(self, writer: Any, recorder: Recorder) -> None:
        writer.append({"l": [1], "t": (2,), "n": Two(3, 4), "d": {"x": 5}})
        writer.append({"l": [1, 6], "t": (2, {"q": 7}), "n": Three(3, 4, 8), "d": {"x": 5, "y": 9}})
        writer.append({"n": Two(None, 4)})
        assert appended(recorder)[1] == [5, 1, 3, 4, 2, 9, 6, 8, 7]
        assert type(writer.history["n"]) is Three
        assert values(writer.history["t"][1]["q"]) == [None, 7, None]

    def test_a_missing_container(self, writer: Any, recorder: Recorder) -> None:
        writer.append({"a": {"b": 1}, "c": 2})
        writer.append({"a": None, "c": 3})
        writer.append(None)
        assert appended(recorder) == [[1, 2], [None, 3], [None, None]]

    @pytest.mark.parametrize(
        ("first", "second", "path"),
        [
            (3, {"a": 3}, r"\(\)"),
            ({"a": {"b": 1}}, {"a": 1}, r"\('a',\)"),
            ({"a": 1}, {"a": {"b": 1}}, r"\('a',\)"),
            ([1, 2], {"a": 1}, r"\(\)"),
            ({"a": [Two(1, 2)]}, {"a": [(1, 2, 3)]}, r"\('a', 0\)"),
        ],
    )
    def test_mismatched_structures_are_refused(self, writer: Any, recorder: Recorder, first: Any, second: Any, path: str) -> None:
        writer.append(first)
        with pytest.raises(ValueError, match=f"does not fit the ones before at {path}"):
            writer.append(second)
        assert len(recorder.calls) == 1

    def test_attrs_classes(self, writer: Any, recorder: Recorder) -> None:
        class Attrs:
            __attrs_attrs__ = (types.SimpleNamespace(name="b"), types.SimpleNamespace(name="a"))

            def __init__(self, b: Any, a: Any) -> None:
                self.b = b
                self.a = a

        writer.append(Attrs(1, [2]))
        writer.append(Attrs(3, [4, 5]))
        assert appended(recorder) == [[1, 2], [3, 4, 5]]
        assert values(writer.history.a[1]) == [None, 5]


class TestPartialSteps:
    def test_partial_steps_fill_one_step(self, writer: Any, recorder: Recorder) -> None:
        writer.append({"a": 1}, partial_step=True)
        assert writer.step_is_open
        writer.append({"b": 2}, partial_step=True)
        writer.append({"c": 3})
        assert not writer.step_is_open
        writer.append({"a": 4})
        assert recorder.calls == [
            ("AppendPartial", [1]),
            ("AppendPartial", [None, 2]),
            ("Append", [None, None, 3]),
            ("Append", [4, None, None]),
        ]
        assert history(writer) == {"a": [1, 4], "b": [2, None], "c": [3, None]}

    def test_a_field_twice(self, writer: Any, recorder: Recorder) -> None:
        writer.append({"a": 9}, partial_step=True)
        with pytest.raises(ValueError, match=r"Field \('a',\) has already been set.* got: 10"):
            writer.append({"a": 10})
        assert len(recorder.calls) == 1
        writer.append({"a": None, "b": 1})
        assert history(writer) == {"a": [9], "b": [1]}

    def test_a_refused_partial_step(self, writer: Any, recorder: Recorder) -> None:
        writer.append({"a": 1}, partial_step=True)
        recorder.failure = ValueError("no")
        with pytest.raises(ValueError, match="no"):
            writer.append({"c": 1})
        recorder.failure = None
        assert history(writer) == {"a": [1], "c": [None]}
        writer.append({"c": 2})
        assert history(writer) == {"a": [1], "c": [2]}

    def test_the_end_of_the_episode_closes_the_step(self, writer: Any, recorder: Recorder) -> None:
        writer.append({"a": 1}, partial_step=True)
        writer.end_episode()
        writer.append({"a": 2})
        assert history(writer) == {"a": [2]}


class TestErrors:
    @pytest.mark.parametrize(
        ("said", "shown"),
        [
            ("bad for column 1 got x", r"^bad for column \('b', 'c'\) got x$"),
            ("bad for column 0. Got", r"^bad for column \('a',\)\. Got$"),
            ("bad for column 1", r"^bad for column \('b', 'c'\)$"),
            ("bad for column 12 x", "^bad for column 12 x$"),
            ("bad", "^bad$"),
        ],
    )
    def test_columns_become_paths(self, writer: Any, recorder: Recorder, said: str, shown: str) -> None:
        writer.append({"a": 1, "b": {"c": 2}})
        recorder.failure = ValueError(said)
        with pytest.raises(ValueError, match=shown):
            writer.append({"a": 1, "b": {"c": 2}})
        assert values(writer.history["a"]) == [1]

    @pytest.mark.parametrize("kind", [RuntimeError, TypeError])
    def test_other_errors_are_unchanged(self, writer: Any, recorder: Recorder, kind: type[Exception]) -> None:
        recorder.failure = kind("bad for column 0")
        with pytest.raises(kind, match="^bad for column 0$"):
            writer.append({"a": 1})

    def test_timeouts(self, writer: Any, recorder: Recorder) -> None:
        writer.append({"a": 1})
        recorder.failure = RuntimeError("Timeout exceeded: 3 items")
        for call in (lambda: writer.flush(0, 5), lambda: writer.end_episode(True, 5), writer.flush):
            with pytest.raises(errors.DeadlineExceededError, match="3 items"):
                call()
        assert values(writer.history["a"]) == [1]

    def test_other_failures_of_flush(self, writer: Any, recorder: Recorder) -> None:
        writer.append({"a": 1})
        recorder.failure = RuntimeError("other")
        for call in (writer.flush, writer.end_episode):
            with pytest.raises(RuntimeError, match="^other$"):
                call()
        assert values(writer.history["a"]) == [1]

    def test_history_before_the_first_step(self, writer: Any) -> None:
        with pytest.raises(RuntimeError, match="history"):
            writer.history  # noqa: B018

    def test_flush_with_a_negative_count_is_refused(self, writer: Any, recorder: Recorder) -> None:
        with pytest.raises(ValueError, match="block_until_num_items"):
            writer.flush(-1)
        assert not recorder.calls


class TestCalls:
    def test_flush(self, writer: Any, recorder: Recorder) -> None:
        writer.flush()
        writer.flush(3, 500)
        writer.flush(block_until_num_items=1, timeout_ms=0)
        assert recorder.calls == [("Flush", 0, -1), ("Flush", 3, 500), ("Flush", 1, 0)]

    def test_end_episode(self, writer: Any, recorder: Recorder) -> None:
        writer.append({"a": 1})
        writer.end_episode(clear_buffers=False)
        assert history(writer) == {"a": [1]}
        writer.end_episode(timeout_ms=10)
        assert history(writer) == {"a": []}
        writer.append({"b": 2})
        assert history(writer) == {"a": [None], "b": [2]}
        assert recorder.calls[1:3] == [("EndEpisode", False, None), ("EndEpisode", True, 10)]

    def test_episode_steps(self, writer: Any, recorder: Recorder) -> None:
        recorder.episode_steps = 7
        assert writer.episode_steps == 7

    def test_create_item(self, writer: Any, recorder: Recorder) -> None:
        for number in range(3):
            writer.append({"a": number, "b": {"c": -number}})
        past = writer.history
        key = writer.create_item("t", 1.5, {"q": past["a"][-2:], "p": (past["b"]["c"][-1], past["a"][-1])})
        assert key == 17
        assert recorder.calls[-1] == (
            "CreateItem", "t", 1.5, [[Ref(-2)], [Ref(2)], [Ref(1), Ref(2)]], [True, True, False],
        )  # fmt: skip

    @pytest.mark.parametrize("trajectory", [{"q": {"z": [3]}}, {"q": None}, "history"])
    def test_leaves_of_items(self, writer: Any, recorder: Recorder, trajectory: Any) -> None:
        writer.append({"a": 1})
        with pytest.raises(TypeError, match="must be `TrajectoryColumn` but got"):
            writer.create_item("t", 1.0, writer.history if trajectory == "history" else trajectory)
        assert len(recorder.calls) == 1

    def test_configure(self, writer: Any, recorder: Recorder) -> None:
        writer.append({"a": 1, "b": {"c": 2}})
        recorder.calls.clear()
        writer.configure(("a",), num_keep_alive_refs=5, max_chunk_length=2)
        writer.configure(("b", "c"), num_keep_alive_refs=5, max_chunk_length=None)
        assert recorder.calls == [
            ("ConfigureChunker", 0, pybind.ConstantChunkerOptions(2, 5)),
            ("ConfigureChunker", 1, pybind.AutoTunedChunkerOptions(5, 1.0)),
        ]

    def test_configure_ahead(self, writer: Any, recorder: Recorder) -> None:
        writer.configure(("a",), num_keep_alive_refs=5, max_chunk_length=2)
        assert not recorder.calls
        writer.append({"b": 1, "a": 2})
        assert recorder.calls == [
            ("ConfigureChunker", 0, pybind.ConstantChunkerOptions(2, 5)),
            ("Append", [2, 1]),
        ]

    @pytest.mark.parametrize(
        ("kept", "chunk", "said"),
        [(0, 3, "num_keep_alive_refs"), (1, 3, "max_chunk_length"), (1, 0, "max_chunk_length"), (-1, None, "num_keep")],
    )
    def test_configure_out_of_range(self, writer: Any, recorder: Recorder, kept: int, chunk: Any, said: str) -> None:
        with pytest.raises(ValueError, match=said):
            writer.configure(("a",), num_keep_alive_refs=kept, max_chunk_length=chunk)
        assert not recorder.calls

    def test_close(self, recorder: Recorder) -> None:
        writer = TrajectoryWriter(recorder)
        writer.close()
        assert recorder.calls == [("Close",)]
        del writer
        assert recorder.calls == [("Close",), ("Close",)]

    @pytest.mark.parametrize(
        ("error", "flushed"),
        [(None, True), (ValueError, True), (errors.ReverbError, False), (errors.DeadlineExceededError, False)],
    )
    def test_context(self, writer: Any, recorder: Recorder, error: Any, flushed: bool) -> None:
        try:
            with writer:
                if error is not None:
                    raise error
        except error or ():
            pass
        assert recorder.calls == ([("Flush", 0, -1)] if flushed else [])

    def test_additional_relive_methods_are_forwarded(self, writer: Any, recorder: Recorder) -> None:
        writer.append_sequence({"a": np.arange(3), "b": np.zeros((3, 2))})
        assert [leaves[0] for leaves in appended(recorder)] == [0, 1, 2]
        keys = writer.create_items("t", [1.0, 2.0], [{"x": writer.history["a"][-1]}, {"x": writer.history["a"][-2]}])
        assert keys.tolist() == [17, 17]
        assert [call[2] for call in recorder.calls[-2:]] == [1.0, 2.0]
        assert writer.append_item("t", 3.0, {"a": 3, "b": np.zeros(2)}) == 17
        assert recorder.calls[-1][2] == 3.0 and recorder.calls[-1][4] == [True, True]
        assert [ref.value for ref in recorder.calls[-1][3][0]] == [3]
        writer.create_window_items("t", [1.0], [-3], length=2)
        assert [ref.value for ref in recorder.calls[-1][3][0]] == [0, 1]
        writer.create_window_items("t", [1.0], [-1], squeeze=True)
        assert recorder.calls[-1][4] == [True, True]

    @pytest.mark.parametrize("data", [{"a": np.zeros(2), "b": np.zeros(3)}, {"a": 1}, {}])
    def test_sequences_of_different_lengths(self, writer: Any, recorder: Recorder, data: Any) -> None:
        with pytest.raises(ValueError, match="same leading dimension"):
            writer.append_sequence(data)
        assert not recorder.calls


class TestColumnHistory:
    def filled(self, count: int = 14, kept: int = 10) -> _ColumnHistory:
        column = _ColumnHistory(("p", 1), kept)
        for number in range(count):
            column.append(Ref(number))
        return column

    def test_length_and_content(self) -> None:
        column = self.filled()
        assert len(column) == 14
        assert values(column) == [None] * 4 + list(range(4, 14))
        assert column.path() == ("p", 1)
        assert str(self.filled(2)) == "_ColumnHistory(path=('p', 1), refs=[Ref(0), Ref(1)])"

    def test_padding(self) -> None:
        assert values(_ColumnHistory((), 2, history_padding=3)) == [None] * 3

    def test_set_last(self) -> None:
        column = self.filled(2)
        assert not column.can_set_last
        with pytest.raises(RuntimeError, match="already set"):
            column.set_last(Ref(9))
        column.append(None)
        assert column.can_set_last
        column.set_last(Ref(8))
        assert values(column) == [0, 1, 8]
        column.reset()
        assert len(column) == 0
        with pytest.raises(RuntimeError, match="empty"):
            column.set_last(Ref(9))

    @pytest.mark.parametrize(
        ("key", "wanted"),
        [
            (-1, [13]), (4, [4]), (-10, [4]), (np.int64(-1), [13]),
            (slice(-3, None), [11, 12, 13]), (slice(4, 13), list(range(4, 13))), (slice(-2, -4), []),
            (slice(-1, -5, -1), [13, 12, 11, 10]), (slice(-6, None, 2), [8, 10, 12]), (slice(10, 100), [10, 11, 12, 13]),
            ([-1, -3], [13, 11]), ([4, 4], [4, 4]), ([], []),
            # dm-reverb returns nothing here.
            (slice(4, 14), list(range(4, 14))),
        ],
    )  # fmt: skip
    def test_steps(self, key: Any, wanted: list[int]) -> None:
        column = self.filled()[key]
        assert isinstance(column, TrajectoryColumn)
        assert values(column) == wanted
        assert column.is_squeezed is (not isinstance(key, (slice, list)))

    @pytest.mark.parametrize(
        "key", [0, 3, -11, slice(None), slice(0, 4), slice(3, 6), slice(-11, None), [0, 5], slice(None, 3), slice(None, -2)]
    )
    def test_expired_steps_are_refused(self, key: Any) -> None:
        with pytest.raises(ValueError, match=r"None.*'p', 1"):
            self.filled()[key]

    @pytest.mark.parametrize(
        "key", [-3, -9, [-1, -3], slice(-3, None), slice(-9, -1), slice(-4, None, 2), slice(-1, -5, -1)]
    )
    def test_steps_before_the_first(self, key: Any) -> None:
        # A list would return fewer steps than requested.
        with pytest.raises(ValueError, match="None"):
            self.filled(2)[key]

    @pytest.mark.parametrize("key", [14, 15, [14]])
    def test_future_steps_are_refused(self, key: Any) -> None:
        with pytest.raises(IndexError):
            self.filled()[key]

    @pytest.mark.parametrize("key", [(1, 2), "a", None, 1.5, ["a"]])
    def test_other_keys(self, key: Any) -> None:
        with pytest.raises(TypeError):
            self.filled()[key]

    def test_name(self) -> None:
        assert trajectory_writer._ColumnHistory is _ColumnHistory


class TestColumnsOfForeignReferences:
    def column(self, count: int = 3) -> TrajectoryColumn:
        return TrajectoryColumn([Ref(np.full((2, 3), number, np.float32)) for number in range(count)])

    def test_data(self) -> None:
        column = self.column()
        assert (len(column), column.shape, column.dtype) == (3, (3, 2, 3), np.float32)
        assert column.numpy()[:, 0, 0].tolist() == [0, 1, 2]
        assert not column.is_squeezed

    def test_parts(self) -> None:
        column = self.column()
        assert (column[0].shape, column[0].is_squeezed) == ((2, 3), True)
        assert (column[1:].shape, column[[0, 2]].shape) == ((2, 2, 3), (2, 2, 3))
        assert column[[0, 2]].numpy()[:, 0, 0].tolist() == [0, 2]

    def test_squeezed(self) -> None:
        column = TrajectoryColumn([Ref(np.zeros((2, 3)))], squeeze=True)
        assert (len(column), column.shape, column.numpy().shape, column.is_squeezed) == (1, (2, 3), (2, 3), True)

    @pytest.mark.parametrize("count", [0, 2])
    def test_squeezed_columns_have_one_step(self, count: int) -> None:
        with pytest.raises(ValueError, match="exactly one"):
            TrajectoryColumn([Ref(1)] * count, squeeze=True)

    def test_none(self) -> None:
        with pytest.raises(ValueError, match=r"None.*\('x', 3\)"):
            TrajectoryColumn([Ref(1), None], path=("x", 3))

    @pytest.mark.parametrize("key", [5, -4, [5]])
    def test_out_of_range(self, key: Any) -> None:
        with pytest.raises(IndexError):
            self.column()[key]

    @pytest.mark.parametrize("key", ["a", (0, 1), None])
    def test_other_keys(self, key: Any) -> None:
        with pytest.raises(TypeError):
            self.column()[key]
