"""Draws from a store of trajectories, by weights and other rules."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
from gpu_stores import put, simple
from relive import errors, gpu

SAMPLINGS = ["uniform", "weighted", "stratified", "prioritized", "top_k", "fifo", "lifo", "without_replacement"]


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_the_same_seed_gives_the_same_batches(sampling: str) -> None:
    store = simple(capacity=50)
    for value in range(40):
        put(store, value, weight=value / 4)

    def drawn(seed: int, prefetch: int) -> list[Any]:
        loader = store.loader(16, {"x": gpu.Window()}, sampling=sampling, seed=seed, prefetch=prefetch)
        batches = [next(loader) for _ in range(4)]
        return [(batch.indices.tolist(), batch.steps.tolist(), batch.weights.tolist()) for batch in batches]

    assert drawn(3, 0) == drawn(3, 2)
    assert drawn(3, 0) != drawn(4, 0)
    assert 0 not in {index for batch in drawn(3, 0) for index in batch[0]}, "a weight of 0 is never drawn"


def test_selections_of_each_once() -> None:
    store = simple(capacity=10)
    for value in range(10):
        put(store, value, weight=[3, 9, 1, 7, 5, 2, 8, 6, 4, 10][value])

    def first(sampling: str) -> list[int]:
        return next(store.loader(3, {"x": gpu.Window()}, sampling=sampling)).indices.tolist()

    assert first("top_k") == [9, 1, 6]
    assert first("fifo") == [0, 1, 2]
    assert first("lifo") == [9, 8, 7]
    assert len(set(first("without_replacement"))) == 3


def test_prioritized_draws_have_importance_weights() -> None:
    store = simple(capacity=4)
    for weight in (1.0, 2.0, 4.0, 8.0):
        put(store, weight, weight)
    loader = store.loader(4096, {"x": gpu.Window()}, sampling=gpu.Prioritized(alpha=0.5, beta=0.7), prefetch=0)
    batch = next(loader)
    chances = np.array([1, 2, 4, 8]) ** 0.5
    chances /= chances.sum()
    np.testing.assert_allclose(np.bincount(batch.indices, minlength=4) / 4096, chances, atol=0.002)
    np.testing.assert_allclose(batch.probabilities, chances[batch.indices], rtol=1e-6)
    np.testing.assert_allclose(batch.weights, (chances.min() / chances[batch.indices]) ** 0.7, rtol=1e-5)
    loader.set_beta(0.0)
    assert (next(loader).weights == 1).all()
    with pytest.raises(errors.InvalidArgumentError, match="uniform"):
        store.loader(1, {"x": gpu.Window()}).set_beta(0.5)


def test_random_steps_are_uniform() -> None:
    store = simple(capacity=1, max_steps=8)
    store.insert({"x": np.arange(8, dtype=np.float32)})
    batch = next(store.loader(8000, {"x": gpu.Window()}))
    np.testing.assert_array_equal(batch.data["x"][:, 0], batch.steps)
    assert np.abs(np.bincount(batch.steps, minlength=8) - 1000).max() < 150
    assert (next(store.loader(10, {"x": gpu.Window()}, steps="last")).steps == 8).all()


def test_new_weights_apply_and_updates_of_old_generations_are_ignored() -> None:
    store = simple(capacity=2)
    first, second = put(store, 1), put(store, 2)
    loader = store.loader(64, {"x": gpu.Window()}, sampling="weighted", prefetch=0)
    assert set(next(loader).indices.tolist()) == {0, 1}
    assert store.update_weights([first.index], [0.0], [first.generation]) == (1, 0)
    assert set(next(loader).indices.tolist()) == {second.index}
    third = put(store, 3)
    assert third.index == first.index and third.generation > first.generation
    assert store.update_weights([first.index], [9.0], [first.generation]) == (0, 1), "it is another trajectory by now"
    assert store.status(third.index).weight == 1.0
    assert store.update_weights(third.index, 0.25) == (1, 0)
    assert store.weights().tolist() == [0.25, 1.0]
    assert store.metrics()["stale_updates"] == 1


def test_drawing_from_an_empty_store_is_an_error() -> None:
    with pytest.raises(errors.UnavailableError, match="insert more"):
        next(simple().loader(1, {"x": gpu.Window()}))


def test_batches_drawn_ahead_keep_their_trajectories() -> None:
    def drawn() -> list[list[int]]:
        store = simple(capacity=32)
        for value in range(32):
            put(store, value)
        loader = store.loader(4, {"x": gpu.Window()}, seed=3, prefetch=2)
        batches = []
        for value in range(40):
            batches.append(next(loader).indices.tolist())
            put(store, value)
        return batches

    # Which trajectory an insertion evicts does not depend on how fast batches are collected.
    assert drawn() == drawn() == drawn()


def test_the_batches_of_a_state_are_in_a_checkpoint_of_the_same_moment(tmp_path: pathlib.Path) -> None:
    store = simple(capacity=8)
    for value in range(8):
        put(store, value)
    loader = store.loader(2, {"x": gpu.Window()}, seed=3, prefetch=3)
    next(loader)
    for value in range(4):
        put(store, value)
    store.save(tmp_path)
    state = loader.state()
    expected = [next(loader).indices.tolist() for _ in range(5)]
    with gpu.Store.load(tmp_path) as again:
        other = again.loader(2, {"x": gpu.Window()}, seed=3, prefetch=3)
        other.restore(state)
        assert [next(other).indices.tolist() for _ in range(5)] == expected
