"""Changes that operators made to tables in use, as reported by :meth:`relive.Client.change_table` and ``status``."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class LoggedChange:
    """A change that was made to a table while it was in use."""

    at: float
    """The time of the change, in seconds since the epoch by the server's clock."""
    who: str
    """The peer's address, or the process, that requested the change."""
    table: str
    """The table's name."""
    what: str
    """The rule's name in configurations, or one of ``"inserts"``, ``"samples"``, ``"table"``, ``"items"``."""
    old: str
    """The value before the change."""
    new: str
    """The value after the change."""


@dataclasses.dataclass(frozen=True)
class Changed:
    """The effect of a change to a table's rules."""

    changes: tuple[LoggedChange, ...]
    """The rules whose values changed."""
    evicted: int
    """The number of items that smaller bounds evicted."""

    @classmethod
    def _from_native(cls, native: tuple[list[dict[str, Any]], int]) -> Changed:
        changes, evicted = native
        return cls(tuple(LoggedChange(**change) for change in changes), evicted)
