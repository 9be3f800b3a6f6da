"""Measures the sum of an array over processes with relive.rl.AllReduce and with torch.distributed's gloo, alternating
in one run.

``python benches/learner/all_reduce.py [--ranks 2] [--megabytes 10] [--rounds 60]``. Prints the median and the tenth
percentile in milliseconds.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import socket
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from relive import rl
from torch import distributed


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def timed(array: np.ndarray, call: Callable[[], object]) -> float:
    array.fill(1.0)
    distributed.barrier()
    begun = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - begun)


def member(rank: int, ranks: int, ports: tuple[int, int], numbers: int, rounds: int) -> None:
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(ports[0]))
    distributed.init_process_group("gloo", rank=rank, world_size=ranks)
    array = np.ones(numbers, np.float32)
    tensor = torch.from_numpy(array)
    with rl.AllReduce(rank, ranks, f"127.0.0.1:{ports[1]}") as ring:
        calls: dict[str, Callable[[], object]] = {
            "torch gloo": lambda: distributed.all_reduce(tensor),
            "relive": lambda: ring.sum(array),
        }
        times: dict[str, list[float]] = {name: [] for name in calls}
        for number in range(rounds + 5):
            for name, call in calls.items():
                took = timed(array, call)
                assert array.min() == array.max() == ranks
                if number >= 5:
                    times[name].append(took)
        distributed.barrier()
    distributed.destroy_process_group()
    if rank == 0:
        medians = {name: statistics.median(of) for name, of in times.items()}
        for name, of in times.items():
            print(f"{name}: median {medians[name]:.2f} ms, 10 % below {sorted(of)[len(of) // 10]:.2f} ms")
        print(f"relive / torch gloo: {medians['relive'] / medians['torch gloo']:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--megabytes", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=60)
    given = parser.parse_args()
    ports = free_port(), free_port()
    processes = [
        multiprocessing.get_context("spawn").Process(
            target=member, args=(rank, given.ranks, ports, int(given.megabytes * 250_000), given.rounds)
        )
        for rank in range(given.ranks)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    raise SystemExit(any(process.exitcode for process in processes))


if __name__ == "__main__":
    main()
