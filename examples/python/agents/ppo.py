"""PPO (Schulman et al., 2017) in PyTorch, for discrete and continuous actions.

    python ppo.py CartPole-v1 --steps 100000
    python ppo.py Pendulum-v1 --steps 200000
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.distributions import Distribution, Independent, Normal
from torch.nn import functional as F

from relive import rl
from relive.rl import torch as rlt


class ActorCritic(nn.Module):
    """A module that returns the distribution of actions, and the value, for each observation."""

    def __init__(self, spec: rl.EnvironmentSpec, width: int) -> None:
        super().__init__()
        self.choices = getattr(spec.actions, "num_values", None)
        inputs, outputs = int(np.prod(spec.observations.shape)), self.choices or int(np.prod(spec.actions.shape))
        self.policy, self.value = tower(inputs, width, outputs, gain=0.01), tower(inputs, width, 1, gain=1.0)
        self.log_std = nn.Parameter(torch.zeros(outputs))

    def distribution(self, observations: torch.Tensor) -> Distribution:
        outputs = self.policy(observations)
        if self.choices:
            return rlt.Categorical(outputs)
        return Independent(Normal(outputs, self.log_std.exp(), validate_args=False), 1, validate_args=False)

    def values(self, observations: torch.Tensor) -> torch.Tensor:
        return self.value(observations).squeeze(-1)

    def drawn(self, distribution: Distribution, generator: torch.Generator) -> torch.Tensor:
        """Samples with the given generator; distributions themselves use PyTorch's global generator."""
        if self.choices:
            return distribution.sample(generator=generator)
        return torch.normal(distribution.base_dist.mean, distribution.base_dist.stddev, generator=generator)


def tower(inputs: int, width: int, outputs: int, *, gain: float) -> nn.Sequential:
    layers = [nn.Linear(inputs, width), nn.Linear(width, width), nn.Linear(width, outputs)]
    for layer, of in zip(layers, (2**0.5, 2**0.5, gain), strict=True):
        nn.init.orthogonal_(layer.weight, of)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])


class Policy(rlt.Policy):
    """Draws actions. The extras are the drawn actions and their log-probabilities; the environment gets the actions
    clipped to its bounds."""

    def __init__(self, module: ActorCritic, context: rl.PolicyContext, actions: Any) -> None:
        super().__init__(module)
        self.explores, self.actions = context.explores, actions
        self.generator = torch.Generator().manual_seed(context.seeds[0])
        self.extras = {"log_prob": np.float32, "drawn": (actions.dtype, actions.shape)}

    def act(self, observations: Any, starts: Any) -> Any:
        distribution = self.module.distribution(torch.as_tensor(observations, dtype=torch.float32))
        drawn = self.module.drawn(distribution, self.generator) if self.explores else distribution.mode
        is_clipped = not self.module.choices and hasattr(self.actions, "minimum")
        actions = np.clip(drawn.numpy(), self.actions.minimum, self.actions.maximum) if is_clipped else drawn
        return actions, {"log_prob": distribution.log_prob(drawn), "drawn": drawn}


class Learner(rlt.Learner):
    """Learns with several epochs of minibatches over each rollout."""

    # A second thread has too little to do in a small network.
    torch_threads = 1

    def __init__(self, settings: PPO, spec: rl.EnvironmentSpec, seed: int) -> None:
        torch.manual_seed(seed)
        self.settings, self.rng = settings, np.random.default_rng(seed)
        self.module = ActorCritic(spec, settings.width)
        self.optimizer = rlt.Adam(self.module.parameters(), settings.learning_rate, eps=1e-5)

    def learn(self, rollout: rl.Rollout) -> rl.Learnt:
        with torch.no_grad():
            values = self.module.values(torch.as_tensor(rollout.observations, dtype=torch.float32)).numpy()
        advantages, returns = rollout.advantages(
            values, discount=self.settings.discount, gae_lambda=self.settings.gae_lambda
        )
        steps = rlt.tensors(rollout.steps(advantages=advantages, returns=returns))
        losses = [
            self.minibatch(**minibatch)
            for _ in range(self.settings.epochs)
            for minibatch in rl.minibatches(steps, self.settings.minibatch_size, self.rng)
        ]
        return rl.Learnt({"loss": float(np.mean(losses))}, steps=len(losses), samples=self.settings.epochs * len(steps["returns"]))

    def minibatch(
        self, *, observations: Any, drawn: Any, log_prob: Any, advantages: Any, returns: Any, **_: Any
    ) -> float:
        if len(advantages) > 1:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        distribution = self.module.distribution(observations.float())
        ratio = (distribution.log_prob(drawn) - log_prob).exp()
        clipped = ratio.clamp(1 - self.settings.clip, 1 + self.settings.clip)
        values = self.module.values(observations.float())
        loss = self.settings.value_cost * F.mse_loss(values, returns) - torch.min(ratio * advantages, clipped * advantages).mean()
        if self.settings.entropy_cost:
            loss = loss - self.settings.entropy_cost * distribution.entropy().mean()
        return rlt.step(self.optimizer, loss, max_norm=0.5)


@dataclasses.dataclass(frozen=True)
class PPO:
    """The agent: its settings, and the methods that create its parts."""

    experience: rl.Rollouts = rl.Rollouts(steps=128, environments=8)
    discount: float = 0.98
    gae_lambda: float = 0.9
    epochs: int = 10
    minibatch_size: int = 256
    clip: float = 0.2
    value_cost: float = 0.5
    entropy_cost: float = 0.0
    learning_rate: float = 1e-3
    width: int = 64

    def policy(self, spec: rl.EnvironmentSpec, context: rl.PolicyContext) -> Policy:
        return Policy(ActorCritic(spec, self.width), context, spec.actions)

    def learner(self, spec: rl.EnvironmentSpec, seed: int) -> Learner:
        return Learner(self, spec, seed)


if __name__ == "__main__":
    from command import main

    main(PPO(), "CartPole-v1", steps=100_000)
