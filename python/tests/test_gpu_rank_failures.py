"""Draws of several ranks of which one fails, lags behind or has nothing to draw."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np
import pytest
from gpu_ranks import WINDOWS, filled, together
from relive import errors, gpu


def test_a_failing_rank_is_reported_to_all() -> None:
    outcomes: list[str] = []

    def work(group: gpu.Group) -> None:
        with filled(group) as store:
            # Rank 1 has a weight that its loader does not allow.
            with store.loader(2, WINDOWS, sampling="weighted", max_weight=3.0) as loader:
                next(loader)
                if group.rank == 1:
                    store._native.update_weights([7], [100.0], None)
                with pytest.raises((errors.InvalidArgumentError, errors.UnavailableError)) as failed:
                    for _ in range(3):
                        next(loader)
                outcomes.append(str(failed.value))
                if group.rank == 1:
                    store._native.update_weights([7], [1.0], None)
                # All ranks continue from the same point.
                next(loader)

    together(2, work)
    assert any(text.startswith("rank 1 cannot continue: ") for text in outcomes), outcomes


def test_ranks_that_disagree_are_refused() -> None:
    with pytest.raises((errors.InvalidArgumentError, errors.UnavailableError), match="seed"):
        def seeds(group: gpu.Group) -> None:
            with filled(group) as store, store.loader(2, WINDOWS, seed=group.rank) as loader:
                next(loader)

        together(2, seeds)
    with pytest.raises(errors.InvalidArgumentError, match="this program expects 2 steps"):
        together(2, lambda group: gpu.Store({f"x{group.rank}": "int64"}, capacity=2, max_steps=2, group=group))
    with pytest.raises(errors.InvalidArgumentError, match="different names"):
        together(2, lambda group: filled(group, name=f"ranks-{os.getpid()}-{group.rank}"))


def test_trajectories_replaced_during_a_draw_are_drawn_again() -> None:
    """Each rank replaces its trajectories while the others read; the data of each row in a batch belongs together."""

    def work(group: gpu.Group) -> None:
        store = gpu.Store({"x": "int64"}, capacity=8, max_steps=3, group=group)
        for number in range(8):
            store.insert({"x": np.full(3, number)})
        stop = threading.Event()

        def insert() -> None:
            number = 8
            while not stop.is_set():
                store.insert({"x": np.full(3, number)}, timeout=5.0)
                number += 1

        thread = threading.Thread(target=insert)
        thread.start()
        try:
            with store.loader(4, {"x": gpu.Window(-2, 3)}, steps="last", prefetch=2) as loader:
                for _ in range(150):
                    rows = next(loader).data["x"]
                    assert (rows[:, 1:] == rows[:, 1:2]).all(), rows
                group.all_gather(b"")
        finally:
            stop.set()
            thread.join()

    together(2, work)


@pytest.mark.parametrize("sampling", ["fifo", "uniform"])
def test_ranks_return_the_batches_drawn_ahead_and_lose_no_trajectory_when_no_more_can_be_drawn(sampling: str) -> None:
    def work(group: gpu.Group) -> list[int]:
        with filled(group, removal=("max_times_sampled", 1)) as store, store.loader(2, WINDOWS, sampling=sampling, prefetch=1) as loader:
            # Nine trajectories have a weight, and each batch of both ranks takes four. Uniform draws of the third batch count
            # the ninth before the batch is complete.
            indices = [int(index) for _ in range(2) for index in next(loader).indices]
            for _ in range(2):
                with pytest.raises(errors.UnavailableError):
                    next(loader)
            store.update_weights([[0, 4], [8, 8]][group.rank], [1.0, 1.0])
            return indices + next(loader).indices.tolist()

    found = together(2, work)
    indices = [index for share in found for index in share]
    assert len(indices) == len(set(indices)) == 12


def test_a_batch_drawn_ahead_is_kept_if_one_rank_fails() -> None:
    def work(group: gpu.Group) -> bool:
        with filled(group) as store, store.loader(2, WINDOWS, sampling="fifo", prefetch=1) as loader:
            first = next(loader).indices.tolist()
            native = loader._native
            if group.rank == 0:
                loader._native = FailingOnce(native)  # type: ignore[assignment]
            with pytest.raises(errors.InvalidArgumentError if group.rank == 0 else errors.UnavailableError, match="mine"):
                next(loader)
            return next(loader).indices.tolist() == first

    assert together(2, work) == [True, True]


class FailingOnce:
    """A loader's extension whose next draw fails."""

    def __init__(self, native: Any) -> None:
        self._native, self._fails = native, True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)

    def part(self, summaries: list[bytes]) -> bytes:
        if self._fails:
            self._fails = False
            raise errors.InvalidArgumentError("mine")
        part: bytes = self._native.part(summaries)
        return part


class RemovedBetween:
    """A loader's extension, with the first trajectory of rank 0 removed between the two exchanges of the first round."""

    def __init__(self, native: Any, store: gpu.Store, rank: int) -> None:
        self._native, self._store, self._is_open = native, store, rank == 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._native, name)

    def part(self, summaries: list[bytes]) -> bytes:
        if self._is_open:
            self._is_open = False
            self._store.remove([0])
        part: bytes = self._native.part(summaries)
        return part


def test_a_repeated_list_counts_no_sample_that_is_not_delivered() -> None:
    def delivered(group: gpu.Group) -> tuple[list[int], list[int]]:
        with filled(group, removal=("max_times_sampled", 1)) as store, store.loader(2, WINDOWS, sampling="fifo", prefetch=0) as loader:
            loader._native = RemovedBetween(loader._native, store, group.rank)  # type: ignore[assignment]
            indices = [int(index) for _ in range(2) for index in next(loader).indices]
            first = group.rank * len(store._native.weights())
            return indices, [index for index in range(6 * group.rank, 6 * group.rank + 6) if store.status(index).sampled]

    found = together(2, delivered)
    indices = sorted(index for share, _ in found for index in share)
    assert len(indices) == 8 and 0 not in indices
    assert indices == sorted(index for _, sampled in found for index in sampled)
