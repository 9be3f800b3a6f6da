"""A table for items of trajectory writers, and its data."""

from __future__ import annotations

import collections
from collections.abc import Callable

import numpy as np
from conftest import PATIENCE_S, uniform_table

import relive

Connect = Callable[..., relive.Client]
Serve = Callable[..., relive.Server]

Step = collections.namedtuple("Step", ["observation", "reward"])


def fifo_table(**rules: object) -> relive.Table:
    return uniform_table(sampler=relive.selectors.Fifo(), max_times_sampled=1, **rules)


def data_of(client: relive.Client, count: int = 1) -> list[list[np.ndarray]]:
    samples = client.sample("table", count, emit_timesteps=False, timeout=PATIENCE_S)
    return [list(sample.data) for sample in samples]
