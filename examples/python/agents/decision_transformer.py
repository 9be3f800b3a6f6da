"""A decision transformer (Chen et al., 2021) in PyTorch. Given a return, it acts like the episodes that had this
return.

    python decision_transformer.py catch/0 --steps 500      # from episodes of a policy that acts at random

At each step, its input is the return of the whole episode instead of the return-to-go, since a policy does not see
rewards. A sequence must be long enough for a whole episode.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from relive import rl
from relive.rl import recorded
from relive.rl import torch as rlt


class Transformer(nn.Module):
    """Predicts the next action from the return and from past observations and actions. Each step has two tokens: the
    observation and the action."""

    def __init__(self, spec: rl.EnvironmentSpec, settings: DecisionTransformer) -> None:
        super().__init__()
        width, length = settings.width, settings.experience.length
        self.seen = nn.Linear(int(np.prod(spec.observations.shape)) + 1, width)
        self.done = nn.Embedding(spec.actions.num_values, width)
        self.place = nn.Parameter(torch.randn(length, 1, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, settings.heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, settings.layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, spec.actions.num_values)

    def forward(self, returns: torch.Tensor, observations: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        """Logits ``[rows, time, actions]`` for returns ``[rows]``, observations ``[rows, time, …]`` and actions
        ``[rows, time]``."""
        rows, time = actions.shape
        told = returns[:, None, None].expand(rows, time, 1)
        seen = self.seen(torch.cat([told, observations.float().flatten(2)], -1))
        tokens = torch.stack([seen, self.done(actions)], 2) + self.place[:time]
        # No token attends to later tokens; in particular, the prediction of an action does not see this action.
        later = torch.ones(2 * time, 2 * time, dtype=torch.bool).triu(1)
        outputs = self.layers(tokens.flatten(1, 2), mask=later)
        return self.head(outputs[:, ::2])


class Policy(rlt.Policy):
    """Stores its episode, and takes the most likely action for the target return."""

    def __init__(self, module: Transformer, spec: rl.EnvironmentSpec, context: rl.PolicyContext, settings: DecisionTransformer) -> None:
        super().__init__(module)
        self.returns, self.length = torch.full((context.rows,), settings.target_return), settings.experience.length
        self.observations = torch.zeros(context.rows, self.length, *spec.observations.shape)
        self.actions = torch.zeros(context.rows, self.length, dtype=torch.int64)
        self.count = torch.zeros(context.rows, dtype=torch.int64)

    def act(self, observations: Any, starts: Any) -> Any:
        rows = torch.arange(len(starts))
        self.count[torch.tensor(starts)] = 0
        full = self.count == self.length
        for kept in (self.observations, self.actions):
            kept[full] = kept[full].roll(-1, 1)
        place = self.count - full.long()
        self.observations[rows, place] = torch.as_tensor(observations, dtype=torch.float32)
        seen = int(place.max()) + 1
        logits = self.module(self.returns, self.observations[:, :seen], self.actions[:, :seen])
        self.actions[rows, place] = logits[rows, place].argmax(-1)
        self.count = place + 1
        return self.actions[rows, place]


class Learner(rlt.Learner):
    """Increases the likelihood of the recorded actions, given the returns that followed."""

    def __init__(self, settings: DecisionTransformer, spec: rl.EnvironmentSpec, seed: int) -> None:
        torch.manual_seed(seed)
        self.module = Transformer(spec, settings)
        self.optimizer = torch.optim.AdamW(self.module.parameters(), settings.learning_rate, weight_decay=settings.weight_decay)

    def learn(self, batch: Any) -> dict[str, float]:
        data = rlt.tensors(batch.data)
        actions = data["action"].long()
        # Excludes the row of the last observation, which has no action, and the padding after it.
        last = torch.as_tensor(batch.lengths["reward"].astype(np.int64)) - 1
        counts = torch.arange(actions.shape[1]) < last[:, None]
        logits = self.module(data["reward"].sum(1), data["observation"], actions)
        return {"loss": rlt.step(self.optimizer, F.cross_entropy(logits[counts], actions[counts]), max_norm=1.0)}


@dataclasses.dataclass(frozen=True)
class DecisionTransformer:
    """The agent: its settings, and the methods that create its parts."""

    experience: rl.Sequences = rl.Sequences(length=10, batch_size=128)
    target_return: float = 1.0
    width: int = 64
    heads: int = 4
    layers: int = 2
    learning_rate: float = 1e-3
    weight_decay: float = 1e-3

    def policy(self, spec: rl.EnvironmentSpec, context: rl.PolicyContext) -> Policy:
        return Policy(Transformer(spec, self), spec, context, self)

    def learner(self, spec: rl.EnvironmentSpec, seed: int) -> Learner:
        return Learner(self, spec, seed)


def record_anything(environment: str, seed: int, folder: str, *, episodes: int = 2000) -> None:
    """Records episodes of a random policy."""
    from command import made

    played, rng = made(environment, seed), np.random.default_rng(seed)
    choices = played.action_spec().num_values
    recorded.save(folder, [recorded.play(played, lambda _: int(rng.integers(choices))) for _ in range(episodes)])


if __name__ == "__main__":
    from command import main

    main(DecisionTransformer(), "catch/0", steps=500, record=record_anything)
