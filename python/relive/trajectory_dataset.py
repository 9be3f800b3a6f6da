"""Whole items of a table, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy.typing as npt

from relive import _datasets
from relive.replay_sample import ReplaySample, SampleInfo


class TrajectoryDataset(_datasets.SampleDataset):
    """Iterates over items: each item is a ``ReplaySample`` with the columns as data, in the structure of ``dtypes``.

    Columns have a leading dimension for the steps, unless the writer squeezed them.
    """

    _timesteps = False

    def _elements(
        self, info: SampleInfo, columns: list[npt.NDArray[Any]], check: _datasets.Check
    ) -> Iterator[ReplaySample]:
        check(columns)
        yield ReplaySample(info, self._pack(columns))
