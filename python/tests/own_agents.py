"""A user-defined agent that acts at random, and whose learner adds up what it sees."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from relive import rl


class RandomPolicy:
    """Acts at random, and returns the number of its steps in each row as an extra."""

    extras = {"count": np.int64, "state": (np.float32, (2,))}

    def __init__(self, context: rl.PolicyContext, num_actions: int) -> None:
        self.rng, self.num_actions = context.rng(), num_actions
        self.count = np.zeros(context.rows, np.int64)
        self.loaded: Any = None

    def act(self, observations: Any, starts: Any) -> Any:
        self.count = np.where(starts, 0, self.count + 1)
        actions = self.rng.integers(self.num_actions, size=len(observations))
        return actions, {"count": self.count, "state": np.stack([self.count, -self.count], -1).astype(np.float32)}

    def load(self, weights: Any) -> None:
        self.loaded = weights

    def state(self) -> Any:
        return {"rng": self.rng.bit_generator.state, "count": self.count}

    def restore(self, state: Any) -> None:
        self.rng.bit_generator.state, self.count = state["rng"], state["count"]


class SummingLearner:
    """Stores its batches, and sums up their values."""

    def __init__(self) -> None:
        self.batches: list[Any] = []
        self.sum = np.zeros(2, np.float64)

    def learn(self, batch: Any) -> Any:
        self.batches.append(batch)
        if isinstance(batch, rl.Rollout):
            self.sum += [batch.rewards.sum(), batch.observations.sum()]
            return {"reward": batch.rewards.mean()}
        self.sum += [batch.data["reward"].sum(), batch.data["observation"].sum()]
        return rl.Learnt({"reward": batch.data["reward"].mean()}, priorities=np.ones(len(batch.info.key)))

    def weights(self) -> Any:
        return {"sum": self.sum, "group": {"half": self.sum / 2}}

    def state(self) -> Any:
        return self.sum

    def restore(self, state: Any) -> None:
        self.sum = state


@dataclasses.dataclass
class Agent:
    experience: Any
    rate: float = 0.5
    made: list[Any] = dataclasses.field(default_factory=list)

    settings = property(lambda self: {"rate": self.rate})

    def policy(self, spec: rl.EnvironmentSpec, context: rl.PolicyContext) -> Any:
        self.made.append(RandomPolicy(context, spec.actions.num_values))
        return self.made[-1]

    def learner(self, spec: rl.EnvironmentSpec, seed: int) -> Any:
        self.made.append(SummingLearner())
        return self.made[-1]

    def batches(self) -> list[Any]:
        (learner,) = (made for made in self.made if isinstance(made, SummingLearner))
        return learner.batches


TRANSITIONS = rl.Transitions(batch_size=8, min_size=20, max_size=200, priority_exponent=0.6)
