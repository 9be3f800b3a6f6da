"""Tests saving and loading stores and loaders."""

from __future__ import annotations

import pathlib
import pickle
from typing import Any

import numpy as np
import pytest
from gpu_stores import put, simple, survivors
from relive import errors, gpu


@pytest.mark.parametrize("sampling", ["uniform", "prioritized", "without_replacement"])
@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_loader_resumes_bit_identically(sampling: str, prefetch: int, tmp_path: pathlib.Path) -> None:
    store = simple(capacity=30)
    for value in range(30):
        put(store, value, weight=1 + value, length=1 + value % 5)

    def train(store: gpu.Store, loader: gpu.Loader) -> list[Any]:
        seen = []
        for _ in range(5):
            batch = next(loader)
            seen.append([batch.data["x"].tobytes(), batch.indices.tolist(), batch.steps.tolist(), batch.weights.tolist()])
            store.update_weights(batch.indices, batch.steps + 0.5, batch.generations)
        return seen

    def loader_of(store: gpu.Store) -> gpu.Loader:
        return store.loader(8, {"x": gpu.Window(-1, 2)}, sampling=sampling, seed=5, prefetch=prefetch)

    first = loader_of(store)
    train(store, first)
    saved = store.save(tmp_path / "store")
    assert saved.trajectories == saved.written_trajectories == 30
    state = pickle.loads(pickle.dumps(first.state()))
    expected = train(store, first)
    again = gpu.Store.load(tmp_path / "store")
    other = loader_of(again)
    other.restore(state)
    assert train(again, other) == expected


def test_states_of_other_loaders_are_refused() -> None:
    store = simple()
    put(store, 1)
    loader = store.loader(2, {"x": gpu.Window()})
    next(loader)
    state = loader.state()
    with pytest.raises(errors.InvalidArgumentError, match="batch_size 2; this one has 3"):
        store.loader(3, {"x": gpu.Window()}).restore(state)
    with pytest.raises(errors.InvalidArgumentError, match="not the state"):
        loader.restore({})
    with pytest.raises(errors.DataLossError):
        loader.restore({**state, "selector": b"nothing"})
    weights = state["weights"]
    again = store.loader(2, {"x": gpu.Window()}, seed=5)
    expected = again.state()
    for damaged in (3, "x", [], {}, np.zeros(3), {**weights, "weights": [np.nan] * len(weights["weights"])}, {**weights, "indices": [0, 1]}):
        with pytest.raises(errors.InvalidArgumentError, match="the weights in the state"):
            again.restore({**state, "weights": damaged})
    with pytest.raises(errors.InvalidArgumentError, match="version"):
        again.restore({**state, "version": np.zeros(3)})
    assert again.state()["selector"] == expected["selector"], "the loader stays unchanged"
    empty = simple()
    with pytest.raises(errors.NotFoundError):
        empty.loader(2, {"x": gpu.Window()}).restore(state)


def test_a_damaged_checkpoint_is_detected(tmp_path: pathlib.Path) -> None:
    store = simple()
    put(store, 1)
    store.save(tmp_path)
    (rows,) = tmp_path.glob("*.data")
    damaged = bytearray(rows.read_bytes())
    damaged[-1] ^= 1
    rows.write_bytes(damaged)
    with pytest.raises(errors.DataLossError):
        gpu.Store.load(tmp_path)
    with pytest.raises(errors.NotFoundError):
        gpu.Store.load(tmp_path / "nothing")


def test_a_store_with_a_removal_function_is_loaded_with_one(tmp_path: pathlib.Path) -> None:
    store = simple(capacity=1, removal=lambda candidates: 0)
    put(store, 1)
    store.save(tmp_path)
    with pytest.raises(errors.InvalidArgumentError, match="callback"):
        gpu.Store.load(tmp_path)
    again = gpu.Store.load(tmp_path, removal=lambda candidates: 0, capacity=1)
    put(again, 2)
    assert survivors(again) == [2]
