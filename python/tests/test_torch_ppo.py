"""relive.rl.torch.PPO: distributions without a mode, actions that are scaled to their bounds, and actions without bounds."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import dm_env
import gymnasium
import numpy as np
import pytest
import torch
from dm_env import specs
from torch import nn
from torch.distributions import AffineTransform, Independent, Normal, TransformedDistribution

from relive import rl
from relive.rl import torch as rlt
from relive.rl.torch import _ppo
from relive.rl.torch._bounds import Bounds
from relive.specs import BoundedArraySpec

PPO: dict[str, Any] = {"num_envs": 1, "num_steps": 16, "minibatch_size": 16, "epochs": 1, "hidden": (8,)}

pytestmark = pytest.mark.usefixtures("one_thread")


class Moved(nn.Module):
    """A normal distribution that is moved by a transform."""

    def __init__(self, kind: type[TransformedDistribution]) -> None:
        super().__init__()
        self.kind, self.mean = kind, nn.Linear(3, 1)

    def forward(self, observations: Any) -> Any:
        normal = Normal(self.mean(observations), 1.0)
        return Independent(self.kind(normal, [AffineTransform(0.0, 2.0)]), 1), observations[:, 0]


class WithMode(TransformedDistribution):
    @property
    def mode(self) -> torch.Tensor:
        return self.base_dist.mode * 2.0


def test_a_distribution_without_a_mode_is_refused_at_the_first_step() -> None:
    agent = rlt.PPO(**PPO, network=lambda spec: Moved(TransformedDistribution))
    with pytest.raises(TypeError, match="distribution has no mode .*; return a subclass with the property mode"):
        agent.train("Pendulum-v1", steps=16)
    result = rlt.PPO(**PPO, network=lambda spec: Moved(WithMode)).train("Pendulum-v1", steps=16)
    assert result.policy(np.zeros(3, np.float32)).shape == (1,)


def test_the_learning_rate_and_the_clip_fall_to_0(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []
    clips: list[float] = []
    loss, step = _ppo.clipped_surrogate_loss, _ppo.step

    def clipped(*args: Any, clip: float, **costs: float) -> Any:
        clips.append(clip)
        return loss(*args, clip=clip, **costs)

    def stepped(optimizer: Any, *args: Any, **options: Any) -> float:
        rates.append(optimizer.param_groups[0]["lr"])
        return step(optimizer, *args, **options)

    monkeypatch.setattr(_ppo, "step", stepped)
    monkeypatch.setattr(_ppo, "clipped_surrogate_loss", clipped)
    agent = rlt.PPO(**PPO, learning_rate=0.5, clip=0.25, anneal_steps=64)
    result = agent.train("Pendulum-v1", steps=48, checkpoint_dir=tmp_path)
    result.resume(steps=80)
    assert rates == [0.5, 0.375, 0.25, 0.125, 0.0]
    assert clips == [0.25, 0.1875, 0.125, 0.0625, 0.0]
    # A longer run may decay over more steps.
    longer = dataclasses.replace(agent, anneal_steps=160)
    longer.train("Pendulum-v1", steps=96, checkpoint_dir=tmp_path)
    assert rates[-1] == 0.25
    with pytest.raises(ValueError, match="anneal_steps is -1, but it must be at least 0"):
        rlt.PPO(anneal_steps=-1)


class Free(dm_env.Environment):
    """Episodes of three steps with actions without bounds."""

    def __init__(self) -> None:
        self.steps = 0

    def reset(self) -> dm_env.TimeStep:
        self.steps = 0
        return dm_env.restart(np.zeros(2, np.float32))

    def step(self, action: Any) -> dm_env.TimeStep:
        self.steps += 1
        make = dm_env.termination if self.steps == 3 else dm_env.transition
        return make(float(np.abs(action).sum()), np.zeros(2, np.float32))

    def observation_spec(self) -> Any:
        return specs.Array((2,), np.float32)

    def action_spec(self) -> Any:
        return specs.Array((1,), np.float32)


def test_actions_may_have_no_bounds() -> None:
    # A rollout of 16 steps has four resets.
    result = rlt.PPO(**PPO).train(Free(), steps=12)
    assert result.learner_steps == 1 and result.policy(np.zeros(2, np.float32)).shape == (1,)


ONES = np.ones(1, np.float32)

LEARNING: dict[str, Any] = {"num_envs": 1, "num_steps": 128, "minibatch_size": 32, "learning_rate": 3e-3}


class Target(gymnasium.Env[Any, Any]):
    """Episodes of one step, with a penalty for the distance between the action and a number."""

    def __init__(self, low: float, high: float, target: float) -> None:
        self.action_space = gymnasium.spaces.Box(low, high, (1,), np.float32)
        self.observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
        self.target, self.width, self.seen = target, high - low, list[float]()

    def reset(self, **options: Any) -> Any:
        return ONES, {}

    def step(self, action: Any) -> Any:
        self.seen.append(float(action[0]))
        return ONES, -abs(self.seen[-1] - self.target) / self.width, True, False, {}


@pytest.mark.parametrize("agent", [rlt.PPO(**LEARNING), rl.PPO(**LEARNING)], ids=lambda agent: type(agent).__module__)
@pytest.mark.parametrize(("low", "high", "target"), [(20, 30, 27), (0, 100, 30), (5, 6, 5.2)])
def test_actions_are_learned_within_any_bounds(agent: Any, low: float, high: float, target: float) -> None:
    environment = Target(low, high, target)
    result = agent.train(environment, steps=1_500, seed=1)
    assert abs(result.policy(ONES)[0] - target) < 0.03 * environment.width
    assert min(environment.seen) >= low and max(environment.seen) <= high
    # The first actions are spread over the range.
    assert np.std(environment.seen[:100]) > 0.2 * environment.width


def test_actions_are_scaled_to_the_bounds_that_have_a_range() -> None:
    low = np.array([20, 0, -np.inf, 3, -np.inf, -3.4e38, -1], np.float32)
    high = np.array([30, np.inf, 5, 3, np.inf, 3.4e38, 1], np.float32)
    bounds = Bounds.of_scaled(BoundedArraySpec((7,), np.float32, low, high))
    drawn = np.full((2, 7), 0.3, np.float32)
    drawn[1] = -7.0
    expected = [[26.5, 0.3, 0.3, 3.0, 0.3, 0.3, 0.3], [20.0, 0.0, -7.0, 3.0, -7.0, -7.0, -1.0]]
    np.testing.assert_array_equal(bounds.within(drawn), np.array(expected, np.float32))
    between = Bounds.of_scaled(BoundedArraySpec((7,), np.float32, -1.0, 1.0)).within(drawn)
    assert between.dtype == np.float32 and np.array_equal(between, drawn.clip(-1.0, 1.0))


class Fixed(nn.Module):
    """A normal distribution around 25, regardless of the observations."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.tensor([25.0]))

    def forward(self, observations: Any) -> Any:
        return Independent(Normal(self.mean.expand(len(observations), 1), 0.1), 1), observations[:, 0]


