"""Ranks that are threads of one process, and their stores."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from relive import gpu

TRAJECTORIES = 12
WINDOWS = {"x": gpu.Window(-2, 3), "length": gpu.Window()}


class Threads(gpu.Group):
    """Communication between ranks in threads of this process."""

    def __init__(self, rank: int, board: list[bytes], barrier: threading.Barrier, **share: int) -> None:
        super().__init__(rank, len(board), **share)
        self._board, self._barrier = board, barrier

    def all_gather(self, told: bytes) -> Sequence[bytes]:
        self._board[self.rank] = told
        self._barrier.wait(30)
        answers = list(self._board)
        self._barrier.wait(30)
        return answers


def together(ranks: int, work: Callable[[gpu.Group], Any], replicas: int | None = None) -> list[Any]:
    """Returns the results of all ranks; raises the exception of a rank that fails."""
    board, barrier = [b""] * ranks, threading.Barrier(ranks)
    found: list[Any] = [None] * ranks
    raised: list[BaseException] = []

    def run(rank: int) -> None:
        share = {} if replicas is None else {"replica": rank * replicas // ranks, "replicas": replicas}
        try:
            found[rank] = work(Threads(rank, board, barrier, **share))
        except BaseException as error:
            barrier.abort()
            raised.append(error)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if raised:
        raise next((error for error in raised if not isinstance(error, threading.BrokenBarrierError)), raised[0])
    return found


def trajectory(number: int) -> dict[str, npt.NDArray[Any]]:
    length = 1 + number % 5
    return {"x": 100 * number + np.arange(length), "length": np.full(length, length)}


def filled(group: gpu.Group, **options: Any) -> gpu.Store:
    """Returns a store with this rank's share of twelve trajectories, with their indices as values."""
    each = TRAJECTORIES // group.ranks
    store = gpu.Store({"x": "int64", "length": "int64"}, capacity=each, max_steps=5, group=group, **options)
    for number in range(group.rank * each, (group.rank + 1) * each):
        inserted = store.insert(trajectory(number), weight=number % 4)
        assert inserted.index == number
    return store


def batches(group: gpu.Group, sampling: Any, size: int, count: int = 3) -> list[gpu.Batch]:
    with filled(group) as store:
        with store.loader(size // group.replicas, WINDOWS, sampling=sampling, seed=5, prefetch=1) as loader:
            return [next(loader) for _ in range(count)]


def whole(shares: list[gpu.Batch], field: str) -> npt.NDArray[Any]:
    """Reassembles the list; each replica has every n-th row."""
    return np.stack([getattr(share, field) for share in shares], axis=1).reshape(-1)
