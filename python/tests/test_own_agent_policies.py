"""Policies of user-defined agents: saved, pickled, asked for values, and called by several threads."""

from __future__ import annotations

import dataclasses
import pathlib
import pickle
import re
import subprocess
import sys
from typing import Any, ClassVar

import numpy as np
import pytest
from own_agents import TRANSITIONS, Agent

from relive import rl


def test_policies_are_saved_and_loaded_with_their_agent(tmp_path: pathlib.Path) -> None:
    result = rl.run(Agent(TRANSITIONS), "catch/0", steps=100)
    assert result.policy.agent == "Agent" and result.policy.num_actions == 3
    result.policy.save(tmp_path / "policy.safetensors")
    loaded = rl.Policy.load(tmp_path / "policy.safetensors", agent=Agent(TRANSITIONS))
    observation = np.zeros((10, 5), np.float32)
    assert [loaded(observation) for _ in range(5)] == [result.policy(observation) for _ in range(5)]
    with pytest.raises(ValueError, match="agent is Agent, but it must be one of Relive's; for an agent of your own, pass the agent as `agent=`"):
        rl.Policy.load(tmp_path / "policy.safetensors")

    class Other(Agent):
        pass

    with pytest.raises(ValueError, match="agent is Agent, but it must be Other, the agent that was passed as `agent=`"):
        rl.Policy.load(tmp_path / "policy.safetensors", agent=Other(TRANSITIONS))


def test_saved_policies_keep_the_structure_of_observations(tmp_path: pathlib.Path) -> None:
    gymnasium = pytest.importorskip("gymnasium")
    box = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    space = gymnasium.spaces.Dict({"goal": box, "view": gymnasium.spaces.Tuple((box, gymnasium.spaces.Discrete(3)))})

    class Grid(gymnasium.Env):  # type: ignore[name-defined, misc]
        observation_space, action_space = space, gymnasium.spaces.Discrete(2)

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return {"goal": np.zeros(2, np.float32), "view": (np.ones(2, np.float32), 1)}, {}

        def step(self, action: Any) -> Any:
            return self.reset()[0], 1.0, True, False, {}

    seen = []

    class Policy:
        def act(self, observations: Any, starts: Any) -> Any:
            seen.append((sorted(observations), type(observations["view"]), observations["view"][0].shape[1:]))
            return np.zeros(len(starts), np.int64)

        def load(self, weights: Any) -> None: ...

    class Learner:
        def learn(self, batch: Any) -> Any: ...

        def weights(self) -> Any:
            return {}

    class Structured:
        experience = rl.Rollouts(steps=4)

        def policy(self, spec: Any, context: Any) -> Any:
            assert set(spec.observations) == {"goal", "view"} and isinstance(spec.observations["view"], tuple)
            return Policy()

        def learner(self, spec: Any, seed: int) -> Any:
            return Learner()

    result = rl.run(Structured(), Grid, steps=8)
    result.policy.save(tmp_path / "policy.safetensors")
    for policy in (result.policy, rl.Policy.load(tmp_path / "policy.safetensors", agent=Structured())):
        assert policy(Grid().reset()[0]) == 0
    assert set(map(str, seen)) == {str((["goal", "view"], tuple, (2,)))}


def test_policies_of_custom_agents_are_pickled_with_their_agent() -> None:
    result = rl.run(Agent(TRANSITIONS), "catch/0", steps=100)
    copy = pickle.loads(pickle.dumps(result)).policy
    observation = np.zeros((10, 5), np.float32)
    assert [copy(observation) for _ in range(5)] == [result.policy(observation) for _ in range(5)]


class Counting:
    """A policy whose first action value is the number of its calls. It keeps this number in `memory`."""

    extras: ClassVar[Any] = {"values": (np.float32, (3,))}

    def __init__(self) -> None:
        self.memory: Any = np.zeros(1)

    def act(self, observations: Any, starts: Any) -> Any:
        self.memory[0] += 1
        return np.zeros(len(observations), np.int64), {"values": np.full((len(observations), 3), self.memory[0], np.float32)}

    def load(self, weights: Any) -> None: ...


