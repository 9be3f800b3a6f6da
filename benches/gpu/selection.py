"""Compares selection with NumPy, PyTorch and, if they are installed, the sum trees of torchrl and cpprb, on the same
numbers in the same run.

    cargo build --release -p relive-gpu --example select
    python benches/gpu/selection.py target/release/examples/select --indices 10000000 --count 32768

Prints a table: milliseconds (the best of the runs in 1.5 s) and millions of indices per second. Peers draw with
replacement from f32 or f64 cumulative sums, which they recompute after every update; an update itself only stores
values in an array.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

SECONDS = 1.5
Row = dict[str, Any]


def best(work: Callable[[], object]) -> float:
    """Returns the shortest time of the runs within the time limit."""
    least = float("inf")
    begin = time.perf_counter()
    while time.perf_counter() - begin < SECONDS:
        start = time.perf_counter()
        work()
        least = min(least, time.perf_counter() - start)
    return least


class Peers:
    """The same weights and changes for all contenders."""

    def __init__(self, indices: int, count: int) -> None:
        rng = np.random.default_rng(1)
        self.indices, self.count = indices, count
        self.weights = rng.integers(0, 256, indices).astype(np.float32) / 64 + 0.1
        self.changed = rng.integers(0, indices, count)
        self.values = rng.random(count, dtype=np.float32)
        self.rng = rng

    def row(self, who: str, what: str, work: Callable[[], object]) -> Row:
        seconds = best(work)
        return {"who": who, "what": what, "ms": seconds * 1e3, "millions_per_s": self.count / seconds / 1e6}

    def numpy(self) -> Iterator[Row]:
        weights, count = self.weights, self.count
        sums = np.cumsum(weights, dtype=np.float64)

        def draw() -> object:
            return np.searchsorted(sums, np.sort(self.rng.random(count)) * sums[-1])

        def race() -> object:
            return np.argpartition(self.rng.standard_exponential(self.indices, dtype=np.float32) / weights, count)

        yield self.row("numpy", "Weighted: searchsorted, sums made before", draw)
        yield self.row("numpy", "Weighted: cumsum and searchsorted", lambda: (np.cumsum(weights, dtype=np.float64), draw()))
        yield self.row("numpy", "TopK: argpartition", lambda: np.argpartition(weights, self.indices - count))
        yield self.row("numpy", "WithoutReplacement: exponential and argpartition", race)
        yield self.row("numpy", "update: a store, no sums", lambda: weights.__setitem__(self.changed, self.values))

    def torch(self) -> Iterator[Row]:
        weights, count = torch.from_numpy(self.weights.copy()), self.count
        sums = weights.double().cumsum(0)

        def draw() -> object:
            return torch.searchsorted(sums, (torch.rand(count, dtype=torch.float64) * sums[-1]).sort().values)

        yield self.row("torch", "Weighted: searchsorted, sums made before", draw)
        yield self.row("torch", "Weighted: cumsum and searchsorted", lambda: (weights.double().cumsum(0), draw()))
        if self.indices <= 1 << 24:
            drawn = lambda: torch.multinomial(weights, count, replacement=True)  # noqa: E731
            yield self.row("torch", "Weighted: multinomial with replacement", drawn)
            once = lambda: torch.multinomial(weights, count)  # noqa: E731
            yield self.row("torch", "WithoutReplacement: multinomial", once)
        yield self.row("torch", "TopK: topk", lambda: weights.topk(count))

    def torchrl(self) -> Iterator[Row]:
        tree = importlib.import_module("torchrl._torchrl").SumSegmentTreeFp32(self.indices)
        every = torch.arange(self.indices)
        tree[every] = torch.from_numpy(self.weights.copy())
        changed, values = torch.from_numpy(self.changed), torch.from_numpy(self.values)
        total = float(tree.query(0, self.indices))
        draw = lambda: tree.scan_lower_bound(torch.rand(self.count) * total)  # noqa: E731
        yield self.row("torchrl", "Weighted: sum tree of f32", draw)
        yield self.row("torchrl", "update: sum tree of f32", lambda: tree.__setitem__(changed, values))

    def cpprb(self) -> Iterator[Row]:
        buffer = importlib.import_module("cpprb").PrioritizedReplayBuffer(self.indices, {"x": {"dtype": np.uint8}}, alpha=1.0)
        buffer.add(x=np.zeros(self.indices, dtype=np.uint8), priorities=self.weights)
        yield self.row("cpprb", "Prioritized: sum tree, with its batch", lambda: buffer.sample(self.count))
        yield self.row("cpprb", "update: sum tree", lambda: buffer.update_priorities(self.changed, self.values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("example", help="the example `select` of relive-gpu, built with --release")
    parser.add_argument("--indices", type=int, default=10_000_000)
    parser.add_argument("--count", type=int, default=32_768)
    options = parser.parse_args()
    command = [options.example, str(options.indices), str(options.count)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows: list[Row] = [json.loads(line) for line in output.splitlines()]
    peers = Peers(options.indices, options.count)
    rows += [*peers.numpy(), *peers.torch()]
    for name in ("torchrl", "cpprb"):
        if importlib.util.find_spec(name) is None:
            print(f"{name} is not installed, and not measured")
        else:
            rows += getattr(peers, name)()
    print(f"{options.count:,} of {options.indices:,} indices, {torch.get_num_threads()} threads")
    for row in rows:
        print(f"{row['who']:8} {row['what']:58} {row['ms']:10.3f} ms {row['millions_per_s']:9.2f} M/s")


if __name__ == "__main__":
    main()
