"""Wrappers that change observations."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from relive import nest
from relive.rl.specs import DiscreteArraySpec, as_arrays
from relive.rl.timestep import TimeStep
from relive.rl.wrappers import AnyEnvironment, EnvironmentWrapper, checked_count
from relive.specs import ArraySpec, BoundedArraySpec


class FrameStacking(EnvironmentWrapper):
    """Stacks the last few observations on a new last axis, newest last. After a reset, missing observations are zeros.

    Args:
      environment: the environment.
      num_frames: the number of observations in a stack.
      flatten: whether the new axis is merged into the last axis of the observation.
    """

    def __init__(self, environment: AnyEnvironment, num_frames: int = 4, flatten: bool = False) -> None:
        super().__init__(environment)
        self._num_frames, self._flatten = checked_count("num_frames", num_frames), flatten
        self._frames: collections.deque[Any] = collections.deque(maxlen=num_frames)
        self._frame_spec = super().observation_spec()
        self._spec = nest.map_structure(self._stacked_spec, self._frame_spec)

    def reset(self) -> TimeStep:
        """Starts an episode."""
        return self._with_stack(super().reset())

    def step(self, action: Any) -> TimeStep:
        """Takes one step."""
        return self._with_stack(super().step(action))

    def observation_spec(self) -> Any:
        """Returns the spec of stacked observations."""
        return self._spec

    def _with_stack(self, step: TimeStep) -> TimeStep:
        # Copies, since the environment may reuse its arrays.
        frame = [leaf.copy() for leaf in nest.flatten(as_arrays(self._frame_spec, step.observation))]
        if step.first():
            self._frames.extend([[np.zeros_like(leaf) for leaf in frame]] * self._num_frames)
        self._frames.append(frame)
        stacks = [self._stacked(frames) for frames in zip(*self._frames, strict=True)]
        return step._replace(observation=nest.unflatten_as(self._frame_spec, stacks))

    def _stacked(self, frames: Sequence[Any]) -> npt.NDArray[Any]:
        stack = np.stack(frames, axis=-1)
        return stack.reshape(*stack.shape[:-2], -1) if self._flatten else stack

    def _stacked_spec(self, leaf: ArraySpec) -> ArraySpec:
        def stacked(array: Any) -> npt.NDArray[Any]:
            return self._stacked([np.broadcast_to(array, _shape(leaf))] * self._num_frames)

        shape = stacked(0).shape
        if not isinstance(leaf, BoundedArraySpec):
            return ArraySpec(shape, leaf.dtype, leaf.name)
        # Zeros precede the first frame.
        bounds = np.minimum(leaf.minimum, 0), np.maximum(leaf.maximum, 0)
        low, high = (stacked(bound) if np.ndim(bound) else bound for bound in bounds)
        return BoundedArraySpec(shape, leaf.dtype, low, high, leaf.name)


class ConcatObservation(EnvironmentWrapper):
    """Concatenates all leaves of an observation into one vector. All leaves must have one data type.

    Args:
      environment: the environment.
      name_filter: the leaves to concatenate, in this order; names are paths such as ``"arm/position"``. By default, all
        leaves are concatenated, sorted by the keys of mappings.

    Raises:
      ValueError: a name that is not a leaf, or no leaves.
      TypeError: leaves with different data types.
    """

    def __init__(self, environment: AnyEnvironment, name_filter: Sequence[str] | None = None) -> None:
        super().__init__(environment)
        self._parts = super().observation_spec()
        leaves = {nest.path_text(path): leaf for path, leaf in nest.flatten_with_path(self._parts)}
        names = list(leaves) if name_filter is None else list(name_filter)
        for name in names:
            if name not in leaves:
                raise ValueError(f"name_filter must name leaves of the observation, which has {', '.join(leaves)}, got {name!r}")
        if not names:
            raise ValueError(f"at least one leaf must be concatenated, but name_filter is empty; the observation has {', '.join(leaves)}")
        self._order = [list(leaves).index(name) for name in names]
        self._spec = _concatenated({name: leaves[name] for name in names})

    def reset(self) -> TimeStep:
        """Starts an episode."""
        return self._joined(super().reset())

    def step(self, action: Any) -> TimeStep:
        """Takes one step."""
        return self._joined(super().step(action))

    def observation_spec(self) -> Any:
        """Returns the spec of the vector."""
        return self._spec

    def _joined(self, step: TimeStep) -> TimeStep:
        leaves = nest.flatten(as_arrays(self._parts, step.observation))
        return step._replace(observation=np.concatenate([leaves[index].ravel() for index in self._order]))


class OAR(NamedTuple):
    """An observation with the preceding action and reward."""

    observation: Any
    action: Any
    reward: Any


class ObservationActionReward(EnvironmentWrapper):
    """Adds the last action and reward to the observation, which becomes an :class:`OAR`. On a FIRST, action and reward
    are zeros."""

    def __init__(self, environment: AnyEnvironment) -> None:
        super().__init__(environment)
        self._added = super().action_spec(), super().reward_spec()
        self._zeros = nest.map_structure(lambda spec: np.zeros(spec.shape, spec.dtype), self._added)
        action, reward = nest.map_structure(_with_zero, self._added)
        self._spec = OAR(super().observation_spec(), action, reward)

    def reset(self) -> TimeStep:
        """Starts an episode."""
        return self._with_added(None, super().reset())

    def step(self, action: Any) -> TimeStep:
        """Takes one step."""
        return self._with_added(action, super().step(action))

    def observation_spec(self) -> Any:
        """Returns the spec of the observation, action and reward."""
        return self._spec

    def _with_added(self, action: Any, step: TimeStep) -> TimeStep:
        # A step that resets ignores its action, which need not match the spec.
        added = self._zeros if step.first() else as_arrays(self._added, (action, step.reward))
        action, reward = nest.map_structure(np.array, added)
        return step._replace(observation=OAR(step.observation, action, reward))


class ExpandScalar(EnvironmentWrapper):
    """Turns the numbers in an observation into arrays of the shape ``(1,)``. Arrays are passed through unchanged."""

    def __init__(self, environment: AnyEnvironment) -> None:
        super().__init__(environment)
        self._parts = super().observation_spec()
        self._spec = nest.map_structure(_expanded_spec, self._parts)

    def reset(self) -> TimeStep:
        """Starts an episode."""
        return self._expanded(super().reset())

    def step(self, action: Any) -> TimeStep:
        """Takes one step."""
        return self._expanded(super().step(action))

    def observation_spec(self) -> Any:
        """Returns the spec of observations, in which no leaf is a single number."""
        return self._spec

    def _expanded(self, step: TimeStep) -> TimeStep:
        return step._replace(observation=nest.map_structure(np.atleast_1d, as_arrays(self._parts, step.observation)))


def _shape(spec: ArraySpec) -> tuple[int, ...]:
    return tuple(size or 0 for size in spec.shape or ())


def _concatenated(leaves: dict[str, ArraySpec]) -> ArraySpec:
    (first, spec), *others = leaves.items()
    for name, other in others:
        if other.dtype != spec.dtype:
            raise TypeError(f"the leaves of an observation must have one data type to be concatenated, but {first} is {spec.dtype} and {name} is "
                            f"{other.dtype}; choose leaves with name_filter, or convert them first, as SinglePrecision does")
    bounds = [_bounds(leaf) for leaf in leaves.values()]
    low, high = (np.concatenate([pair[side] for pair in bounds]) for side in (0, 1))
    if not any(isinstance(leaf, BoundedArraySpec) for leaf in leaves.values()):
        return ArraySpec(low.shape, spec.dtype, "observation")
    return BoundedArraySpec(low.shape, spec.dtype, low, high, "observation")


def _bounds(spec: ArraySpec) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Returns the bounds of each element; those of a leaf without bounds are the limits of its data type."""
    limits: tuple[Any, Any] = (-np.inf, np.inf) if spec.dtype.kind == "f" else (False, True)
    if spec.dtype.kind in "iu":
        limits = (np.iinfo(spec.dtype).min, np.iinfo(spec.dtype).max)
    if isinstance(spec, BoundedArraySpec):
        limits = (spec.minimum, spec.maximum)
    low, high = (np.broadcast_to(np.asarray(limit, spec.dtype), _shape(spec)).ravel() for limit in limits)
    return low, high


def _with_zero(spec: ArraySpec) -> ArraySpec:
    """Returns the spec with zero allowed, for steps without a preceding action."""
    if isinstance(spec, DiscreteArraySpec) or not isinstance(spec, BoundedArraySpec):
        return spec
    return BoundedArraySpec(spec.shape, spec.dtype, np.minimum(spec.minimum, 0), np.maximum(spec.maximum, 0), spec.name)


def _expanded_spec(spec: ArraySpec) -> ArraySpec:
    if spec.shape != ():
        return spec
    if isinstance(spec, BoundedArraySpec):
        return BoundedArraySpec((1,), spec.dtype, spec.minimum, spec.maximum, spec.name)
    return ArraySpec((1,), spec.dtype, spec.name)
