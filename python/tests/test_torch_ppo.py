"""relive.rl.torch.PPO: distributions without a mode, and actions without bounds."""

from __future__ import annotations

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
