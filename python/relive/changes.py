"""Operators' changes to tables in use, as reported by :meth:`relive.Client.change_table` and ``status``."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relive.rate_limiters import RateLimiter


@dataclasses.dataclass(frozen=True)
class LoggedChange:
    """A change to a table in use."""

    at: float
    """The time of the change, in seconds since the epoch by the server's clock."""
    who: str
    """The peer's address, or the process, that requested the change."""
    table: str
    """The table's name."""
    what: str
    """The rule's name, as in configurations, or one of ``"inserts"``, ``"samples"``, ``"table"``, ``"items"``."""
    old: str
    """The value before the change."""
    new: str
    """The value after the change."""


@dataclasses.dataclass(frozen=True)
class Changed:
    """The effect of a change to a table's rules."""

    changes: tuple[LoggedChange, ...]
    """The changed rules."""
    evicted: int
    """The number of items that smaller bounds evicted."""

    @classmethod
    def _from_native(cls, native: tuple[list[dict[str, Any]], int]) -> Changed:
        changes, evicted = native
        return cls(tuple(LoggedChange(**change) for change in changes), evicted)


# The complete description of a change, in the form that the compiled half takes.
_NO_CHANGE: dict[str, Any] = dict.fromkeys((
    "max_size", "max_bytes", "max_times_sampled", "samples_per_insert", "min_size_to_sample", "min_diff", "max_diff",
    "pause_inserts", "pause_samples",
))


def _with_all_rules(change: dict[str, Any]) -> dict[str, Any]:
    """Returns the change, with ``None`` for each rule that keeps its value."""
    return {**_NO_CHANGE, **change}


def _limiter_rules(
    rate_limiter: RateLimiter | None,
    samples_per_insert: float | None,
    min_size_to_sample: int | None,
    min_diff: float | None,
    max_diff: float | None,
) -> dict[str, Any]:
    """Returns the bounds of ``rate_limiter``, if given; explicit bounds take precedence."""
    if rate_limiter is not None and not hasattr(rate_limiter, "min_size_to_sample"):
        raise TypeError(f"rate_limiter must be one of relive.rate_limiters, not {rate_limiter!r}")
    bounds = {
        "samples_per_insert": samples_per_insert,
        "min_size_to_sample": min_size_to_sample,
        "min_diff": min_diff,
        "max_diff": max_diff,
    }
    given = {name: bound for name, bound in bounds.items() if bound is not None}
    return given if rate_limiter is None else {name: getattr(rate_limiter, name) for name in bounds} | given
