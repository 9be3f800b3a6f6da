"""Stores of trajectories as data sets of PyTorch."""

from __future__ import annotations

import os
import pickle
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import relive.torch
import torch
from relive import errors, gpu
from relive.torch import StoreDataset
from torch.utils.data import DataLoader

WINDOWS = {"x": gpu.Window(-2, 3)}
NAME = f"torch-{os.getpid()}"


@pytest.fixture
def store() -> Iterator[gpu.Store]:
    with gpu.Store({"x": "float32"}, capacity=20, max_steps=5, name=NAME) as store:
        for number in range(20):
            store.insert({"x": np.full(5, number, np.float32)})
        yield store


def indices(batches: Any) -> list[list[int]]:
    return [np.asarray(batch.indices).tolist() for batch in batches]


@pytest.mark.parametrize("by_name", [False, True])
def test_a_loader_of_pytorch_has_the_batches_of_the_store(store: gpu.Store, by_name: bool) -> None:
    with store.loader(4, WINDOWS, sampling="weighted", seed=7) as own:
        expected = indices(next(own) for _ in range(5))
    dataset = StoreDataset(NAME if by_name else store, 4, WINDOWS, sampling="weighted", seed=7, max_batches=5)
    loader = DataLoader(dataset, batch_size=None)
    assert len(loader) == len(dataset) == 5
    batches = list(loader)
    assert indices(batches) == expected
    for batch in batches:
        assert isinstance(batch.data["x"], torch.Tensor) and batch.data["x"].shape == (4, 3)
        assert (batch.data["x"][:, -1] == torch.as_tensor(batch.indices)).all()
        assert store.update_weights(batch.indices, torch.ones(4), batch.generations).applied == 4
    assert indices(loader) != expected, "each iteration has its own stream"


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning", r"ignore:os\.fork\(\) was called:RuntimeWarning")
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_attach_by_name(store: gpu.Store, context: str) -> None:
    dataset = StoreDataset(NAME, 4, WINDOWS, max_batches=5)
    loader = DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context=context)
    torch.manual_seed(1)
    batches = list(loader)
    found = indices(batches)
    assert len(found) == 5 and len({tuple(rows) for rows in found}) == 5, "the workers have different streams"
    for batch in batches:
        assert (batch.data["x"][:, -1] == torch.as_tensor(batch.indices)).all()
    if context == "spawn":
        # A second iteration starts the workers in the same way, which takes seconds.
        return
    assert {tuple(rows) for rows in indices(loader)}.isdisjoint(map(tuple, found)), "each iteration has its own streams"
    torch.manual_seed(1)
    assert indices(loader) == found


def test_workers_refuse_what_they_cannot_use(store: gpu.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs in this process, because PyTorch takes 5 s to end a worker after an exception."""
    with pytest.raises(ValueError, match="cannot use this process's store; create the store with name="):
        pickle.dumps(StoreDataset(store, 4, WINDOWS))
    monkeypatch.setattr(relive.torch, "get_worker_info", lambda: types.SimpleNamespace(id=0, num_workers=2, seed=1))
    with pytest.raises(ValueError, match="cannot use this process's store"):
        iter(StoreDataset(store, 4, WINDOWS))
    with pytest.raises(ValueError, match="device=meta .* workers of a DataLoader"):
        iter(StoreDataset(NAME, 4, WINDOWS, device="meta"))


def test_arguments_of_data_sets(store: gpu.Store) -> None:
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        StoreDataset(store, 0, WINDOWS)
    with pytest.raises(ValueError, match="max_batches must be at least 0, got -1"):
        StoreDataset(store, 1, WINDOWS, max_batches=-1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'framework'"):
        StoreDataset(store, 1, WINDOWS, framework="numpy")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="created without max_batches"):
        len(StoreDataset(store, 1, WINDOWS))
    with pytest.raises(errors.NotFoundError):
        next(iter(StoreDataset("no-such-store", 1, WINDOWS)))
    assert list(StoreDataset(store, 1, WINDOWS, max_batches=0)) == []
