"""Relive's server and client: in one process, and a server in a separate process over shared memory and TCP."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import relive

from agents import Base
from agents.shape import PREPARED, Columns, Pool, Shape
from servers import started

SETTINGS = ("trajectory_writer(), append() and create_item() for one step, append_sequence() and create_window_items() for many "
            "(episodes: create_item()), flushed at the end; batches(), episodes with pad=True")
_TABLE = "t"
_SERVER = Path(__file__).parent.parent / "relive_server.py"


class InProcess(Base):
    def __init__(self, shape: Shape, pool: Pool) -> None:
        super().__init__(shape, pool)
        self._closing = contextlib.ExitStack()
        self._client = self._connect()
        # Items of several steps can contain steps from both ways of adding, so one writer must perform both.
        if shape.has_episodes:
            self._one = self._many = self._writer(int(shape.episode_lengths().max()))
        elif shape.length > 1:
            self._one = self._many = self._writer(PREPARED + shape.length)
        else:
            self._one, self._many = self._writer(1), self._writer(PREPARED)
        self._batches: Any = None
        self._episode_steps = 0

    def _connect(self) -> relive.Client:
        table = relive.Table(_TABLE, relive.selectors.Uniform(), relive.selectors.Fifo(), self.shape.items, relive.rate_limiters.MinSize(1))
        server = relive.Server([table], listen=False)
        self._closing.callback(server.stop)
        return server.localhost_client()

    def _writer(self, steps: int) -> relive.TrajectoryWriter:
        return self._closing.enter_context(self._client.trajectory_writer(num_keep_alive_refs=steps))

    def add_one(self, number: int, is_last: bool) -> None:
        writer, shape = self._one, self.shape
        writer.append(self.pool.step(number))
        if shape.has_episodes:
            self._episode_steps += 1
            if is_last:
                self._create(self._episode_steps)
                self._episode_steps = 0
        elif shape.length == 1:
            writer.create_item(_TABLE, 1.0, {name: column[-1] for name, column in writer.history.items()})
        elif number + 1 >= shape.length and (number + 1) % shape.period == 0:
            self._create(shape.length)

    def _create(self, steps: int) -> None:
        self._one.create_item(_TABLE, 1.0, {name: column[-steps:] for name, column in self._one.history.items()})

    def add_many(self, number: int, count: int) -> None:
        writer, shape = self._many, self.shape
        writer.append_sequence(self.pool.steps(number, count))
        if shape.has_episodes:
            return self._create(count)
        ends = range(-count + shape.period - 1, 0, shape.period)
        # The first items end once there are enough steps.
        ends = [end for end in ends if number + count + end + 1 >= shape.length]
        writer.create_window_items(_TABLE, np.ones(len(ends)), ends, length=shape.length, squeeze=shape.length == 1)

    def settle(self) -> None:
        self._one.flush()
        self._many.flush()

    def sample(self) -> Any:
        if self._batches is None:
            self._batches = self._client.batches(_TABLE, self.shape.batch, pad=self.shape.has_episodes)
        return next(self._batches)

    def arrays(self, batch: Any) -> tuple[Columns, np.ndarray | None]:
        return batch.data, batch.lengths and batch.lengths["reward"]

    def items(self) -> int:
        return self._client.server_info()[_TABLE].current_size

    def close(self) -> None:
        if self._batches is not None:
            self._batches.close()
        self._closing.close()


class Served(InProcess):
    transport: str

    def _connect(self) -> relive.Client:
        server = self._closing.enter_context(started([sys.executable, str(_SERVER), str(self.shape.items)]))
        return relive.Client(server.address, transport=self.transport)


class SharedMemory(Served):
    transport = "shm"


class Tcp(Served):
    transport = "tcp"
