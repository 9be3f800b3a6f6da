"""Tables larger than memory."""

from __future__ import annotations

import pathlib
import shutil
import time

import numpy as np
import pytest
from conftest import PATIENCE_S

import relive

STEP = 25_000


def _values(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1 << 31, STEP, dtype=np.int32)


def _server(tmp_path: pathlib.Path, checkpoints: pathlib.Path | None = None) -> relive.Server:
    table = relive.Table("t", relive.selectors.Uniform(), relive.selectors.Fifo(), 1_000, relive.rate_limiters.MinSize(1))
    checkpointer = None if checkpoints is None else relive.checkpointers.DefaultCheckpointer(str(checkpoints))
    return relive.Server([table], checkpointer=checkpointer, max_bytes=2_000_000, spill_dir=tmp_path / "spill")


def _assert_all_there(client: relive.Client, items: int) -> None:
    seen = set()
    for batch in client.batches("t", batch_size=64, timeout=30.0):
        for index, values in zip(batch.data[0], batch.data[1]):
            seed = index.item()
            np.testing.assert_array_equal(values.reshape(-1), _values(seed))
            seen.add(seed)
        if len(seen) == items:
            return


@pytest.mark.parametrize("in_process", [True, False])
def test_a_table_larger_than_memory_is_restored(tmp_path: pathlib.Path, in_process: bool) -> None:
    root = tmp_path / "checkpoints"
    with _server(tmp_path, root) as server:
        client = server.localhost_client() if in_process else relive.Client(f"localhost:{server.port}", transport="shm")
        for index in range(100):
            client.insert([np.int64(index), _values(index)], {"t": 1.0})
        _assert_all_there(client, 100)
        client.checkpoint()
    with _server(tmp_path, root) as server:
        _assert_all_there(server.localhost_client(), 100)


def test_single_samples_come_from_disk(tmp_path: pathlib.Path) -> None:
    with _server(tmp_path) as server:
        client = server.localhost_client()
        for index in range(100):
            client.insert([np.int64(index), _values(index)], {"t": 1.0})
        for sample in client.sample("t", num_samples=100):
            index, values = sample[0].data
            np.testing.assert_array_equal(values, _values(index.item()))


def test_a_full_spill_disk_is_reported(tmp_path: pathlib.Path) -> None:
    with _server(tmp_path) as server:
        client = server.localhost_client()
        assert client.status()["spill_error"] is None
        shutil.rmtree(tmp_path / "spill")
        (tmp_path / "spill").write_text("a file where the folder was")
        # More than fits in memory: once memory is full, an insert waits until its timeout.
        with pytest.raises(relive.DeadlineExceededError):
            for index in range(100):
                client.insert([np.int64(index), _values(index)], {"t": 1.0}, timeout=2.0)
        until = time.monotonic() + PATIENCE_S
        while client.status()["spill_error"] is None:
            assert time.monotonic() < until, "that nothing can be moved to disk is told"
        assert str(tmp_path / "spill") in client.status()["spill_error"]


def test_a_folder_needs_a_budget_and_has_one_owner(tmp_path: pathlib.Path) -> None:
    table = relive.Table.queue("t", 3)
    with pytest.raises(ValueError, match="spill_dir requires max_bytes"):
        relive.Server([table], spill_dir=tmp_path)
    with _server(tmp_path), pytest.raises(RuntimeError, match="spill"):
        _server(tmp_path)
