"""Gymnasium environments with dm_env's interface, and vice versa."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

from relive import nest
from relive.rl import _faults
from relive.rl.specs import DISCOUNTS, REWARDS, as_arrays, expect_one_agent, normalized
from relive.rl.timestep import TimeStep, restart, termination, transition, truncation

if TYPE_CHECKING:
    import gymnasium

# Single environments also work with older versions.
_OLDEST = (1, 2, 2)


def expect_supported() -> None:
    """Raises ImportError if Gymnasium has been imported, but is too old for vectors and native environments."""
    version = getattr(sys.modules.get("gymnasium"), "__version__", None)
    if version is not None and tuple(map(int, re.findall(r"\d+", version)[:3])) < _OLDEST:
        raise ImportError(
            f"Gymnasium {version} is installed, but vectors and native environments require {'.'.join(map(str, _OLDEST))} or newer: "
            "pip install --upgrade gymnasium"
        )


class GymEnvironment:
    """A Gymnasium environment with dm_env's interface.

    A truncated episode ends with discount 1, a terminated episode with discount 0. Observations have the data types of
    their spaces; rewards and discounts are float64, or float32 in a :class:`relive.rl.SinglePrecision`. ``environment``
    is the original environment, with its other methods; ``info`` is the ``info`` of the last step.

    Args:
      environment: a single environment, not a vector.
      seed: the seed of its first reset, if any.

    Raises:
      TypeError: a space that is not supported; the error names its path.
    """

    def __init__(self, environment: gymnasium.Env[Any, Any], *, seed: int | None = None) -> None:
        expect_no_other_vector(environment)
        if hasattr(environment, "num_envs"):
            raise TypeError("a vector of environments is not a single environment; relive.rl.run accepts it as it is")
        self.environment = environment
        self.called = _faults.name_of(environment)
        self._spaces = _faults.Spaces(environment, "observation_space", "action_space")
        self._observations = normalized(environment.observation_space, "observation")
        self._actions = normalized(environment.action_space, "action")
        self._first_actions = first_actions(environment.action_space)
        self._seed = seed
        self._over = True
        self.info: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"relive.rl.GymEnvironment({self.environment!r})"

    def reset(self) -> TimeStep:
        """Starts an episode."""
        seed, self._seed = self._seed, None
        answer = self.environment.reset(seed=seed)
        self._spaces.expect_same(self.called)
        try:
            observation, self.info = _faults.beginning(answer)
            observed = as_arrays(self._observations, observation)
        except _faults.WRONG as error:
            raise _faults.wrong(self.called, "reset", error) from error
        self._over = False
        return restart(observed)

    def step(self, action: Any) -> TimeStep:
        """Takes one step, or resets if no episode is in progress."""
        if self._over:
            return self.reset()
        answer = self.environment.step(self._acted(action))
        try:
            observation, reward, terminated, truncated, self.info = _faults.transition(answer)
            terminated, truncated = _faults.flag(terminated, "terminated"), _faults.flag(truncated, "truncated")
            self._over = terminated or truncated
            observed, earned = as_arrays(self._observations, observation), _faults.reward(reward)
        except _faults.WRONG as error:
            raise _faults.wrong(self.called, "step", error) from error
        if terminated:
            return termination(earned, observed)
        return truncation(earned, observed) if truncated else transition(earned, observed)

    def observation_spec(self) -> Any:
        """Returns the spec of observations."""
        return self._observations

    def action_spec(self) -> Any:
        """Returns the spec of actions; discrete actions are counted from 0, regardless of the space's ``start``."""
        return self._actions

    def reward_spec(self) -> Any:
        """Returns the spec of rewards."""
        return REWARDS

    def discount_spec(self) -> Any:
        """Returns the spec of discounts."""
        return DISCOUNTS

    def close(self) -> None:
        """Closes the environment."""
        self.environment.close()

    def _acted(self, action: Any) -> Any:
        if self._first_actions == 0 and not nest.is_nested(action):
            return action
        return nest.map_structure(lambda value, first: value + first if first else value, action, self._first_actions)


def adapted(environment: Any, *, seed: int | None = None) -> Any:
    """Returns an environment with dm_env's interface. Gymnasium environments are wrapped in the adapter, which seeds
    the first reset; other environments are unchanged."""
    if hasattr(environment, "observation_spec") or not hasattr(environment, "observation_space"):
        return environment
    expect_one_agent(environment)
    return GymEnvironment(environment, seed=seed)


def expect_no_other_vector(environment: Any) -> None:
    """Checks that a value is not a vector of another package than Gymnasium.

    Raises:
      TypeError: the value is such a vector.
    """
    if hasattr(environment, "num_envs") and not hasattr(environment, "single_observation_space"):
        raise TypeError(
            f"{_faults.name_of(environment)} is a vector of environments, but not one of Gymnasium's, since it has no "
            "single_observation_space; other vectors are not supported: instead of a vector of SuperSuit, give the PettingZoo environment "
            "itself; instead of one of Stable-Baselines3, give a function that makes one environment, or gymnasium.make_vec(…)"
        )


def first_actions(space: Any) -> Any:
    """Returns the number of the first discrete action for each leaf of an action space."""
    if isinstance(getattr(space, "spaces", None), (dict, tuple)):
        if isinstance(space.spaces, dict):
            return {key: first_actions(part) for key, part in space.spaces.items()}
        return tuple(first_actions(part) for part in space.spaces)
    return int(getattr(space, "start", 0)) if type(space).__name__ == "Discrete" else 0


def from_zero(actions: Any, space: Any) -> Any:
    """Returns actions of a space with its discrete actions counted from 0."""
    return nest.map_structure(lambda value, first: value - first if first else value, actions, first_actions(space))


def as_gymnasium(environment: Any) -> gymnasium.Env[Any, Any]:
    """Converts an environment with dm_env's interface to Gymnasium's.

    A LAST with discount 0 is ``terminated``, any other LAST ``truncated``. ``info["discount"]`` is the discount of the
    step. ``reset(seed=…)`` warns and ignores the seed, since dm_env environments are seeded at construction.

    Raises:
      TypeError: specs that no space can describe.
      ModuleNotFoundError: the package gymnasium is not installed.
    """
    from relive.rl import _as_gymnasium

    return _as_gymnasium.AsGymnasium(environment)
