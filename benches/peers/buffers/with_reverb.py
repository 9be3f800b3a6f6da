"""dm-reverb's server and client in one process."""

from __future__ import annotations

import numpy as np
import reverb
import tensorflow as tf

from buffers import BATCH, PRIORITY_EXPONENT, Base

SETTINGS = ("localhost_client(); TrajectoryDataset(...).batch(256).prefetch(2).as_numpy_iterator(); it has no call for many steps; "
            "confirmed every 200 steps")

TABLE = "t"
FLUSH_EVERY = 200


class Buffer(Base):
    def __init__(self, nbytes: int, capacity: int, is_prioritized: bool) -> None:
        sampler = reverb.selectors.Prioritized(PRIORITY_EXPONENT) if is_prioritized else reverb.selectors.Uniform()
        self._server = reverb.Server([reverb.Table(
            name=TABLE, sampler=sampler, remover=reverb.selectors.Fifo(), max_size=capacity,
            rate_limiter=reverb.rate_limiters.MinSize(1))])
        self._client = self._server.localhost_client()
        self._shape = [nbytes // 4]
        self._writer = self._client.trajectory_writer(num_keep_alive_refs=1)
        self._added = 0
        self._batches = None

    def add_many(self, steps: np.ndarray) -> None:
        for step in steps:
            self.add_one(step)

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
        keys = self._next().info.key
        self._client.mutate_priorities(TABLE, updates=dict(zip(keys.tolist(), priorities.tolist())))

    def _next(self):
        if self._batches is None:
            dataset = reverb.TrajectoryDataset(
                f"localhost:{self._server.port}", TABLE, dtypes=[tf.float32], shapes=[tf.TensorShape(self._shape)],
                max_in_flight_samples_per_worker=2 * BATCH)
            self._batches = dataset.batch(BATCH, drop_remainder=True).prefetch(2).as_numpy_iterator()
        return next(self._batches)

    def close(self) -> None:
        self._writer.close()
        self._server.stop()
