"""torchrl's replay buffers, in memory and in a memory-mapped file."""

from __future__ import annotations

import numpy as np
import torch
from torchrl.data import LazyMemmapStorage, LazyTensorStorage, PrioritizedSampler, RandomSampler, ReplayBuffer

from buffers import BATCH, IMPORTANCE_EXPONENT, PRIORITY_EXPONENT, Base

SETTINGS = ("ReplayBuffer of plain tensors (faster than TensorDicts), LazyTensorStorage or LazyMemmapStorage, extend() for many; batches "
            "below 1 MB by one thread, which is faster, larger ones by as many as there are cores")
ONE_THREAD_BYTES = 1 << 20


class Buffer(Base):
    storage = LazyTensorStorage

    def __init__(self, nbytes: int, capacity: int, is_prioritized: bool) -> None:
        if BATCH * nbytes < ONE_THREAD_BYTES:
            torch.set_num_threads(1)
        if is_prioritized:
            sampler = PrioritizedSampler(capacity, alpha=PRIORITY_EXPONENT, beta=IMPORTANCE_EXPONENT)
        else:
            sampler = RandomSampler()
        self._buffer = ReplayBuffer(storage=self.storage(capacity), sampler=sampler, batch_size=BATCH)

    def add_many(self, steps: np.ndarray) -> None:
        self._buffer.extend(torch.from_numpy(steps))

    def add_one(self, step: np.ndarray) -> None:
        self._buffer.add(torch.from_numpy(step))

    def sample(self) -> np.ndarray:
        return self._buffer.sample().numpy()

    def sample_and_update(self, priorities: np.ndarray) -> None:
        _, info = self._buffer.sample(return_info=True)
        self._buffer.update_priority(info["index"], torch.from_numpy(priorities).float())


class MemmapBuffer(Buffer):
    storage = LazyMemmapStorage
