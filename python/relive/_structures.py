"""The structure of the items of a table."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from relive import nest
from relive.replay_sample import ReplaySample, SampleInfo


@dataclasses.dataclass(frozen=True)
class Structure:
    """The structure in which the columns of items are returned."""

    nest: Any
    """A nest with a leaf for each column."""
    is_promised: bool
    """Whether the table's signature ensures this structure for all items. Otherwise, it was proposed by the first
    writer."""

    @functools.cached_property
    def _fill(self) -> tuple[int, Callable[[Sequence[Any]], Any]]:
        return nest.filler(self.nest)

    @property
    def num_leaves(self) -> int:
        """The number of columns of items with this structure."""
        return self._fill[0]

    def pack(self, columns: Sequence[Any]) -> Any:
        """Returns the columns in this structure, or as a list if their number differs because another writer used
        different names.

        Raises:
          ValueError: the number differs, although the signature ensures this structure.
        """
        wanted, fill = self._fill
        if len(columns) == wanted:
            return fill(columns)
        return nest.unflatten_as(self.nest, columns) if self.is_promised else list(columns)


def packed(structure: Structure | None, columns: list[Any]) -> Any:
    """Returns the columns in their structure, or as a list if the structure is unknown."""
    return columns if structure is None else structure.pack(columns)


def timesteps(info: SampleInfo, columns: list[Any], structure: Structure | None) -> list[ReplaySample]:
    """Returns one sample per step; all samples carry the same information."""
    shapes = [np.shape(column) for column in columns]
    lengths = {shape[:1] for shape in shapes}
    if len(lengths) != 1 or () in lengths:
        raise ValueError(
            f"the item cannot be split into timesteps, because its columns have the shapes {shapes}; "
            "sample it with emit_timesteps=False"
        )
    (steps,) = lengths.pop()
    # With the ellipsis, even a scalar is returned as an array.
    return [ReplaySample(info, packed(structure, [column[step, ...] for column in columns])) for step in range(steps)]
