"""Environments of Gymnasium in worker processes."""

from __future__ import annotations

import functools
import multiprocessing
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import traceback
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Text, Tuple
from gymnasium.vector import SyncVectorEnv

from relive.rl import vector
from relive.rl.vector import ProcessVectorEnv


class Parts(gymnasium.Env[Any, Any]):
    """An environment with nested observations and actions, which returns its input."""

    observation_space = Dict({"a": Box(-1, 100, (2,), np.float32), "b": Tuple((Discrete(9), MultiBinary(3)))})
    action_space = Dict({"go": Discrete(5), "by": Box(0, 1, (2,), np.float32)})

    def __init__(self) -> None:
        self.at = 0

    def seen(self) -> Any:
        return {"a": np.full(2, self.at, np.float32), "b": (self.at % 9, np.array([self.at % 2, 0, 1], np.int8))}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.at = 0 if seed is None else seed
        return self.seen(), {"options": options} if options else {}

    def step(self, action: Any) -> Any:
        self.at += int(action["go"])
        return self.seen(), float(action["by"].sum()), False, self.at > 20, {"at": self.at}


class Bad(gymnasium.Env[Any, Any]):
    """An environment that misbehaves at its third step."""

    observation_space, action_space = Box(0, 1, (1,), np.float32), Discrete(2)

    def __init__(self, what: str) -> None:
        self.what, self.steps = what, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        if self.steps == 3:
            self.do_it()
        return np.zeros(1, np.float32), 0.0, False, False, {}

    def do_it(self) -> None:
        if self.what == "raise":
            raise LookupError("this environment is bad")
        if self.what == "kill":
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.what == "exit":
            os._exit(3)
        if self.what == "hang":
            threading.Event().wait()


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, tuple):
        return all(same(*pair) for pair in zip(one, other, strict=True))
    return bool(np.array_equal(one, other))


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_a_process_vector_matches_a_sync_vector(workers: int) -> None:
    make = [lambda: gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("CartPole-v1"))] * 5
    ours, theirs = ProcessVectorEnv(make, workers=workers), gymnasium.vector.SyncVectorEnv(make)
    assert (ours.num_envs, ours.observation_space, ours.action_space) == (5, theirs.observation_space, theirs.action_space)
    assert same(ours.reset(seed=3), theirs.reset(seed=3))
    rng = np.random.default_rng(1)
    for _ in range(60):
        actions = rng.integers(2, size=5)
        *answers, infos = ours.step(actions)
        *expected, told = theirs.step(actions)
        assert same(tuple(answers), tuple(expected))
        if told:
            # The duration of an episode is not compared.
            assert infos["episode"].keys() == told["episode"].keys() and same(infos["episode"]["r"], told["episode"]["r"])
    ours.close()


def test_observations_and_actions_may_have_parts() -> None:
    ours, theirs = ProcessVectorEnv([Parts] * 3, workers=2), gymnasium.vector.SyncVectorEnv([Parts] * 3)
    assert same(ours.reset(seed=[4, None, 7], options={"x": 1})[0], theirs.reset(seed=[4, None, 7], options={"x": 1})[0])
    ours.action_space.seed(5)
    for _ in range(30):
        actions = ours.action_space.sample()
        assert same(ours.step(actions)[:-1], theirs.step(actions)[:-1])
    ours.close()