def test_the_distribution_of_a_network_of_ones_own_is_not_scaled() -> None:
    environment, actions = Target(20, 30, 25), list[Any]()

    def loss(module: Any, data: Any) -> Any:
        actions.append(data["action"])
        return _ppo.clipped_surrogate_loss(module, data)

    result = rlt.PPO(**PPO, network=lambda spec: Fixed(), loss=loss).train(environment, steps=32)
    assert result.policy(ONES) == pytest.approx(25, abs=0.1)
    assert all(24 < action < 26 for action in environment.seen)
    assert torch.cat(actions).sub(25).abs().max() < 1


def test_the_loss_receives_the_scaled_actions_that_the_default_network_drew() -> None:
    ratios: list[Any] = []
    actions: list[Any] = []

    def loss(module: Any, data: Any) -> Any:
        actions.append(data["action"])
        ratios.append((module(data["observation"])[0].log_prob(data["action"]) - data["log_prob"]).exp().detach())
        return _ppo.clipped_surrogate_loss(module, data)

    rlt.PPO(**PPO, loss=loss).train(Target(20, 30, 27), steps=16)
    assert 0.5 < torch.cat(actions).std() < 2 and torch.cat(actions).abs().max() < 5
    torch.testing.assert_close(ratios[0], torch.ones(len(ratios[0])))


def test_scaled_actions_are_the_same_after_saving(tmp_path: pathlib.Path) -> None:
    agent = rlt.PPO(**PPO, learning_rate=0.01)
    whole = agent.train(Target(20, 30, 27), steps=256, seed=1)
    parts = agent.train(lambda: Target(20, 30, 27), steps=128, seed=1, checkpoint_dir=tmp_path / "run").resume(steps=256)
    assert parts.policy(ONES) == whole.policy(ONES) and 20 < whole.policy(ONES) < 30
    whole.policy.save(tmp_path / "policy")
    assert rl.Policy.load(tmp_path / "policy", agent=agent)(ONES) == whole.policy(ONES)
