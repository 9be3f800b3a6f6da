"""Tests saving and loading stores and loaders."""

from __future__ import annotations

import pathlib
import pickle
from typing import Any

import numpy as np
import pytest
from gpu_stores import put, simple, survivors
from relive import errors, gpu
from relive.gpu import _kept_weights


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


def test_a_state_has_the_rows_of_an_unfinished_batch(tmp_path: pathlib.Path) -> None:
    store = simple(capacity=12, removal=("max_times_sampled", 1))
    for value in range(3):
        put(store, value)

    def loader_of(store: gpu.Store) -> gpu.Loader:
        return store.loader(4, {"x": gpu.Window()}, seed=3, prefetch=0)

    first = loader_of(store)
    with pytest.raises(errors.UnavailableError):
        next(first)
    state = pickle.loads(pickle.dumps(first.state()))
    store.save(tmp_path)
    again = gpu.Store.load(tmp_path)
    second = loader_of(again)
    second.restore(state)
    assert pickle.dumps(second.state()["unfinished"]) == pickle.dumps(state["unfinished"])
    first.restore(state)
    for store, loader in ((store, first), (again, second)):
        for value in range(4):
            put(store, 10 + value)
        batch = next(loader)
        assert sorted(batch.indices[:3].tolist()) == [0, 1, 2] and batch.indices[3] > 2
        assert batch.generations.tolist() == [1] * 4
    for damaged in ("x", [np.zeros(1)] * 4, [np.zeros(8, np.int64)] * 5):
        with pytest.raises(errors.InvalidArgumentError):
            second.restore({**state, "unfinished": damaged})
    with pytest.raises(errors.NotFoundError):
        loader_of(simple(removal=("max_times_sampled", 1))).restore(state)


def test_states_without_unfinished_batches_are_accepted() -> None:
    store = simple()
    put(store, 1)
    loader = store.loader(1, {"x": gpu.Window()})
    state = loader.state()
    assert state["unfinished"] is None
    del state["unfinished"]
    loader.restore({**state, "version": 3})


class ChangedBetween:
    """A store's extension whose trajectory is replaced right after the weights were read."""

    def __init__(self, store: gpu.Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store._native, name)

    def __len__(self) -> int:
        return len(self._store)

    def weights(self) -> Any:
        weights = self._store.weights()
        put(self._store, 2, weight=7.0)
        return weights


def test_a_state_has_weights_of_the_trajectories_in_it() -> None:
    store = simple(capacity=1)
    put(store, 1, weight=3.0)
    kept = _kept_weights.of_store(ChangedBetween(store))  # type: ignore[arg-type]
    assert {name: values.tolist() for name, values in kept.items()} == {"indices": [0], "generations": [2], "weights": [7.0]}


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


def test_a_state_has_beta_and_max_weight() -> None:
    store = simple(capacity=20)
    for value in range(20):
        put(store, value, weight=0.01 + value)

    def loader(beta: float = 0.4, max_weight: float = 32.0) -> gpu.Loader:
        return store.loader(8, {"x": gpu.Window()}, sampling=gpu.Prioritized(beta=beta), max_weight=max_weight, seed=3, prefetch=1)

    first = loader()
    first.set_beta(0.9)
    next(first)
    state = pickle.loads(pickle.dumps(first.state()))
    expected = [next(first).weights.tolist() for _ in range(3)]
    for beta in (0.4, 0.0):
        again = loader(beta)
        again.restore(state)
        assert [next(again).weights.tolist() for _ in range(3)] == expected
        assert again.state()["beta"] == 0.9
    with pytest.raises(errors.InvalidArgumentError, match="a loader with max_weight 32.0; this one has 64.0"):
        loader(max_weight=64.0).restore(state)
    with pytest.raises(errors.InvalidArgumentError, match="beta of the state is nan"):
        first.restore({**state, "beta": float("nan")})


def test_a_refused_state_changes_nothing() -> None:
    large, small = simple(capacity=8), simple(capacity=4)
    for value in range(8):
        put(large, value)
        put(small, value)
    other = large.loader(2, {"x": gpu.Window()}, seed=5, prefetch=0)
    next(other)
    loader, twin = (small.loader(2, {"x": gpu.Window()}, seed=9, prefetch=0) for _ in range(2))
    with pytest.raises(errors.NotFoundError, match="the state has trajectory 4, but this store has the indices 0 to 3"):
        loader.restore(other.state())
    weights = other.state()["weights"]
    for change in ({"weights": weights["weights"].astype(float) * 1e300}, {"generations": -weights["generations"]}):
        with pytest.raises(errors.InvalidArgumentError, match="the weights in the state are damaged"):
            loader.restore({**other.state(), "weights": {**weights, **change}})
    assert [next(loader).indices.tolist() for _ in range(3)] == [next(twin).indices.tolist() for _ in range(3)]


def test_a_trajectory_that_is_being_written_is_not_part_of_a_state(caplog: pytest.LogCaptureFixture) -> None:
    with simple() as store, store.writer() as writer:
        put(store, 1)
        put(store, 2, weight=0.0)
        with pytest.raises(errors.DeadlineExceededError):
            writer.begin(timeout=0.0)
        store.scan()
        writer.begin(timeout=0.0)
        assert store.status(2).state == "writing"
        with store.loader(1, {"x": gpu.Window()}) as loader:
            next(loader)
            state = loader.state()
            assert state["weights"]["indices"].tolist() == [0, 1]
            loader.restore(state)
            assert not caplog.records
            writer.append({"x": 1})
            writer.finish()
            store.scan()
            loader.restore(state)
            assert "it has 1 others" in caplog.text


def test_a_loaded_store_has_the_given_number_of_writers(tmp_path: pathlib.Path) -> None:
    simple(writers=2).save(tmp_path)
    with gpu.Store.load(tmp_path, writers=66) as store:
        writers = [store.writer() for _ in range(66)]
        with pytest.raises(errors.UnavailableError, match="all 66 writer slots"):
            store.writer()
        for writer in writers:
            writer.close()
