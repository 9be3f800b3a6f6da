"""Failures of environments in worker processes: exceptions, ended and hanging workers, interrupts and forks."""

from __future__ import annotations

import functools
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import threading
import traceback
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from vector_environments import Bad, Counter, Parts

from relive.rl.vector import ProcessVectorEnv


def test_an_environment_exception_keeps_its_traceback_and_the_vector_works() -> None:
    envs = ProcessVectorEnv([lambda: Bad("none"), lambda: Bad("raise")], workers=2)
    envs.reset()
    for _ in range(2):
        envs.step([0, 0])
    with pytest.raises(LookupError, match="this environment is bad") as caught:
        envs.step([0, 0])
    assert "do_it" in "".join(traceback.format_exception(caught.value))
    envs.reset()
    assert envs.step([0, 0])[1].tolist() == [0.0, 0.0]
    envs.close()


class Unlucky(gymnasium.Env[Any, Any]):
    """An environment that counts its steps, and raises an exception at an unlucky step or an unlucky seed."""

    observation_space, action_space = Box(0, 100, (1,), np.int64), Discrete(2)

    def __init__(self, unlucky: int) -> None:
        self.unlucky, self.at = unlucky, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.seen(seed or 0), {}

    def step(self, action: Any) -> Any:
        return self.seen(self.at + 1), 0.0, False, False, {}

    def seen(self, at: int) -> Any:
        if at == self.unlucky:
            raise LookupError("unlucky")
        self.at = at
        return np.full(1, at)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_vector_is_reset_after_an_exception(workers: int) -> None:
    # A worker with several environments stops at the one that fails, so the next one does not take the step.
    envs = ProcessVectorEnv([lambda: Unlucky(2), lambda: Unlucky(-1), lambda: Unlucky(13), lambda: Unlucky(-1)], workers=workers)
    envs.reset()
    envs.step([0] * 4)
    with pytest.raises(LookupError, match="unlucky"):
        envs.step([0] * 4)
    for command in (lambda: envs.step([0] * 4), lambda: envs.reset(options={"reset_mask": np.array([True, False, False, False])})):
        with pytest.raises(RuntimeError, match=r"the previous step or reset failed, .*; call reset\(\) first"):
            command()
    with pytest.raises(LookupError, match="unlucky"):
        envs.reset(seed=11)
    with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
        envs.step([0] * 4)
    assert envs.reset()[0].tolist() == [[0]] * 4
    assert envs.step([0] * 4)[0].tolist() == [[1]] * 4
    with pytest.raises(AttributeError):
        envs.call("unknown")
    with pytest.raises(LookupError):
        envs.step([0] * 4)
    envs.close()


@pytest.mark.parametrize(("what", "how"), [("kill", "signal 11"), ("exit", "exit code 3")])
def test_an_ended_worker_is_reported(what: str, how: str) -> None:
    envs = ProcessVectorEnv([lambda: Bad("none"), lambda: Bad(what)], workers=2)
    envs.reset()
    with pytest.raises(RuntimeError, match=rf"worker 1, with environment 1, ended with {how}; create a new vector"):
        for _ in range(4):
            envs.step([0, 0])
    envs.close()
    assert not multiprocessing.active_children()


def test_a_hanging_environment_is_reported() -> None:
    envs = ProcessVectorEnv([lambda: Bad("none"), lambda: Bad("none"), lambda: Bad("hang")], workers=1, timeout=20.0)
    envs.reset()
    envs._timeout = 0.2
    with pytest.raises(TimeoutError, match="worker 0, with environments 0 to 2, did not finish in time: one of its environments hangs"):
        for _ in range(4):
            envs.step([0, 0, 0])
    envs._workers[0]._process.kill()
    envs.close()


class Gated(gymnasium.Env[Any, Any]):
    """An environment whose action 1 blocks until a pipe is written to. It shows its seed, then its actions plus 10."""

    observation_space, action_space = Box(0, 100, (1,), np.float32), Discrete(5)

    def __init__(self, gate: pathlib.Path) -> None:
        self.gate = gate

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if seed == 13:
            raise ValueError("an unlucky seed")
        return np.full(1, seed, np.float32), {}

    def step(self, action: Any) -> Any:
        if action == 1:
            self.gate.read_text()
        return np.full(1, action + 10, np.float32), 0.0, False, False, {"call": lambda: None} if action == 4 else {}


