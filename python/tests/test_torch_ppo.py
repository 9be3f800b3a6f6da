"""relive.rl.torch.PPO: distributions without a mode, and actions without bounds."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import dm_env
import numpy as np
import pytest
import torch
from dm_env import specs
from torch import nn
from torch.distributions import AffineTransform, Independent, Normal, TransformedDistribution

from relive import rl
from relive.rl import torch as rlt
from relive.rl.torch import _ppo

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
