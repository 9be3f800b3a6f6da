"""flashbax on the CPU, compiled, with donated state, as its documentation recommends."""

from __future__ import annotations

import flashbax
import jax
import numpy as np

from buffers import BATCH, PRIORITY_EXPONENT, Base, block

SETTINGS = "item buffer; with priorities a prioritized trajectory buffer of length 1; jax.jit with donated state, results waited for"


class Buffer(Base):
    def __init__(self, nbytes: int, capacity: int, is_prioritized: bool) -> None:
        self._key = jax.random.PRNGKey(1)
        self._is_prioritized = is_prioritized
        self._block = block(nbytes)
        step = np.zeros(nbytes // 4, np.float32)
        one, many = (self._make(capacity, is_batch, is_prioritized) for is_batch in (False, True))
        self._state = many.init(step)
        self._add_many = jax.jit(many.add, donate_argnums=0)
        self._add_one = jax.jit(one.add, donate_argnums=0)
        self._sample = jax.jit(many.sample)
        self._next_keys = jax.jit(lambda key: tuple(jax.random.split(key)))
        if is_prioritized:
            self._set_priorities = jax.jit(many.set_priorities, donate_argnums=0)

    @staticmethod
    def _make(capacity: int, is_batch: bool, is_prioritized: bool):
        if is_prioritized:
            # Blocks of steps are added along the time axis; a single step is a block of one.
            return flashbax.make_prioritised_trajectory_buffer(
                add_batch_size=1, sample_batch_size=BATCH, sample_sequence_length=1, period=1, min_length_time_axis=1,
                max_length_time_axis=capacity, priority_exponent=PRIORITY_EXPONENT)
        return flashbax.make_item_buffer(capacity, 1, BATCH, add_batches=is_batch)

    def add_many(self, steps: np.ndarray) -> None:
        self._state = self._add_many(self._state, steps[None] if self._is_prioritized else steps)

    def add_one(self, step: np.ndarray) -> None:
        self._state = self._add_one(self._state, step[None, None] if self._is_prioritized else step)

    def settle(self) -> None:
        jax.block_until_ready(self._state)

    def sample(self) -> np.ndarray:
        return np.asarray(self._draw().experience)

    def sample_and_update(self, priorities: np.ndarray) -> None:
        batch = self._draw()
        jax.block_until_ready(batch.experience)
        self._state = self._set_priorities(self._state, batch.indices, priorities)
        self.settle()

    def _draw(self):
        self._key, key = self._next_keys(self._key)
        return self._sample(self._state, key)
