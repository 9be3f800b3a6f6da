"""Rings in numpy arrays. One has an array per column, which is the minimum work of a replay buffer; the other has all
bytes of an item in one row, which is an upper bound on the speed of a buffer."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents import Base, NotApplicable
from agents.shape import LONGEST, POOL, PREPARED, Columns, Pool, Shape

SETTINGS = ("a ring for each column, column[indices]; with out= np.take(..., out=, mode='clip'); memcpy: a row of all bytes for each item "
            "(episodes: their bytes one after the other), gathered into memory that is used again")


class Ring(Base):
    """A structure of arrays. Sequences and episodes are windows of the steps, so that no step is stored twice."""

    def __init__(self, shape: Shape, pool: Pool) -> None:
        super().__init__(shape, pool)
        # Whole periods, so that sequences begin at the same positions in every pass.
        self._capacity = -(-shape.capacity_steps() // shape.period) * shape.period
        self._columns = {name: np.zeros((self._capacity, *of_step), dtype) for name, (of_step, dtype) in shape.columns.items()}
        self._random = np.random.default_rng(1)
        self._added = self._episodes = 0
        if shape.has_episodes:
            self._lengths = shape.episode_lengths()
            self._starts = np.cumsum(self._lengths) - self._lengths

    def add_one(self, number: int, is_last: bool) -> None:
        place = number % self._capacity
        for name, value in self.pool.step(number).items():
            self._columns[name][place] = value
        self._added += 1
        self._episodes += is_last

    def add_many(self, number: int, count: int) -> None:
        place = number % self._capacity
        ahead = min(count, self._capacity - place)
        for name, values in self.pool.steps(number, count).items():
            self._columns[name][place:place + ahead] = values[:ahead]
            self._columns[name][:count - ahead] = values[ahead:]
        self._added += count
        self._episodes += 1

    def items(self) -> int:
        if self.shape.has_episodes:
            return min(self._episodes, self.shape.items)
        first, end = self._windows()
        return end - first

    def _windows(self) -> tuple[int, int]:
        """Returns the first completely stored item, and one past the last, in periods."""
        oldest = max(0, self._added - self._capacity)
        return -(-oldest // self.shape.period), max(0, self._added - self.shape.length) // self.shape.period + 1

    def sample(self) -> Any:
        batch, length = self.shape.batch, self.shape.length
        if self.shape.has_episodes:
            return self._padded(self._random.integers(0, self.items(), batch))
        if length == 1:
            return self._gather(self._random.integers(0, min(self._added, self._capacity), batch)), None
        first = self._random.integers(*self._windows(), batch) * self.shape.period
        return self._gather((first[:, None] + np.arange(length)) % self._capacity), None

    def _gather(self, picked: np.ndarray) -> Columns:
        return {name: column[picked] for name, column in self._columns.items()}

    def _padded(self, episodes: np.ndarray) -> tuple[Columns, np.ndarray]:
        lengths = self._lengths[episodes]
        steps = np.arange(lengths.max())
        is_padding = steps >= lengths[:, None]
        data = self._gather(np.minimum(self._starts[episodes][:, None] + steps, self._capacity - 1))
        for column in data.values():
            column[is_padding] = 0
        return data, lengths

    def arrays(self, batch: Any) -> tuple[Columns, np.ndarray | None]:
        return batch


class OutRing(Ring):
    """Batches are gathered into the same arrays each time."""

    def __init__(self, shape: Shape, pool: Pool) -> None:
        super().__init__(shape, pool)
        if shape.has_episodes:
            raise NotApplicable("has no array for batches of another length each time")
        steps = (shape.length,) if shape.length > 1 else ()
        self._out = {name: np.empty((shape.batch, *steps, *of_step), dtype) for name, (of_step, dtype) in shape.columns.items()}

    def _gather(self, picked: np.ndarray) -> Columns:
        for name, column in self._columns.items():
            np.take(column, picked, axis=0, out=self._out[name], mode="clip")
        return self._out


class Rows(Base):
    """All bytes of an item in one row; the rows of the pool's items are built before the timed part. For episodes, a
    row is a step."""

    def __init__(self, shape: Shape, pool: Pool) -> None:
        super().__init__(shape, pool)
        steps = (shape.length,) if shape.length > 1 else ()
        self._dtype = np.dtype([(name, dtype, (*steps, *of_step)) for name, (of_step, dtype) in shape.columns.items()])
        pooled = pool.windows(shape.period, POOL + PREPARED) if steps else pool.steps(0, POOL + LONGEST)
        self._pooled = self._joined(pooled)
        self._ring = np.zeros((shape.capacity_steps() if shape.has_episodes else shape.items, self._dtype.itemsize), np.uint8)
        self._random = np.random.default_rng(1)
        self._added = self._episodes = 0
        self._lengths = shape.episode_lengths() if shape.has_episodes else np.ones(shape.batch, int)
        self._starts = np.cumsum(self._lengths) - self._lengths
        self._out = np.zeros((shape.batch * (LONGEST if shape.has_episodes else 1), self._dtype.itemsize), np.uint8)

    def _joined(self, columns: Columns) -> np.ndarray:
        rows = np.zeros(len(columns["reward"]), self._dtype)
        for name, column in columns.items():
            rows[name] = column
        return rows.view(np.uint8).reshape(len(rows), -1)

    def add_one(self, number: int, is_last: bool) -> None:
        self._add(number, 1)
        self._episodes += is_last

    def add_many(self, number: int, count: int) -> None:
        self._add(number, count)
        self._episodes += 1

    def _add(self, number: int, count: int) -> None:
        period, capacity = self.shape.period, len(self._ring)
        shared = self.shape.length // period
        # The numbers of the items that end with these steps.
        begin = max(0, number // period + 1 - shared)
        rows = (number + count) // period - shared + 1 - begin
        if rows <= 0:
            return
        source, place = begin % (POOL // period), begin % capacity
        ahead = min(rows, capacity - place)
        self._ring[place:place + ahead] = self._pooled[source:source + ahead]
        self._ring[:rows - ahead] = self._pooled[source + ahead:source + rows]
        self._added += rows

    def items(self) -> int:
        return min(self._episodes, self.shape.items) if self.shape.has_episodes else min(self._added, self.shape.items)

    def sample(self) -> Any:
        picked = self._random.integers(0, self.items(), self.shape.batch)
        if not self.shape.has_episodes:
            return np.take(self._ring, picked, axis=0, out=self._out, mode="clip"), None
        at = 0
        for start, length in zip(self._starts[picked].tolist(), self._lengths[picked].tolist()):
            self._out[at:at + length] = self._ring[start:start + length]
            at += length
        return self._out, self._lengths[picked]

    def arrays(self, batch: Any) -> tuple[Columns, np.ndarray | None]:
        rows, lengths = batch
        rows = rows.view(self._dtype)[:, 0]
        if lengths is not None:
            padded = np.zeros((len(lengths), lengths.max()), self._dtype)
            padded[np.arange(lengths.max()) < lengths[:, None]] = rows[:lengths.sum()]
            rows = padded
        return {name: rows[name] for name in self.shape.columns}, lengths
