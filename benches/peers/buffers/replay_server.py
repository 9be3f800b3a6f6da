"""A server, its client and a writer in one process, for packages with dm-reverb's names."""

from __future__ import annotations

import abc
from types import ModuleType
from typing import Any

import numpy as np

from buffers import PRIORITY_EXPONENT, Base

TABLE = "t"
FLUSH_EVERY = 200
"""The number of single steps between two waits for their confirmation."""


class ReplayServer(Base):
    def __init__(self, package: ModuleType, capacity: int, is_prioritized: bool, num_keep_alive_refs: int) -> None:
        selectors = package.selectors
        sampler = selectors.Prioritized(PRIORITY_EXPONENT) if is_prioritized else selectors.Uniform()
        self._server = package.Server([package.Table(
            name=TABLE, sampler=sampler, remover=selectors.Fifo(), max_size=capacity,
            rate_limiter=package.rate_limiters.MinSize(1))])
        self._client = self._server.localhost_client()
        self._writer = self._client.trajectory_writer(num_keep_alive_refs=num_keep_alive_refs)
        self._added = 0
        self._batches = None

    def add_one(self, step: np.ndarray) -> None:
        writer = self._writer
        writer.append([step])
        writer.create_item(TABLE, 1.0, [writer.history[0][-1]])
        self._added += 1
        if self._added % FLUSH_EVERY == 0:
            writer.flush()

    def settle(self) -> None:
        self._writer.flush()

    def sample(self) -> np.ndarray:
        return self._next().data[0]

    def _next(self) -> Any:
        if self._batches is None:
            self._batches = self._open()
        return next(self._batches)

    @abc.abstractmethod
    def _open(self) -> Any:
        """Returns the iterator of batches, which is created once there is something to sample."""

    def close(self) -> None:
        self._writer.close()
        self._server.stop()
