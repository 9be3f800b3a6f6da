"""What the items of a table look like."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

from relive import nest


@dataclasses.dataclass(frozen=True)
class Structure:
    """The structure that the columns of items are given back in."""

    nest: Any
    """A nest with a leaf for each column."""
    is_promised: bool
    """Whether all items have it, by the table's signature. Otherwise it is the one that the first writer named."""

    @functools.cached_property
    def _fill(self) -> tuple[int, Callable[[Sequence[Any]], Any]]:
        return nest.filler(self.nest)

    @property
    def num_leaves(self) -> int:
        """How many columns items have that are like this."""
        return self._fill[0]

    def pack(self, columns: Sequence[Any]) -> Any:
        """The columns in this structure; as a list if they are another number, by a writer that named them otherwise.

        Raises ``ValueError`` if the items were promised to have this structure.
        """
        wanted, fill = self._fill
        if len(columns) == wanted:
            return fill(columns)
        return nest.unflatten_as(self.nest, columns) if self.is_promised else list(columns)


def packed(structure: Structure | None, columns: list[Any]) -> Any:
    """The columns in their structure; the list of them if that is not known."""
    return columns if structure is None else structure.pack(columns)
