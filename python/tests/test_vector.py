"""Environments of Gymnasium in worker processes."""

from __future__ import annotations

import functools
import os
import pickle
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Text
from gymnasium.vector import SyncVectorEnv
from vector_environments import Counter, Parts, same

from relive.rl import vector
from relive.rl.vector import ProcessVectorEnv


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


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: ProcessVectorEnv([]), ValueError, "env_fns is empty"),
        (lambda: ProcessVectorEnv([Parts], workers=0), ValueError, "workers is 0, but it must be at least 1"),
        (lambda: ProcessVectorEnv([Parts], timeout=-1), ValueError, "timeout must be a number of seconds, at least 0"),
        (lambda: ProcessVectorEnv([Parts], timeout="x"), TypeError, "timeout must be a number, not 'x'"),  # type: ignore[arg-type]
        (lambda: ProcessVectorEnv([lambda: None]), TypeError, r"env_fns\[0\]\(\) returned None, but it must return an environment"),
        (lambda: ProcessVectorEnv([Words]), TypeError, r"the observation space\['words'\] is Text"),
    ],
)
def test_invalid_vectors_are_refused(make: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        make()


def test_by_default_there_are_as_many_workers_as_usable_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    for processors in (1, 3):
        monkeypatch.setattr(os, "sched_getaffinity", lambda process, processors=processors: set(range(processors)))
        envs = ProcessVectorEnv([Parts] * 4)
        assert len(envs._workers) == processors
        envs.close()


class Words(Parts):
    observation_space = Dict({"words": Text(4)})


def test_seeds_are_as_many_as_environments() -> None:
    envs = ProcessVectorEnv([Parts] * 2, workers=1)
    with pytest.raises(ValueError, match="got 1 seeds for 2 environments; give one for each"):
        envs.reset(seed=[1])
    envs.close()


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
