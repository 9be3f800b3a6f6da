"""Which trajectories are evicted from a full store."""

from __future__ import annotations

import concurrent.futures
import threading
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


def test_a_closed_loader_keeps_no_trajectory() -> None:
    for _ in range(300):
        with simple(capacity=4) as store:
            for value in range(4):
                put(store, value)
            with store.loader(4, {"x": gpu.Window()}, sampling="fifo", prefetch=3) as loader:
                next(loader)
            assert store.remove([0]).applied == 1


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


def test_a_removal_function_that_raises_keeps_the_new_trajectory_out() -> None:
    def fails(candidates: gpu.Candidates) -> int:
        raise KeyError("mine")

    store = simple(capacity=4, max_selectable=1, removal=fails)
    put(store, 1)
    with pytest.raises(KeyError, match="mine"):
        put(store, 2)
    assert survivors(store) == [1]


def test_a_removal_function_raises_only_in_the_thread_that_called_it() -> None:
    raised = threading.Event()
    owner = threading.get_ident()

    def choose(candidates: gpu.Candidates) -> int:
        if threading.get_ident() == owner:
            return 0
        raised.set()
        raise KeyError("mine")

    store = simple(capacity=1, removal=choose)
    put(store, 1)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        # After its function has raised, the call waits a little longer for room.
        failing = pool.submit(store.insert, {"x": np.zeros(1, np.float32)}, timeout=30.0)
        assert raised.wait(30.0)
        put(store, 2)
        with pytest.raises(KeyError, match="mine"):
            failing.result(60.0)
    assert survivors(store) == [2]


def test_reading_all_steps_uses_up_no_samples() -> None:
    store = simple(removal=("max_times_sampled", 1))
    for value in range(3):
        put(store, value)
    for _ in range(2):
        assert store.all_steps()["x"].tolist() == [0] * 3 + [1] * 3 + [2] * 3
    assert [store.status(index).sampled for index in range(3)] == [0] * 3 and sum(store.metrics()["ages"]) == 0
    loader = store.loader(3, {"x": gpu.Window()}, sampling="fifo", prefetch=0)
    assert next(loader).indices.tolist() == [0, 1, 2]


def test_a_removal_function_may_not_scan_its_store() -> None:
    store = simple(capacity=1, removal=lambda candidates: store.scan() and 0)
    put(store, 1)
    writer = store.writer()
    with pytest.raises(errors.DeadlineExceededError):
        writer.begin(timeout=0.0)
    with pytest.raises(errors.InvalidArgumentError, match="a removal function cannot scan the store that calls it"):
        store.scan()


def test_a_removal_function_runs_while_another_thread_observes() -> None:
    choosing, observed = threading.Event(), threading.Event()

    def choose(candidates: gpu.Candidates) -> int:
        choosing.set()
        # The other thread observes in this time, for which it needs neither the interpreter nor this function.
        assert observed.wait(30.0)
        return 0

    store = simple(capacity=2, removal=choose)
    asking = store.writer()
    with pytest.raises(errors.DeadlineExceededError):
        asking.begin(timeout=0.0)
    store.scan()
    asking.begin()
    with pytest.raises(errors.DeadlineExceededError):
        asking.ask("x", timeout=0.0)
    (request,) = store.scan().requests
    put(store, 1)
    waiting = store.writer()
    with pytest.raises(errors.DeadlineExceededError):
        waiting.begin(timeout=0.0)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        scanning = pool.submit(store.scan)
        assert choosing.wait(30.0)
        store.observe([request], "x")
        observed.set()
        assert scanning.result(60.0).starved == 0
    waiting.begin()


def test_requests_survive_a_removal_function_that_raises() -> None:
    def fails(candidates: gpu.Candidates) -> int:
        raise KeyError("mine")

    store = simple(capacity=2, removal=fails)
    asking, waiting = store.writer(), store.writer()
    with pytest.raises(errors.DeadlineExceededError):
        asking.begin(timeout=0.0)
    store.scan()
    asking.begin()
    put(store, 1)
    for wait in (lambda: asking.ask("x", timeout=0.0), lambda: waiting.begin(timeout=0.0)):
        with pytest.raises(errors.DeadlineExceededError):
            wait()
    with pytest.raises(KeyError, match="mine"):
        store.scan()
    waiting.close()
    (request,) = store.scan().requests
    store.answer([request], {"x": [7.0]})
    assert asking.wait() == 7.0


@pytest.mark.parametrize("sampling", ["fifo", "lifo", "top_k", "uniform", "weighted", "without_replacement"])
def test_each_sample_that_counts_is_delivered(sampling: Any) -> None:
    store = simple(capacity=32, removal=("max_times_sampled", 4))
    for value in range(32):
        put(store, value, weight=1.0 + value % 3)
    loader = store.loader(4, {"x": gpu.Window()}, sampling=sampling, prefetch=2)
    delivered = np.zeros(32, np.int64)
    with pytest.raises(errors.UnavailableError):
        while True:
            delivered += np.bincount(next(loader).indices, minlength=32)
    assert [store.status(index).sampled for index in range(32)] == delivered.tolist()
    # Batches without replacement end when fewer than four trajectories are left.
    assert delivered.sum() > 100 and (sampling == "without_replacement" or set(delivered) == {4})
