"""What operators have changed about tables in use, as :meth:`relive.Client.change_table` and ``status`` tell it."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class LoggedChange:
    """Something that was changed about a table while it was in use."""

    at: float
    """When, in seconds since the epoch by the server's clock."""
    who: str
    """Who asked for it: a peer's address, or a process."""
    table: str
    """Name of the table."""
    what: str
    """A rule as it is called in configurations, or one of ``"inserts"``, ``"samples"``, ``"table"``, ``"items"``."""
    old: str
    """What it was before."""
    new: str
    """What it is since."""


@dataclasses.dataclass(frozen=True)
class Changed:
    """What a change of a table's rules did."""

    changes: tuple[LoggedChange, ...]
    """The rules that are other than before."""
    evicted: int
    """Items that left because of smaller bounds."""

    @classmethod
    def _from_native(cls, native: tuple[list[dict[str, Any]], int]) -> Changed:
        changes, evicted = native
        return cls(tuple(LoggedChange(**change) for change in changes), evicted)
