"""DQN (Mnih et al., 2015) with double Q-learning (van Hasselt et al., 2016) in PyTorch.

    python dqn.py CartPole-v1 --steps 50000
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from relive import rl
from relive.rl import torch as rlt


def network(spec: rl.EnvironmentSpec, width: int) -> nn.Module:
    """Returns the values of all actions."""
    inputs = int(np.prod(spec.observations.shape))
    return nn.Sequential(
        nn.Flatten(), nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, spec.actions.num_values),
    )


class Policy(rlt.Policy):
    """Takes the best action, or sometimes a random action."""

    def __init__(self, module: nn.Module, context: rl.PolicyContext, num_actions: int, epsilon: float) -> None:
        super().__init__(module)
        self.rng, self.num_actions = context.rng(), num_actions
        self.epsilon = epsilon if context.explores else 0.0

    def act(self, observations: Any, starts: Any) -> Any:
        best = self.module(torch.as_tensor(observations, dtype=torch.float32)).argmax(-1).numpy()
        any_of_them = self.rng.integers(self.num_actions, size=len(best))
        return np.where(self.rng.random(len(best)) < self.epsilon, any_of_them, best)


class Learner(rlt.Learner):
    """Moves the values toward r + γ·Q′(s′, argmax Q(s′, ·)), with a decaying learning rate."""

    def __init__(self, module: nn.Module, settings: DQN) -> None:
        self.module, self.target, self.settings = module, copy.deepcopy(module), settings
        self.optimizer = torch.optim.Adam(module.parameters(), settings.learning_rate, eps=settings.adam_epsilon)
        self.schedule = torch.optim.lr_scheduler.LinearLR(self.optimizer, 1.0, 0.0, settings.decay_steps)

    def learn(self, batch: Any) -> dict[str, float]:
        data = rlt.tensors(batch.data)
        with torch.no_grad():
            following = data["next_observation"].float()
            best = self.module(following).argmax(-1, keepdim=True)
            target = self.settings.reward_scale * data["reward"] + data["discount"] * self.target(following).gather(-1, best).squeeze(-1)
        values = self.module(data["observation"].float()).gather(-1, data["action"].long()[:, None]).squeeze(-1)
        loss = rlt.step(self.optimizer, F.smooth_l1_loss(values, target), max_norm=10.0)
        self.schedule.step()
        rlt.update_target(self.target, self.module, self.settings.tau)
        return {"loss": loss, "value": float(values.detach().mean())}


@dataclasses.dataclass(frozen=True)
class DQN:
    """The agent: its settings, and the methods that create its parts."""

    experience: rl.Transitions = rl.Transitions(
        batch_size=128, samples_per_insert=64, min_size=1000, max_size=50_000, n_step=3, discount=0.99
    )
    epsilon: float = 0.05
    learning_rate: float = 1e-3
    decay_steps: int = 25_000  # learner steps; after them, the learning rate is 0
    adam_epsilon: float = 1e-4
    tau: float = 0.005
    reward_scale: float = 0.1  # returns up to 100 would be in the linear part of the loss
    width: int = 128

    def policy(self, spec: rl.EnvironmentSpec, context: rl.PolicyContext) -> Policy:
        return Policy(network(spec, self.width), context, spec.actions.num_values, self.epsilon)

    def learner(self, spec: rl.EnvironmentSpec, seed: int) -> Learner:
        torch.manual_seed(seed)
        return Learner(network(spec, self.width), self)


if __name__ == "__main__":
    from command import main

    main(DQN(), "CartPole-v1", steps=50_000)
