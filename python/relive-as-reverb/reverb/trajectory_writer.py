"""The writer of items that refer to any cells of the newest steps."""

import logging
from collections.abc import Sequence
from typing import Any

from relive import _native, nest
from relive import trajectory_writer as _relive
from relive._native import TrajectoryColumn as TrajectoryColumn
from relive.client import Client as _Client
from relive.nest import is_namedtuple as _is_named_tuple

from reverb import _borrowed, _texts
from reverb._column_history import ColumnHistory as _ColumnHistory
from reverb._union import tree_filter as _tree_filter
from reverb._union import tree_union as _tree_union
from reverb._wrapped_writer import WrappedWriter, _chunker_options

_APPEND = (
    _texts.UNKNOWN_TABLE,
    _texts.rule(
        r"column \d+ \(path=(.*)\) got dtype (\S+), but expected (\S+) as in",
        lambda found: f"Tensor of wrong dtype provided for column {found[1]}. Got {_texts.dtype_text(found[2])} but "
        f"expected {_texts.dtype_text(found[3])}.",
    ),
    _texts.rule(
        r"column \d+ \(path=(.*)\) got shape (\[.*?\]), but expected (\[.*?\]) as in",
        r"Tensor of incompatible shape provided for column \1. Got \2 which is incompatible with \3.",
    ),
    _texts.rule(
        r"column \d+ \(path=(.*)\) was already set in this step; the value given now is (.*)",
        r"Field \1 has already been set in the active step by previous (partial) append call and thus must be omitted "
        r"or set to None but got: \2",
    ),
    _texts.arguments_of("Append"),
)
_CREATE_ITEM = (
    _texts.UNKNOWN_TABLE_OF_ITEM,
    _texts.UNKNOWN_TABLE,
    *_texts.PRIORITIES,
    _texts.rule("the trajectory has no columns", "trajectory must not be empty."),
)

# The number of unconfirmed items at which a writer of `relive` waits, and at which this writer begins to warn. A writer
# that is faster than a network has thousands of them.
_MANY_PENDING_ITEMS = 10_000