def test_late_answers_of_an_interrupted_step_are_discarded(tmp_path: pathlib.Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    envs = ProcessVectorEnv([lambda: Gated(gate)], timeout=20.0)
    with pytest.raises(ValueError, match="an unlucky seed"):
        envs.reset(seed=13)
    assert envs.reset(seed=np.int64(5))[0] == 5  # type: ignore[arg-type]
    envs._timeout = 0.2
    with pytest.raises(TimeoutError):
        envs.step([1])
    envs._timeout = 20.0
    too_early = pytest.raises(RuntimeError, match=r"the previous step or reset failed, was interrupted or timed out.*call reset\(\) first")
    with too_early:
        envs.step([0])
    gate.write_text("go on")
    # A call does not make up for the step.
    assert envs.get_attr("gate") == (gate,)
    with too_early:
        envs.step([0])
    assert envs.reset(seed=7)[0] == 7
    assert [float(envs.step([action])[0][0, 0]) for action in (0, 2, 3)] == [10, 12, 13]
    with pytest.raises(TypeError, match="the environments' infos cannot be sent to another process"):
        envs.step([4])
    envs.reset(seed=7)
    assert envs.step([2])[0] == 12
    envs.close()



def test_environments_that_fail_in_a_worker_are_reported() -> None:
    made = []

    def only_here() -> Any:
        made.append(1)
        if os.getpid() != here:
            raise LookupError("only here")
        return Parts()

    here = os.getpid()
    envs = ProcessVectorEnv([only_here], workers=1)
    with pytest.raises(LookupError, match="only here"):
        envs.reset()
    envs.close()


KILLED = """
import gymnasium, os, signal
from relive.rl.vector import ProcessVectorEnv

def main():
    envs = ProcessVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 2, workers=2)
    envs.reset(seed=1)
    print(os.getpid(), *(worker._process.pid for worker in envs._workers), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    main()
"""


def test_a_killed_program_leaves_nothing_behind(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    # The workers hold the pipe open, so it closes when they end.
    told = subprocess.run([sys.executable, script], stdout=subprocess.PIPE, timeout=60, check=False)
    program, *pids = told.stdout.decode().split()
    assert told.returncode == -signal.SIGKILL and len(pids) == 2
    assert not list(pathlib.Path("/dev/shm").glob(f"pym-{program}-*"))
    for pid in pids:
        status = pathlib.Path(f"/proc/{pid}/status")
        # A process that has ended without being waited for is a zombie.
        assert not status.exists() or "State:\tZ" in status.read_text()


def test_a_worker_that_is_killed_while_a_large_message_waits_is_reported() -> None:
    envs = ProcessVectorEnv([lambda: Bad("hang")], workers=1)
    envs.reset()
    (worker,) = envs._workers
    os.kill(worker._process.pid or 0, signal.SIGSTOP)
    killer = threading.Timer(0.2, worker._process.kill)
    killer.start()
    with pytest.raises(RuntimeError, match="worker 0, with environment 0, ended with signal 9; create a new vector"):
        envs.set_attr("what", "x" * 1_000_000)
    envs.close()


def test_an_interrupted_large_call_does_not_disturb_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    envs = ProcessVectorEnv([functools.partial(Counter, "a")], workers=1)
    envs.reset()
    (worker,) = envs._workers
    with monkeypatch.context() as patch:
        patch.setattr(worker, "wait", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            envs.call("named", "x" * 1_000_000, end="")
    assert envs.call("named", "y" * 1_000_000, end="") == ("y" * 1_000_000 + "a",)
    envs.close()


@pytest.mark.parametrize(
    "call", [lambda envs: envs.render(), lambda envs: envs.call("named", "x"), lambda envs: envs.get_attr("at"), lambda envs: envs.set_attr("what", "b")],
    ids=["render", "call", "get_attr", "set_attr"],
)
def test_an_episode_continues_after_an_interrupted_call(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    envs = ProcessVectorEnv([functools.partial(Counter, "a")] * 2, workers=2)
    envs.reset()
    envs.step([0, 0])
    with monkeypatch.context() as patch:
        patch.setattr(envs._workers[1], "wait", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            call(envs)
        envs._expect_whole()
        with pytest.raises(KeyboardInterrupt):
            envs.step([0, 0])
    with pytest.raises(RuntimeError, match=r"call reset\(\) first"):
        envs.step([0, 0])
    envs.close()


def test_a_forked_copy_leaves_the_workers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    envs = ProcessVectorEnv([functools.partial(Counter, "a")], workers=1)
    envs.reset()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        envs.close_extras()
    assert envs.call("render") == ("a at 0",)
    envs.close()
