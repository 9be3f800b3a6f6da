"""Relive's server and client in one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import relive

from buffers import BATCH, block
from buffers.replay_server import TABLE, ReplayServer

SETTINGS = "localhost_client(), batches(); append_sequence() and create_window_items() for many; confirmed every 200 single steps"


class Buffer(ReplayServer):
    def __init__(self, nbytes: int, capacity: int, is_prioritized: bool) -> None:
        steps = block(nbytes)
        super().__init__(relive, capacity, is_prioritized, num_keep_alive_refs=steps)
        self._priorities, self._ends = np.ones(steps), np.arange(-steps, 0)

    def add_many(self, steps: np.ndarray) -> None:
        self._writer.append_sequence([steps])
        self._writer.create_window_items(TABLE, self._priorities, self._ends, length=1, squeeze=True)

    def sample_and_update(self, priorities: np.ndarray) -> None:
        self._client.update_priorities(TABLE, self._next().info.key, priorities)

    def _open(self) -> Any:
        return self._client.batches(TABLE, BATCH)


class OutBuffer(Buffer):
    """Batches are gathered into an array that the caller provides."""

    def __init__(self, nbytes: int, capacity: int, is_prioritized: bool) -> None:
        super().__init__(nbytes, capacity, is_prioritized)
        self._out = [np.empty((BATCH, nbytes // 4), np.float32)]

    def _open(self) -> Any:
        return self._client.batches(TABLE, BATCH, out=self._out)
