"""Which trajectories are evicted from a full store."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_stores import put, simple, survivors
from relive import errors, gpu


@pytest.mark.parametrize(
    ("removal", "expected"),
    [("fifo", [1, 2, 3]), ("lifo", [0, 1, 3]), ("lowest_weight", [0, 2, 3]),
     (lambda candidates: int(candidates.weights.argmax()), [0, 1, 3])],
    ids=["fifo", "lifo", "lowest_weight", "function"],
)
def test_removal(removal: Any, expected: list[float]) -> None:
    store = simple(capacity=3, removal=removal)
    for value, weight in ((0, 2.0), (1, 1.0), (2, 3.0), (3, 0.5)):
        put(store, value, weight)
    assert survivors(store) == expected
    assert store.metrics()["evictions"]["no_free"] == 1


def test_random_removal_follows_its_seed() -> None:
    def left(seed: int) -> list[float]:
        store = simple(capacity=8, removal="random", seed=seed)
        for value in range(40):
            put(store, value)
        return survivors(store)

    assert left(1) == left(1) != left(2)


def test_trajectories_sampled_often_enough_are_removed() -> None:
    store = simple(capacity=8, removal=("max_times_sampled", 2))
    for value in range(8):
        put(store, value)
    loader = store.loader(4, {"x": gpu.Window()}, prefetch=0)
    counts = np.bincount(np.concatenate([next(loader).indices for _ in range(4)]), minlength=8)
    assert counts.tolist() == [2] * 8
    with pytest.raises(errors.UnavailableError, match="insert more"):
        next(loader)


def test_max_selectable_limits_the_trajectories() -> None:
    store = simple(capacity=4, max_selectable=2)
    for value in range(4):
        put(store, value)
    assert survivors(store) == [2, 3]


def test_a_removal_function_may_raise_or_keep_everything() -> None:
    def fails(candidates: gpu.Candidates) -> int:
        raise KeyError("mine")

    functions: list[tuple[Any, type[Exception]]] = [
        (fails, KeyError), (lambda _: 7, IndexError), (lambda _: -1, IndexError), (lambda _: 0.5, errors.InvalidArgumentError),
        (lambda _: None, errors.UnavailableError),
    ]
    for removal, error in functions:
        store = simple(capacity=1, removal=removal)
        put(store, 1)
        with pytest.raises(error):
            put(store, 2)
        assert survivors(store) == [1]


def test_removing() -> None:
    store = simple()
    one, two = put(store, 1), put(store, 2)
    assert store.remove([one.index], [one.generation]) == (1, 0)
    assert store.remove([one.index], [one.generation]) == (0, 1)
    assert (len(store), store.status(one.index).state, store.status(two.index).state) == (1, "free", "selectable")
    with pytest.raises(errors.NotFoundError, match="beyond"):
        store.status(4)
