"""Wrappers around environments with dm_env's interface: their base, and conversions of types and bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Union

import numpy as np

from relive import nest
from relive._numbers import whole
from relive.rl.environments import Environment
from relive.rl.gymnasium_adapters import GymEnvironment, adapted
from relive.rl.specs import DISCOUNTS, REWARDS, DiscreteArraySpec, normalized
from relive.rl.timestep import TimeStep
from relive.specs import ArraySpec, BoundedArraySpec

if TYPE_CHECKING:
    import gymnasium

AnyEnvironment = Union[Environment, "gymnasium.Env[Any, Any]"]
"""What a wrapper accepts."""

_NARROWER = {np.dtype(np.float64): np.dtype(np.float32), np.dtype(np.int64): np.dtype(np.int32)}


class EnvironmentWrapper:
    """A wrapper that passes all method calls through to ``environment``. The wrapper also has the environment's other
    attributes, such as ``info``, except those whose names begin with ``_``.

    Args:
      environment: an environment with dm_env's interface, or one of Gymnasium, which is wrapped in a
        :class:`relive.rl.GymEnvironment` without a seed.

    Raises:
      TypeError: the value is not an environment, or is a vector.
    """

    def __init__(self, environment: AnyEnvironment) -> None:
        if isinstance(environment, type) or not (hasattr(environment, "observation_spec") or hasattr(environment, "observation_space")):
            raise TypeError(
                f"{type(self).__name__} takes an environment with dm_env's or Gymnasium's interface, but got {environment!r}; create one "
                "first, such as relive.rl.make(name) or gymnasium.make(name)"
            )
        self.environment: Any = adapted(environment)

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


def innermost(environment: Any) -> Any:
    """Returns the environment inside all wrappers and the adapter."""
    while isinstance(environment, (EnvironmentWrapper, GymEnvironment)):
        environment = environment.environment
    return environment


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


class CanonicalSpec(EnvironmentWrapper):
    """Accepts actions in ``[-1, 1]`` for all bounded floats of the environment, and scales them to their bounds. Other
    actions are passed through unchanged.

    Args:
      environment: the environment.
      clip: whether actions beyond ``[-1, 1]`` are clipped; otherwise, they are scaled like all others.

    Raises:
      ValueError: actions are bounded on only one side.
    """

    def __init__(self, environment: AnyEnvironment, clip: bool = False) -> None:
        super().__init__(environment)
        self._clip = clip
        self._bounds = super().action_spec()
        self._actions = nest.map_structure_with_path(_canonical, self._bounds)
        self._over = True

    def reset(self) -> TimeStep:
        """Starts an episode."""
        self._over = False
        return super().reset()

    def step(self, action: Any) -> TimeStep:
        """Takes one step.

        Raises:
          ValueError: the action has another structure or shape than its spec.
        """
        # A step that resets ignores its action, which need not match the spec.
        if self._over:
            return self.reset()
        specs = self._bounds
        step = super().step(nest.map_structure_up_to(self._scaled, specs, specs, action, names=("the action spec", "the action")))
        self._over = step.last()
        return step

    def action_spec(self) -> Any:
        """Returns the spec of actions, with the bounds -1 and 1."""
        return self._actions

    def _scaled(self, spec: ArraySpec, action: Any) -> Any:
        if not _is_scaled(spec):
            return action
        if np.shape(action) != spec.shape:
            raise ValueError(f"an action must have the shape {spec.shape} of {spec!r}, but it has the shape {np.shape(action)}")
        assert isinstance(spec, BoundedArraySpec)
        low, high = spec.minimum.astype(np.float64), spec.maximum.astype(np.float64)
        value = np.asarray(action, np.float64)
        if self._clip:
            value = np.clip(value, -1.0, 1.0)
        # Rounding must not exceed the bounds.
        return (0.5 * ((1.0 - value) * low + (1.0 + value) * high)).astype(spec.dtype)


def _is_scaled(spec: ArraySpec) -> bool:
    """Returns whether an action is a bounded float. A spec whose bounds are all infinite does not bound it."""
    if not isinstance(spec, BoundedArraySpec) or spec.dtype.kind != "f":
        return False
    return bool(np.isfinite(spec.minimum).any() or np.isfinite(spec.maximum).any())


def _canonical(path: nest.Path, spec: ArraySpec) -> ArraySpec:
    if not _is_scaled(spec):
        return spec
    assert isinstance(spec, BoundedArraySpec)
    if not (np.isfinite(spec.minimum).all() and np.isfinite(spec.maximum).all()):
        place = f"the action at {nest.path_text(path)!r}" if path else "the action"
        raise ValueError(f"{place} must have bounds on both sides of every element, or none, to be scaled; it is {spec!r}")
    return BoundedArraySpec(spec.shape, spec.dtype, -1.0, 1.0, spec.name)


def checked_count(name: str, count: int) -> int:
    """Returns a number of steps or frames that is at least 1."""
    if whole(name, count) < 1:
        raise ValueError(f"{name} must be at least 1, got {count}")
    return count