class TrajectoryWriter(_relive.TrajectoryWriter):
    __doc__ = _relive.TrajectoryWriter.__doc__

    # The client for querying the signatures in texts.
    _client: _Client | None = None
    # The number of unconfirmed items of the next warning, and the least number of new items that can lead to it.
    _warns_at = _MANY_PENDING_ITEMS
    _items_until_check = _MANY_PENDING_ITEMS

    def __new__(cls, internal_writer: Any = None) -> "TrajectoryWriter":
        is_compiled = isinstance(internal_writer, _native.TrajectoryWriter)
        return object.__new__(cls if is_compiled or cls is not TrajectoryWriter else _Wrapped)

    def __init__(self, internal_writer: _native.TrajectoryWriter) -> None:
        super().__init__(internal_writer)
        # As in the base class, with dm-reverb's texts.
        kind = type(self)
        for name, (method, rules) in _FREQUENT.items():
            if getattr(kind, name) is method:
                vars(self)[name] = _texts.tells(*rules)(getattr(internal_writer, name))

    append = _texts.tells(*_APPEND)(_relive.TrajectoryWriter.append)
    append_sequence = _texts.tells(*_APPEND)(_relive.TrajectoryWriter.append_sequence)
    create_items = _texts.tells(*_CREATE_ITEM)(_relive.TrajectoryWriter.create_items)
    create_window_items = _texts.tells(*_CREATE_ITEM)(_relive.TrajectoryWriter.create_window_items)

    def create_item(self, table: str, priority: float, trajectory: Any) -> int:
        table = _texts.name(table)
        try:
            key = self._writer.create_item(table, priority, trajectory)
        except TypeError as error:
            if all(isinstance(leaf, TrajectoryColumn) for leaf in nest.flatten(trajectory)):
                told = _texts.retold(error, [_texts.arguments_of("CreateItem")])
            else:
                words = f"All leaves of `trajectory` must be `TrajectoryColumn` but got {trajectory}"
                told = _texts.said_first(error, words)
            raise told from _texts.cause(told, error)
        except ValueError as error:
            told = self._of_signature(error, table, trajectory) or _texts.retold(error, _CREATE_ITEM)
            raise told from _texts.cause(told, error)
        self._items_until_check -= 1
        if self._items_until_check <= 0:
            self._check_pending()
        return key

    def _check_pending(self) -> None:
        """Warns of many unconfirmed items, for which this writer does not wait, and next of twice as many."""
        pending = self._writer.pending_items
        if pending >= self._warns_at:
            self._warn(pending)
            self._warns_at = 2 * pending
        self._items_until_check = self._warns_at - pending

    def _warn(self, pending: int) -> None:
        logging.getLogger("relive").warning(
            "%d items of a writer are not confirmed and stay in memory: their server is unreachable, their table is "
            "full, or the writer is faster than the server. With max_pending_items and max_pending_bytes of "
            "trajectory_writer(), create_item waits instead",
            pending,
        )

    @property
    def history(self) -> Any:
        try:
            return self._writer.history
        except RuntimeError as error:
            if self._writer.is_closed:
                raise
            words = "history cannot be accessed before `append` is called at least once."
            raise _texts.said_first(error, words) from error

    @_texts.tells(_texts.UNKNOWN_TABLE, *_texts.PRIORITIES)
    def flush(self, block_until_num_items: int = 0, timeout_ms: int | None = None) -> None:
        _texts.check_block_until(block_until_num_items)
        with _texts.deadline("Flush", timeout_ms):
            self._writer.flush(block_until_num_items, timeout_ms)

    @_texts.tells(_texts.UNKNOWN_TABLE, *_texts.PRIORITIES)
    def end_episode(self, clear_buffers: bool = True, timeout_ms: int | None = None) -> None:
        with _texts.deadline("End episode", timeout_ms):
            self._writer.end_episode(bool(clear_buffers), timeout_ms)

    @_texts.tells(_texts.rule("the chunk length cannot change while", "Flush must be called before ApplyConfig."))
    def configure(self, path: tuple[int | str, ...], *, num_keep_alive_refs: int, max_chunk_length: int | None) -> None:
        # Raises dm-reverb's error for a number that is out of range.
        _chunker_options(num_keep_alive_refs, max_chunk_length)
        self._writer.configure(path, num_keep_alive_refs=num_keep_alive_refs, max_chunk_length=max_chunk_length)

    def _of_signature(self, error: ValueError, table: str, trajectory: Any) -> Exception | None:
        """Returns the error for a trajectory that does not match the table's signature; ``None`` if the error has
        another reason."""
        if "signature" not in str(error) or self._client is None:
            return None
        info = _texts.known_tables(self._client).get(table)
        if info is None or info.structure is None:
            return None
        wanted = _texts.signature_tensors(info.structure)
        columns = [(str(at), column.dtype, column.shape) for at, column in enumerate(nest.flatten(trajectory))]
        words = (
            f"Unable to create item in table '{table}' since the provided trajectory is inconsistent with the table "
            f"signature. {_difference(wanted, columns)}\n\nThe table signature is:\n\t{_texts.listed(wanted)}"
            f"\n\nThe provided trajectory signature {'is' if len(wanted) == len(columns) else 'was'}:"
            f"\n\t{_texts.listed(columns)}.\n"
        )
        return _texts.said_first(error, words)


_FREQUENT: dict[str, tuple[Any, Sequence[_texts.Rule]]] = {
    "append": (TrajectoryWriter.append, _APPEND),
    "append_sequence": (TrajectoryWriter.append_sequence, _APPEND),
    "create_items": (TrajectoryWriter.create_items, _CREATE_ITEM),
    "create_window_items": (TrajectoryWriter.create_window_items, _CREATE_ITEM),
}


class _Wrapped(WrappedWriter, TrajectoryWriter):
    """A writer around an object that replaces the compiled writer."""

    def flush(self, block_until_num_items: int = 0, timeout_ms: int | None = None) -> None:
        with _texts.deadline("Flush", timeout_ms):
            super().flush(block_until_num_items, timeout_ms)

    def end_episode(self, clear_buffers: bool = True, timeout_ms: int | None = None) -> None:
        with _texts.deadline("End episode", timeout_ms):
            super().end_episode(clear_buffers, timeout_ms)


def _difference(wanted: list[Any], columns: list[Any]) -> str:
    if len(wanted) != len(columns):
        return f"The trajectory has {len(columns)} columns but the table signature has {len(wanted)} columns."
    for index, (want, (_, dtype, shape)) in enumerate(zip(wanted, columns, strict=True)):
        if not _texts.fits(want, dtype, shape):
            return (
                f"The table expects column {index} to be a {_texts.dtype_text(want[1])} {_texts.shape_text(want[2])} "
                f"tensor but got a {_texts.dtype_text(dtype)} {_texts.shape_text(shape)} tensor."
            )
    return ""


__getattr__, __dir__ = _borrowed.lend(
    globals(),
    "Any Iterator List MutableMapping Optional Sequence Tuple Union",
    datetime="datetime",
    errors="reverb.errors",
    itertools="itertools",
    np="numpy",
    pybind="reverb.pybind",
    re="re",
    tree="tree",
)
