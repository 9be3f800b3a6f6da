"""A small world model in PyTorch, after DreamerV3 (Hafner et al., 2023): a recurrent model with discrete latents learns
the dynamics, and an actor and a critic learn from imagined trajectories.

    python world_model.py catch/0 --steps 8000
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical, Independent, OneHotCategoricalStraightThrough, kl_divergence
from torch.nn import functional as F

from relive import rl
from relive.rl import torch as rlt


def mlp(inputs: int, width: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, width), nn.LayerNorm(width), nn.SiLU(), nn.Linear(width, outputs))


class WorldModel(nn.Module):
    """The model. Its state consists of a GRU's state and a latent of several categorical variables."""

    def __init__(self, spec: rl.EnvironmentSpec, settings: Dreamer) -> None:
        super().__init__()
        width, self.groups = settings.width, settings.groups
        inputs, choices, latent = int(np.prod(spec.observations.shape)), spec.actions.num_values, self.groups**2
        self.sizes = width, latent, choices
        self.encoder, self.memory = mlp(inputs, width, width), nn.GRUCell(latent + choices, width)
        self.prior, self.posterior = mlp(width, width, latent), mlp(2 * width, width, latent)
        self.decoder, self.reward, self.goes_on, self.actor = (
            mlp(width + latent, width, outputs) for outputs in (inputs, 1, 1, choices)
        )

    def zeros(self, rows: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns the GRU state, the latent and the action before the first step of an episode."""
        memory, latent, action = (torch.zeros(rows, size) for size in self.sizes)
        return memory, latent, action

    def next(self, memory: torch.Tensor, latent: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        """Returns the GRU state after an action."""
        return self.memory(torch.cat([latent, action], -1), memory)

    def latents(self, logits: torch.Tensor) -> Independent:
        """Returns the distribution of latents, mixed with 1 % of the uniform distribution."""
        return categorical(0.99 * logits.unflatten(-1, (self.groups, self.groups)).softmax(-1) + 0.01 / self.groups)

    def drawn(self, latents: Independent, generator: torch.Generator) -> torch.Tensor:
        """Samples latents with the given generator. Their gradient is that of the probabilities."""
        probs = latents.base_dist.probs
        chosen = torch.multinomial(probs.detach().flatten(0, -2), 1, generator=generator).view(probs.shape[:-1])
        return (F.one_hot(chosen, self.groups) + probs - probs.detach()).flatten(1)

    def seen(self, memory: torch.Tensor, encoded: torch.Tensor) -> Independent:
        """Returns the latents, given the observations."""
        return self.latents(self.posterior(torch.cat([memory, encoded], -1)))


def categorical(probs: torch.Tensor) -> Independent:
    """Returns the distribution of several independent categorical variables ``[…, groups, choices]``."""
    return Independent(OneHotCategoricalStraightThrough(probs=probs, validate_args=False), 1, validate_args=False)


def detached(latents: Independent) -> Independent:
    """Returns the same distribution, without gradients."""
    return categorical(latents.base_dist.probs.detach())


def drawn_choices(logits: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Samples actions; the distributions of PyTorch would sample with its global generator."""
    return torch.multinomial(logits.softmax(-1), 1, generator=generator).squeeze(-1)


class Policy(rlt.Policy):
    """Tracks observations with the model, and acts based on the model's state."""

    def __init__(self, module: WorldModel, context: rl.PolicyContext) -> None:
        super().__init__(module)
        self.explores, self.generator = context.explores, torch.Generator().manual_seed(context.seeds[0])
        self.memory, self.latent, self.action = module.zeros(context.rows)

    def act(self, observations: Any, starts: Any) -> Any:
        for kept in (self.memory, self.latent, self.action):
            kept[torch.tensor(starts)] = 0.0
        encoded = self.module.encoder(torch.as_tensor(observations, dtype=torch.float32).flatten(1))
        self.memory = self.module.next(self.memory, self.latent, self.action)
        latents = self.module.seen(self.memory, encoded)
        self.latent = self.module.drawn(latents, self.generator) if self.explores else latents.mode.flatten(1)
        logits = self.module.actor(torch.cat([self.memory, self.latent], -1))
        chosen = drawn_choices(logits, self.generator) if self.explores else logits.argmax(-1)
        self.action = F.one_hot(chosen, self.action.shape[-1]).float()
        return chosen


class Learner(rlt.Learner):
    """The model learns from sequences; the actor and the critic learn from trajectories that the model imagines from
    each of their steps."""

    def __init__(self, settings: Dreamer, spec: rl.EnvironmentSpec, seed: int) -> None:
        torch.manual_seed(seed)
        self.generator = torch.Generator().manual_seed(seed + 1)  # a different seed than the parameters'
        self.settings, self.module = settings, WorldModel(spec, settings)
        self.critic = mlp(sum(self.module.sizes[:2]), settings.width, 1)
        self.target, self.scale = copy.deepcopy(self.critic), 1.0
        of_model = [value for name, value in self.module.named_parameters() if not name.startswith("actor")]
        self.of_model = torch.optim.Adam(of_model, settings.learning_rate)
        self.of_actor = torch.optim.Adam(self.module.actor.parameters(), settings.actor_learning_rate)
        self.of_critic = torch.optim.Adam(self.critic.parameters(), settings.actor_learning_rate)

    def learn(self, batch: Any) -> dict[str, float]:
        data, lengths = rlt.tensors(batch.data), torch.as_tensor(batch.lengths["reward"].astype(np.int64))[:, None]
        exists = torch.arange(data["reward"].shape[1]) < lengths
        loss, states = self.model_loss(data, exists)
        told = {"model_loss": rlt.step(self.of_model, loss, max_norm=100.0)}
        # Excludes the last row, where the episode has ended or the result of the action is unknown.
        begins = states.detach()[torch.arange(states.shape[1]) < lengths - 1]
        return told | self.behave(*begins.split(self.module.sizes[:2], -1))

    def model_loss(self, data: Any, exists: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the model's loss on sequences, and its states."""
        module, observations = self.module, data["observation"].float().flatten(2)
        memory, latent, action = module.zeros(len(observations))
        encoded, actions = module.encoder(observations), F.one_hot(data["action"].long(), action.shape[-1]).float()
        states, costs = [], []
        for time in range(observations.shape[1]):
            memory = module.next(memory, latent, action)
            expected, found = module.latents(module.prior(memory)), module.seen(memory, encoded[:, time])
            latent, action = module.drawn(found, self.generator), actions[:, time]
            states.append(torch.cat([memory, latent], -1))
            costs.append(self.balanced(expected, found))
        state = torch.stack(states, 1)
        cost = torch.stack(costs, 1) + (module.decoder(state) - observations).square().sum(-1)
        # The state after a step predicts the step's outcome.
        rewards, goes_on = module.reward(state[:, 1:]).squeeze(-1), module.goes_on(state[:, 1:]).squeeze(-1)
        cost[:, 1:] += (rewards - data["reward"][:, :-1]).square()
        cost[:, 1:] += F.binary_cross_entropy_with_logits(goes_on, data["discount"][:, :-1], reduction="none")
        return cost[exists].mean(), state

    def balanced(self, expected: Independent, found: Independent) -> torch.Tensor:
        """Returns the loss that trains the prior toward the posterior and, with less weight, the posterior toward the
        prior, both with one free nat."""
        of_expected, of_found = detached(expected), detached(found)
        dynamics, representation = kl_divergence(of_found, expected), kl_divergence(found, of_expected)
        return 0.5 * dynamics.clamp(min=1.0) + 0.1 * representation.clamp(min=1.0)

    @torch.no_grad()
    def imagined(self, memory: torch.Tensor, latent: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the imagined states ``[horizon + 1, …]``, and the actions between them."""
        states, actions = [torch.cat([memory, latent], -1)], []
        for _ in range(self.settings.horizon):
            actions.append(drawn_choices(self.module.actor(states[-1]), self.generator))
            memory = self.module.next(memory, latent, F.one_hot(actions[-1], self.module.sizes[2]).float())
            latent = self.module.drawn(self.module.latents(self.module.prior(memory)), self.generator)
            states.append(torch.cat([memory, latent], -1))
        return torch.stack(states), torch.stack(actions)

    def behave(self, memory: torch.Tensor, latent: torch.Tensor) -> dict[str, float]:
        """Takes a step of the actor, by REINFORCE with returns normalized by their range, and of the critic, by λ-returns."""
        states, actions = self.imagined(memory, latent)
        with torch.no_grad():
            rewards, values = self.module.reward(states[1:]).squeeze(-1), self.target(states).squeeze(-1)
            discounts = self.settings.discount * self.module.goes_on(states[1:]).squeeze(-1).sigmoid()
            # The probability that the episode has continued this far.
            weights = torch.cat([torch.ones_like(discounts[:1]), discounts[:-1]]).cumprod(0)
            returns, following = [], values[-1]
            for time in reversed(range(len(actions))):
                mixed = self.settings.trace_decay * following + (1 - self.settings.trace_decay) * values[time + 1]
                following = rewards[time] + discounts[time] * mixed
                returns.insert(0, following)
            target = torch.stack(returns)
            low, high = torch.quantile(target, 0.05), torch.quantile(target, 0.95)
            self.scale = 0.99 * self.scale + 0.01 * float(high - low)
            advantages = (target - values[:-1]) / max(1.0, self.scale)
        choices = Categorical(validate_args=False, logits=self.module.actor(states[:-1]))
        gain = choices.log_prob(actions) * advantages + self.settings.entropy_cost * choices.entropy()
        rlt.step(self.of_actor, -(weights * gain).mean(), max_norm=100.0)
        errors = self.critic(states[:-1]).squeeze(-1) - target
        critic_loss = rlt.step(self.of_critic, (weights * errors.square()).mean(), max_norm=100.0)
        rlt.update_target(self.target, self.critic, 0.02)
        return {"critic_loss": critic_loss, "imagined_return": float(target[0].mean())}


@dataclasses.dataclass(frozen=True)
class Dreamer:
    """The agent: its settings, and the methods that create its parts."""

    experience: rl.Sequences = rl.Sequences(length=10, batch_size=32, samples_per_insert=32, min_size=50, max_size=10_000)
    discount: float = 0.99
    trace_decay: float = 0.95
    horizon: int = 9
    entropy_cost: float = 0.01
    learning_rate: float = 4e-3
    actor_learning_rate: float = 3e-4
    width: int = 128
    groups: int = 8

    def policy(self, spec: rl.EnvironmentSpec, context: rl.PolicyContext) -> Policy:
        return Policy(WorldModel(spec, self), context)

    def learner(self, spec: rl.EnvironmentSpec, seed: int) -> Learner:
        return Learner(self, spec, seed)


if __name__ == "__main__":
    from command import main

    main(Dreamer(), "catch/0", steps=8000)
