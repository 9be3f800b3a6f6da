"""dm_env environments with Gymnasium's interface. Imports gymnasium."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from relive.rl.gymnasium_adapters import expect_supported
from relive.rl.specs import DiscreteArraySpec, as_arrays, make_environment_spec
from relive.specs import ArraySpec, BoundedArraySpec


class AsGymnasium(gymnasium.Env[Any, Any]):
    """See ``relive.rl.as_gymnasium``."""

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(self, environment: Any) -> None:
        expect_supported()
        self.environment = environment
        spec = make_environment_spec(environment)
        self._observations = spec.observations
        self.observation_space = _space(spec.observations)
        self.action_space = _space(spec.actions)
        self._in_episode = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            warnings.warn(
                f"{self.environment!r} was seeded when it was created; reset(seed={seed}) does not change that", stacklevel=2
            )
        self._in_episode = True
        return as_arrays(self._observations, self.environment.reset().observation), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if not self._in_episode:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        _, reward, discount, observation = time_step = self.environment.step(action)
        last = bool(time_step.last())
        terminated = last and discount == 0.0
        self._in_episode = not last
        observed = as_arrays(self._observations, observation)
        return observed, float(reward), terminated, last and not terminated, {"discount": discount}

    def close(self) -> None:
        close = getattr(self.environment, "close", None)
        if close is not None:
            close()


def _space(spec: Any) -> gymnasium.Space[Any]:
    if isinstance(spec, DiscreteArraySpec):
        return gymnasium.spaces.Discrete(spec.num_values, dtype=spec.dtype.type)
    if isinstance(spec, ArraySpec):
        return _box(spec)
    if isinstance(spec, Mapping):
        return gymnasium.spaces.Dict({str(key): _space(part) for key, part in spec.items()})
    return gymnasium.spaces.Tuple([_space(part) for part in spec])


def _box(spec: ArraySpec) -> gymnasium.Space[Any]:
    shape = tuple(size or 0 for size in spec.shape or ())
    kind = spec.dtype.kind
    if kind == "b":
        return gymnasium.spaces.Box(0, 1, shape, np.int8)
    if isinstance(spec, BoundedArraySpec):
        low, high = (np.broadcast_to(bound, shape) for bound in (spec.minimum, spec.maximum))
    elif kind == "f":
        low, high = np.full(shape, -np.inf), np.full(shape, np.inf)
    else:
        info = np.iinfo(spec.dtype)
        low, high = np.full(shape, info.min), np.full(shape, info.max)
    return gymnasium.spaces.Box(low.astype(spec.dtype), high.astype(spec.dtype), shape, spec.dtype.type)
