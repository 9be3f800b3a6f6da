"""Parallel environments of PettingZoo that break the rules, and other environments with several agents or rows."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import gymnasium
import numpy as np
import pettingzoo
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from pettingzoo.utils import turn_based_aec_to_parallel

from relive import rl
from relive.rl import torch as rlt

PPO = rl.PPO(num_envs=2, num_steps=16, hidden=(8,))
SEEN = np.zeros(2, np.float32)


def run(environment: Any, agent: Any = PPO, steps: int = 60) -> Any:
    return agent.train(environment, steps=steps, progress=False)


class Race(pettingzoo.ParallelEnv[str, Any, Any]):
    """Two agents, whose episodes have the given numbers of steps, with a reward of 1 for each step. Agents leave when
    their episodes end."""

    metadata = {"name": "race"}
    possible_agents = ["a", "b"]

    def __init__(self, a: int = 2, b: int = 4) -> None:
        self.lengths, self.time = {"a": a, "b": b}, 0
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> Any:
        return Box(0, 1, (2,), np.float32)

    def action_space(self, agent: str) -> Any:
        return Discrete(3)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.time, self.agents = 0, list(self.possible_agents)
        return dict.fromkeys(self.agents, SEEN), {}

    def step(self, actions: dict[str, int]) -> Any:
        assert list(actions) == self.agents
        self.time += 1
        acted, ends = self.agents, {agent: self.time >= self.lengths[agent] for agent in self.agents}
        self.agents = [agent for agent in acted if not ends[agent]]
        return dict.fromkeys(acted, SEEN), dict.fromkeys(acted, 1.0), ends, dict.fromkeys(acted, False), {}


class Renamed(Race):
    """A part of its results has other keys than the agents."""

    def __init__(self, part: int) -> None:
        super().__init__()
        self.part = part

    def step(self, actions: dict[str, int]) -> Any:
        answer = list(super().step(actions))
        answer[self.part] = {f"player_{agent}": value for agent, value in answer[self.part].items()}
        return tuple(answer)


@pytest.mark.parametrize(("part", "name"), [(1, "rewards"), (2, "terminated"), (3, "truncated")])
def test_agents_that_act_need_a_reward_and_flags(part: int, name: str) -> None:
    with pytest.raises(ValueError, match=rf"^Renamed\.step\(\) returned an invalid result: {name} has no value for 'a', which took part in "
                                         r"the step; its keys are \['player_a', 'player_b'\]"):
        run(lambda seed: Renamed(part))


class Incomplete(Race):
    """Its rewards have a default, and it names no agents that are truncated."""

    def step(self, actions: dict[str, int]) -> Any:
        observations, _, terminated, _, infos = super().step(actions)
        return observations, defaultdict(lambda: 2.0), terminated, {}, infos


def test_defaults_of_rewards_count_and_empty_flags_end_no_episode() -> None:
    assert set(run(lambda seed: Incomplete()).episodes.returns) == {4.0, 8.0}


class Staying(Race):
    """Its agents stay in ``agents`` until the next reset, and may be truncated instead of terminated."""

    def __init__(self, a: int, b: int, *, is_truncated: bool = False) -> None:
        super().__init__(a, b)
        self.is_truncated = is_truncated

    def step(self, actions: dict[str, int]) -> Any:
        observations, rewards, ends, others, infos = super().step(actions)
        self.agents = list(self.possible_agents)
        return (observations, rewards, others, ends, infos) if self.is_truncated else (observations, rewards, ends, others, infos)


@pytest.mark.parametrize(("is_truncated", "how"), [(False, "has terminated"), (True, "was truncated")])
def test_agents_leave_in_the_step_in_which_they_end(is_truncated: bool, how: str) -> None:
    with pytest.raises(ValueError, match=rf"^Staying\.step\(\) returned an invalid result: 'a' {how}, but is still in agents while others "
                                         r"continue: \['a', 'b'\]; remove an agent from agents in the step in which it ends"):
        run(lambda seed: Staying(2, 4, is_truncated=is_truncated))


def test_agents_that_all_end_in_the_same_step_may_stay_until_the_reset() -> None:
    result = run(lambda seed: Staying(3, 3))
    assert set(result.episodes.lengths) == {3}


class Returning(Race):
    """Its first agent returns after a step."""

    def step(self, actions: dict[str, int]) -> Any:
        observations, rewards, ends, truncated, infos = super().step(actions)
        if self.time == 3:
            self.agents, self.lengths["a"] = ["a", "b"], 5
            observations["a"] = SEEN
        return observations, rewards, ends, truncated, infos

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.lengths["a"] = 2
        return super().reset(seed, options)


def test_agents_may_return_in_the_same_game() -> None:
    lengths = run(lambda seed: Returning(2, 6), steps=100).episodes.lengths.tolist()
    # Per game: two episodes of the first agent with two steps each, and one of the second agent with six steps.
    assert set(lengths) == {2, 6} and abs(lengths.count(2) - 2 * lengths.count(6)) <= 2


class Unknown(Race):
    """Begins, or continues from its second step, with an agent that is not possible."""

    def __init__(self, *, begins: bool) -> None:
        super().__init__()
        self.begins = begins

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        answer = super().reset(seed, options)
        self.agents += ["c"] * self.begins
        return answer

    def step(self, actions: dict[str, int]) -> Any:
        answer = super().step(actions)
        self.agents += ["c"]
        return answer


@pytest.mark.parametrize(("begins", "method"), [(True, "reset"), (False, "step")])
def test_all_agents_are_possible_agents(begins: bool, method: str) -> None:
    with pytest.raises(ValueError, match=rf"^Unknown\.{method}\(\) returned an invalid result: agents contains 'c', which is not one of "
                                         r"possible_agents: \['a', 'b'\]"):
        run(lambda seed: Unknown(begins=begins))


class Nobody(Race):
    """Has no possible agents, or none that begin."""

    def __init__(self, agents: list[str]) -> None:
        super().__init__()
        self.possible_agents = agents

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        return {}, {}


def test_games_have_agents() -> None:
    with pytest.raises(ValueError, match=r"^Nobody has no agents: possible_agents is empty"):
        run(lambda seed: Nobody([]))
    with pytest.raises(ValueError, match=r"^Nobody started without agents: reset\(\) returned observations of \[\], agents are \[\]"):
        run(lambda seed: Nobody(["a", "b"]))


class Spaced(Race):
    """Each agent has its own spaces."""

    def __init__(self, observations: dict[str, Any], actions: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.observations, self.actions = observations, actions or {}

    def observation_space(self, agent: str) -> Any:
        return self.observations.get(agent, Box(0, 1, (2,), np.float32))

    def action_space(self, agent: str) -> Any:
        return self.actions.get(agent, Discrete(3))


IMAGE = Box(0, 255, (2,), np.uint8)


@pytest.mark.parametrize(
    ("spaced", "text"),
    [
        (Spaced({"b": Box(0, 2, (2,), np.float32)}), "the observation has the maximum 1.0 and 2.0"),
        (Spaced({"b": Box(np.float32([0, -1]), np.float32([1, 1]))}), "the observation has the minimum 0.0 and -1.0"),
        (Spaced({"b": Box(0, 1, (3,), np.float32)}), "the observation has the shape (2,) and (3,)"),
        (Spaced({"b": IMAGE}), "the observation has the dtype float32 and uint8"),
        (Spaced({}, {"b": Discrete(4)}), "the action has the num_values 3 and 4"),
        (Spaced({"b": Dict(at=IMAGE)}), "the observation has the parts [''] and ['at']"),
        (Spaced({"a": Dict(at=IMAGE), "b": Dict(at=Box(0, 9, (2,), np.uint8))}), "the observation at 'at' has the maximum 255 and 9"),
    ],
)
def test_the_error_for_different_spaces_says_what_differs(spaced: Any, text: str) -> None:
    with pytest.raises(TypeError) as raised:
        run(lambda seed: spaced)
    start = f"'a' and 'b' have different spaces, but one policy acts for all agents: {text}; give them the same spaces"
    assert str(raised.value).startswith(start)


class Turns(pettingzoo.AECEnv[str, Any, Any]):
    """Two agents that take turns, three each; the last one to act wins."""

    metadata = {"name": "turns"}
    possible_agents = ["a", "b"]
    render_mode = None

    def observation_space(self, agent: str) -> Any:
        return Box(0, 1, (2,), np.float32)

    def action_space(self, agent: str) -> Any:
        return Discrete(3)

    def observe(self, agent: str) -> Any:
        return SEEN

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.agents, self.turns, self.agent_selection = list(self.possible_agents), 0, "a"
        self.rewards, self._cumulative_rewards = dict.fromkeys(self.agents, 0.0), dict.fromkeys(self.agents, 0.0)
        self.terminations, self.truncations = dict.fromkeys(self.agents, False), dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}

    def step(self, action: Any) -> None:
        if self.terminations[self.agent_selection]:
            self._was_dead_step(action)
            return
        self.turns += 1
        self.agent_selection = "b" if self.agent_selection == "a" else "a"
        if self.turns == 6:
            self.terminations, self.rewards = dict.fromkeys(self.agents, True), {"a": -1.0, "b": 1.0}


def test_games_with_turns_can_be_converted_as_the_error_says() -> None:
    for given in (Turns(), lambda seed: Turns()):
        with pytest.raises(TypeError, match=r"^in Turns agents take turns; .*aec_to_parallel .* pettingzoo\.utils\."
                                            r"turn_based_aec_to_parallel .* environment of Gymnasium for one agent"):
            run(given, rl.PPO())
    result = run(lambda seed: turn_based_aec_to_parallel(Turns()))
    assert set(result.episodes.returns) == {-1.0, 1.0} and set(result.episodes.lengths) == {6}


class Dicts(gymnasium.Env[Any, Any]):
    """Has the attributes of RLlib's MultiAgentEnv."""

    possible_agents = agents = ["a", "b"]
    observation_space = Dict(a=IMAGE, b=IMAGE)
    action_space = Dict(a=Discrete(2), b=Discrete(2))


