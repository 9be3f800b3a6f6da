"""Python environments for the tests of relive.rl."""

from __future__ import annotations

from typing import Any

import dm_env
import gymnasium
import numpy as np
from dm_env import specs
from gymnasium import spaces


class Line(dm_env.Environment):
    """Ten steps to the left or to the right on a line; the reward at the end is the position. Observations are
    nests."""

    def __init__(self) -> None:
        self._place = 0
        self._steps: int | None = None

    def _observe(self) -> dict[str, Any]:
        return {"steps": np.int64(self._steps or 0), "place": (np.array([self._place / 10.0]),)}

    def reset(self) -> dm_env.TimeStep:
        self._place, self._steps = 0, 0
        return dm_env.restart(self._observe())

    def step(self, action: Any) -> dm_env.TimeStep:
        if self._steps is None:
            return self.reset()
        self._place += {0: -1, 1: 1}[action]
        self._steps += 1
        if self._steps < 10:
            return dm_env.transition(0.0, self._observe())
        observation = self._observe()
        self._steps = None
        return dm_env.termination(float(self._place), observation)

    def observation_spec(self) -> Any:
        return {"steps": specs.Array((), np.int64), "place": (specs.BoundedArray((1,), np.float64, -1.0, 1.0),)}

    def action_spec(self) -> specs.DiscreteArray:
        return specs.DiscreteArray(2, name="direction")


class Spaces(gymnasium.Env[Any, Any]):
    """Episodes of three steps in any spaces, with a given kind of end; observations are samples of the space."""

    def __init__(self, observation: Any, action: Any, *, truncates: bool = False) -> None:
        self.observation_space = observation
        self.action_space = action
        self.actions: list[Any] = []
        self.seeds: list[int | None] = []
        self._truncates = truncates

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.seeds.append(seed)
        self.actions = []
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.actions.append(action)
        over = len(self.actions) == 3
        return self.observation_space.sample(), 1.0, over and not self._truncates, over and self._truncates, {}


BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)
