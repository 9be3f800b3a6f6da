"""A ring in one numpy array: the minimum work of a replay buffer."""

from __future__ import annotations

import numpy as np

from buffers import BATCH, Base, Unsupported

SETTINGS = "np.take(..., out=, mode='clip') at uniform random indices"


class Buffer(Base):
    def __init__(self, nbytes: int, capacity: int, is_prioritized: bool) -> None:
        if is_prioritized:
            raise Unsupported("has no priorities")
        self._steps = np.empty((capacity, nbytes // 4), np.float32)
        self._out = np.empty((BATCH, nbytes // 4), np.float32)
        self._random = np.random.default_rng(1)
        self._added = 0

    def add_many(self, steps: np.ndarray) -> None:
        capacity = len(self._steps)
        begin = self._added % capacity
        ahead = min(len(steps), capacity - begin)
        self._steps[begin:begin + ahead] = steps[:ahead]
        self._steps[:len(steps) - ahead] = steps[ahead:]
        self._added += len(steps)

    def add_one(self, step: np.ndarray) -> None:
        self._steps[self._added % len(self._steps)] = step
        self._added += 1

    def sample(self) -> np.ndarray:
        size = min(self._added, len(self._steps))
        return np.take(self._steps, self._random.integers(0, size, BATCH), axis=0, out=self._out, mode="clip")
