"""The steps of a table's items, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy.typing as npt

from relive import _datasets, errors
from relive.replay_sample import ReplaySample, SampleInfo


class TimestepDataset(_datasets.SampleDataset):
    """Iterates over the steps of items. Each step is a ``ReplaySample`` with the information about its item.

    The steps of an item are consecutive; all columns of an item must have the same number of steps.
    """

    _timesteps = True

    def _elements(
        self, info: SampleInfo, columns: list[npt.NDArray[Any]], check: _datasets.Check
    ) -> Iterator[ReplaySample]:
        lengths = {len(column) for column in columns}
        if len(lengths) != 1:
            raise errors.InvalidArgumentError(
                f"an item of table {self._table!r} cannot be split into steps, because its columns have "
                f"{[len(column) for column in columns]} of them; use a TrajectoryDataset"
            )
        for step in range(lengths.pop()):
            # With the ellipsis, even a scalar is returned as an array.
            row = [column[step, ...] for column in columns]
            check(row)
            yield ReplaySample(info, self._pack(row))
