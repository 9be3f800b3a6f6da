"""Time limits of vectors of environments in worker processes: for closing them, and for starting them."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import pytest
from vector_environments import Bad, Parts

import relive.rl.vector
from relive.rl.vector import ProcessVectorEnv


def test_hung_workers_are_closed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    envs = ProcessVectorEnv([lambda: Bad("hang")] * 8, workers=8)
    envs.reset()
    envs._timeout = 0.2
    with pytest.raises(TimeoutError):
        for _ in range(4):
            envs.step([0] * 8)
    monkeypatch.setattr(relive.rl.vector, "_GRACE_SECONDS", 2.0)
    begun = time.monotonic()
    envs.close()
    # One after the other, they would take 16 seconds.
    assert time.monotonic() - begun < 12.0


def test_workers_close_their_environments_at_the_same_time(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relive.rl.vector, "_GRACE_SECONDS", 60.0)
    # The first environment can be closed only after the second one.
    closed = tmp_path / "closed"
    os.mkfifo(closed)

    class Waits(Parts):
        def close(self) -> None:
            closed.read_text()

    class Releases(Parts):
        def close(self) -> None:
            closed.write_text("go on")

    here = os.getpid()
    envs = ProcessVectorEnv([lambda: Waits() if os.getpid() != here else Parts(), Releases], workers=2)
    envs.reset()
    envs.close()
    assert [worker._process.exitcode for worker in envs._workers] == [0, 0], "no worker was killed"


def test_the_time_to_create_environments_is_not_counted() -> None:
    envs = ProcessVectorEnv([Parts], timeout=20.0)
    (worker,) = envs._workers
    begun = time.monotonic()
    for timeout in (20.0, None):
        assert worker._deadline(begun, timeout) == begun + relive.rl.vector._START_SECONDS
    envs.reset(seed=1)
    ready_at = float(envs._memory.ready_at[0])
    assert begun < ready_at < time.monotonic()
    assert (worker._deadline(begun, 20.0), worker._deadline(ready_at + 5.0, 20.0)) == (ready_at + 20.0, ready_at + 25.0)
    assert worker._deadline(begun, None) is None
    envs.close()


def never(here: int) -> Any:
    if os.getpid() != here:
        threading.Event().wait()
    return Parts()


@pytest.mark.parametrize("timeout", [1000.0, None])
def test_the_creation_of_environments_has_its_own_limit(timeout: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    here = os.getpid()
    monkeypatch.setattr(relive.rl.vector, "_START_SECONDS", 0.5)
    monkeypatch.setattr(relive.rl.vector, "_GRACE_SECONDS", 0.1)
    envs = ProcessVectorEnv([lambda: never(here)], timeout=timeout)
    with pytest.raises(TimeoutError, match=r"worker 0, with environment 0, did not create its environments within 0 s"):
        envs.reset()
    envs.close()
