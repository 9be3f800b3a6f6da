"""Samples collected into groups with the same layout, which TensorFlow splits again.

Control passes from Python to TensorFlow once per group instead of once per sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from relive import errors

# Larger groups are not faster, and each group is in memory three times: as samples, stacked, and split.
_MAX_GROUP_BYTES = 1 << 20

_INFO_DTYPES = (np.uint64, np.float64, np.int64, np.float64, np.int32)

Sample = tuple[Sequence[Any], Sequence[np.ndarray]]


class Group(NamedTuple):
    """Rows of the five information columns and of the data columns; all have the same number of rows."""

    info: list[np.ndarray]
    data: list[np.ndarray]


def of_trajectories(samples: Sequence[Sample], check: Callable[[Sequence[np.ndarray]], None]) -> Iterator[Group]:
    """Yields groups with one row per sample. ``check`` gets the first sample of each group, because all samples of a
    group have the same layout."""
    start = 0
    while start < len(samples):
        check(samples[start][1])
        end = _end_of_group(samples, start)
        yield _stacked(samples[start:end])
        start = end


def _end_of_group(samples: Sequence[Sample], start: int) -> int:
    first = samples[start][1]
    layout = _layout(first)
    most = max(1, _MAX_GROUP_BYTES // max(1, sum(array.nbytes for array in first)))
    end = start + 1
    while end < len(samples) and end - start < most and _layout(samples[end][1]) == layout:
        end += 1
    return end


def _layout(arrays: Sequence[np.ndarray]) -> list[tuple[np.dtype, tuple[int, ...]]]:
    return [(array.dtype, array.shape) for array in arrays]


def _stacked(samples: Sequence[Sample]) -> Group:
    infos = zip(*(info for info, _ in samples), strict=True)
    info = [np.array(values, dtype) for values, dtype in zip(infos, _INFO_DTYPES, strict=True)]
    if len(samples) == 1:
        return Group(info, [array[np.newaxis] for array in samples[0][1]])
    return Group(info, [np.stack(arrays) for arrays in zip(*(arrays for _, arrays in samples), strict=True)])


def of_timesteps(
    table: str, samples: Sequence[Sample], check: Callable[[Sequence[np.ndarray]], None]
) -> Iterator[Group]:
    """Yields one group per sample. A group has one row per time step, and each row carries its sample's information."""
    for info, arrays in samples:
        rows = {array.shape[0] for array in arrays}
        if len(rows) != 1:
            raise errors.InvalidArgumentError(
                f"Sampled trajectory cannot be decomposed into timesteps. The columns of an item of table {table!r} have "
                f"{[array.shape[0] for array in arrays]} rows"
            )
        length = rows.pop()
        # With the ellipsis, a row of strings stays an array.
        check([array[0, ...] if length else array for array in arrays])
        yield Group(_repeated(info, length), list(arrays))


def _repeated(info: Sequence[Any], length: int) -> list[np.ndarray]:
    return [np.full(length, value, dtype) for value, dtype in zip(info, _INFO_DTYPES, strict=True)]
