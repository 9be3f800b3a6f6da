"""Environments in Python as the extension steps them: with leaves in lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from relive import nest
from relive.rl.gymnasium_adapters import GymEnvironment
from relive.rl.specs import for_extension, make_environment_spec


class Bridge:
    """An environment with dm_env's interface, for the extension."""

    def __init__(self, environment: Any) -> None:
        spec = make_environment_spec(environment)
        self._environment = environment
        self._action_specs = nest.flatten(spec.actions)
        _, self._fill_action = nest.filler(spec.actions)
        self._observation_paths = [path for path, _ in nest.flatten_with_path(spec.observations)]
        self.specs = for_extension(spec)

    def reset(self) -> tuple[int, float, float, list[Any]]:
        """Step type, reward, discount, leaves of the observation."""
        return self._answer(self._environment.reset())

    def step(self, actions: list[Any]) -> tuple[int, float, float, list[Any]]:
        """The same after an action, of which there are the leaves."""
        # Environments look up scalars, and arrays without dimensions are not hashable.
        leaves = [leaf[()] if leaf.ndim == 0 else leaf for leaf in actions]
        return self._answer(self._environment.step(self._fill_action(leaves)))

    def _answer(self, time_step: Any) -> tuple[int, float, float, list[Any]]:
        step_type, reward, discount, observation = time_step
        if len(self._observation_paths) == 1 and not self._observation_paths[0]:
            leaves = [observation]
        else:
            leaves = [_part(observation, path) for path in self._observation_paths]
        number = int(step_type)
        if number == 0:
            return 0, 0.0, 1.0, leaves
        return number, _number(reward, "reward"), _number(discount, "discount"), leaves


def _part(value: Any, path: nest.Path) -> Any:
    for element in path:
        by_name = isinstance(element, str) and not isinstance(value, Mapping)
        value = getattr(value, element) if by_name else value[element]
    return value


def _number(value: Any, what: str) -> float:
    array = np.asarray(value)
    if array.size != 1:
        raise ValueError(f"the environment's {what} has the shape {array.shape}; supported is one number")
    return float(array.reshape(()))


def source_of(environment: Any, *, shares: bool) -> str | Callable[[int], Bridge]:
    """A name, or a function from seeds to bridges, for what a user calls an environment.

    Raises:
      TypeError: it is none, or there must be several of it (``shares`` is false) and it is only one.
    """
    if isinstance(environment, str):
        return environment
    if _is_environment(environment):
        if not shares:
            raise TypeError(
                "several environments are needed, since each actor and the evaluator has its own: give a name, or a function "
                "from a seed to an environment, instead of one environment"
            )
        return lambda seed: Bridge(_with_dm_env_interface(environment, seed))
    if callable(environment):
        return lambda seed: Bridge(_with_dm_env_interface(environment(seed), seed))
    raise TypeError(
        f"{environment!r} is no environment: give the name of a native one, such as 'catch/0', an environment of Gymnasium, "
        "one with dm_env's interface, or a function from a seed to one of these"
    )


def with_dm_env_interface(environment: Any, seed: int) -> Any:
    """The environment of a name, or what a function gives for a seed, with dm_env's interface.

    Raises:
      TypeError: it is no environment.
    """
    if isinstance(environment, str) or _is_environment(environment):
        return _with_dm_env_interface(environment, seed)
    source_of(environment, shares=True)
    return _with_dm_env_interface(environment(seed), seed)


def name_of(environment: Any) -> str:
    """What an environment is called in messages and in saved runs."""
    if isinstance(environment, str):
        return environment
    identifier = getattr(getattr(environment, "spec", None), "id", None)
    if isinstance(identifier, str):
        return identifier
    return str(getattr(environment, "__qualname__", type(environment).__qualname__))


def _is_environment(value: Any) -> bool:
    return not isinstance(value, type) and (hasattr(value, "observation_spec") or hasattr(value, "observation_space"))


def _with_dm_env_interface(environment: Any, seed: int) -> Any:
    if isinstance(environment, str):
        from relive.rl.environments import make

        return make(environment, seed=seed)
    if hasattr(environment, "observation_spec") or not hasattr(environment, "observation_space"):
        return environment
    return GymEnvironment(environment, seed=seed)
