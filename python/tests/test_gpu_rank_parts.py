"""Each of several ranks reads only its part of a data set."""

from __future__ import annotations

import pathlib
import threading
import types
from typing import Any

import numpy as np
import pytest
import relive
from gpu_ranks import Threads, together
from gpu_stores import written
from relive import gpu
from relive.gpu import _datasets
from relive.rl import _dataset_npz, _dataset_tables

LENGTH, EPISODES = 5, 12
_POOLS: list[Any] = []


@pytest.mark.parametrize("ending", [".npz", ".hdf5", ".parquet", ".feather", ".safetensors"])
@pytest.mark.parametrize("ranks", [3, 5])
def test_each_rank_reads_only_its_part_of_a_file(ranks: int, ending: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Defect 16: each rank reads only its part."""
    rows = LENGTH * EPISODES
    data = {
        "observations": np.arange(2.0 * rows).reshape(rows, 2), "actions": np.arange(rows),
        "terminals": (np.arange(rows) % LENGTH == LENGTH - 1).astype(np.uint8),
    }
    path = written(data, ending, tmp_path)
    reads = rows_read(ending, monkeypatch)
    together(ranks, lambda group: expect_part(group, gpu.Store.of_dataset(path, group=group)))
    # Parquet is read by groups of rows. A rank without a part reads one row.
    assert rows <= sum(reads) <= rows + 4 * ranks + 1
    reads.clear()

    def insert(group: gpu.Group) -> None:
        store = gpu.Store({"actions": "int64", "observations": ("float64", (2,))}, capacity=EPISODES, max_steps=LENGTH, group=group)
        store.insert_dataset(path)
        expect_part(group, store)

    together(ranks, insert)
    assert rows <= sum(reads) <= rows + 4 * ranks + 1


def rows_read(ending: str, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns a list, to which the readers of files with this extension append the number of rows of observations that
    they read."""
    reads: list[int] = []
    if ending == ".parquet":
        kind, method = pytest.importorskip("pyarrow.parquet").ParquetFile, "read_row_groups"
    else:
        method = "__getitem__"
        h5py = pytest.importorskip("h5py")
        kind = {".npz": _dataset_npz._Member, ".hdf5": h5py.Dataset}.get(ending, _dataset_tables.Copied)
    original = getattr(kind, method)

    def read(self: Any, *arguments: Any, **options: Any) -> Any:
        found = original(self, *arguments, **options)
        if options == {"columns": ["observations"]} or not options and found.ndim == 2:
            reads.append(len(found))
        return found

    monkeypatch.setattr(kind, method, read)
    return reads


def expect_part(group: gpu.Group, store: gpu.Store) -> None:
    with store:
        each = -(-EPISODES // group.ranks)
        numbers = range(min(EPISODES, group.rank * each), min(EPISODES, (group.rank + 1) * each))
        assert len(store) == len(numbers) and store.max_steps == LENGTH
        windows = {name: gpu.Window(-LENGTH, LENGTH) for name in ("observations", "actions")}
        indices = group.rank * store.capacity + np.arange(len(numbers))
        data = store.collect(indices, windows).data if numbers else {}
        for at, number in enumerate(numbers):
            steps = number * LENGTH + np.arange(LENGTH)
            np.testing.assert_array_equal(data["actions"][at], steps)
            np.testing.assert_array_equal(data["observations"][at], np.stack([2.0 * steps, 2.0 * steps + 1], axis=1))


@pytest.mark.parametrize("ending", [".feather", ".parquet"])
def test_a_rank_does_not_keep_the_other_parts_of_a_compressed_table(ending: str, tmp_path: pathlib.Path) -> None:
    pyarrow, feather, parquet = (pytest.importorskip(f"pyarrow{name}") for name in ("", ".feather", ".parquet"))
    table = pyarrow.table({"observations": np.arange(1_000_000.0), "terminals": np.arange(1_000_000) % 1000 == 999})
    if ending == ".feather":
        feather.write_feather(table, tmp_path / "data.feather", chunksize=10_000)
    else:
        parquet.write_table(table, tmp_path / "data.parquet", row_group_size=10_000)
    del table
    usual = pyarrow.default_memory_pool()
    pool = pyarrow.proxy_memory_pool(usual)
    # Arrays use the pool until they are gone.
    _POOLS.append(pool)
    pyarrow.set_memory_pool(pool)
    try:
        found = _datasets.episodes_of(tmp_path / f"data{ending}", None, Threads(7, [b""] * 8, threading.Barrier(8)))
    finally:
        pyarrow.set_memory_pool(usual)
    assert len(found.part) == 125 and found.part[-1]["observations"][-1] == 999_999.0
    assert pool.max_memory() < 4_000_000, "half of the observations"


@pytest.mark.parametrize("ranks", [2, 4])
def test_each_rank_reads_only_its_episodes_of_minari(ranks: int) -> None:
    read: list[int] = []

    def iterate_episodes(numbers: Any) -> Any:
        read.extend(numbers)
        for number in numbers:
            ends = np.arange(2) == 1
            yield types.SimpleNamespace(
                observations=np.full(3, number), actions=np.full(2, number), rewards=np.ones(2), terminations=ends, truncations=ends
            )

    # The episodes of a filtered data set are not numbered consecutively.
    data = types.SimpleNamespace(iterate_episodes=iterate_episodes, episode_indices=np.array([5, 2, 9, 0, 7]))

    def work(group: gpu.Group) -> Any:
        with gpu.Store.of_dataset(data, group=group) as store:
            own = group.rank * store.capacity + np.arange(len(store))
            return store.collect(own, {"actions": gpu.Window(-2, 2)}).data["actions"][:, 0].tolist() if len(own) else []

    assert sum(together(ranks, work), []) == [5, 2, 9, 0, 7]
    # A rank without a part reads one episode.
    assert len(read) == 5 + (ranks == 4)


@pytest.mark.parametrize("ranks", [2, 4])
def test_each_rank_reads_only_its_items_of_a_table(ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    get_items = relive.Client.get_items

    def count(self: relive.Client, table: str, keys: Any) -> Any:
        read.extend(keys)
        return get_items(self, table, keys)

    monkeypatch.setattr(relive.Client, "get_items", count)
    lengths = [1, 2, 1, 3, 1]
    with relive.Server([relive.Table.queue("runs", 10)], listen=False) as server:
        with server.localhost_client().trajectory_writer(3) as writer:
            for number, length in enumerate(lengths):
                for _ in range(length):
                    writer.append({"number": number})
                writer.create_item("runs", 1.0, {"number": writer.history["number"][-length:]})
                writer.flush()

        def work(group: gpu.Group) -> Any:
            with gpu.Store.of_dataset(server, table="runs", group=group) as store:
                assert store.max_steps == 3, "of the longest item of all ranks"
                own = group.rank * store.capacity + np.arange(len(store))
                return store.collect(own, {"number": gpu.Window(-1)}).data["number"][:, 0].tolist() if len(own) else []

        assert sum(together(ranks, work), []) == [0, 1, 2, 3, 4]
    # All ranks read the first item.
    assert len(read) == 5 + ranks - 1
