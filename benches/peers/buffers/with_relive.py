"""Relive's server and client in one process."""

from __future__ import annotations

import inspect

import numpy as np
import relive

from buffers import BATCH, PRIORITY_EXPONENT, Base, Unsupported, block

SETTINGS = "localhost_client(), batches(); append_sequence() and create_window_items() for many; confirmed every 200 single steps"

TABLE = "t"
FLUSH_EVERY = 200


class Buffer(Base):
    def __init__(self, nbytes: int, capacity: int, is_prioritized: bool) -> None:
        sampler = relive.selectors.Prioritized(PRIORITY_EXPONENT) if is_prioritized else relive.selectors.Uniform()
        self._server = relive.Server([relive.Table(
            name=TABLE, sampler=sampler, remover=relive.selectors.Fifo(), max_size=capacity,
            rate_limiter=relive.rate_limiters.MinSize(1))])
        self._client = self._server.localhost_client()
        self._block = block(nbytes)
        self._writer = self._client.trajectory_writer(num_keep_alive_refs=self._block)
        self._priorities, self._ends = np.ones(self._block), np.arange(-self._block, 0)
        self._added = 0
        self._batches = None

    def add_many(self, steps: np.ndarray) -> None:
        self._writer.append_sequence([steps])
        self._writer.create_window_items(TABLE, self._priorities, self._ends, length=1, squeeze=True)

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

    def sample_and_update(self, priorities: np.ndarray) -> None:
        self._client.update_priorities(TABLE, self._next().info.key, priorities)

    def _next(self):
        if self._batches is None:
            self._batches = self._open()
        return next(self._batches)

    def _open(self):
        return self._client.batches(TABLE, BATCH)

    def close(self) -> None:
        self._writer.close()
        self._server.stop()



class OutBuffer(Buffer):
    """Batches are gathered into an array of the caller."""

    def __init__(self, nbytes: int, capacity: int, is_prioritized: bool) -> None:
        if "out" not in inspect.signature(relive.Client.batches).parameters:
            raise Unsupported("this build's Client.batches has no argument out")
        super().__init__(nbytes, capacity, is_prioritized)
        self._out = [np.empty((BATCH, nbytes // 4), np.float32)]

    def _open(self):
        return self._client.batches(TABLE, BATCH, out=self._out)
