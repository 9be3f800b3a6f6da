"""Checkpoints and data sets of several ranks."""

from __future__ import annotations

import os
import pathlib
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


def test_no_rank_inserts_a_dataset_that_does_not_fit_one_rank() -> None:
    """The number of an episode in the error is its number in the data set."""
    data = {"actions": np.arange(11), "terminals": np.array([0, 1, 0, 1, 0, 1, 0, 0, 0, 0, 1], bool)}

    def work(group: gpu.Group) -> tuple[type[Exception], str]:
        with gpu.Store({"actions": "int64"}, capacity=2, max_steps=4, group=group) as store:
            with pytest.raises((errors.InvalidArgumentError, errors.UnavailableError)) as raised:
                store.insert_dataset(data)
            assert len(store) == 0
            store.insert_dataset({name: array[:6] for name, array in data.items()})
            assert len(store) == 2 - group.rank
            return raised.type, str(raised.value)

    first, second = together(2, work)
    assert first[0] is errors.UnavailableError and "rank 1 cannot continue: episode 3 has 5 steps" in first[1]
    assert second[0] is errors.InvalidArgumentError and "episode 3 has 5 steps" in second[1]


def test_a_missing_file_of_one_rank_is_an_error_of_all_ranks(tmp_path: pathlib.Path) -> None:
    path, name = tmp_path / "data.npz", f"of-files-{os.getpid()}"
    np.savez(path, actions=np.arange(4), terminals=np.array([0, 1, 0, 1]))

    def work(group: gpu.Group) -> None:
        missing = path if group.rank == 0 else tmp_path / "missing.npz"
        with pytest.raises((FileNotFoundError, errors.UnavailableError), match="No such file .*missing.npz"):
            gpu.Store.of_dataset(missing, name=name, rank=group.rank, ranks=group.ranks)
        # No rank may still hold its place in the group.
        group.all_gather(b"")
        with gpu.Store.of_dataset(path, name=name, rank=group.rank, ranks=group.ranks) as store:
            assert len(store) == 1

    together(2, work)