def test_observations_are_copied_unless_disabled() -> None:
    for copy, expected in ((True, 0), (False, 2)):
        envs = ProcessVectorEnv([Parts] * 2, workers=1, copy=copy)
        seen, _ = envs.reset()
        envs.step({"go": np.array([2, 2]), "by": np.zeros((2, 2), np.float32)})
        assert seen["a"][0, 0] == expected
        envs.close()
        assert seen["a"][0, 0] == expected, "arrays outlive the vector"


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
    with pytest.raises(RuntimeError, match=rf"worker 1, with environment 1, ended with {how}"):
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


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: ProcessVectorEnv([]), ValueError, "env_fns is empty"),
        (lambda: ProcessVectorEnv([Parts], workers=0), ValueError, "workers is 0, but it must be at least 1"),
        (lambda: ProcessVectorEnv([Words]), TypeError, r"the observation space\['words'\] is Text"),
    ],
)
def test_invalid_vectors_are_refused(make: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        make()


class Words(Parts):
    observation_space = Dict({"words": Text(4)})


def test_seeds_are_as_many_as_environments() -> None:
    envs = ProcessVectorEnv([Parts] * 2, workers=1)
    with pytest.raises(ValueError, match="got 1 seeds for 2 environments; give one for each"):
        envs.reset(seed=[1])
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


class Told(gymnasium.Env[Any, Any]):
    """Returns infos of many kinds, some of which only some environments have."""

    observation_space, action_space = Box(0, 1, (1,), np.float32), Discrete(2)

    def __init__(self, number: int) -> None:
        self.number, self.steps = number, 0

    def infos(self) -> dict[str, Any]:
        number, steps = self.number, self.steps
        infos: dict[str, Any] = {"float": number / 2, "numpy": np.float32(number), "text": f"{number}", "array": np.full(2, number)}
        if number % 2:
            infos |= {"odd": number, "nested": {"steps": steps, "deep": {"flag": number > 2}}}
        return infos | ({"mixed": steps} if number < 2 else {"mixed": float(steps)})

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(1, np.float32), self.infos()

    def step(self, action: Any) -> Any:
        self.steps += 1
        return np.zeros(1, np.float32), 0.0, self.steps % 3 == 0, False, self.infos() if self.steps != 2 else {}


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_infos_are_merged_as_gymnasium_merges_them(workers: int) -> None:
    make = [functools.partial(Told, number) for number in range(5)]
    ours, theirs = ProcessVectorEnv(make, workers=workers), SyncVectorEnv(make)
    actions = np.zeros(5, np.int64)
    for got, expected in [(ours.reset(), theirs.reset()), *((ours.step(actions), theirs.step(actions)) for _ in range(5))]:
        assert got[-1].keys() == expected[-1].keys()
        assert_equal_infos(got[-1], expected[-1])
    ours.close()


def assert_equal_infos(got: dict[str, Any], expected: dict[str, Any]) -> None:
    for name, values in expected.items():
        if isinstance(values, dict):
            assert_equal_infos(got[name], values)
        else:
            assert got[name].dtype == values.dtype and np.array_equal(got[name], values), name


class Counter(gymnasium.Env[Any, Any]):
    """Shows the number of its steps, and has attributes to read, to change and to call."""

    observation_space, action_space = Box(0, 100, (1,), np.float32), Discrete(3)
    render_mode = "ansi"

    def __init__(self, name: str) -> None:
        self.name, self.steps, self.lock = name, 0, threading.Lock()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1, np.float32), {"seed": seed, "options": repr(options)}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return np.full(1, self.steps, np.float32), 0.0, self.steps == 3, False, {}

    def render(self) -> Any:
        return f"{self.name} at {self.steps}"

    def named(self, begin: str, *, end: str) -> str:
        return f"{begin}{self.name}{end}"


@pytest.fixture(scope="module")
def counters() -> Any:
    envs = ProcessVectorEnv([functools.partial(Counter, name) for name in "abc"], workers=2)
    yield envs
    envs.close()


def test_a_mask_selects_the_environments_to_reset(counters: Any) -> None:
    theirs = SyncVectorEnv([functools.partial(Counter, name) for name in "abc"])
    for envs in (counters, theirs):
        envs.reset(seed=1)
        for _ in range(3):
            envs.step([0, 0, 0])
    mask = np.array([False, True, False])
    given = {"reset_mask": mask, "speed": 2}
    expected = theirs.reset(seed=5, options=dict(given))
    seen, infos = counters.reset(seed=5, options=given)
    assert seen.tolist() == [[3], [0], [3]] and np.array_equal(seen, expected[0])
    assert_equal_infos(infos, expected[1])
    assert infos["options"].tolist() == [None, "{'speed': 2}", None] and given["reset_mask"] is mask
    # The episodes of the other environments have ended, so they begin new ones.
    assert counters.step([0, 0, 0])[0].tolist() == theirs.step([0, 0, 0])[0].tolist() == [[0], [1], [0]]


@pytest.mark.parametrize(
    ("mask", "kind"), [([True] * 3, TypeError), (np.ones(3), TypeError), (np.ones(2, bool), ValueError), (np.zeros(3, bool), ValueError)]
)
def test_invalid_masks_are_refused(mask: Any, kind: type[Exception], counters: Any) -> None:
    with pytest.raises(kind, match=r"options\['reset_mask'\] is .*, but it must"):
        counters.reset(options={"reset_mask": mask})


@pytest.mark.parametrize(
    ("actions", "kind", "text"),
    [
        (1, ValueError, r"actions: expected int64 \(3,\), got int64 \(\)"), ([1], ValueError, r"got int64 \(1,\)"),
        ([0.5, 1, 1], TypeError, "such as 0.5 cannot be converted to int64"),
    ],
)
def test_actions_are_one_for_each_environment(actions: Any, kind: type[Exception], text: str, counters: Any) -> None:
    counters.reset()
    with pytest.raises(kind, match=text):
        counters.step(actions)
    assert counters.step([1.0, 2.0, 0.0])[0].tolist() == [[1]] * 3


