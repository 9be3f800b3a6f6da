"""The structure of a policy's actions and extras, and the parts of a learner's result."""

from __future__ import annotations

import dataclasses
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from relive import rl
from relive.rl._actions import ActionLeaves

PEDALS = spaces.Dict({"throttle": spaces.Box(0.0, 1.0, ()), "brake": spaces.Box(0.0, 1.0, ())})
PAIR = spaces.Tuple((spaces.Discrete(3), spaces.Dict({"by": spaces.Box(-1.0, 1.0, (2,))})))


class Car(gymnasium.Env[Any, Any]):
    """Stores the actions that it receives."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self, space: spaces.Space[Any]) -> None:
        self.action_space, self.actions = space, []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self.actions.append(action)
        return np.zeros(2, np.float32), 0.0, False, False, {}


@dataclasses.dataclass
class Agent:
    """An agent whose policy and learner return fixed values, and which is its own policy and learner."""

    actions: Any = None
    learnt: Any = None
    experience: Any = rl.Rollouts(steps=4)
    extras: Any = dataclasses.field(default_factory=dict)

    settings = property(lambda self: {})

    def policy(self, spec: Any, context: Any) -> Any:
        return self

    def learner(self, spec: Any, seed: int) -> Any:
        return self

    def act(self, observations: Any, starts: Any) -> Any:
        return self.actions

    def load(self, weights: Any) -> None: ...

    def learn(self, batch: Any) -> Any:
        return self.learnt

    def weights(self) -> Any:
        return {"sum": np.zeros(1)}


def run(agent: Agent, space: spaces.Space[Any] = PEDALS) -> Any:
    car = Car(space)
    rl.run(agent, car, steps=8)
    return car.actions[0]


ONE, ZERO = np.ones(1, np.float32), np.zeros(1, np.float32)


def test_actions_reach_the_environment_under_their_names_in_any_order() -> None:
    for actions in ({"throttle": ONE, "brake": ZERO}, {"brake": ZERO, "throttle": ONE}):
        got = run(Agent(actions))
        assert (float(got["throttle"]), float(got["brake"])) == (1.0, 0.0)
    choice, rest = run(Agent([np.array([2]), {"by": np.ones((1, 2), np.float32)}]), PAIR)
    assert choice == 2 and rest["by"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("actions", "kind", "text"),
    [
        ({"accelerate": ONE, "brake": ZERO}, ValueError, "the actions lack 'throttle' and have the unknown 'accelerate'; the environment's actions "
                                                         "have the names 'brake', 'throttle'"),
        ({"brake": ZERO}, ValueError, "the actions lack 'throttle'; "),
        ({"brake": ZERO, "throttle": ONE, "clutch": ONE}, ValueError, "the actions have the unknown 'clutch'; "),
        ((ZERO, ONE), TypeError, "the actions are of type tuple, but they must be a mapping with the names 'brake', 'throttle'"),
        (ZERO, TypeError, "the actions are of type ndarray, but they must be a mapping"),
        (None, TypeError, "None for the actions"),
    ],
)
def test_actions_with_other_names_are_refused(actions: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=rf"Agent\.act\(\) returned .*{text}"):
        run(Agent(actions))


@pytest.mark.parametrize(
    ("actions", "kind", "text"),
    [
        ((np.array([2]),), ValueError, "the actions have 1 parts, but the environment's actions have 2"),
        ({0: np.array([2]), 1: {"by": ZERO}}, TypeError, "the actions are of type dict, but they must be a tuple of 2 parts"),
        ((np.array([2]), {"at": ZERO}), ValueError, "the actions at '1' lack 'by' and have the unknown 'at'"),
    ],
)
def test_actions_with_other_parts_are_refused(actions: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=rf"Agent\.act\(\) returned unexpected actions: {text}"):
        run(Agent(actions), PAIR)


def test_the_names_of_other_mappings_and_of_fields_are_compared() -> None:
    import collections

    named = collections.namedtuple("named", ["go", "by"])
    other = collections.namedtuple("other", ["by", "go"])
    assert ActionLeaves(named(0, 0)).of(named(1, 2)) == ActionLeaves(named(0, 0)).of((1, 2)) == [1, 2]
    # The names match, so the order of the fields of the environment applies.
    assert ActionLeaves(named(0, 0)).of(other(by=2, go=1)) == [1, 2]
    with pytest.raises(ValueError, match="the actions lack 'go' and have the unknown 'stop'"):
        ActionLeaves(named(0, 0)).of(collections.namedtuple("third", ["stop", "by"])(1, 2))
    assert ActionLeaves({"a": 0}).of(collections.ChainMap({"a": 1})) == [1]


@pytest.mark.parametrize(
    ("actions", "kind", "text"),
    [
        (np.array([None]), TypeError, r"act\(\) returned an array of objects for the actions"),
        ([[1], [1, 2]], ValueError, r"act\(\): the actions: setting an array element with a sequence"),
    ],
)
def test_actions_that_are_no_arrays_of_numbers_name_the_policy(actions: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=rf"Agent\.{text}"):
        run(Agent(actions), spaces.Discrete(3))


def test_extras_must_be_a_mapping() -> None:
    with pytest.raises(TypeError, match=r"Agent\.extras is \['value'\], but it must be a mapping of names to data types"):
        run(Agent((np.zeros(1, np.int64), {}), extras=["value"]), spaces.Discrete(3))


REPLAY = rl.Transitions(batch_size=2, min_size=2, max_size=9, priority_exponent=0.5)


@pytest.mark.parametrize(
    ("learnt", "kind", "text"),
    [
        (rl.Learnt(steps=-1), ValueError, r"Learnt\.steps from Agent\.learn\(\) is -1, but it must be at least 0"),
        (rl.Learnt(steps=1.5), TypeError, r"Learnt\.steps from Agent\.learn\(\) is 1\.5, but it must be a whole number"),  # type: ignore[arg-type]
        (rl.Learnt(samples=-5), ValueError, r"Learnt\.samples from Agent\.learn\(\) is -5"),
        (rl.Learnt(metrics=None), TypeError, r"Agent\.learn\(\) returned the metrics None, but they must be a mapping"),  # type: ignore[arg-type]
        (rl.Learnt(priorities=np.array([1.0, -1.0])), ValueError, r"Agent\.learn\(\) returned the priority -1\.0, but priorities must be finite"),
        (rl.Learnt(priorities=np.array([np.nan, 1.0])), ValueError, r"Agent\.learn\(\) returned the priority nan"),
        (rl.Learnt(priorities=["much", "more"]), TypeError, r"Agent\.learn\(\) returned priorities of the type <U4, but they must be numbers"),
        (rl.Learnt(priorities=[[1.0], [1.0, 2.0]]), ValueError, r"Agent\.learn\(\): priorities: setting an array element"),
    ],
)
def test_invalid_results_of_a_learner_name_the_learner(learnt: rl.Learnt, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        run(Agent(np.zeros(1, np.int64), learnt, REPLAY), spaces.Discrete(3))
