"""Invalid input from users, saved states and other programs; a trajectory store must not accept it silently."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import time
from typing import Any

import numpy as np
import pytest
from relive import errors, gpu

WINDOWS = {"x": gpu.Window()}


def store_of(*weights: float, **options: Any) -> gpu.Store:
    """Returns a trajectory of one step for each weight."""
    store = gpu.Store({"x": "int64"}, capacity=len(weights), max_steps=1, **options)
    for number, weight in enumerate(weights):
        store.insert({"x": [number]}, weight=weight)
    return store


def shares(batch: gpu.Batch, count: int) -> list[float]:
    shares: list[float] = (np.bincount(batch.indices, minlength=count) / len(batch.indices)).tolist()
    return shares


@pytest.mark.parametrize("prefetch", [0, 1, 3])
@pytest.mark.parametrize("attached", [False, True])
def test_a_too_large_weight_is_reported_until_it_is_removed(prefetch: int, attached: bool) -> None:
    name = f"hostile-{os.getpid()}-{prefetch}-{attached}"
    with store_of(1, 1, 1, 1, name=name) as store, contextlib.ExitStack() as stack:
        source: gpu.Store | gpu.Reader = stack.enter_context(gpu.attach(name)) if attached else store
        loader = stack.enter_context(source.loader(400, WINDOWS, sampling="weighted", prefetch=prefetch))
        next(loader)
        store.update_weights([0, 1, 2, 3], [70_000.0, 0, 1, 0])
        for _ in range(4):
            with pytest.raises(errors.InvalidArgumentError, match="70000"):
                next(loader)
        store.update_weights([0], [0.0])
        for _ in range(prefetch):
            # This batch was drawn before the change.
            assert set(next(loader).indices.tolist()) == {0, 1, 2, 3}
        assert set(next(loader).indices.tolist()) == {2}


def test_prefetched_batches_are_returned_after_the_last_draw() -> None:
    store = store_of(1, 1)
    with store.loader(2, WINDOWS, prefetch=2) as loader:
        next(loader)
        store.update_weights([0, 1], [0, 0])
        next(loader)
        next(loader)
        with pytest.raises(errors.UnavailableError, match="have a weight above 0"):
            next(loader)


@pytest.mark.parametrize("alpha", [2.0, 3.0])
def test_draws_match_their_probabilities_or_are_refused(alpha: float) -> None:
    weights = np.array([0.01, 0.02, 0.05, 0.1])
    store = store_of(*weights)
    with store.loader(10_000, WINDOWS, sampling=gpu.Weighted(alpha)) as loader:
        with pytest.raises(errors.InvalidArgumentError, match="max_weight close to the largest expected weight"):
            next(loader)
    with store.loader(40_000, WINDOWS, sampling=gpu.Weighted(alpha), max_weight=0.1, seed=1) as loader:
        expected = weights**alpha / (weights**alpha).sum()
        np.testing.assert_allclose(shares(next(loader), 4), expected, atol=0.012)
    with pytest.raises(errors.InvalidArgumentError, match="give a lower max_weight"):
        store.loader(1, WINDOWS, sampling=gpu.Weighted(8.0))


def test_positive_weights_stay_positive() -> None:
    store = store_of(1, 1)
    assert store.update_weights([0, 1], [1e-50, 1e-30]).applied == 2
    assert (store.weights() > 0).all()
    store.insert({"x": [2]}, weight=1e-60)
    assert (store.weights() > 0).all()


def test_foreign_files_are_kept(tmp_path: pathlib.Path) -> None:
    name = f"hostile-file-{os.getpid()}"
    path = pathlib.Path("/dev/shm") / name
    path.write_bytes(b"\x07" * (1 << 16))
    try:
        with pytest.raises(errors.UnavailableError, match="is not a store"):
            gpu.Store({"x": "int64"}, capacity=1, max_steps=1, name=name)
        with pytest.raises(errors.DataLossError, match="is not a store"):
            gpu.attach(name)
        assert path.read_bytes() == b"\x07" * (1 << 16)
    finally:
        path.unlink()
    gpu.Store({"x": "int64"}, capacity=1, max_steps=1, name=name).close()


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ([float("nan")], "float64"),
        ([0.5], "float64"),
        ([1 << 63], "step 9223372036854775808, but steps must be from 0 to"),
        ([-1], "step -1, but steps must be from 0 to"),
        ([2], "step 2, but steps must be from 0 to"),
    ],
)
def test_invalid_steps_are_refused(steps: Any, text: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=text):
        store_of(1).collect([0], WINDOWS, steps=steps)


def test_states_that_are_damaged_are_refused() -> None:
    store = store_of(1, 1)
    options: dict[str, Any] = {"sampling": "prioritized", "prefetch": 1}
    with store.loader(2, WINDOWS, **options) as loader:
        next(loader)
        state = loader.state()
        pending = [np.asarray(part) for part in state["pending"][0]]

        def changed(part: int, value: Any) -> dict[str, Any]:
            return {**state, "pending": [[*pending[:part], value, *pending[part + 1 :]]]}

        for damaged in (
            *({key: value for key, value in state.items() if key != part} for part in ("settings", "seed", "beta", "selector", "pending", "weights")),
            *(changed(part, pending[part][:1]) for part in range(5)),
            changed(2, np.array([2, 2])),
            {**state, "settings": None},
            {**state, "seed": -1},
            {**state, "seed": "a"},
            {**state, "pending": None},
            {**state, "pending": [None]},
        ):
            with pytest.raises(errors.InvalidArgumentError, match="state"):
                loader.restore(damaged)
        expected = [next(loader).indices.tolist() for _ in range(3)]
    with store.loader(2, WINDOWS, **options) as again:
        again.restore(state)
        assert [next(again).indices.tolist() for _ in range(3)] == expected


@pytest.mark.parametrize("beta", [float("nan"), -3.0, 17.0])
def test_an_invalid_beta_is_refused(beta: float) -> None:
    store = store_of(1)
    with pytest.raises(errors.InvalidArgumentError, match=r"beta (of Prioritized )?is"):
        store.loader(1, WINDOWS, sampling=gpu.Prioritized(beta=beta))
    with store.loader(1, WINDOWS, sampling="prioritized", prefetch=0) as loader:
        with pytest.raises(errors.InvalidArgumentError, match=r"beta (of Prioritized )?is"):
            loader.set_beta(beta)
        next(loader)


def test_invalid_capacities_are_refused() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="max_selectable is 3; it must be 1 to 2"):
        gpu.Store({"x": "int64"}, capacity=2, max_steps=1, max_selectable=3)
    three = np.arange(3)
    data = {"observations": three, "actions": three, "rewards": np.ones(3), "terminals": np.ones(3, bool)}
    with pytest.raises(errors.InvalidArgumentError, match="capacity is 0"):
        gpu.Store.of_dataset(data, capacity=0)
    with pytest.raises(errors.InvalidArgumentError, match="max_steps is 0"):
        gpu.Store.of_dataset(data, max_steps=0)


def test_ctrl_c_in_a_removal_function_ends_the_wait_for_room() -> None:
    """Exceptions of user functions, and of signal handlers that run in them, are raised at once."""
    calls: list[int] = []

    def keep_all(candidates: gpu.Candidates) -> None:
        calls.append(len(candidates.indices))
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)

    store = gpu.Store({"x": "int64"}, capacity=1, max_steps=1, removal=keep_all)
    store.insert({"x": [1]})
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        store.insert({"x": [2]}, timeout=60.0)
    assert time.monotonic() - begin < 30.0
