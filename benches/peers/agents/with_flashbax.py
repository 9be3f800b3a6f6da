"""flashbax on the CPU, compiled, with donated state, as its documentation recommends."""

from __future__ import annotations

from typing import Any

import flashbax
import jax
import numpy as np

from agents import Base, NotApplicable
from agents.shape import Columns, Pool, Shape

SETTINGS = ("flat buffer, in which the next observation is the next step's, and which gives both steps whole; for sequences a trajectory buffer; "
            "64-bit integers are 32-bit ones; jax.jit with donated state, results waited for")
_NEXT = "next_observation"


class Store(Base):
    def __init__(self, shape: Shape, pool: Pool) -> None:
        super().__init__(shape, pool)
        if shape.has_episodes:
            raise NotApplicable("has no items of different lengths")
        self._key = jax.random.PRNGKey(1)
        self._is_flat = shape.length == 1
        one, many = self._make(shape, add_sequences=False), self._make(shape, add_sequences=True)
        self._state = many.init(self._kept(pool.step(0)))
        self._add_one = jax.jit(one.add, donate_argnums=0)
        self._add_many = jax.jit(many.add, donate_argnums=0)
        self._sample = jax.jit(many.sample)
        self._next_keys = jax.jit(lambda key: tuple(jax.random.split(key)))
        self._added = 0

    @staticmethod
    def _make(shape: Shape, add_sequences: bool) -> Any:
        if shape.length == 1:
            # One more step, because the last step has no next step.
            return flashbax.make_flat_buffer(shape.items + 1, 1, shape.batch, add_sequences=add_sequences)
        return flashbax.make_trajectory_buffer(
            add_batch_size=1, sample_batch_size=shape.batch, sample_sequence_length=shape.length, period=shape.period,
            min_length_time_axis=shape.length, max_length_time_axis=shape.capacity_steps())

    def _kept(self, columns: Columns) -> Columns:
        return {name: column for name, column in columns.items() if not (self._is_flat and name == _NEXT)}

    def add_one(self, number: int, is_last: bool) -> None:
        step = self._kept(self.pool.step(number))
        self._state = self._add_one(self._state, step if self._is_flat else {name: value[None, None] for name, value in step.items()})
        self._added += 1

    def add_many(self, number: int, count: int) -> None:
        steps = self._kept(self.pool.steps(number, count))
        self._state = self._add_many(self._state, steps if self._is_flat else {name: column[None] for name, column in steps.items()})
        self._added += count

    def settle(self) -> None:
        jax.block_until_ready(self._state)

    def sample(self) -> Any:
        self._key, key = self._next_keys(self._key)
        return jax.block_until_ready(self._sample(self._state, key).experience)

    def arrays(self, batch: Any) -> tuple[Columns, np.ndarray | None]:
        first = batch.first if self._is_flat else batch
        data = {name: np.asarray(column).astype(self.shape.columns[name][1]) for name, column in first.items()}
        return data | ({_NEXT: np.asarray(batch.second["observation"])} if self._is_flat else {}), None

    def items(self) -> int:
        shared = 1 if self._is_flat else self.shape.length - self.shape.period
        return min((self._added - shared) // self.shape.period, self.shape.items)
