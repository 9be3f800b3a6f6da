"""Wrappers that change the course of episodes: their length, their start, their steps and when rewards arrive."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from relive import nest
from relive._numbers import whole
from relive.rl.timestep import StepType, TimeStep
from relive.rl.wrappers import AnyEnvironment, EnvironmentWrapper, checked_count
from relive.specs import ArraySpec


class StepLimit(EnvironmentWrapper):
    """Truncates episodes after ``step_limit`` steps: the last step becomes a LAST and keeps its discount. ``None``
    means no limit."""

    def __init__(self, environment: AnyEnvironment, step_limit: int | None = None) -> None:
        super().__init__(environment)
        self._limit = None if step_limit is None else checked_count("step_limit", step_limit)
        self._steps = 0
        self._over = True

    def reset(self) -> TimeStep:
        """Starts an episode."""
        self._steps, self._over = 0, False
        return super().reset()

    def step(self, action: Any) -> TimeStep:
        """Takes one step."""
        if self._over:
            return self.reset()
        step = super().step(action)
        self._steps += 1
        if self._limit is not None and self._steps >= self._limit:
            step = step._replace(step_type=StepType.LAST)
        self._over = step.last()
        return step


class NoopStarts(EnvironmentWrapper):
    """Starts each episode with 0 to ``noop_max`` no-op actions, where each number is equally likely.

    If an episode ends during these actions, a new episode starts. ``reset`` returns a FIRST.

    Args:
      environment: an environment with one discrete action.
      noop_action: the no-op action.
      noop_max: the largest number of no-ops.
      seed: the seed for the numbers of no-ops.
    """

    def __init__(self, environment: AnyEnvironment, *, noop_action: int = 0, noop_max: int = 30, seed: int = 0) -> None:
        if whole("noop_max", noop_max) < 0:
            raise ValueError(f"noop_max must be at least 0, got {noop_max}")
        super().__init__(environment)
        self._noop_action = whole("noop_action", noop_action)
        self._noop_max = noop_max
        self._random = np.random.default_rng(seed)
        self._over = True

    def reset(self) -> TimeStep:
        """Starts an episode."""
        step = super().reset()
        for _ in range(int(self._random.integers(self._noop_max + 1))):
            step = super().step(self._noop_action)
            if step.last():
                step = super().reset()
        self._over = False
        return TimeStep(StepType.FIRST, None, None, step.observation)

    def step(self, action: Any) -> TimeStep:
        """Takes one step."""
        if self._over:
            return self.reset()
        step = super().step(action)
        self._over = step.last()
        return step


class ActionRepeat(EnvironmentWrapper):
    """Takes every action ``num_repeats`` times, or until the episode ends. The reward is the sum of the rewards, each
    multiplied by the preceding discounts; the discount is the product of all discounts."""

    def __init__(self, environment: AnyEnvironment, num_repeats: int = 1) -> None:
        super().__init__(environment)
        self._num_repeats = checked_count("num_repeats", num_repeats)

    def step(self, action: Any) -> TimeStep:
        """Repeats the action."""
        step = super().step(action)
        reward, discount = step.reward, step.discount
        for _ in range(1, self._num_repeats):
            if not step.mid():
                break
            step = super().step(action)
            reward = reward + discount * step.reward
            discount = discount * step.discount
        return step._replace(reward=reward, discount=discount)

    def reward_spec(self) -> Any:
        """Returns the spec of rewards, without bounds."""
        return _unbounded(super().reward_spec())


def _unbounded(specs: Any) -> Any:
    """Returns the specs of sums."""
    return nest.map_structure(lambda spec: ArraySpec(spec.shape, spec.dtype, spec.name), specs)


class DelayedReward(EnvironmentWrapper):
    """Withholds rewards, and returns their sum once per period and at the end of an episode. All other rewards are 0.

    Args:
      environment: the environment.
      accumulation_period: the number of steps in a period; ``None`` returns rewards only at the end of episodes.
    """

    def __init__(self, environment: AnyEnvironment, accumulation_period: int | None = 1) -> None:
        super().__init__(environment)
        self._period = None if accumulation_period is None else checked_count("accumulation_period", accumulation_period)
        self._zero = nest.map_structure(lambda spec: np.zeros(spec.shape, spec.dtype)[()], self.reward_spec())
        self._steps, self._sum = 0, self._zero

    def reset(self) -> TimeStep:
        """Starts an episode."""
        self._steps, self._sum = 0, self._zero
        return super().reset()

    def step(self, action: Any) -> TimeStep:
        """Takes one step."""
        step = super().step(action)
        if step.first():
            self._steps, self._sum = 0, self._zero
            return step
        self._steps += 1
        self._sum, reward = nest.map_structure(operator.add, self._sum, step.reward), self._zero
        if step.last() or (self._period is not None and self._steps % self._period == 0):
            self._sum, reward = self._zero, self._sum
        return step._replace(reward=reward)

    def reward_spec(self) -> Any:
        """Returns the spec of rewards, without bounds."""
        return _unbounded(super().reward_spec())
