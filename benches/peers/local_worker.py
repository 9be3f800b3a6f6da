"""One measurement of one buffer in this process: `local_worker.py JOB`, a JSON object; prints one line of JSON."""

from __future__ import annotations

import json
import os
import pathlib
import sys
import time
from collections.abc import Callable

import numpy as np

import buffers

# The number of bytes of the different steps that are added in turn; a single step would stay in the caches.
POOL_BYTES = 16 << 20
# The number of single steps that are timed together, since reading the clock would distort the time of a single step.
ADDS = 100
# In a mixed load, the number of steps that are added for each sampled batch.
ADDS_PER_BATCH = 32


class Job:
    """The filled buffer, and the operations on it."""

    def __init__(self, told: dict) -> None:
        self.nbytes, self.seconds, self.items = told["nbytes"], told["seconds"], told["items"]
        random = np.random.default_rng(1)
        self.block = buffers.block(self.nbytes)
        self.steps = random.random((self.block, self.nbytes // 4), dtype=np.float32)
        self.priorities = random.random((64, buffers.BATCH)) + 0.01
        self.before = resident_bytes()
        is_prioritized = told["sampler"] == "prioritized"
        self.buffer, self.settings = buffers.make(told["system"], self.nbytes, self.items, is_prioritized)

    def fill(self) -> None:
        for _ in range(-(-self.items // self.block)):
            self.buffer.add_many(self.steps)
        self.buffer.settle()

    def add(self) -> int:
        for index in range(ADDS):
            self.buffer.add_one(self.steps[index % self.block])
        return ADDS

    def add_many(self) -> int:
        self.buffer.add_many(self.steps)
        return self.block

    def sample(self) -> int:
        data = self.buffer.sample()
        if data.nbytes != buffers.BATCH * self.nbytes:
            raise SystemExit(f"a batch has {data.nbytes} bytes of {buffers.BATCH * self.nbytes}")
        return buffers.BATCH

    def update(self) -> int:
        self.buffer.sample_and_update(self.priorities[np.random.randint(64)])
        return buffers.BATCH

    def mixed(self) -> int:
        for index in range(ADDS_PER_BATCH):
            self.buffer.add_one(self.steps[index % self.block])
        return ADDS_PER_BATCH + self.sample()

    def run(self, act: Callable[[], int]) -> dict:
        """Calls `act`, which returns the number of handled items, for the duration of the job."""
        for _ in range(3):
            act()
        self.buffer.settle()
        took, items = [], 0
        cpu, start = time.process_time(), time.perf_counter()
        now = start
        while now - start < self.seconds:
            items += act()
            before, now = now, time.perf_counter()
            took.append(now - before)
        self.buffer.settle()
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
        p50, p99 = np.quantile(took, [0.5, 0.99])
        return {
            "items_per_s": items / wall, "gigabytes_per_s": items * self.nbytes / wall / 1e9,
            "cpu_us_per_item": cpu / items * 1e6, "p50_ms": p50 * 1e3, "p99_ms": p99 * 1e3,
        }


def resident_bytes() -> int:
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    told = json.loads(sys.argv[1])
    try:
        job = Job(told)
        result = measure(job, told["operation"])
    except buffers.Unsupported as missing:
        result = {"not_there": str(missing)}
    print(json.dumps(result), flush=True)
    # Threads of libraries may keep a finished process alive.
    os._exit(0)


def measure(job: Job, operation: str) -> dict:
    acts = {"add": job.add, "add-many": job.add_many, "sample": job.sample, "update": job.update, "mixed": job.mixed}
    if operation not in ("add", "add-many"):
        job.fill()
    result = job.run(acts[operation])
    result |= {"resident_bytes": resident_bytes() - job.before, "settings": job.settings}
    job.buffer.close()
    return result


if __name__ == "__main__":
    main()