@pytest.mark.parametrize("make", [Dicts, lambda: lambda seed: Dicts()])
def test_spaces_of_agents_are_functions(make: Any) -> None:
    with pytest.raises(TypeError, match=r"^Dicts has possible_agents, .* but its observation_space is not a function from an agent to its "
                                        r"space; .* RLlib's MultiAgentEnv, needs a small wrapper"):
        run(make(), rl.PPO())


@pytest.mark.parametrize(
    "use",
    [
        lambda: rl.evaluate(lambda observation: 0, lambda seed: Race()),
        lambda: rl.evaluate(lambda observation: 0, Race()),
        lambda: rl.make_environment_spec(Race()),
        lambda: rl.recorded.play(Race(), lambda observation: 0),
        lambda: rl.check_environment(lambda seed: Race()),
    ],
)
def test_other_functions_need_an_environment_with_one_agent(use: Any) -> None:
    with pytest.raises(TypeError, match=r"^Race has several agents \(2\), but only relive\.rl\.run and train\(\) accept such a parallel "
                                        r"environment, and evaluate in it if given evaluate_every"):
        use()


def test_a_vector_is_not_checked_as_an_environment() -> None:
    with pytest.raises(TypeError, match=r"^CartPoleVectorEnv is a vector of 2 environments; make must return one of them"):
        rl.check_environment(lambda seed: gymnasium.make_vec("CartPole-v1", 2))


