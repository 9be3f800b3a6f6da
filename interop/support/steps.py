"""Shorthands for calls of the dm-reverb client."""

from __future__ import annotations

import numpy as np
import reverb

from . import wait


def write(client: reverb.Client, table: str, *values: float, priority=None) -> None:
    """Inserts one item of one scalar step per value, in this order, and waits for confirmation; by default, the
    priority is the value."""
    with client.trajectory_writer(num_keep_alive_refs=1) as writer:
        for value in values:
            writer.append([np.float64(value)])
            writer.create_item(table, value if priority is None else priority, [writer.history[0][-1:]])


def samples(client: reverb.Client, table: str, count: int = 1) -> list[reverb.ReplaySample]:
    """Returns `count` samples. Raises AssertionError if they do not arrive."""
    call = wait.Background(lambda: list(client.sample(table, num_samples=count, emit_timesteps=False)))
    return call.result()


def values(client: reverb.Client, table: str, count: int = 1) -> list[float]:
    """Returns the last step of the first column of each sample."""
    return [float(sample.data[0][-1]) for sample in samples(client, table, count)]


def keys_by_value(client: reverb.Client, table: str, count: int) -> dict[float, int]:
    """Returns the key of the item with each value."""
    return {float(sample.data[0][-1]): sample.info.key for sample in samples(client, table, count)}


def dataset(client: reverb.Client, table: str, timeout_ms: int = 200, in_flight: int = 1, **options):
    """Returns an iterator over scalar float64 items that ends if none arrives for `timeout_ms`."""
    import tensorflow as tf

    return reverb.TrajectoryDataset(
        client.server_address, table, dtypes=[tf.float64], shapes=[tf.TensorShape([None])],
        max_in_flight_samples_per_worker=in_flight, rate_limiter_timeout_ms=timeout_ms, **options,
    ).as_numpy_iterator()


def drained(client: reverb.Client, table: str, timeout_ms: int = 200) -> list[float]:
    """Samples the table until it returns no more items, and returns their values."""
    return [float(sample.data[0][-1]) for sample in dataset(client, table, timeout_ms)]
