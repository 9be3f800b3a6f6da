"""Behavioral cloning of recorded episodes in PyTorch, for discrete and continuous actions.

    python bc.py CartPole-v1 --steps 2000   # of an expert, which is trained first
    python bc.py CartPole-v1 --data FOLDER  # as `relive rl record` has recorded them

Three lines convert a Minari dataset to such a folder:

    dataset = minari.load_dataset("D4RL/pen/human-v2")
    spec = rl.make_environment_spec(dataset.recover_environment())
    recorded.save(folder, recorded.from_minari(dataset, spec))
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


def network(spec: rl.EnvironmentSpec, width: int) -> nn.Module:
    """Returns a network with a logit for each discrete action, or the continuous action itself."""
    inputs = int(np.prod(spec.observations.shape))
    outputs = getattr(spec.actions, "num_values", None) or int(np.prod(spec.actions.shape))
    return nn.Sequential(
        nn.Flatten(), nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs)
    )


class Policy(rlt.Policy):
    """Takes the action that the network considers most likely."""

    def __init__(self, module: nn.Module, actions: Any) -> None:
        super().__init__(module)
        self.actions = actions

    def act(self, observations: Any, starts: Any) -> Any:
        outputs = self.module(torch.as_tensor(observations, dtype=torch.float32))
        if hasattr(self.actions, "num_values"):
            return outputs.argmax(-1)
        shaped = outputs.numpy().reshape(-1, *self.actions.shape)
        is_bounded = hasattr(self.actions, "minimum")
        return np.clip(shaped, self.actions.minimum, self.actions.maximum) if is_bounded else shaped


class Learner(rlt.Learner):
    """Increases the likelihood of the recorded actions: cross-entropy for discrete actions, squared error for
    continuous ones."""

    def __init__(self, module: nn.Module, learning_rate: float, is_choice: bool) -> None:
        self.module, self.is_choice = module, is_choice
        self.optimizer = torch.optim.Adam(module.parameters(), learning_rate)

    def learn(self, batch: Any) -> dict[str, float]:
        data = rlt.tensors({name: batch.data[name] for name in ("observation", "action")})
        outputs, actions = self.module(data["observation"].float()), data["action"]
        if self.is_choice:
            right = (outputs.detach().argmax(-1) == actions).float().mean()
            return {"loss": rlt.step(self.optimizer, F.cross_entropy(outputs, actions.long())), "accuracy": float(right)}
        return {"loss": rlt.step(self.optimizer, F.mse_loss(outputs, actions.float().flatten(1)))}


@dataclasses.dataclass(frozen=True)
class BC:
    """The agent: its settings, and the methods that create its parts."""

    experience: rl.Transitions = rl.Transitions(batch_size=128, min_size=100)
    learning_rate: float = 1e-3
    width: int = 128

    def policy(self, spec: rl.EnvironmentSpec, context: rl.PolicyContext) -> Policy:
        return Policy(network(spec, self.width), spec.actions)

    def learner(self, spec: rl.EnvironmentSpec, seed: int) -> Learner:
        torch.manual_seed(seed)
        return Learner(network(spec, self.width), self.learning_rate, hasattr(spec.actions, "num_values"))


def record_expert(environment: str, seed: int, folder: str, *, steps: int = 100_000, episodes: int = 20) -> None:
    """Records episodes of a policy that was trained by Relive's PPO."""
    from command import made

    expert = rl.PPO.for_environment(environment).train(environment, steps=steps, seed=seed).policy
    played = made(environment, seed)
    recorded.save(folder, [recorded.play(played, expert) for _ in range(episodes)])


if __name__ == "__main__":
    from command import main

    main(BC(), "CartPole-v1", steps=2000, record=record_expert)