class Keeping(Counting):
    def state(self) -> Any:
        # Not a copy.
        return self.memory

    def restore(self, state: Any) -> None:
        self.memory = state


class WithoutRestore(Counting):
    def state(self) -> Any:
        return self.memory


class WithAttribute(Counting):
    state = "the name of an attribute"

    def restore(self, state: Any) -> None:
        raise AssertionError("there is no state")


class Unsaveable(Keeping):
    def state(self) -> Any:
        return {"memory": self.memory, "function": len}


class Unrestorable(Keeping):
    def restore(self, state: Any) -> None:
        raise NotImplementedError


@dataclasses.dataclass
class AgentOf(Agent):
    acts: Any = Keeping

    def policy(self, spec: rl.EnvironmentSpec, context: rl.PolicyContext) -> Any:
        return self.acts()


SEEN = np.zeros((10, 5), np.float32)


def policy_of(acts: Any) -> rl.Policy:
    return rl.run(AgentOf(TRANSITIONS, acts=acts), "catch/0", steps=10, progress=False).policy


def test_the_values_of_a_custom_policy_leave_its_memory_alone() -> None:
    policy = policy_of(Keeping)
    policy(SEEN)
    assert policy.values(np.stack([SEEN] * 2)).tolist() == [[2.0] * 3] * 2
    assert policy.values(SEEN).tolist() == [2.0] * 3
    policy(SEEN)
    assert policy.values(SEEN).tolist() == [3.0] * 3


@pytest.mark.parametrize("acts", [Counting, WithoutRestore, WithAttribute])
def test_values_need_no_state(acts: Any, caplog: pytest.LogCaptureFixture) -> None:
    policy = policy_of(acts)
    assert [policy.values(SEEN).tolist() for _ in range(2)] == [[1.0] * 3, [2.0] * 3]
    assert not [record for record in caplog.records if "values()" in record.getMessage()]


@pytest.mark.parametrize(("acts", "said"), [(Unsaveable, r"Unsaveable\.state\(\)"), (Unrestorable, r"Unrestorable\.restore\(\)")])
def test_values_are_returned_although_a_state_cannot_be_saved_or_restored(acts: Any, said: str, caplog: pytest.LogCaptureFixture) -> None:
    policy = policy_of(acts)
    assert [policy.values(SEEN).tolist() for _ in range(3)] == [[1.0] * 3, [2.0] * 3, [3.0] * 3]
    warnings = [record.getMessage() for record in caplog.records if "values()" in record.getMessage()]
    assert len(warnings) == 1 and re.match(f"{said} failed, so values\\(\\) may change the actions that follow", warnings[0]), warnings


def test_a_state_that_cannot_be_saved_still_fails_a_checkpoint(tmp_path: pathlib.Path) -> None:
    with pytest.raises(TypeError, match=r"state\['function'\]"):
        rl.run(AgentOf(TRANSITIONS, acts=Unsaveable), "catch/0", steps=10, checkpoint_dir=tmp_path, progress=False)


ASKED_WHILE_IT_ACTS = """
import sys, threading
sys.path.insert(0, sys.argv[1])
from own_agents import TRANSITIONS, Agent, RandomPolicy
from relive import rl
import numpy as np

policy = rl.run(Agent(TRANSITIONS), "catch/0", steps=30).policy
acting, go_on, act = threading.Event(), threading.Event(), RandomPolicy.act

def slow(self, *args):
    acting.set()
    assert go_on.wait(30)
    return act(self, *args)

RandomPolicy.act = slow
acts = threading.Thread(target=policy, args=(np.zeros((10, 5), np.float32),))
asks = threading.Thread(target=lambda: print(policy.num_actions))
acts.start()
assert acting.wait(30)
asks.start()
go_on.set()
asks.join(30)
acts.join(30)
"""


def test_a_policy_may_be_called_while_another_thread_acts_with_it() -> None:
    program = [sys.executable, "-c", ASKED_WHILE_IT_ACTS, str(pathlib.Path(__file__).parent)]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout) == (0, "3\n"), ended.stderr
