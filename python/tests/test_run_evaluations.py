"""Evaluations within runs: their own environments, and functions that receive them."""

from __future__ import annotations

import pathlib
from typing import Any

import gymnasium
import numpy as np
import pytest
from own_agents import TRANSITIONS, Agent

from relive import rl
from relive.rl import torch as rlt

SMALL: dict[str, Any] = {"batch_size": 16, "samples_per_insert": 4.0, "min_replay_size": 50, "hidden": (8,)}


class Corridor(gymnasium.Env[Any, Any]):
    """Each step is worth 10, and an episode has four."""

    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, size: int = 2) -> None:
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (size,), np.float32)
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(self.observation_space.shape or (), np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return np.zeros(self.observation_space.shape or (), np.float32), 10.0, self.steps == 4, False, {}


def clipped(seed: int) -> Any:
    return gymnasium.wrappers.TransformReward(Corridor(), lambda reward: min(float(reward), 1.0))


@pytest.mark.parametrize("on", ["serial", "threads"])
def test_evaluations_may_have_their_own_environment(on: Any) -> None:
    agent = Agent(TRANSITIONS)
    result = rl.run(agent, clipped, steps=100, on=on, evaluate_every=50, evaluation_episodes=3, evaluation_env=Corridor)
    assert set(result.episodes.returns.tolist()) == {4.0} and set(result.evaluation.returns.tolist()) == {40.0}
    # A ready-made environment suffices for training if only evaluations need another.
    result = rl.run(Agent(rl.Transitions(batch_size=4, min_size=8)), clipped(1), steps=50, evaluate_every=25, evaluation_env=lambda seed: Corridor())
    assert set(result.evaluation.returns.tolist()) == {40.0}


class Race:
    """A game of four agents in PettingZoo's interface. Agent ``i`` takes ``i + 1`` steps, each worth 1; those that are
    ``absent`` take none."""

    possible_agents = list(range(4))

    def __init__(self, absent: tuple[int, ...] = ()) -> None:
        self.present = [agent for agent in self.possible_agents if agent not in absent]
        self.agents: list[int] = []
        self.steps = 0

    def observation_space(self, agent: int) -> Any:
        return gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)

    def action_space(self, agent: int) -> Any:
        return gymnasium.spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents, self.steps = list(self.present), 0
        return self.observed(self.agents), {}

    def step(self, actions: Any) -> Any:
        self.steps += 1
        acted, self.agents = self.agents, [agent for agent in self.agents if agent >= self.steps]
        ends = {agent: agent < self.steps for agent in acted}
        return self.observed(acted), dict.fromkeys(acted, 1.0), ends, dict.fromkeys(acted, False), {}

    def observed(self, agents: list[int]) -> Any:
        return {agent: np.zeros(1, np.float32) for agent in agents}


@pytest.mark.parametrize(
    ("absent", "episodes", "games"), [((), 1, 1), ((), 4, 1), ((), 5, 2), ((), 10, 3), ((3,), 4, 1), ((0, 2), 5, 2), ((0,), 10, 3)]
)
def test_each_agent_of_a_game_plays_equally_many_episodes(absent: tuple[int, ...], episodes: int, games: int) -> None:
    agent = rl.PPO(num_envs=4, num_steps=8, hidden=(4,))
    result = agent.train(lambda: Race(absent), steps=30, evaluate_every=10_000, evaluation_episodes=episodes, timeout=60, progress=False)
    expected = [agent + 1.0 for agent in range(4) if agent not in absent] * games
    assert sorted(result.evaluation.returns.tolist()) == sorted(expected)


@pytest.mark.parametrize("agent", [rl.DQN, rl.R2D2, rl.Rainbow, rlt.DQN], ids=lambda agent: f"{agent.__module__}.{agent.__name__}")
def test_agents_with_a_table_act_in_several_environments(agent: Any) -> None:
    settings = {"batch_size": 4, "min_replay_size": 4, "samples_per_insert": 2.0}
    result = agent(**settings, num_envs=4).train(Race, steps=200, progress=False)
    assert 200 <= result.env_steps < 204 and result.learner_steps > 10
    vector = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 3)
    assert 90 <= agent(**settings, num_envs=3).train(vector, steps=90, progress=False).env_steps < 93
    assert agent(**settings, num_envs=4).train("catch/0", steps=400, on="threads", actors=2, progress=False).learner_steps > 0
    with pytest.raises(ValueError, match="num_envs"):
        agent(**settings).train(Race, steps=200, progress=False)


def test_actors_of_sac_share_its_environments() -> None:
    for agent in (rl.SAC(num_envs=6, batch_size=8), rl.DDPG(num_envs=6, batch_size=8, min_replay_size=20), rl.MPO(num_envs=6, min_replay_size=20)):
        seen: list[int] = []
        result = agent.train("Pendulum-v1", steps=240, actors=2, on_step=lambda rollout: seen.append(rollout.rewards.shape[1]), progress=False)
        assert set(seen) == {3} and result.learner_steps > 0


