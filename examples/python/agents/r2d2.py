"""R2D2 (Kapturowski et al., 2019) in PyTorch: Q-learning with an LSTM, from sequences that are stored with the LSTM's
state.

    python r2d2.py memory_len/3 --steps 4000
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import numpy as np
import torch
from torch import nn

from relive import rl
from relive.rl import torch as rlt

State = tuple[torch.Tensor, torch.Tensor]


class QMemory(nn.Module):
    """A recurrent network that returns the values of all actions, based on the observations so far."""

    def __init__(self, spec: rl.EnvironmentSpec, width: int) -> None:
        super().__init__()
        self.front = nn.Sequential(nn.Linear(int(np.prod(spec.observations.shape)), width), nn.ReLU())
        self.memory = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, spec.actions.num_values))

    def forward(self, observations: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the values ``[rows, time, actions]`` for observations ``[rows, time, …]``, and the state ``[rows, 2,
        width]`` after them."""
        hidden, cell = state.transpose(0, 1).contiguous().unsqueeze(1)
        outputs, after = self.memory(self.front(observations.float().flatten(2)), (hidden, cell))
        return self.head(outputs), torch.cat(after).transpose(0, 1)


class Policy(rlt.Policy):
    """Takes the best action, or sometimes a random action, with a different probability in each environment."""

    def __init__(self, module: QMemory, context: rl.PolicyContext, settings: R2D2) -> None:
        super().__init__(module)
        self.rng, width = context.rng(), settings.width
        place = np.arange(context.first, context.first + context.rows) / max(context.of - 1, 1)
        self.epsilon = settings.epsilon ** (1 + settings.epsilon_alpha * place) if context.explores else np.zeros(context.rows)
        self.memory, self.extras = torch.zeros(context.rows, 2, width), {"memory": (np.float32, (2, width))}

    def act(self, observations: Any, starts: Any) -> Any:
        self.memory[torch.from_numpy(starts)] = 0.0
        before = self.memory
        values, self.memory = self.module(torch.as_tensor(observations).unsqueeze(1), before)
        any_of_them = self.rng.integers(values.shape[-1], size=len(starts))
        best = values[:, 0].argmax(-1).numpy()
        return np.where(self.rng.random(len(starts)) < self.epsilon, any_of_them, best), {"memory": before}


def rescale(values: torch.Tensor, epsilon: float = 1e-3) -> torch.Tensor:
    """Returns h of Pohlen et al. (2018), which compresses large returns."""
    return values.sign() * ((values.abs() + 1).sqrt() - 1) + epsilon * values


def unscale(values: torch.Tensor, epsilon: float = 1e-3) -> torch.Tensor:
    """Returns the inverse of h."""
    root = (1 + 4 * epsilon * (values.abs() + 1 + epsilon)).sqrt()
    return values.sign() * (((root - 1) / (2 * epsilon)).square() - 1)


class Learner(rlt.Learner):
    """Moves the values of sequences toward n-step returns."""

    def __init__(self, settings: R2D2, spec: rl.EnvironmentSpec, seed: int) -> None:
        torch.manual_seed(seed)
        self.settings, self.module = settings, QMemory(spec, settings.width)
        self.target, self.steps = copy.deepcopy(self.module), 0
        self.optimizer = torch.optim.Adam(self.module.parameters(), settings.learning_rate, eps=1e-3, fused=True)

    def learn(self, batch: Any) -> rl.Learnt:
        data, lengths = rlt.tensors(batch.data), torch.as_tensor(batch.lengths["reward"].astype(np.int64))
        memory, known = data["extras"]["memory"][:, 0], data["start_of_episode"][:, 0].bool()
        values = self.unrolled(self.module, data["observation"], memory, known)
        with torch.no_grad():
            later = self.unrolled(self.target, data["observation"], memory, known)
            later = unscale(later.gather(-1, values.argmax(-1, keepdim=True)).squeeze(-1))
            places = torch.arange(later.shape[1])
            goes_on = places + 1 < lengths[:, None]
            target = rescale(self.returns(data["reward"], data["discount"], later, goes_on))
            counts = goes_on & ((places >= self.settings.burn_in) | known[:, None])
        taken = values.gather(-1, data["action"].long().unsqueeze(-1)).squeeze(-1)
        errors = (taken - target) * counts
        weights = torch.as_tensor(batch.weights(self.settings.beta))
        loss = rlt.step(self.optimizer, (weights * errors.square().sum(-1)).sum() / counts.sum().clamp(min=1), max_norm=40.0)
        self.steps += 1
        if self.steps % self.settings.target_every == 0:
            rlt.update_target(self.target, self.module)
        return rl.Learnt({"loss": loss, "value": float(taken.detach().mean())}, priorities=self.priorities(errors, counts))

    def unrolled(self, module: QMemory, observations: Any, memory: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
        """Returns the values of a batch. The first rows only burn in the LSTM's state, unless the episode starts with
        them, since the state is known there."""
        count = self.settings.burn_in
        if count == 0:
            return module(observations, memory)[0]
        first, memory = module(observations[:, :count], memory)
        memory = torch.where(known[:, None, None], memory, memory.detach())
        return torch.cat([first, module(observations[:, count:], memory)[0]], 1)

    def returns(self, rewards: Any, discounts: Any, values: torch.Tensor, goes_on: torch.Tensor) -> torch.Tensor:
        """Computes the returns over ``n_step`` steps, or over as many steps as exist, including the bootstrap value
        after them."""
        returns = values
        for _ in range(self.settings.n_step):
            following = returns.roll(-1, 1)
            returns = torch.where(goes_on, rewards + self.settings.experience.discount * discounts * following, values)
        return returns

    def priorities(self, errors: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """Returns η · max |δ| + (1 − η) · mean |δ|."""
        sizes, eta = errors.detach().abs(), self.settings.max_weight
        return eta * sizes.amax(1) + (1 - eta) * sizes.sum(1) / counts.sum(1).clamp(min=1) + 1e-6


@dataclasses.dataclass(frozen=True)
class R2D2:
    """The agent: its settings, and the methods that create its parts."""

    experience: rl.Sequences = rl.Sequences(
        length=20, period=10, batch_size=32, samples_per_insert=32, min_size=100, max_size=50_000, priority_exponent=0.6
    )
    burn_in: int = 5
    n_step: int = 5
    epsilon: float = 0.05
    epsilon_alpha: float = 0.0
    beta: float = 0.2
    max_weight: float = 0.9
    learning_rate: float = 1e-3
    target_every: int = 100
    width: int = 64

    def policy(self, spec: rl.EnvironmentSpec, context: rl.PolicyContext) -> Policy:
        return Policy(QMemory(spec, self.width), context, self)

    def learner(self, spec: rl.EnvironmentSpec, seed: int) -> Learner:
        return Learner(self, spec, seed)


if __name__ == "__main__":
    from command import main

    main(R2D2(), "memory_len/3", steps=4_000)
