"""Compares batches of windows of 20 steps of 5 columns with PyTorch and, if it is installed, torchrl, on the same data
in the same run.

    python benches/gpu/windows.py --trajectories 8192 --batch 512

Prints a table: milliseconds for a batch (median and best) and GB/s of the windows. Each contender uses one thread. The
draw is included, except that PyTorch's `index_select` gets precomputed positions.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from relive import gpu

STEPS, LENGTH, SECONDS = 20, 1000, 3.0
COLUMNS: dict[str, tuple[int, ...]] = {"observation": (17,), "action": (6,), "reward": (), "discount": (), "next_observation": (17,)}
BYTES_OF_STEP = 4 * sum(int(np.prod(shape)) for shape in COLUMNS.values())


def timed(work: Callable[[], object]) -> list[float]:
    """Returns the seconds of each run, after warm-up runs."""
    for _ in range(5):
        work()
    times = []
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return times


def relive(trajectories: int, batch: int) -> Iterator[tuple[str, Callable[[], object]]]:
    store = gpu.Store({name: ("float32", shape) for name, shape in COLUMNS.items()}, capacity=trajectories, max_steps=LENGTH)
    for _ in range(trajectories):
        store.insert({name: np.ones((LENGTH, *shape), np.float32) for name, shape in COLUMNS.items()})
    windows = {name: gpu.Window(1 - STEPS, STEPS) for name in COLUMNS}
    for framework in ("numpy", "torch"):
        loader = store.loader(batch, windows, sampling="weighted", threads=1, prefetch=0, framework=framework)  # type: ignore[arg-type]
        yield f"relive.gpu ({framework})", lambda loader=loader: next(loader)
    loader = store.loader(batch, windows, sampling="weighted", threads=1, prefetch=2)
    yield "relive.gpu (numpy, prefetch 2)", lambda: next(loader)


def pytorch(trajectories: int, batch: int) -> Iterator[tuple[str, Callable[[], object]]]:
    data = {name: torch.ones((trajectories * LENGTH, *shape)) for name, shape in COLUMNS.items()}
    rng = np.random.default_rng(1)

    def select() -> object:
        first = rng.integers(0, trajectories, batch) * LENGTH + rng.integers(0, LENGTH - STEPS, batch)
        positions = torch.from_numpy((first[:, None] + np.arange(STEPS)).reshape(-1))
        return {name: column.index_select(0, positions).view(batch, STEPS, *column.shape[1:]) for name, column in data.items()}

    yield "torch index_select", select
    if importlib.util.find_spec("torchrl") is None:
        return
    from tensordict import TensorDict
    from torchrl.data import LazyTensorStorage, SliceSampler, TensorDictReplayBuffer

    rows = trajectories * LENGTH
    sampler = SliceSampler(num_slices=batch, traj_key="trajectory", cache_values=True, strict_length=True)
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(rows), sampler=sampler, batch_size=batch * STEPS)
    numbers = torch.arange(trajectories).repeat_interleave(LENGTH)
    buffer.extend(TensorDict({**data, "trajectory": numbers}, batch_size=[rows]))
    yield "torchrl SliceSampler", buffer.sample


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trajectories", type=int, default=8192)
    parser.add_argument("--batch", type=int, default=512)
    options = parser.parse_args()
    torch.set_num_threads(1)
    size = options.batch * STEPS * BYTES_OF_STEP
    print(f"{options.trajectories} trajectories of {LENGTH} steps of {BYTES_OF_STEP} bytes, {size / 1e6:.2f} MB a batch")
    for source in (relive, pytorch):
        cases: Any = source(options.trajectories, options.batch)
        for name, work in cases:
            times = timed(work)
            middle = statistics.median(times)
            print(f"{name:32} {middle * 1e3:8.2f} ms, best {min(times) * 1e3:7.2f} ms, {size / middle / 1e9:6.2f} GB/s")


if __name__ == "__main__":
    main()
