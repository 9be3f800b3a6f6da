"""When workers are restarted, how long their errors are awaited, and that they end with the process that started them."""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
from multiprocessing import util
from typing import Any

import gymnasium
import pytest
from own_agents import TRANSITIONS, Agent, SummingLearner
from test_worker_processes import FailingAgent

import relive.rl._workers
from relive import rl
from relive.rl import _local_workers
from relive.rl._local_workers import Process
from relive.rl._workers import Supervisor
from relive.rl.vector import ProcessVectorEnv


class Silent:
    """A worker that never reports an error. Waiting for it takes all the given time, by the clock of the test."""

    begun = 1.0

    def __init__(self, launcher: Silents) -> None:
        self.launcher = launcher

    def ended(self) -> str | None:
        return self.launcher.how

    def raise_failure(self, seconds: float = 0.0) -> None:
        self.launcher.waits.append(seconds)
        self.launcher.now += seconds

    def end(self, seconds: float) -> None:
        self.launcher.graces.append(seconds)


class Silents:
    """Starts such workers."""

    other_machines = None

    def __init__(self, by_nodes: bool = False) -> None:
        self.by_nodes, self.how, self.now = by_nodes, None, 100.0  # type: ignore[var-annotated]
        self.started, self.waits, self.graces = 0, [], []  # type: ignore[var-annotated]

    def start(self, address: str, number: int) -> Any:
        self.started += 1
        return Silent(self)

    def close(self) -> None: ...


@pytest.fixture
def silents(monkeypatch: pytest.MonkeyPatch) -> Any:
    launcher = Silents()
    monkeypatch.setattr(relive.rl._workers.time, "monotonic", lambda: launcher.now)
    return launcher


def supervisor_of(launcher: Any, actors: int = 3) -> Supervisor:
    supervisor = Supervisor(launcher, actors)
    supervisor.start("address")
    return supervisor


@pytest.mark.parametrize(("by_nodes", "seconds"), [(False, 2.0), (True, 10.0)])
def test_errors_of_all_workers_have_one_deadline(silents: Any, by_nodes: bool, seconds: float) -> None:
    silents.by_nodes = by_nodes
    supervisor_of(silents).raise_failure()
    assert silents.waits == [seconds, 0.0, 0.0]


def test_workers_of_a_failed_run_have_less_time_to_end(silents: Any) -> None:
    supervisor = supervisor_of(silents, 1)
    supervisor.raise_failure(after=ValueError("from the extension"))
    supervisor.close()
    assert (silents.waits, silents.graces) == ([2.0], [1.0])


class FailingLearner(SummingLearner):
    def learn(self, batch: Any) -> Any:
        raise LookupError("this learner cannot learn")


class AgentWithFailingLearner(Agent):
    def learner(self, spec: Any, seed: int) -> Any:
        return FailingLearner()


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The times for which a run waits for errors of its workers."""
    found: list[float] = []
    waiting = Process.raise_failure

    def noted(self: Process, seconds: float = 0.0) -> None:
        found.append(seconds)
        waiting(self, seconds)

    monkeypatch.setattr(Process, "raise_failure", noted)
    return found


def test_an_error_of_this_process_does_not_wait_for_errors_of_workers(waits: list[float]) -> None:
    with pytest.raises(LookupError, match="this learner cannot learn"):
        rl.run(AgentWithFailingLearner(TRANSITIONS), "catch/0", steps=300, on="processes", actors=2)
    assert waits and not any(waits)


def test_an_error_that_a_worker_has_caused_waits_for_it(waits: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    # The run fails when a worker says so, before the worker has sent the exception.
    monkeypatch.setattr(Supervisor, "check", lambda self: None)
    with pytest.raises(LookupError, match="this policy cannot act"):
        rl.run(FailingAgent(rl.Rollouts(steps=10, environments=2)), "catch/0", steps=300, on="processes", actors=2)
    assert any(waits)


def test_workers_that_have_detected_the_end_of_the_run_are_not_replaced(silents: Any) -> None:
    supervisor = supervisor_of(silents)
    silents.how = ""
    for _ in range(3):
        supervisor.check()
    assert (silents.started, supervisor.restarts) == (3, 0)


def test_workers_are_not_restarted_while_this_process_exits(silents: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    supervisor = supervisor_of(silents, 1)
    silents.how = "signal 15"
    supervisor.check()
    assert silents.started == 2 and "restarting it" in caplog.text
    caplog.clear()
    monkeypatch.setattr(util, "is_exiting", lambda: True)
    supervisor.check()
    assert silents.started == 2 and not caplog.text


def in_processes(seed: int) -> Any:
    return ProcessVectorEnv([cartpole] * 2, workers=2)


def in_processes_of_gymnasium(seed: int) -> Any:
    return gymnasium.vector.AsyncVectorEnv([cartpole] * 2)


def cartpole() -> Any:
    return gymnasium.make("CartPole-v1")


@pytest.mark.parametrize("env", [in_processes, in_processes_of_gymnasium])
def test_workers_may_have_processes_of_their_own(env: Any) -> None:
    agent = rl.PPO(num_envs=2, num_steps=16, minibatch_size=16)
    assert rl.run(agent, env, steps=64, on="processes", actors=1, progress=False).is_complete


EXITS = """
import os, signal, sys, threading
from relive import rl
from test_rl_supervisor import in_processes

ended = threading.Event()

def train():
    agent = rl.PPO(num_envs=4, num_steps=16, minibatch_size=16)
    rl.run(agent, in_processes, steps=10**9, on="processes", actors=2, progress=lambda _: ended.set())

if __name__ == "__main__":
    threading.Thread(target=train, daemon=True).start()
    ended.wait()
    if sys.argv[1] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if sys.argv[1] == "raise":
        raise LookupError("the program is wrong")
    sys.exit(7)
"""


@pytest.mark.parametrize(("how", "code"), [("exit", 7), ("raise", 1), ("kill", -9)])
def test_a_program_that_ends_during_a_run_leaves_no_process(how: str, code: int, tmp_path: pathlib.Path) -> None:
    script = tmp_path / "exits.py"
    script.write_text(EXITS)
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(__file__)}
    # All processes hold the pipes open, so this waits until the last one has ended.
    done = subprocess.run([sys.executable, script, how], capture_output=True, text=True, timeout=100, check=False, env=environment)
    assert done.returncode == code and "restarting" not in done.stderr


def test_a_worker_without_stderr_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    # What would change this process.
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(_local_workers, "end_with_parent", lambda: None)
    done: list[str] = []
    theirs, begun = multiprocessing.Pipe()[1], multiprocessing.RawValue("d", 0.0)
    with pytest.raises(SystemExit) as ended:
        _local_workers._work(done.append, ("work",), theirs, begun)
    assert (done, ended.value.code) == (["work"], _local_workers._RUN_IS_OVER)
