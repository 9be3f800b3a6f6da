"""Extensions of a table: ``Table(..., extensions=[PriorityDiffusion(decay=0.9, before=4)])``.

Extensions run inside the server, as part of the operation that triggers them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from relive import _native
from relive._numbers import number, string, whole
from relive.tables import TableExtensionBase

__all__ = ["InsertOnFirstSample", "PriorityDiffusion", "TableExtensionBase"]

# Each insert and update changes up to this many priorities while the table is locked.
_MAX_NEIGHBORS = 1024


@dataclasses.dataclass(frozen=True)
class InsertOnFirstSample(TableExtensionBase):
    """Copies an item into another table of the server when the item is sampled for the first time.

    The copy has the same key, priority and data. If the other table's rate limiter blocks the copy for a minute, the
    server drops the copy and logs this.

    Args:
      target_table: the name of the other table.
    """

    target_table: str

    def __post_init__(self) -> None:
        if not string("target_table", self.target_table):
            raise ValueError("target_table must not be empty")

    def build_internal_extensions(self, table_name: str) -> Sequence[_native.TableExtension]:
        """Returns the extensions that the server runs."""
        return [_native.TableExtension.insert_on_first_sample(self.target_table)]


@dataclasses.dataclass(frozen=True)
class PriorityDiffusion(TableExtensionBase):
    """Raises the priorities of neighbors when an item is inserted or updated.

    The priority of the n-th neighbor becomes at least ``priority * decay**n``. Neighbors are the items of the same
    episode that start immediately before or after the item. If only preceding neighbors are used, this is prioritized
    sequence experience replay (Brittain et al. 2019, section 4), which also replays the steps that led to a surprise.

    Args:
      decay: the factor per neighbor, from 0 to 1.
      before: the number of neighbors before an item, at most 1024.
      after: the number of neighbors after an item, at most 1024.

    Raises:
      ValueError: a number that is out of range.
      TypeError: an argument that is not a number, or not a whole number.
    """

    decay: float
    before: int
    after: int = 0

    def __post_init__(self) -> None:
        if not 0 <= number("decay", self.decay) <= 1:
            raise ValueError(f"decay must be from 0 to 1, got {self.decay}")
        for name, value in (("before", self.before), ("after", self.after)):
            if not 0 <= whole(name, value) <= _MAX_NEIGHBORS:
                raise ValueError(f"{name} must be from 0 to {_MAX_NEIGHBORS}, got {value}")

    def build_internal_extensions(self, table_name: str) -> Sequence[_native.TableExtension]:
        """Returns the extensions that the server runs."""
        return [_native.TableExtension.priority_diffusion(self.decay, self.before, self.after)]
