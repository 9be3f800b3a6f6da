"""Data sets in tables of Apache Arrow, whose rows are read on request."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

# Returns whether the array with the given name is wanted.
IsWanted = Callable[[str], bool]
# Returns the rows from a beginning to an end of a column with the given name, as a `pyarrow.ChunkedArray`.
_Fetch = Callable[[str, int, int], Any]


class Rows(Protocol):
    """An array, of which only the requested rows are read."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: slice, /) -> Any: ...


def of_table(table: Any, place: str, is_wanted: IsWanted) -> dict[str, Rows]:
    """Returns the wanted columns of a ``pyarrow.Table``: one row per step or, where rewards are lists, per episode.

    Raises:
      ValueError: rewards have missing values. Reading rows raises it for lists of different lengths in a column of fixed
        shape, and for missing values.
    """

    def fetch(name: str, begin: int, end: int) -> Any:
        return table.column(name).slice(begin, end - begin)

    return _columns(filter(is_wanted, table.column_names), table.num_rows, fetch, place)


def parquet(path: pathlib.Path, is_wanted: IsWanted, opened: contextlib.ExitStack) -> dict[str, Rows]:
    """Returns the wanted columns of a Parquet file, which stays open. Rows are read by row group."""
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(f"{path}: Parquet files require pyarrow, which is not installed: pip install pyarrow") from error
    file = opened.enter_context(parquet.ParquetFile(path))
    groups = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
    bounds = np.cumsum([0, *groups])

    def fetch(name: str, begin: int, end: int) -> Any:
        if begin == end:
            return file.schema_arrow.empty_table().column(name)
        first, last = np.searchsorted(bounds, begin, "right") - 1, np.searchsorted(bounds, end, "left")
        column = file.read_row_groups(list(range(first, last)), columns=[name]).column(name)
        return column.slice(begin - int(bounds[first]), end - begin)

    return _columns(filter(is_wanted, file.schema_arrow.names), int(bounds[-1]), fetch, str(path))


def arrow(path: pathlib.Path, is_wanted: IsWanted, opened: contextlib.ExitStack) -> dict[str, Rows]:
    """Returns the wanted columns of an Arrow file, which stays open. Rows are read in place or, if the file is
    compressed, by batch of the column."""
    try:
        import pyarrow
        from pyarrow import ipc
    except ImportError as error:
        raise ImportError(f"{path}: Arrow files require pyarrow, which is not installed: pip install pyarrow") from error
    source = opened.enter_context(pyarrow.memory_map(str(path)))

    def reader(columns: list[int]) -> Any:
        options = ipc.IpcReadOptions(included_fields=columns)
        source.seek(0)
        try:
            return ipc.open_file(source, options=options)
        except ValueError:
            # The file is in the stream format; the file format has a footer.
            source.seek(0)
            return ipc.open_stream(source, options=options)

    def batches(column: int) -> Iterator[Any]:
        found = reader([column])
        return map(found.get_batch, range(found.num_record_batches)) if hasattr(found, "get_batch") else iter(found)

    schema = reader([]).schema

    def fetch(name: str, begin: int, end: int) -> Any:
        parts, at = [], 0
        for batch in batches(schema.get_field_index(name)):
            first, last = max(begin - at, 0), min(end - at, batch.num_rows)
            if first < last:
                parts.append(batch.column(0).slice(first, last - first))
            at += batch.num_rows
            if at >= end:
                break
        return pyarrow.chunked_array(parts, type=schema.field(name).type)

    rows = sum(batch.num_rows for batch in batches(0)) if len(schema) else 0
    return {name: Copied(column) for name, column in _columns(filter(is_wanted, schema.names), rows, fetch, str(path)).items()}


class Copied:
    """Copies of the rows of an array, for arrays in the memory of a mapped file."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, rows: slice) -> npt.NDArray[Any]:
        return np.array(self._rows[rows], subok=False)


def _columns(names: Iterable[str], rows: int, fetch: _Fetch, place: str) -> dict[str, Rows]:
    where = {name: f"{place}, column {name!r}" for name in names}
    if "rewards" not in where or not _is_list(_joined(fetch("rewards", 0, 0))):
        return {name: _Column(name, fetch, where[name], rows) for name in where}
    rewards = _joined(fetch("rewards", 0, rows))
    if rewards.null_count:
        raise ValueError(f"{where['rewards']}: {rewards.null_count} values are missing")
    bounds = np.cumsum([0, *np.asarray(rewards.value_lengths())])
    columns: dict[str, Rows] = {name: _Lists(name, fetch, where[name], bounds) for name in where}
    if "terminals" in columns and "timeouts" not in columns:
        columns["terminals"] = columns["terminals"][:]
        columns["timeouts"] = _timeouts(columns["terminals"], bounds)
    return columns


class _Column:
    """A column with one row per step."""

    def __init__(self, name: str, fetch: _Fetch, where: str, rows: int) -> None:
        self._name, self._fetch, self._where, self._rows = name, fetch, where, rows

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, rows: slice) -> npt.NDArray[Any]:
        begin, end, _ = rows.indices(self._rows)
        return _array(_joined(self._fetch(self._name, begin, max(begin, end))), self._where)


class _Lists:
    """A column with one row per episode, as an array with one row per step. The steps of each episode begin and end at
    ``bounds``."""

    def __init__(self, name: str, fetch: _Fetch, where: str, bounds: npt.NDArray[Any]) -> None:
        self._name, self._fetch, self._where, self._bounds = name, fetch, where, bounds

    def __len__(self) -> int:
        return int(self._bounds[-1])

    def __getitem__(self, rows: slice) -> npt.NDArray[Any]:
        begin, end, _ = rows.indices(len(self))
        first = int(np.searchsorted(self._bounds, begin, "right")) - 1
        last = max(first, int(np.searchsorted(self._bounds, end, "left")))
        column = _joined(self._fetch(self._name, first, last))
        lengths = np.diff(self._bounds[first : last + 1])
        if not _is_list(column) or not np.array_equal(np.asarray(column.value_lengths()), lengths):
            raise ValueError(f"{self._where}: rewards must be lists with a value for each step of an episode, but this column has a different "
                             "number")
        start = int(self._bounds[first])
        return _array(column.flatten(), self._where)[begin - start : max(begin, end) - start]


def _timeouts(terminals: Any, bounds: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Marks episodes that have not terminated as truncated."""
    last = bounds[1:][np.diff(bounds) > 0] - 1
    timeouts = np.zeros(len(terminals), np.bool_)
    timeouts[last] = ~terminals[last].astype(np.bool_)
    return timeouts


def _joined(column: Any) -> Any:
    """Returns a column as a single array."""
    return column.combine_chunks()


def _is_list(column: Any) -> bool:
    return hasattr(column, "flatten") and hasattr(column, "value_lengths")


def _array(column: Any, where: str) -> npt.NDArray[Any]:
    """Converts nested lists to one array."""
    shape: list[int] = [len(column)]
    while _is_list(column):
        if column.null_count:
            raise ValueError(f"{where}: {column.null_count} values are missing")
        lengths = np.unique(np.asarray(column.value_lengths()))
        if len(lengths) > 1:
            raise ValueError(f"{where}: lists of {lengths.min()} to {lengths.max()} values, but all steps must have the same shape")
        shape.append(int(lengths[0]) if len(lengths) else 0)
        column = column.flatten()
    if column.null_count:
        raise ValueError(f"{where}: {column.null_count} values are missing")
    array: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{where}: {column.type} is not a number type")
    return array.reshape(shape)