def test_native_and_python_environments_may_be_combined() -> None:
    played = []

    def catch(seed: int) -> Any:
        played.append(seed)
        return rl.make("catch/0", seed=seed)

    result = rl.DQN(**SMALL).train("catch/0", steps=200, evaluate_every=100, evaluation_episodes=2, evaluation_env=catch)
    assert len(played) == 1 and len(result.evaluation) > 0
    rl.DQN(**SMALL).train("catch/0", steps=100, evaluate_every=100, evaluation_env="catch/1")


def test_environments_of_evaluations_have_the_same_specs() -> None:
    with pytest.raises(ValueError, match=r"evaluation_env is an environment with the observations .*3.*, but it must be .*2"):
        rl.run(Agent(TRANSITIONS), Corridor, steps=50, evaluate_every=25, evaluation_env=lambda seed: Corridor(3))
    with pytest.raises(ValueError, match="evaluation_env is given, but the run does not evaluate; also give evaluate_every"):
        rl.run(Agent(TRANSITIONS), Corridor, steps=50, evaluation_env=Corridor)
    with pytest.raises(TypeError, match="is not an environment|supported"):
        rl.run(Agent(TRANSITIONS), Corridor, steps=50, evaluate_every=25, evaluation_env=3)


def test_training_and_evaluations_do_not_share_an_environment() -> None:
    one = Corridor()
    with pytest.raises(TypeError, match="evaluation_env is the environment of the training, but evaluations need their own"):
        rl.run(Agent(TRANSITIONS), one, steps=50, evaluate_every=25, evaluation_env=one)


def test_a_run_ends_when_on_evaluation_returns_true(tmp_path: pathlib.Path) -> None:
    seen: list[rl.Evaluation] = []

    def reached(evaluation: rl.Evaluation, policy: rl.Policy) -> bool:
        seen.append(evaluation)
        policy.save(tmp_path / f"{evaluation.env_steps}.safetensors")
        # The evaluated policy acts, as that of a result does.
        assert len(rl.evaluate(policy, "catch/0", episodes=1).returns) == 1
        return len(seen) == 2

    def train(steps: int) -> rl.TrainingResult:
        return rl.DQN(**SMALL).train(
            "catch/0", steps=steps, evaluate_every=100, evaluation_episodes=2, on_evaluation=reached, checkpoint_dir=tmp_path / "run"
        )

    result = train(10_000)
    assert [evaluation.env_steps for evaluation in seen] == [100, 200] and result.env_steps == 200
    assert not result.is_complete and len(result.evaluation) == 4
    assert seen[1].returns.shape == (2,) and seen[1].lengths.tolist() == [9, 9] and seen[1].learner_steps == result.learner_steps
    assert rl.Policy.load(tmp_path / "200.safetensors").to_bytes() == result.policy.to_bytes()
    resumed = train(300)
    assert resumed.is_complete and resumed.env_steps == 300 and seen[-1].env_steps == 300


def test_a_goal_at_the_last_step_does_not_make_a_run_incomplete() -> None:
    result = rl.DQN(**SMALL).train("catch/0", steps=150, evaluate_every=100, on_evaluation=lambda evaluation, _: evaluation.env_steps == 150)
    assert result.is_complete and result.env_steps == 150


@pytest.mark.parametrize("actors", [0, 2])
def test_on_evaluation_gets_the_policy_of_an_agent_of_ones_own(actors: int) -> None:
    policies: list[Any] = []
    agent = Agent(TRANSITIONS)
    rl.run(agent, "catch/0", steps=200, actors=actors, evaluate_every=100, on_evaluation=lambda _, policy: policies.append(policy))
    assert len(policies) >= 2 and policies[0](np.zeros((10, 5), np.float32)) in (0, 1, 2)


def test_errors_of_on_evaluation_are_the_errors_of_the_run() -> None:
    train = rl.DQN(**SMALL).train

    def fails(*_: Any) -> Any:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="^mine$"):
        train("catch/0", steps=100, evaluate_every=50, on_evaluation=fails)
    with pytest.raises(TypeError, match="on_evaluation returned 'path', but it must return True to end the run, or False or None to continue"):
        train("catch/0", steps=100, evaluate_every=50, on_evaluation=lambda *_: "path")  # type: ignore[arg-type, return-value]
    with pytest.raises(TypeError, match="on_evaluation is 3, but it must be a function"):
        train("catch/0", steps=100, evaluate_every=50, on_evaluation=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="on_evaluation is given, but the run does not evaluate; also give evaluate_every"):
        train("catch/0", steps=100, on_evaluation=lambda *_: None)


def test_the_standard_error_of_an_evaluation() -> None:
    evaluation = rl.evaluate(lambda observation: 1, "CartPole-v1", episodes=9)
    expected = np.sqrt(np.square(evaluation.returns - evaluation.mean_return).sum() / 8) / 3
    assert evaluation.standard_error == pytest.approx(expected) and expected > 0
    assert np.isnan(rl.evaluate(lambda observation: 1, "CartPole-v1", episodes=1).standard_error)
