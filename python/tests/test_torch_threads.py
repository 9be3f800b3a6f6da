"""The numbers of PyTorch's threads in runs."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
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
    """Checks its own number of threads, and notes those of the policies."""

    def __init__(self, seen: dict[str, set[int]], expected: int) -> None:
        self.module, self.seen, self.expected = torch.nn.Linear(1, 1), seen, expected

    def share(self, rank: int, ranks: int, address: str) -> None:
        """Does nothing, since there is nothing to learn."""

    def learn(self, rollout: rl.Rollout) -> None:
        # A learner in another process can only raise an exception.
        assert torch.get_num_threads() == self.expected
        self.seen.setdefault("policy", set()).update(rollout.extras["threads"].flatten().tolist())


class Agent:
    """Does not learn anything."""

    experience = rl.Rollouts(steps=4, environments=2)
    # An attribute of the class, so that it is not pickled.
    seen: dict[str, set[int]] = {}

    def __init__(self, expected: int) -> None:
        self.expected = expected

    def policy(self, spec: rl.EnvironmentSpec, context: rl.PolicyContext) -> Policy:
        return Policy(torch.nn.Linear(1, 1))

    def learner(self, spec: rl.EnvironmentSpec, seed: int) -> Learner:
        return Learner(self.seen, self.expected)


def run(expected: int = THREADS, **options: Any) -> set[int]:
    """Returns the numbers of threads that policies have seen. Learners must have the expected number."""
    Agent.seen = {}
    rl.run(Agent(expected), "catch/0", steps=40, progress=False, **options)
    return Agent.seen["policy"]


def in_new_thread(call: Callable[[], object] = lambda: None) -> int:
    """Returns the number of threads in a thread that has made a call."""
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append((call(), torch.get_num_threads())[1]))
    thread.start()
    thread.join()
    return found[0]


def test_a_single_thread_uses_all_threads() -> None:
    assert run() == {THREADS}


@pytest.mark.parametrize("on", ["threads", "processes"])
def test_actors_use_one_thread_each(on: Any) -> None:
    assert run(on=on, actors=2) == {1}
    assert (torch.get_num_threads(), in_new_thread()) == (THREADS, THREADS)


def test_the_users_number_of_threads_is_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", str(THREADS))
    assert run(on="threads", actors=2) == {THREADS}


def test_each_limit_applies_to_its_own_thread() -> None:
    threads = TorchThreads(has_actors=True, learners=2)
    assert in_new_thread(threads.limit_actor) == 1
    assert in_new_thread(threads.limit_learner) == THREADS // 2
    # A second call changes nothing.
    assert in_new_thread(lambda: [threads.limit_learner() for _ in range(2)]) == THREADS // 2
    assert (torch.get_num_threads(), in_new_thread()) == (THREADS, THREADS)


def test_without_actors_and_other_learners_there_is_no_limit() -> None:
    threads = TorchThreads(has_actors=False)
    assert (in_new_thread(threads.limit_actor), in_new_thread(threads.limit_learner)) == (THREADS, THREADS)


def test_a_learner_may_ask_for_fewer_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Learner, "torch_threads", 3)
    assert run(3) == {THREADS, 3}
    assert run(3, on="threads", actors=1) == {1}
    assert run(THREADS // 2, learners=2) == {1}
    monkeypatch.setattr(Learner, "torch_threads", 2 * THREADS)
    assert run() == {THREADS}
    monkeypatch.setattr(Learner, "torch_threads", None)
    assert run() == {THREADS}
    assert (torch.get_num_threads(), in_new_thread()) == (THREADS, THREADS)


@pytest.mark.parametrize(("threads", "kind"), [(0, ValueError), (1.5, TypeError)])
def test_a_wrong_number_of_threads_is_refused(threads: Any, kind: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Learner, "torch_threads", threads)
    with pytest.raises(kind, match="torch_threads"):
        run()


def test_small_networks_learn_with_one_thread() -> None:
    def threads(agent: Any, environment: str) -> int | None:
        spec = rl.make_environment_spec(rl.GymEnvironment(gymnasium.make(environment)))
        found: int | None = agent.learner(spec, 1).torch_threads
        return found

    assert threads(rlt.PPO(num_envs=2, num_steps=16, minibatch_size=16), "CartPole-v1") == 1
    assert threads(rlt.PPO(num_envs=2, num_steps=16, minibatch_size=16, hidden=(512, 512)), "CartPole-v1") is None
    assert threads(rlt.DQN(batch_size=16, min_replay_size=50), "CartPole-v1") == 1
    assert threads(rlt.SAC(batch_size=16, min_replay_size=50, hidden=(16, 16)), "Pendulum-v1") == 1
    assert threads(rlt.SAC(batch_size=256, min_replay_size=256), "Pendulum-v1") is None


def test_two_learners_divide_the_threads() -> None:
    assert run(THREADS // 2, learners=2) == {1}


def test_runs_that_overlap_do_not_limit_each_other() -> None:
    begun, seen = threading.Event(), set[int]()

    def on_step(_: Any) -> None:
        # An actor of this run has been limited.
        if not begun.is_set():
            begun.set()
            seen.update(run(on="threads", actors=1))

    rl.run(Agent(THREADS), "catch/0", steps=40, on="threads", actors=1, progress=False, on_step=on_step)
    assert seen == {1}
    assert (torch.get_num_threads(), in_new_thread()) == (THREADS, THREADS)


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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="other systems cannot fork")
@pytest.mark.parametrize("imports_before", [True, False])
def test_a_run_in_a_forked_process_does_not_wait_for_threads_of_its_parent(imports_before: bool, tmp_path: pathlib.Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        ("import relive.rl\n" if imports_before else "") + "import os, torch\n"
        "torch.set_num_threads(4)\n"
        "torch.ones(1 << 20)\n"
        "child = os.fork()\n"
        "if child:\n"
        "    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "from relive import rl\n"
        "result = rl.DQN(min_replay_size=20).train('catch/0', steps=200)\n"
        "os._exit(0 if result.is_complete else 1)\n"
    )
    subprocess.run([sys.executable, str(program)], timeout=120, check=True)
