"""Data sets in stores of trajectories."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import numpy as np
import pytest
import relive
from gpu_stores import written
from relive import errors, gpu
from relive.gpu import _reading, _tables
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


@pytest.mark.parametrize("ending", ["mapping", ".npz", ".hdf5", ".parquet"])
def test_misspelt_arrays_are_reported(ending: str, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    zeros = np.zeros(3)
    misspelt = {"observation": zeros, "action": zeros, "terminals": zeros}
    with pytest.raises(errors.InvalidArgumentError, match=r"has \['action', 'observation', 'terminals'\], but neither observations nor actions"):
        gpu.Store.of_dataset(written(misspelt, ending, tmp_path))
    gpu.Store.of_dataset(written({"observations": zeros, "terminals": zeros, "infos": zeros}, ending, tmp_path)).close()
    assert "of the data set" not in caplog.text
    gpu.Store.of_dataset(written({"observations": zeros, "terminals": zeros, "reward": zeros}, ending, tmp_path)).close()
    (record,) = (record for record in caplog.records if "of the data set" in record.getMessage())
    assert "the arrays ['reward'] of the data set are ignored: only observations, actions, rewards," in record.getMessage()


@pytest.mark.parametrize("ending", [".npz", ".hdf5", ".parquet"])
def test_damaged_files_are_named(ending: str, tmp_path: pathlib.Path) -> None:
    path = written({"observations": np.zeros(3), "terminals": np.zeros(3)}, ending, tmp_path)
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises((errors.InvalidArgumentError, OSError), match=re.escape(str(path))):
        gpu.Store.of_dataset(path)


def test_pickled_files_are_named(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "pickled.npz"
    np.savez(path, observations=np.array([{}], object), terminals=np.zeros(1))
    with pytest.raises(errors.InvalidArgumentError, match="pickled.npz: .*Object arrays cannot be loaded"):
        gpu.Store.of_dataset(path)


@pytest.mark.parametrize(("options", "writers", "room"), [({"max_selectable": 2}, 0, 2), ({}, 1, 2), ({"max_selectable": 1}, 2, 1)])
def test_a_dataset_without_enough_room_removes_nothing(options: dict[str, int], writers: int, room: int) -> None:
    data = rows([1, 1, 1])
    with gpu.Store({"actions": "int64"}, capacity=3, max_steps=2, **options) as store:
        held = [store.writer() for _ in range(writers)]
        for writer in held:
            with pytest.raises(errors.DeadlineExceededError):
                writer.begin(timeout=0.0)
        store.scan()
        with pytest.raises(errors.InvalidArgumentError, match=f"3 episodes, but there is room for only {room} without"):
            store.insert_dataset(data)
        assert len(store) == 0
        assert len(store.insert_dataset(rows([1] * room))) == len(store) == room
    with pytest.raises(errors.InvalidArgumentError, match="room for only 2"):
        gpu.Store.of_dataset(data, max_selectable=2)


def test_items_of_a_table_are_read_once_without_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tables, "_ITEMS_AT_ONCE", 2)
    lengths = [2, 3, 1, 3, 2]
    with relive.Server([relive.Table.queue("episodes", 10), relive.Table.queue("empty", 1)], listen=False) as server:
        client = server.localhost_client()
        with client.trajectory_writer(3) as writer:
            for number, length in enumerate(lengths):
                for step in range(length):
                    writer.append({"state": {"at": np.full(2, step, np.float32)}, "number": number})
                columns = {"state": {"at": writer.history["state"]["at"][-length:]}, "number": writer.history["number"][-length:]}
                writer.create_item("episodes", 1.0, columns)
                writer.flush()
        for source in (server, client):
            with gpu.Store.of_dataset(source, table="episodes", weight="length") as store:
                assert store.weights().tolist() == lengths
                assert store.columns["state/at"] == ArraySpec((2,), "float32", "state/at")
                batch = store.collect(range(5), {"number": gpu.Window(-3, 3), "at": gpu.Window(-3, 3, column="state/at")})
                for row, length in enumerate(lengths):
                    assert batch.data["number"][row, 3 - length :].tolist() == [row] * length
                    assert batch.data["at"][row, 3 - length :, 1].tolist() == list(range(length))
        with gpu.Store({"number": "int32"}, capacity=5, max_steps=3) as store:
            assert len(store.insert_dataset(client, table="episodes")) == 5
        assert [item.times_sampled for item in client.items("episodes")] == [0] * 5
        for given, table, error, text in (
            (client, "empty", errors.InvalidArgumentError, "table 'empty' has no items"), (client, "nothing", errors.NotFoundError, "nothing"),
            ({}, "episodes", errors.InvalidArgumentError, "a dict has no table 'episodes'"), (client, None, TypeError, "together with table="),
            ([1], None, TypeError, "a data set of Minari, a pyarrow.Table, a store, or"),
        ):
            with pytest.raises(error, match=text):
                gpu.Store.of_dataset(given, table=table)


def test_items_without_steps_are_refused() -> None:
    with relive.Server([relive.Table.queue("steps", 10)], listen=False) as server:
        client = server.localhost_client()
        with client.trajectory_writer(2) as writer:
            writer.append({"x": 1})
            writer.append({"x": 2})
            writer.create_item("steps", 1.0, {"last": writer.history["x"][-1], "all": writer.history["x"][:]})
            writer.flush()
        with pytest.raises(errors.InvalidArgumentError, match=r"has columns of the shapes .'all': \(2,\), 'last': \(\)."):
            gpu.Store.of_dataset(server, table="steps")


def test_all_steps_are_read_in_parts_of_limited_size(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    collector = gpu.Readable._collector

    def count(self: gpu.Readable, *arguments: Any) -> gpu.Loader:
        made.append(arguments[-1])
        return collector(self, *arguments)

    monkeypatch.setattr(gpu.Readable, "_collector", count)
    monkeypatch.setattr(_reading, "_BYTES_AT_ONCE", 3 * 100 * 8)
    with gpu.Store({"x": "float64"}, capacity=17, max_steps=100) as store:
        expected = [np.full(1 + 5 * number, number, np.float64) for number in range(17)]
        for steps in expected:
            store.insert({"x": steps})
        np.testing.assert_array_equal(store.all_steps()["x"], np.concatenate(expected))
        for rows in (17, 5, 18, 20):
            store.collect(np.arange(rows) % 17, {"x": gpu.Window()})
    assert made == [3, 17, 32], "few collectors, and only as large as required"
