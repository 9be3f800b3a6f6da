"""One contender with items of one shape, in this process: `shapes_worker.py JOB`, a JSON object; prints one line of
JSON."""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Callable

import agents
from agents.shape import SHAPES, Pool

# The time limit for filling the table by single steps; after that, the rest is filled with prepared blocks.
GROW_SECONDS = 10.0
# Number of warm-up calls before the timed part.
WARM_ACTS = 3
CHECKED_BATCHES = 4
# The minimum share of distinct items in a batch; it shows that the batch was drawn from the whole table.
DIFFERENT = 1 / 8
# The maximum number of characters of an error that are reported.
TEXT = 300


class Job:
    """The contender, and the added steps in order."""

    def __init__(self, told: dict) -> None:
        self.shape, self.seconds = SHAPES[told["shape"]], told["seconds"]
        self.pool = Pool(self.shape)
        self.store, self.settings = agents.make(told["contender"], self.shape, self.pool)
        self._blocks = itertools.cycle(self.shape.blocks())
        self.added = 0

    def add_one(self) -> int:
        first, count = self.added, next(self._blocks)
        end = first + count
        for number in range(first, end):
            self.store.add_one(number, number + 1 == end)
        self.added = end
        return count

    def add_many(self) -> int:
        count = next(self._blocks)
        self.store.add_many(self.added, count)
        self.added += count
        return count

    def sample(self) -> int:
        self.store.sample()
        return self.shape.batch

    def grow(self) -> float:
        """Returns the single steps per second while the table grows; the table is full afterwards."""
        steps, start = self.shape.capacity_steps(), time.perf_counter()
        while self.added < steps and time.perf_counter() - start < GROW_SECONDS:
            self.add_one()
        self.store.settle()
        rate = self.added / (time.perf_counter() - start)
        # One more step, for contenders that create an item only with the following step.
        self.fill(steps + 1)
        return rate

    def fill(self, until: int) -> None:
        while self.added < until:
            self.add_many()
        self.store.settle()

    def rate(self, act: Callable[[], int]) -> float:
        """Returns the items per second that `act` handles, according to its return values."""
        for _ in range(WARM_ACTS):
            act()
        self.store.settle()
        handled, start = 0, time.perf_counter()
        while time.perf_counter() - start < self.seconds:
            handled += act()
        self.store.settle()
        return handled / (time.perf_counter() - start)

    def check(self) -> None:
        """Checks that the table is full, and that its batches match the added data."""
        items = self.store.items()
        assert items == self.shape.items, f"{items} items, not {self.shape.items}"
        for _ in range(CHECKED_BATCHES):
            different = self.pool.check(*self.store.arrays(self.store.sample()))
            assert different >= self.shape.batch * DIFFERENT, f"only {different} different items in a batch"


def measure(job: Job) -> dict:
    figures = {"grow": job.grow()}
    job.check()
    figures |= {"add": job.rate(job.add_one), "sample": job.rate(job.sample), "add_many": job.rate(job.add_many)}
    # Steps that were added one at a time are evicted.
    job.fill(job.added + job.shape.capacity_steps())
    figures["sample_prepared"] = job.rate(job.sample)
    job.check()
    job.store.close()
    return figures | {"bytes_per_item": job.shape.item_bytes(), "settings": job.settings}


def main() -> None:
    try:
        result = measure(Job(json.loads(sys.argv[1])))
    except agents.NotApplicable as missing:
        result = {"not_applicable": str(missing)}
    except AssertionError as wrong:
        result = {"failed": f"gave something else than it was given: {' '.join(str(wrong).split())[:TEXT]}"}
    print(json.dumps(result), flush=True)
    # Threads of libraries may keep a finished process alive.
    os._exit(0)


if __name__ == "__main__":
    main()
