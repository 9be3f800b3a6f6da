"""cpprb."""

from __future__ import annotations

import cpprb
import numpy as np

from buffers import BATCH, IMPORTANCE_EXPONENT, PRIORITY_EXPONENT, Base

SETTINGS = "ReplayBuffer / PrioritizedReplayBuffer, one float32 column, add() of one step and of many"


class Buffer(Base):
    def __init__(self, nbytes: int, capacity: int, is_prioritized: bool) -> None:
        columns = {"step": {"shape": nbytes // 4, "dtype": np.float32}}
        if is_prioritized:
            self._buffer = cpprb.PrioritizedReplayBuffer(capacity, columns, alpha=PRIORITY_EXPONENT)
        else:
            self._buffer = cpprb.ReplayBuffer(capacity, columns)

    def add_many(self, steps: np.ndarray) -> None:
        self._buffer.add(step=steps)

    def add_one(self, step: np.ndarray) -> None:
        self._buffer.add(step=step)

    def sample(self) -> np.ndarray:
        return self._buffer.sample(BATCH)["step"]

    def sample_and_update(self, priorities: np.ndarray) -> None:
        batch = self._buffer.sample(BATCH, beta=IMPORTANCE_EXPONENT)
        self._buffer.update_priorities(batch["indexes"], priorities)
