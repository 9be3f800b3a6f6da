"""`relive.ReplayBuffer`."""

from __future__ import annotations

from typing import Any

import relive

from agents import Base, NotApplicable
from agents.shape import Pool, Shape

SETTINGS = "add() for one, add_batch() for many, sample()"


class Store(Base):
    def __init__(self, shape: Shape, pool: Pool) -> None:
        super().__init__(shape, pool)
        if shape.length > 1 or shape.has_episodes:
            raise NotApplicable("keeps transitions only")
        self._buffer = relive.ReplayBuffer(shape.items, batch_size=shape.batch)

    def add_one(self, number: int, is_last: bool) -> None:
        self._buffer.add(self.pool.step(number))

    def add_many(self, number: int, count: int) -> None:
        self._buffer.add_batch(self.pool.steps(number, count))

    def settle(self) -> None:
        # Reading the length waits until all transitions are stored.
        len(self._buffer)

    def sample(self) -> Any:
        return self._buffer.sample()

    def items(self) -> int:
        return len(self._buffer)

    def close(self) -> None:
        self._buffer.close()
