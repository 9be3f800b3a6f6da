"""Checkpoints and data sets of several ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_ranks import WINDOWS, filled, together
from relive import errors, gpu


def test_checkpoints_of_ranks(tmp_path: Any) -> None:
    def save(group: gpu.Group) -> Any:
        with filled(group) as store:
            store.save(tmp_path)
            with store.loader(4, WINDOWS, sampling="weighted", seed=3) as loader:
                return [next(loader).indices.tolist() for _ in range(2)]

    def load(group: gpu.Group) -> Any:
        with gpu.Store.load(tmp_path, group=group) as store:
            assert (store.rank, store.ranks) == (group.rank, group.ranks)
            with store.loader(4, WINDOWS, sampling="weighted", seed=3) as loader:
                return [next(loader).indices.tolist() for _ in range(2)]

    assert together(2, save) == together(2, load)
    with pytest.raises(errors.NotFoundError):
        together(3, load)


def test_a_dataset_is_divided() -> None:
    """Defect 16: each rank stores only its part."""
    ends = np.zeros(20, bool)
    ends[[2, 5, 6, 11, 15, 19]] = True
    data = {"observations": np.arange(20.0), "actions": np.arange(20), "rewards": np.ones(20), "terminals": ends}

    def work(group: gpu.Group) -> Any:
        with gpu.Store.of_dataset(data, group=group) as store, store.loader(12 // group.ranks, {"actions": gpu.Window()}) as loader:
            return len(store), next(loader).data["actions"][:, 0]

    ((count, alone),) = together(1, work)
    shares = together(3, work)
    assert count == 6 and [share[0] for share in shares] == [2, 2, 2]
    np.testing.assert_array_equal(np.stack([share[1] for share in shares], axis=1).reshape(-1), alone)


def test_the_number_of_an_episode_is_its_number_in_the_dataset() -> None:
    data = {"actions": np.arange(11), "terminals": np.array([0, 1, 0, 1, 0, 1, 0, 0, 0, 0, 1], bool)}

    def work(group: gpu.Group) -> str:
        with gpu.Store({"actions": "int64"}, capacity=2, max_steps=4, group=group) as store:
            try:
                store.insert_dataset(data)
            except errors.InvalidArgumentError as error:
                return str(error)
        return ""

    first, second = together(2, work)
    assert first == "" and "episode 3" in second
