"""The history of a column, for a writer that wraps a foreign object."""

from __future__ import annotations

import abc
import collections
import itertools
import operator
from collections.abc import Iterator
from typing import Any

from relive import nest
from relive._native import TrajectoryColumn


class ColumnHistory(abc.ABC):
    """References to the steps of one column since the history was last cleared.

    It is as long as the history, but only the newest ``buffer_size`` references are kept. Steps without data, and steps
    that are no longer kept, are ``None`` and cannot be part of an item.

    Args:
      path: the path of the column in a step.
      buffer_size: the number of references to keep.
      history_padding: the number of steps before this column's first step.
    """

    @classmethod
    def __subclasshook__(cls, kind: type) -> bool:
        # The compiled class of the columns of other writers is not a name of its module.
        if (kind.__module__, kind.__name__) == ("relive._native", "ColumnHistory"):
            return True
        return NotImplemented

    def __init__(self, path: nest.Path, buffer_size: int, history_padding: int = 0) -> None:
        self._path = tuple(path)
        self._kept: collections.deque[Any] = collections.deque(maxlen=max(1, buffer_size))
        self._length = 0
        for _ in range(history_padding):
            self.append(None)

    def path(self) -> nest.Path:
        """Returns the path of the column in a step."""
        return self._path

    def append(self, ref: Any | None) -> None:
        """Adds a step; ``None`` for a step without data."""
        self._kept.append(ref)
        self._length += 1

    def reset(self) -> None:
        """Drops all steps."""
        self._kept.clear()
        self._length = 0

    def set_last(self, ref: Any) -> None:
        """Sets the data of the newest step.

        Raises ``RuntimeError`` if there is no step, or if it already has data.
        """
        if not self._kept:
            raise RuntimeError("set_last called on empty history column")
        if not self.can_set_last:
            raise RuntimeError("set_last called on already set cell")
        self._kept[-1] = ref

    @property
    def can_set_last(self) -> bool:
        """Whether the newest step has no data yet."""
        return bool(self._kept) and self._kept[-1] is None

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Any | None]:
        forgotten = self._length - len(self._kept)
        return itertools.chain(itertools.repeat(None, forgotten), iter(self._kept))

    def __getitem__(self, key: int | slice | list[int]) -> TrajectoryColumn:
        """Returns the column for one step, without a leading dimension, or for several steps.

        Raises:
          TypeError: a key that is not an int, a slice or a list of ints.
          IndexError: a step that does not exist yet.
          ValueError: a step without data, a step that is no longer kept, or a step before the first.
        """
        path = (*self._path, key)
        steps = list(self)
        if isinstance(key, slice):
            return TrajectoryColumn([_step(steps, index) for index in _positions(key, len(steps))], path=path)
        if isinstance(key, list):
            return TrajectoryColumn([_step(steps, _position(index, len(steps))) for index in key], path=path)
        if not hasattr(key, "__index__"):
            raise TypeError(f"_ColumnHistory indices must be integers or slices, not {type(key)}; a list of integers is possible, too")
        return TrajectoryColumn([_step(steps, _position(key, len(steps)))], squeeze=True, path=path)

    def __str__(self) -> str:
        return f"_ColumnHistory(path={self._path}, refs={list(self)})"


def _position(index: int, length: int) -> int:
    """Returns the index of the step, counted from the first step; negative for an earlier step."""
    number = operator.index(index)
    return number + length if number < 0 else number


def _positions(key: slice, length: int) -> range:
    """Returns the steps of a slice. The slice is not clamped at the first step, since a shorter column would be
    unexpected."""
    stride = 1 if key.step is None else operator.index(key.step)
    last = length - 1
    if stride < 0:
        start = last if key.start is None else min(_position(key.start, length), last)
        return range(start, -1 if key.stop is None else _position(key.stop, length), stride)
    start = 0 if key.start is None else _position(key.start, length)
    return range(start, length if key.stop is None else min(_position(key.stop, length), length), stride)


def _step(steps: list[Any], position: int) -> Any | None:
    return steps[position] if position >= 0 else None
