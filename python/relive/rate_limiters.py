"""Rate limiters, which bound the ratio of samples to inserts.

A table counts its inserts i and its samples s, and holds n items. With samples per insert r, minimum size m and bounds
``min_diff`` and ``max_diff``:

* an insert may pass while n < m, or else if (i + 1) r - s <= max_diff;
* a sample may pass if n >= m and i r - s - 1 >= min_diff.

Other calls wait. A limiter object is only a description, so several tables may share it.
"""

from __future__ import annotations

import logging
import math
import numbers
import sys
from typing import Any

from relive._numbers import any_number, count, whole

_log = logging.getLogger("relive")

# dm-reverb's value for "no bound", so that bounds look the same in both packages.
_NO_BOUND = sys.float_info.max


class RateLimiter:
    """A limiter defined by its four numbers; the subclasses are easier to use.

    Args:
      samples_per_insert: the average number of times that an item is sampled, above 0.
      min_size_to_sample: the number of items that the table must hold before it can be sampled, at least 1.
      min_diff: samples wait if ``inserts * samples_per_insert - samples`` would fall below this number.
      max_diff: inserts wait if the same difference would rise above this number.

    Raises:
      ValueError: a number that is out of range, or NaN.
      TypeError: a value that is not a number, or a fraction or a bool for ``min_size_to_sample``.

    >>> SampleToInsertRatio(samples_per_insert=4, min_size_to_sample=100, error_buffer=400).samples_per_insert
    4.0
    """

    __slots__ = ("max_diff", "min_diff", "min_size_to_sample", "samples_per_insert")

    samples_per_insert: float
    min_size_to_sample: int
    min_diff: float
    max_diff: float

    def __init__(
        self, samples_per_insert: float, min_size_to_sample: int, min_diff: float, max_diff: float
    ) -> None:
        self.samples_per_insert = _number("samples_per_insert", samples_per_insert)
        self.min_size_to_sample = whole("min_size_to_sample", min_size_to_sample)
        self.min_diff = _number("min_diff", min_diff)
        self.max_diff = _number("max_diff", max_diff)
        if not self.samples_per_insert > 0:
            raise ValueError(f"samples_per_insert ({samples_per_insert}) must be > 0")
        _check_min_size(self.min_size_to_sample)

    @property
    def internal_limiter(self) -> RateLimiter:
        """The limiter itself; in dm-reverb, this attribute is a separate object."""
        return self

    def __repr__(self) -> str:
        return (
            f"RateLimiter(samples_per_insert={self.samples_per_insert:g}, min_diff_={self.min_diff:g}, "
            f"max_diff={self.max_diff:g}, min_size_to_sample={self.min_size_to_sample})"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RateLimiter) and self._numbers() == other._numbers()

    def __hash__(self) -> int:
        return hash(self._numbers())

    def _numbers(self) -> tuple[float, int, float, float]:
        return (self.samples_per_insert, self.min_size_to_sample, self.min_diff, self.max_diff)


class MinSize(RateLimiter):
    """Samples wait until the table holds ``min_size_to_sample`` items; inserts never wait."""

    __slots__ = ()

    def __init__(self, min_size_to_sample: int) -> None:
        super().__init__(1.0, min_size_to_sample, -_NO_BOUND, _NO_BOUND)


class SampleToInsertRatio(RateLimiter):
    """Keeps the average number of samples per item near ``samples_per_insert``, within ``error_buffer``.

    Args:
      samples_per_insert: the target average, above 0.
      min_size_to_sample: the number of items that the table must hold before it can be sampled.
      error_buffer: the number of samples by which the table may lag behind or exceed the target, counted from the
        moment when it first holds ``min_size_to_sample`` items; or the pair ``(min_diff, max_diff)``.

    Raises:
      ValueError: a number that is out of range, or an ``error_buffer`` that would block all calls.
      TypeError: a value that is not a number.
    """

    __slots__ = ()

    def __init__(
        self, samples_per_insert: float, min_size_to_sample: int, error_buffer: float | tuple[float, float]
    ) -> None:
        per_insert = _number("samples_per_insert", samples_per_insert)
        min_size_to_sample = whole("min_size_to_sample", min_size_to_sample)
        if per_insert <= 0:
            raise ValueError(f"samples_per_insert ({samples_per_insert}) must be > 0")
        samples_per_insert = per_insert
        centre = samples_per_insert * min_size_to_sample
        min_diff, max_diff = _bounds(error_buffer, centre)
        _check_bounds(min_diff, max_diff, samples_per_insert, centre)
        _check_min_size(min_size_to_sample)
        super().__init__(samples_per_insert, min_size_to_sample, min_diff, max_diff)


class Queue(RateLimiter):
    """Each item is sampled once, and inserts wait while ``size`` items have not been sampled.

    Intended for tables with ``max_times_sampled=1``, as created by ``Table.queue``.

    Raises:
      ValueError: ``size`` is NaN, or below 1, which would block all inserts.
      TypeError: ``size`` is not a number.
    """

    __slots__ = ()

    def __init__(self, size: float) -> None:
        if _number("size", size) < 1:
            raise ValueError(f"size ({size}) must be at least 1, otherwise nothing could be inserted")
        super().__init__(1.0, 1, 0.0, size)


class Stack(Queue):
    """The same limiter as ``Queue``; the selectors determine the order, see ``Table.stack``."""

    __slots__ = ()


def _bounds(error_buffer: Any, centre: float) -> tuple[float, float]:
    if isinstance(error_buffer, numbers.Real):
        around = any_number("error_buffer", error_buffer)
        return centre - around, centre + around
    try:
        min_diff, max_diff = error_buffer
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"error_buffer must be a number or a pair of numbers, not {error_buffer!r}") from error
    return _number("min_diff of error_buffer", min_diff), _number("max_diff of error_buffer", max_diff)


def _check_bounds(min_diff: float, max_diff: float, samples_per_insert: float, centre: float) -> None:
    least = 2 * max(1.0, samples_per_insert)
    if max_diff - min_diff < least:
        raise ValueError(
            "The size of error_buffer must be >= max(1.0, samples_per_insert) as smaller values could completely block "
            f"samples and/or insert calls. It allows a range of {max_diff - min_diff:g}, from {min_diff:g} to {max_diff:g}, "
            f"but at least 2 * max(1, samples_per_insert) = {least:g} is needed"
        )
    if max_diff < centre:
        _log.warning(
            "the upper bound %g of error_buffer is below samples_per_insert * min_size_to_sample = %g: unless "
            "something samples while the first min_size_to_sample items are inserted, inserts will wait forever",
            max_diff,
            centre,
        )
    if min_diff > centre:
        raise ValueError(
            "The range covered by error_buffer is above samples_per_insert * min_size_to_sample. This will result in a "
            "deadlock as soon as min_size_to_sample items have been inserted. "
            f"Its lower bound {min_diff:g} must not be above {centre:g}"
        )


def _check_min_size(min_size_to_sample: int) -> None:
    if min_size_to_sample < 1:
        raise ValueError(f"min_size_to_sample ({min_size_to_sample}) must be a positive integer")
    count("min_size_to_sample", min_size_to_sample, 1)


def _number(name: str, value: float) -> float:
    found = any_number(name, value)
    if math.isnan(found):
        raise ValueError(f"{name} must not be NaN")
    return found
