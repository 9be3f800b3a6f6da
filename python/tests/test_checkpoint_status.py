"""The checkpoint status of a running server."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import PATIENCE_S, uniform_table

import relive
from relive import checkpointers

Serve = Callable[..., relive.Server]


@pytest.fixture(params=["tcp", "in-process"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> relive.Client:
    """Returns a client for a server that writes checkpoints."""
    server = relive.Server(tables=[uniform_table()], checkpointer=checkpointers.DefaultCheckpointer(tmp_path))
    request.addfinalizer(server.stop)
    return relive.Client(f"localhost:{server.port}", transport=request.param, timeout=PATIENCE_S)


def test_the_status_reports_the_last_checkpoint(client: relive.Client) -> None:
    before = client.checkpoint_status()
    assert before == relive.CheckpointStatus(
        enabled=True, running=None, queued=False, last=None, last_saved=None, next_due_s=None, loaded=None
    )
    client.insert(np.float32(1.0), {"table": 1.0})
    path = client.checkpoint()
    status = client.checkpoint_status(timeout=PATIENCE_S)
    assert status.running is None
    assert status.last == status.last_saved
    assert status.last is not None
    assert (status.last.path, status.last.trigger, status.last.error) == (path, "request", None)
    assert abs(status.last.began_at - time.time()) < PATIENCE_S
    assert 0.0 <= status.last.longest_pause_s <= status.last.took_s < PATIENCE_S
    assert 0 < status.last.written_bytes <= status.last.total_bytes
    with pytest.raises(dataclasses.FrozenInstanceError):
        status.last.path = "elsewhere"  # type: ignore[misc]


def test_a_failure_is_reported_and_the_last_checkpoint_is_remembered(client: relive.Client, tmp_path: Path) -> None:
    path = client.checkpoint()
    for file in sorted(tmp_path.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    tmp_path.rmdir()
    tmp_path.write_text("a file where the folder was")
    with pytest.raises(RuntimeError, match="checkpoint was not written"):
        client.checkpoint()
    status = client.checkpoint_status()
    assert status.last is not None and status.last_saved is not None
    assert status.last.path is None
    assert "checkpoint was not written" in (status.last.error or "")
    assert status.last_saved.path == path


def test_concurrent_requests_share_checkpoints(client: relive.Client) -> None:
    paths: list[str] = []
    threads = [threading.Thread(target=lambda: paths.append(client.checkpoint())) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(paths) == 16
    assert client.checkpoint_status().queued is False
