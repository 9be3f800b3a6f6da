"""Wrappers around environments with dm_env's interface."""

from __future__ import annotations

from typing import Any

import numpy as np

from relive import nest
from relive.rl.environments import Environment
from relive.rl.specs import DISCOUNTS, REWARDS, DiscreteArraySpec, normalized
from relive.rl.timestep import StepType, TimeStep
from relive.specs import ArraySpec, BoundedArraySpec

_NARROWER = {np.dtype(np.float64): np.dtype(np.float32), np.dtype(np.int64): np.dtype(np.int32)}


class EnvironmentWrapper:
    """A wrapper that passes all method calls through to ``environment``. It also has its other attributes, such as
    ``info``, except those whose names begin with ``_``."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment

    def __getattr__(self, name: str) -> Any:
        # A copy that is not initialized yet has no environment.
        if name.startswith("_") or name == "environment":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        return getattr(self.environment, name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.environment!r})"

    def reset(self) -> TimeStep:
        """Starts an episode."""
        return TimeStep(*self.environment.reset())

    def step(self, action: Any) -> TimeStep:
        """Takes one step."""
        return TimeStep(*self.environment.step(action))

    def observation_spec(self) -> Any:
        """Returns the spec of observations."""
        return normalized(self.environment.observation_spec(), "observation")

    def action_spec(self) -> Any:
        """Returns the spec of actions."""
        return normalized(self.environment.action_spec(), "action")

    def reward_spec(self) -> Any:
        """Returns the spec of rewards."""
        spec = getattr(self.environment, "reward_spec", None)
        return REWARDS if spec is None else normalized(spec(), "reward")

    def discount_spec(self) -> Any:
        """Returns the spec of discounts."""
        spec = getattr(self.environment, "discount_spec", None)
        return DISCOUNTS if spec is None else normalized(spec(), "discount")

    def close(self) -> None:
        """Closes the environment."""
        close = getattr(self.environment, "close", None)
        if close is not None:
            close()


class SinglePrecision(EnvironmentWrapper):
    """Converts float64 to float32 and int64 to int32 in observations, rewards, discounts and their specs."""

    def reset(self) -> TimeStep:
        """Starts an episode."""
        return self._narrowed(super().reset())

    def step(self, action: Any) -> TimeStep:
        """Takes one step."""
        return self._narrowed(super().step(action))

    def observation_spec(self) -> Any:
        """Returns the spec of observations."""
        return nest.map_structure(_narrowed_spec, super().observation_spec())

    def action_spec(self) -> Any:
        """Returns the spec of actions."""
        return nest.map_structure(_narrowed_spec, super().action_spec())

    def reward_spec(self) -> Any:
        """Returns the spec of rewards."""
        return nest.map_structure(_narrowed_spec, super().reward_spec())

    def discount_spec(self) -> Any:
        """Returns the spec of discounts."""
        return nest.map_structure(_narrowed_spec, super().discount_spec())

    def _narrowed(self, step: TimeStep) -> TimeStep:
        reward, discount, observation = (nest.map_structure(_narrowed, part) for part in step[1:])
        return TimeStep(step.step_type, reward, discount, observation)


def _narrowed(value: Any) -> Any:
    if value is None:
        return None
    array = np.asarray(value)
    return array.astype(_NARROWER.get(array.dtype, array.dtype), copy=False)[()]


def _narrowed_spec(spec: ArraySpec) -> ArraySpec:
    dtype = _NARROWER.get(spec.dtype, spec.dtype)
    if isinstance(spec, DiscreteArraySpec):
        return DiscreteArraySpec(spec.num_values, dtype, spec.name)
    if isinstance(spec, BoundedArraySpec):
        return BoundedArraySpec(spec.shape, dtype, spec.minimum, spec.maximum, spec.name)
    return ArraySpec(spec.shape, dtype, spec.name)


class StepLimit(EnvironmentWrapper):
    """Truncates episodes after ``limit`` steps: the last step becomes a LAST and keeps its discount."""

    def __init__(self, environment: Environment, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"limit must be at least 1, got {limit}")
        super().__init__(environment)
        self._limit = limit
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
        if self._steps >= self._limit:
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

    def __init__(self, environment: Environment, *, noop_action: int = 0, noop_max: int = 30, seed: int = 0) -> None:
        if noop_max < 0:
            raise ValueError(f"noop_max must be at least 0, got {noop_max}")
        super().__init__(environment)
        self._noop_action = noop_action
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
