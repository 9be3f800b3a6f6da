"""What can be added to a table: ``Table(..., extensions=[PriorityDiffusion(decay=0.9, before=4)])``.

Extensions run inside of the server, as part of the operation that they follow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from relive import _native
from relive.server import TableExtensionBase

__all__ = ["InsertOnFirstSample", "PriorityDiffusion", "TableExtensionBase"]

# Each insert and update changes so many priorities while the table is locked.
_MAX_NEIGHBOURS = 1024


@dataclasses.dataclass(frozen=True)
class InsertOnFirstSample(TableExtensionBase):
    """Copies an item into another table of the server when it is sampled for the first time.

    The copy has the same key, priority and data. It is dropped, with a line in the server's log, if the other table's
    rate limiter does not let it in within a minute.

    Args:
      target_table: the name of the other table.
    """

    target_table: str

    def __post_init__(self) -> None:
        if not self.target_table:
            raise ValueError("target_table must not be empty")

    def build_internal_extensions(self, table_name: str) -> Sequence[_native.TableExtension]:
        """What the server runs."""
        return [_native.TableExtension.insert_on_first_sample(self.target_table)]


@dataclasses.dataclass(frozen=True)
class PriorityDiffusion(TableExtensionBase):
    """Raises the priorities of neighbours when an item is inserted or updated.

    That of the n-th neighbour becomes at least ``priority * decay**n``. Neighbours are the items of the same episode
    that begin next before or after in time. With neighbours before only, this is prioritized sequence experience replay
    (Brittain et al. 2019, section 4): the steps that led to a surprise are worth another look.

    Args:
      decay: from 0 to 1.
      before: how many neighbours before an item, at most 1024.
      after: how many after it, at most 1024.

    Raises:
      ValueError: a number out of range.
    """

    decay: float
    before: int
    after: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.decay <= 1:
            raise ValueError(f"decay must be from 0 to 1, but it is {self.decay}")
        for name, value in (("before", self.before), ("after", self.after)):
            if not 0 <= value <= _MAX_NEIGHBOURS:
                raise ValueError(f"{name} must be from 0 to {_MAX_NEIGHBOURS}, but it is {value}")

    def build_internal_extensions(self, table_name: str) -> Sequence[_native.TableExtension]:
        """What the server runs."""
        return [_native.TableExtension.priority_diffusion(self.decay, self.before, self.after)]
