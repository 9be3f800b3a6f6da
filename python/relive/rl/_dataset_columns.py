"""Columns of Apache Arrow as arrays with one row per step."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

# Returns the rows from a beginning to an end of a column with the given name, as a `pyarrow.ChunkedArray`.
Fetch = Callable[[str, int, int], Any]

# The columns with one number per step. If the first one in a table has lists, each row is an episode.
_NUMBERS = ("rewards", "terminals", "timeouts")


class Rows(Protocol):
    """An array, of which only the requested rows are read."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: slice, /) -> Any: ...


def columns(names: Iterable[str], rows: int, fetch: Fetch, place: str) -> dict[str, Rows]:
    """Returns the columns with these names of a table: one row per step or, where the column of rewards (or, if there is
    none, of terminals or timeouts) has lists, per episode. Each such row ends an episode: if its last step has neither
    a terminal nor a timeout, it gets a timeout.

    Raises:
      ValueError: two columns have the same name, or rewards have missing values. Reading rows raises it for lists of
        different lengths in a column of fixed shape, for missing values, and for types that are not numbers.
    """
    counts = Counter(names)
    if repeated := [name for name, count in counts.items() if count > 1]:
        raise ValueError(f"{place}: there are {counts[repeated[0]]} columns {repeated[0]!r}; give each column a different name")
    where = {name: f"{place}, column {name!r}" for name in counts}
    first = next((name for name in _NUMBERS if name in where), None)
    if first is None or not _is_list(_joined(fetch(first, 0, 0))):
        return {name: _Column(name, fetch, where[name], rows) for name in where}
    lists = _joined(fetch(first, 0, rows))
    if lists.null_count:
        raise ValueError(f"{where[first]}: {lists.null_count} values are missing")
    bounds = np.cumsum([0, *np.asarray(lists.value_lengths())])
    found: dict[str, Rows] = {name: _Lists(name, fetch, where[name], bounds, first) for name in where}
    for name in {"terminals", "timeouts"} & found.keys():
        found[name] = found[name][:]
    found["timeouts"] = _timeouts(found.get("terminals"), found.get("timeouts"), bounds)
    return found


class _Column:
    """A column with one row per step."""

    def __init__(self, name: str, fetch: Fetch, where: str, rows: int) -> None:
        self._name, self._fetch, self._where, self._rows = name, fetch, where, rows

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, rows: slice) -> npt.NDArray[Any]:
        begin, end, _ = rows.indices(self._rows)
        return _array(_joined(self._fetch(self._name, begin, max(begin, end))), self._where)


class _Lists:
    """A column with one row per episode, as an array with one row per step. The steps of each episode begin and end at
    ``bounds``, the lengths of the lists in the column ``first``."""

    def __init__(self, name: str, fetch: Fetch, where: str, bounds: npt.NDArray[Any], first: str) -> None:
        self._name, self._fetch, self._where, self._bounds, self._first = name, fetch, where, bounds, first

    def __len__(self) -> int:
        return int(self._bounds[-1])

    def __getitem__(self, rows: slice) -> npt.NDArray[Any]:
        begin, end, _ = rows.indices(len(self))
        first = int(np.searchsorted(self._bounds, begin, "right")) - 1
        last = max(first, int(np.searchsorted(self._bounds, end, "left")))
        column = _joined(self._fetch(self._name, first, last))
        lengths = np.diff(self._bounds[first : last + 1])
        if not _is_list(column) or not np.array_equal(np.asarray(column.value_lengths()), lengths):
            raise ValueError(f"{self._where}: {self._first} must be lists with a value for each step of an episode, but this column has a "
                             "different number")
        start = int(self._bounds[first])
        return _array(column.flatten(), self._where)[begin - start : max(begin, end) - start]


def _timeouts(terminals: Any, timeouts: Any, bounds: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Marks the ends of rows that have neither a terminal nor a timeout as truncations."""
    last = bounds[1:][np.diff(bounds) > 0] - 1
    marked = np.zeros(int(bounds[-1]), np.bool_) if timeouts is None else np.array(timeouts)
    has_ended = [_any(array[last]) for array in (terminals, marked) if array is not None]
    marked[last[~np.any(has_ended, axis=0)]] = 1
    return marked


def _any(array: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Returns which rows have a number other than 0."""
    found: npt.NDArray[np.bool_] = np.any(array.astype(np.bool_).reshape(len(array), math.prod(array.shape[1:])), axis=1)
    return found


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
    remedy = _remedy(column.type)
    array: npt.NDArray[Any] = np.zeros(0, object) if remedy else column.to_numpy(zero_copy_only=False)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{where}: {column.type} is not a number type{remedy}")
    return array.reshape(shape)


def _remedy(kind: Any) -> str:
    """Returns how to replace a column of a type that is not read, or nothing if it may be one of numbers."""
    import pyarrow

    if pyarrow.types.is_struct(kind):
        names = [field.name for field in kind]
        return f"; give each part its own column, with a name such as observations/{names[0] if names else 'name'} for a part of the observations"
    if pyarrow.types.is_decimal(kind):
        return "; cast the column to float64"
    return "; give its storage, which has lists (column.combine_chunks().storage)" if isinstance(kind, pyarrow.BaseExtensionType) else ""
