"""Descriptions of rate limiters: their numbers, and the checks in dm-reverb's order."""

import logging
import math
import sys
from typing import Any

import numpy as np
import pytest

from relive import pybind, rate_limiters
from relive.rate_limiters import MinSize, Queue, RateLimiter, SampleToInsertRatio, Stack

MOST = sys.float_info.max


def numbers(limiter: RateLimiter) -> tuple[float, int, float, float]:
    return limiter.samples_per_insert, limiter.min_size_to_sample, limiter.min_diff, limiter.max_diff


@pytest.mark.parametrize(
    ("limiter", "wanted"),
    [
        (MinSize(3), (1.0, 3, -MOST, MOST)),
        (SampleToInsertRatio(2, 2, 4), (2.0, 2, 0.0, 8.0)),
        (SampleToInsertRatio(2, 2, np.float32(4)), (2.0, 2, 0.0, 8.0)),  # type: ignore[arg-type]
        (SampleToInsertRatio(2, 2, np.int64(4)), (2.0, 2, 0.0, 8.0)),  # type: ignore[arg-type]
        (SampleToInsertRatio(2.5, 2, (0, 10.0)), (2.5, 2, 0.0, 10.0)),
        (SampleToInsertRatio(2.5, 2, [0, 10]), (2.5, 2, 0.0, 10.0)),  # type: ignore[arg-type]
        (Queue(4), (1.0, 1, 0.0, 4.0)),
        (Stack(2), (1.0, 1, 0.0, 2.0)),
        (RateLimiter(1.5, 2, -1, 3), (1.5, 2, -1.0, 3.0)),
        (RateLimiter(np.float32(1.5), np.int64(2), 0, 3), (1.5, 2, 0.0, 3.0)),  # type: ignore[arg-type]
    ],
)
def test_numbers(limiter: RateLimiter, wanted: tuple[float, int, float, float]) -> None:
    assert numbers(limiter) == wanted
    assert isinstance(limiter, RateLimiter)


def test_repr() -> None:
    assert repr(MinSize(3)) == (
        "RateLimiter(samples_per_insert=1, min_diff_=-1.79769e+308, max_diff=1.79769e+308, min_size_to_sample=3)"
    )
    assert repr(SampleToInsertRatio(2.5, 2, (0, 10))) == (
        "RateLimiter(samples_per_insert=2.5, min_diff_=0, max_diff=10, min_size_to_sample=2)"
    )


def test_equality_is_by_numbers() -> None:
    assert Queue(3) == Stack(3) == RateLimiter(1.0, 1, 0.0, 3.0)
    assert Queue(3) != Queue(4)
    assert hash(Queue(3)) == hash(Stack(3))


def test_dm_reverbs_names() -> None:
    assert pybind.RateLimiter is rate_limiters.RateLimiter
    limiter = Queue(1)
    assert limiter.internal_limiter is limiter


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: MinSize(0), r"min_size_to_sample \(0\)"),
        (lambda: RateLimiter(0, 1, 0, 1), r"samples_per_insert \(0\) must be > 0"),
        (lambda: RateLimiter(-1.0, 1, 0, 1), "samples_per_insert"),
        (lambda: RateLimiter(1.0, 0, 0, 1), r"min_size_to_sample \(0\)"),
        (lambda: RateLimiter(math.nan, 1, 0, 1), "samples_per_insert must not be NaN"),
        (lambda: RateLimiter(1.0, 1, math.nan, 1), "min_diff must not be NaN"),
        (lambda: SampleToInsertRatio(0, 2, 4), r"samples_per_insert \(0\) must be > 0"),
        # The first check that fails, in dm-reverb's order, raises an error.
        (lambda: SampleToInsertRatio(0, 0, 0), "samples_per_insert"),
        (lambda: SampleToInsertRatio(1, 0, 0.5), "error_buffer must be >= .* It allows a range of 1"),
        (lambda: SampleToInsertRatio(4, 2, 3), r"range of 6, .* = 8 is needed"),
        (lambda: SampleToInsertRatio(1, 1, (2, 5)), "error_buffer is above .* lower bound 2 .* above 1"),
        (lambda: SampleToInsertRatio(1, 1, (1.0,)), r"error_buffer must be a number or a pair of numbers, not \(1.0,\)"),
        (lambda: SampleToInsertRatio(1, 1, "x"), "error_buffer must be a number or a pair of numbers, not 'x'"),
        (lambda: SampleToInsertRatio(1, 0, 5), r"min_size_to_sample \(0\)"),
        (lambda: RateLimiter(1.0, 2**63, 0, 1), r"min_size_to_sample is 9223372036854775808, .* below 2\*\*63"),
        (lambda: Queue(0), r"size \(0\)"),
        (lambda: Stack(-1), r"size \(-1\)"),
    ],
)
def test_values_out_of_range(make: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: MinSize(1.5), "min_size_to_sample is 1.5, but it must be a whole number"),
        (lambda: MinSize("a"), "min_size_to_sample is 'a', but it must be a whole number"),
        (lambda: SampleToInsertRatio(1, 1.5, 5), "min_size_to_sample is 1.5, but it must be a whole number"),
        (lambda: SampleToInsertRatio("a", 1, 5), "samples_per_insert must be a number, not 'a'"),
        (lambda: SampleToInsertRatio(1, 1, None), "error_buffer must be a number or a pair of numbers, not None"),
        (lambda: SampleToInsertRatio(1, 1, ("x", "y")), "min_diff of error_buffer must be a number, not 'x'"),
        (lambda: RateLimiter(np.complex64(1), 1, 0, 1), "samples_per_insert must be a number"),
        (lambda: RateLimiter(np.timedelta64(1), 1, 0, 1), "samples_per_insert must be a number"),
        (lambda: RateLimiter(1, 1.5, 0, 1), "min_size_to_sample is 1.5, but it must be a whole number"),
        (lambda: MinSize(True), "min_size_to_sample is True, but it must be a whole number"),
        (lambda: SampleToInsertRatio(1, True, 5), "min_size_to_sample is True, but it must be a whole number"),
        (lambda: RateLimiter(1, True, 0, 1), "min_size_to_sample is True, but it must be a whole number"),
        (lambda: RateLimiter("x", 1, 0, 1), "samples_per_insert must be a number, not 'x'"),
        (lambda: RateLimiter(1, 1, 0, None), "max_diff must be a number, not None"),
        (lambda: Queue("a"), "size must be a number, not 'a'"),
    ],
)
def test_types(make: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        make()


def test_a_possible_deadlock_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "relive"):
        SampleToInsertRatio(1, 10, (2, 5))
    assert "inserts will wait forever" in caplog.text


def test_a_sound_limiter_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "relive"):
        SampleToInsertRatio(1, 10, 5)
    assert not caplog.records


def test_a_number_beyond_the_floats_is_infinite() -> None:
    assert RateLimiter(1, 1, -(10**400), 10**400) == RateLimiter(1, 1, -math.inf, math.inf)
