"""SAC (Haarnoja et al., 2018) in PyTorch: twin critics, a tanh-normal policy, and a learned temperature.

    python sac.py Pendulum-v1 --steps 8000
"""

from __future__ import annotations

import copy
import dataclasses
import math
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from relive import rl
from relive.rl import torch as rlt


def layers(inputs: int, width: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs)
    )


class Actor(nn.Module):
    """A normal distribution, squashed into the bounds of the actions."""

    def __init__(self, spec: rl.EnvironmentSpec, width: int) -> None:
        super().__init__()
        self.net = layers(int(np.prod(spec.observations.shape)), width, 2 * int(np.prod(spec.actions.shape)))
        low, high = (torch.as_tensor(np.broadcast_to(bound, spec.actions.shape).copy()).float() for bound in
                     (spec.actions.minimum, spec.actions.maximum))
        self.register_buffer("center", (high + low) / 2)
        self.register_buffer("scale", (high - low) / 2)

    def forward(self, observations: torch.Tensor, generator: torch.Generator | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns actions, and the log-probabilities of the actions scaled to [-1, 1]. Without a generator, the actions
        are the means."""
        mean, log_std = self.net(observations).chunk(2, -1)
        log_std = log_std.clamp(-20, 2)
        noise = torch.zeros_like(mean) if generator is None else torch.randn(mean.shape, generator=generator)
        drawn = mean + log_std.exp() * noise
        log_prob = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
        # ln(1 − tanh²) by Appendix C, in a form that does not overflow.
        log_prob -= 2 * (math.log(2) - drawn - F.softplus(-2 * drawn))
        return self.center + self.scale * drawn.tanh(), log_prob.sum(-1)


class Critics(nn.Module):
    """Twin critics: two values for each action."""

    def __init__(self, spec: rl.EnvironmentSpec, width: int) -> None:
        super().__init__()
        inputs = int(np.prod(spec.observations.shape)) + int(np.prod(spec.actions.shape))
        self.both = nn.ModuleList([layers(inputs, width, 1), layers(inputs, width, 1)])

    def forward(self, observations: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        inputs = torch.cat([observations, actions], -1)
        return torch.stack([critic(inputs).squeeze(-1) for critic in self.both])


class Policy(rlt.Policy):
    """Draws actions; in evaluations, takes the mean of their distribution."""

    def __init__(self, module: Actor, context: rl.PolicyContext) -> None:
        super().__init__(module)
        self.generator = torch.Generator().manual_seed(context.seeds[0]) if context.explores else None

    def act(self, observations: Any, starts: Any) -> Any:
        return self.module(torch.as_tensor(observations, dtype=torch.float32), self.generator)[0]


class Learner(rlt.Learner):
    """Takes a step of critics, policy and temperature for each batch."""

    def __init__(self, settings: SAC, spec: rl.EnvironmentSpec, seed: int) -> None:
        torch.manual_seed(seed)
        self.generator = torch.Generator().manual_seed(seed + 1)  # a different seed than the parameters'
        self.module, self.critics = Actor(spec, settings.width), Critics(spec, settings.width)
        self.target = copy.deepcopy(self.critics)
        self.log_temperature = nn.Parameter(torch.zeros(()))
        self.target_entropy, self.tau = -float(np.prod(spec.actions.shape)), settings.tau
        self.of_actor = rlt.Adam(self.module.parameters(), settings.learning_rate)
        self.of_critics = rlt.Adam(self.critics.parameters(), settings.learning_rate)
        self.of_temperature = rlt.Adam([self.log_temperature], settings.learning_rate)

    def learn(self, batch: Any) -> dict[str, float]:
        data = rlt.tensors(batch.data)
        observations, temperature = data["observation"].float(), self.log_temperature.exp().detach()
        with torch.no_grad():
            following = data["next_observation"].float()
            actions, log_prob = self.module(following, self.generator)
            value = self.target(following, actions).min(0).values - temperature * log_prob
            target = data["reward"] + data["discount"] * value
        errors = self.critics(observations, data["action"].float()) - target
        critic_loss = rlt.step(self.of_critics, errors.square().mean(-1).sum())
        actions, log_prob = self.module(observations, self.generator)
        least = self.critics(observations, actions).min(0).values
        rlt.step(self.of_actor, (temperature * log_prob - least).mean())
        missing = (log_prob.detach() + self.target_entropy).mean()
        rlt.step(self.of_temperature, -self.log_temperature * missing)
        rlt.update_target(self.target, self.critics, self.tau)
        return {"critic_loss": critic_loss, "temperature": float(temperature)}


@dataclasses.dataclass(frozen=True)
class SAC:
    """The agent: its settings, and the methods that create its parts."""

    experience: rl.Transitions = rl.Transitions(batch_size=256, min_size=500, max_size=1_000_000, discount=0.99)
    learning_rate: float = 1e-3
    tau: float = 0.005
    width: int = 256

    def policy(self, spec: rl.EnvironmentSpec, context: rl.PolicyContext) -> Policy:
        return Policy(Actor(spec, self.width), context)

    def learner(self, spec: rl.EnvironmentSpec, seed: int) -> Learner:
        return Learner(self, spec, seed)


if __name__ == "__main__":
    from command import main

    main(SAC(), "Pendulum-v1", steps=8000)