class MarkovVector(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """Has the attributes of the vectors of SuperSuit."""

    metadata = Race.metadata
    num_envs = 2
    observation_space = IMAGE
    action_space = Discrete(2)


def sb3_vector() -> Any:
    return pytest.importorskip("stable_baselines3.common.env_util").make_vec_env("CartPole-v1", 2)


@pytest.mark.parametrize("make", [MarkovVector, sb3_vector])
def test_vectors_of_other_packages_are_refused_alike(make: Any) -> None:
    text = (
        "is a vector of environments, but not one of Gymnasium's, .* instead of a vector of SuperSuit, give the PettingZoo environment "
        "itself; instead of one of Stable-Baselines3, give a function that makes one environment, or gymnasium.make_vec"
    )
    for environment in (make(), lambda seed: make()):
        with pytest.raises(TypeError, match=text):
            run(environment)
        with pytest.raises(TypeError, match=text):
            rl.evaluate(lambda observation: 0, environment)


@pytest.mark.parametrize("agent", [rl.PPO(num_envs=2, num_steps=1), rlt.PPO(num_envs=2, num_steps=1)])
def test_rollouts_of_resets_only_are_skipped(agent: Any) -> None:
    learnt: list[tuple[bool, bool]] = []

    def note(rollout: Any, metrics: Any) -> None:
        learnt.append((bool(rollout.starts.all()), any("loss" in name for name in metrics)))

    result = agent.train(Race(1, 1), steps=20, progress=False, on_batch=note)
    assert result.is_complete and set(result.episodes.lengths) == {1}
    # The agent in Rust reports losses of 0 for such a rollout.
    assert set(learnt) == {(True, isinstance(agent, rl.PPO)), (False, True)}
