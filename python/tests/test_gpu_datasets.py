"""Data sets in stores of trajectories."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
from relive import errors, gpu
from relive.specs import ArraySpec


def rows(terminals: list[int], timeouts: list[int] | None = None) -> dict[str, Any]:
    count = len(terminals)
    data = {
        "observations": np.arange(2 * count, dtype=np.float64).reshape(count, 2), "actions": np.arange(count),
        "rewards": np.arange(count, dtype=np.float32), "terminals": np.array(terminals, bool),
    }
    return data if timeouts is None else {**data, "timeouts": np.array(timeouts, bool)}


def test_datasets_are_split_into_episodes_without_loss(tmp_path: pathlib.Path) -> None:
    """GEAR's loader moves the last step of each episode into the next episode, and drops an unfinished episode."""
    data = rows([0, 0, 1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0, 0, 0])
    np.savez(tmp_path / "data.npz", **data)
    for given in (data, tmp_path / "data.npz"):
        store = gpu.Store({"actions": "int32", "observations": ("float32", (2,))}, capacity=5, max_steps=4)
        store.insert_dataset(given, weight="length")
        batch = store.collect([0, 1, 2], {"actions": gpu.Window(-4, 4, value=-1)})
        assert batch.data["actions"].tolist() == [[-1, 0, 1, 2], [-1, -1, 3, 4], [-1, 5, 6, 7]]
        assert store.weights().tolist() == [3, 2, 3, 0, 0]
    store = gpu.Store.of_dataset(data)
    assert (store.capacity, store.max_steps, len(store)) == (3, 3, 3)
    assert store.columns["observations"] == ArraySpec((2,), "float64", "observations")


def test_recorded_episodes_and_files_of_d4rl(tmp_path: pathlib.Path) -> None:
    from relive import rl
    from relive.rl import recorded

    environment = rl.make("catch/0", seed=1)
    episodes = [recorded.play(environment, lambda _: 1) for _ in range(3)]
    recorded.save(tmp_path / "recorded", episodes)
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "data.hdf5", "w") as file:
        for name in ("observations", "actions", "rewards"):
            file[name] = np.concatenate([getattr(episode, name)[: len(episode)] for episode in episodes])
        file["terminals"] = np.concatenate([episode.discounts == 0 for episode in episodes])
    for given in (tmp_path / "recorded", episodes, tmp_path / "data.hdf5"):
        store = gpu.Store.of_dataset(given)
        assert (len(store), store.max_steps) == (3, 9)
        batch = store.collect([0, 1, 2], {"observations": gpu.Window(-9, 9), "terminals": gpu.Window(-9, 9)})
        np.testing.assert_array_equal(batch.data["observations"], np.stack([episode.observations[:-1] for episode in episodes]))
        assert batch.data["terminals"][:, -1].all() and not batch.data["terminals"][:, :-1].any()


@pytest.mark.parametrize(
    ("columns", "capacity", "max_steps", "text"),
    [
        ({"goal": "float32"}, 9, 9, r"no \['goal'\]"),
        ({"actions": "int64"}, 1, 9, "2 episodes, but there is room for only 1"),
        ({"actions": "int64"}, 9, 1, "has 2 steps, but a trajectory can have at most 1"),
        ({"actions": ("int64", (2,))}, 9, 9, r"shape \(\), but the column has \(2,\)"),
        ({"actions": "bool"}, 9, 9, "do not fit bool"),
    ],
)
def test_datasets_that_do_not_fit_are_refused(columns: Any, capacity: int, max_steps: int, text: str) -> None:
    store = gpu.Store(columns, capacity=capacity, max_steps=max_steps)
    with pytest.raises(errors.InvalidArgumentError, match=text):
        store.insert_dataset(rows([0, 1, 0, 0]))
    assert len(store) == 0