def test_methods_and_attributes_of_environments(counters: Any) -> None:
    counters.reset()
    counters.step([0, 0, 0])
    assert counters.render_mode == "ansi" and counters.render() == ("a at 1", "b at 1", "c at 1")
    assert counters.call("named", "<", end=">") == ("<a>", "<b>", "<c>")
    counters.set_attr("name", ["d", "e", "f"])
    assert counters.get_attr("name") == ("d", "e", "f")
    counters.set_attr("name", "g")
    assert counters.call("name") == ("g", "g", "g")
    with pytest.raises(ValueError, match="got 2 values for 3 environments"):
        counters.set_attr("name", ["d", "e"])
    with pytest.raises((AttributeError, pickle.PicklingError), match="[Cc]an't pickle"):
        counters.set_attr("name", ["d", "e", lambda: "f"])
    assert counters.get_attr("name") == ("g", "g", "g"), "no environment has received a part"
    counters.step(np.zeros(3, int))
    with pytest.raises(AttributeError, match="unknown"):
        counters.get_attr("unknown")
    with pytest.raises(TypeError, match="the environments' results cannot be sent to another process"):
        counters.get_attr("lock")


def test_actions_and_observations_have_the_parts_of_their_spaces() -> None:
    envs = ProcessVectorEnv([functools.partial(Partial, number) for number in range(2)], workers=1)
    envs.reset()
    by = np.zeros((2, 2), np.float32)
    # As lists, and in any order.
    assert envs.step({"by": by.tolist(), "go": [1, 2]})[0]["a"].tolist() == [[1, 1], [2, 2]]
    for actions in ({"go": np.array([1, 2])}, {"go": np.array([1, 2]), "to": by}, {"go": np.array(1), "by": by}):
        with pytest.raises(ValueError, match=r"the action space has the parts \['by', 'go'\]|expected int64 \(2,\)"):
            envs.step(actions)
    with pytest.raises(ValueError, match=r"environment 1\).step\(\) returned an invalid result: .* the observation has \['a', 'c'\]"):
        envs.step({"go": [4, 4], "by": by})
    envs.close()


def test_large_messages_go_both_ways(counters: Any) -> None:
    text, large = "x" * 1_000_000, np.arange(131_072.0)
    assert counters.call("named", text, end="") == tuple(text + name for name in counters.get_attr("name"))
    counters.set_attr("large", large)
    assert all(np.array_equal(found, large) for found in counters.get_attr("large"))


def test_a_worker_that_is_killed_while_a_large_message_waits_is_reported() -> None:
    envs = ProcessVectorEnv([lambda: Bad("hang")], workers=1)
    envs.reset()
    (worker,) = envs._workers
    os.kill(worker._process.pid or 0, signal.SIGSTOP)
    killer = threading.Timer(0.2, worker._process.kill)
    killer.start()
    with pytest.raises(RuntimeError, match="worker 0, with environment 0, ended with signal 9"):
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


class Partial(Parts):
    """Soon returns an observation with another name, if it is not the first environment."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def step(self, action: Any) -> Any:
        seen, *rest = super().step(action)
        return {"a": seen["a"], "c": seen["b"]} if self.number and self.at > 4 else seen, *rest


@pytest.mark.parametrize(("name", "space"), [("observation_space", Box(0, 1, (1,), np.float32)), ("action_space", Discrete(4))])
def test_environments_must_have_the_same_spaces(name: str, space: Any) -> None:
    def other() -> Any:
        environment = Counter("b")
        setattr(environment, name, space)
        return environment

    envs = ProcessVectorEnv([lambda: Counter("a"), other], workers=1)
    with pytest.raises(RuntimeError, match=rf"Counter \(environment 1\): its {name} is .* must have the same spaces"):
        envs.reset()
    envs.close()


def test_the_worker_on_the_callers_processor_is_woken_last(monkeypatch: pytest.MonkeyPatch) -> None:
    envs = ProcessVectorEnv([Parts] * 3, workers=3)
    try:
        envs.reset(seed=1)
        assert all(worker.processor >= 0 for worker in envs._workers) or sys.platform != "linux"
        envs._memory.processors[: len(envs._workers)] = [3, 5, 3]
        monkeypatch.setattr(vector, "current_processor", lambda: 3)
        assert [message for _, message in envs._in_order_of_waking(["first", "second", "third"])] == ["second", "first", "third"]
    finally:
        envs.close()
