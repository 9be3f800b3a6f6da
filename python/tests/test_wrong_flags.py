"""``terminated`` and ``truncated`` that are not bools, and results of vectors that do not have one value per row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv
from own_agents import Agent
from test_wrong_environments import SEEN, Changes, Make, Odd

from relive import rl
from relive.rl import _faults
from relive.rl.vector import ProcessVectorEnv

NOT_BOOLS = ["False", float("nan"), None, 2, 1.0, np.array([False]), [True]]


def run(env: Any, environments: int = 1) -> Any:
    return rl.run(Agent(rl.Rollouts(steps=5, environments=environments)), env, steps=60)


@pytest.mark.parametrize("value", NOT_BOOLS, ids=repr)
@pytest.mark.parametrize("name", ["terminated", "truncated"])
def test_ends_of_episodes_must_be_bools(name: str, value: Any) -> None:
    given = (value, False) if name == "terminated" else (False, value)
    with pytest.raises(TypeError, match=rf"^Odd\.step\(\) returned an invalid result: {name} is .*, but it must be a bool"):
        run(Odd((SEEN, 1.0, *given, {})))


@pytest.mark.parametrize("value", [True, np.True_, np.array(True), 1, np.int8(1)], ids=repr)
def test_bools_of_all_kinds_end_episodes(value: Any) -> None:
    result = run(Odd((SEEN, 1.0, value, False, {})))
    assert result.episodes.lengths[:3].tolist() == [3, 1, 1]
    assert _faults.flag(value, "it") is True and _faults.flag(value * 0, "it") is False


def test_vectors_in_processes_check_the_ends_of_episodes() -> None:
    envs = ProcessVectorEnv([Odd, Make((SEEN, 1.0, "False", False, {}))], workers=1)
    envs.reset(seed=1)
    with pytest.raises(TypeError, match=r"Odd \(environment 1\)\.step\(\) returned an invalid result: terminated is 'False'"):
        for _ in range(3):
            envs.step(np.zeros(2, np.int64))
    envs.close()


ROWS = np.zeros(2)


class Answers(SyncVectorEnv):
    """Returns fixed results except for the observations."""

    def __init__(self, *answer: Any) -> None:
        super().__init__([Odd] * 2)
        self.answer = answer

    def step(self, actions: Any) -> Any:
        return super().step(actions)[0], *self.answer, {}


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        ((1.0, ROWS > 0, ROWS > 0), ValueError, r"the rewards: expected the shape \(2,\), got \(\)"),
        ((ROWS, False, ROWS > 0), ValueError, r"terminated: expected the shape \(2,\), got \(\)"),
        ((ROWS, ROWS > 0, [True]), ValueError, r"truncated: expected the shape \(2,\), got \(1,\)"),
        ((ROWS, ["False", "True"], ROWS > 0), TypeError, "terminated is an array of <U5, but it must be an array of bools"),
        ((ROWS, ROWS > 0, ROWS + np.nan), TypeError, "truncated is an array of float64, but it must be an array of bools"),
        (([None, 1.0], ROWS > 0, ROWS > 0), TypeError, "the rewards are an array of object, but they must be numbers"),
    ],
)
def test_vectors_return_one_value_per_row(answer: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=rf"^Answers\.step\(\) returned an invalid result: {text}"):
        run(lambda seed: Answers(*answer), 2)


def test_vectors_may_return_lists_and_whole_numbers() -> None:
    result = run(lambda seed: Answers([1, 2], [0, 0], np.array([1, 0], np.uint8)), 2)
    assert 1.0 in result.episodes.returns


class Pair:
    """A parallel environment of PettingZoo with two agents, of which the second one returns the given value."""

    possible_agents = agents = ("a", "b")

    def __init__(self, terminated: Any) -> None:
        self.terminated = terminated

    def observation_space(self, agent: str) -> Any:
        return Odd.observation_space

    def action_space(self, agent: str) -> Any:
        return Odd.action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return {"a": SEEN, "b": SEEN}, {}

    def step(self, actions: Any) -> Any:
        return {"a": SEEN, "b": SEEN}, {"a": 0.0, "b": 0.0}, {"a": False, "b": self.terminated}, {}, {}


def test_parallel_environments_check_the_ends_of_episodes() -> None:
    with pytest.raises(TypeError, match=r"^Pair\.step\(\) returned an invalid result: terminated of 'b' is 'False', but it must be a bool"):
        run(lambda seed: Pair("False"), 2)
    assert run(lambda seed: Pair(np.False_), 2).is_complete


class Shifting(SyncVectorEnv):
    """A vector whose rows reset by themselves, and whose action space changes with that of its environments."""

    single_action_space = property(lambda self: self.envs[0].action_space, lambda self, space: None)  # type: ignore[assignment]


def test_changed_spaces_of_vectors_are_detected_in_later_episodes() -> None:
    with pytest.raises(ValueError, match=r"Shifting: its single_action_space was Discrete\(3\) and is Discrete\(4\) now"):
        run(lambda seed: Shifting([Changes] * 2), 2)
