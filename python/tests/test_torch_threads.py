"""The numbers of PyTorch's threads in runs."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from relive import rl
from relive.rl import torch as rlt
from relive.rl._torch_threads import TorchThreads

THREADS = 4


@pytest.fixture(autouse=True)
def _threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    yield
    torch.set_num_threads(before)


class Policy(rlt.Policy):
    """Reports its number of threads as an extra."""

    extras = {"threads": np.int64}

    def act(self, observations: Any, starts: Any) -> Any:
        return np.zeros(len(starts), np.int64), {"threads": np.full(len(starts), torch.get_num_threads())}


class Learner(rlt.Learner):
    """Notes its own number of threads, and those of the policies."""

    def __init__(self, seen: dict[str, set[int]]) -> None:
        self.module, self.seen = torch.nn.Linear(1, 1), seen

    def learn(self, rollout: rl.Rollout) -> None:
        self.seen["policy"].update(rollout.extras["threads"].flatten().tolist())
        self.seen["learner"].add(torch.get_num_threads())


class Agent:
    """Does not learn anything."""

    experience = rl.Rollouts(steps=4, environments=2)
    # An attribute of the class, so that it is not pickled.
    seen: dict[str, set[int]] = {}

    def policy(self, spec: rl.EnvironmentSpec, context: rl.PolicyContext) -> Policy:
        return Policy(torch.nn.Linear(1, 1))

    def learner(self, spec: rl.EnvironmentSpec, seed: int) -> Learner:
        return Learner(self.seen)


def run(**options: Any) -> dict[str, set[int]]:
    """Returns the numbers of threads that policies and the learner have seen."""
    Agent.seen = {"policy": set(), "learner": set()}
    rl.run(Agent(), "catch/0", steps=40, progress=False, **options)
    return Agent.seen


def in_new_thread() -> int:
    """Returns the number of threads that a thread gets that was started after a run."""
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return found[0]


def test_a_single_thread_uses_all_threads() -> None:
    assert run() == {"policy": {THREADS}, "learner": {THREADS}}


@pytest.mark.parametrize("on", ["threads", "processes"])
def test_actors_use_one_thread_each(on: Any) -> None:
    assert run(on=on, actors=2) == {"policy": {1}, "learner": {THREADS}}
    assert (torch.get_num_threads(), in_new_thread()) == (THREADS, THREADS)


def test_the_users_number_of_threads_is_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", str(THREADS))
    assert run(on="threads", actors=2) == {"policy": {THREADS}, "learner": {THREADS}}


def test_learners_divide_the_threads() -> None:
    threads = TorchThreads(has_actors=True, learners=2)
    threads.begin_learner()
    assert torch.get_num_threads() == THREADS // 2
    actor = threading.Thread(target=threads.before_acting)
    actor.start()
    actor.join()
    assert in_new_thread() == 1
    threads.before_learning()
    assert (torch.get_num_threads(), in_new_thread()) == (THREADS // 2, THREADS // 2)
    threads.end()
    assert (torch.get_num_threads(), in_new_thread()) == (THREADS, THREADS)


def test_a_policy_that_imports_pytorch_first_leaves_the_number_unchanged_after_the_run() -> None:
    threads = TorchThreads(has_actors=True)
    actor = threading.Thread(target=threads.before_acting)
    actor.start()
    actor.join()
    threads.before_learning()
    threads.end()
    assert in_new_thread() == THREADS


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not list a process's threads")
def test_the_callers_idle_threads_end(tmp_path: pathlib.Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os, torch\n"
        "from relive.rl._torch_threads import release_pool\n"
        "count = lambda: len(os.listdir('/proc/self/task'))\n"
        "torch.set_num_threads(4)\n"
        "before = count()\n"
        "large = torch.ones(1 << 20)\n"
        "during = count()\n"
        "release_pool()\n"
        "print(during - before, count() - before, float(large.exp()[0]) > 2.7)\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    told = subprocess.run([sys.executable, str(program)], env=environment, capture_output=True, text=True, timeout=120, check=True)
    assert told.stdout.split() == ["3", "0", "True"]
