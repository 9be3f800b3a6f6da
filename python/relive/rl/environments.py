"""Environments with dm_env's interface."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, runtime_checkable

from relive import _native
from relive._numbers import whole
from relive.rl.specs import EnvironmentSpec
from relive.rl.timestep import StepType, TimeStep


@runtime_checkable
class Environment(Protocol):
    """dm_env's interface: the methods of an environment that agents call.

    * ``reset`` starts an episode and returns FIRST.
    * ``step`` returns MID until the episode ends, then LAST. Before the first reset and after a LAST, it acts as a
      reset; a run calls ``reset`` itself.
    """

    def reset(self) -> Any: ...

    def step(self, action: Any) -> Any: ...

    def observation_spec(self) -> Any: ...

    def action_spec(self) -> Any: ...


def make(name: str, *, seed: int = 0) -> NativeEnvironment:
    """Creates a native environment, which runs in Rust, from its name: one of bsuite's identifiers, such as
    ``"catch/0"``, or ``"CartPole-v1"``, ``"Acrobot-v1"``, ``"MountainCar-v0"``, ``"MountainCarContinuous-v0"``, ``"Pendulum-v1"``,
    ``"control/cartpole-swingup"``, ``"control/pendulum-swingup"``, ``"control/acrobot-swingup"`` or ``"pixels/catch"``.

    The same seed and actions produce the same episodes. For bsuite's and Gymnasium's environments, these episodes are
    the same as in bsuite and Gymnasium.

    Raises:
      ValueError: an unknown name; a seed of more than 64 bits, or more than 32 bits for bsuite's environments.
    """
    return NativeEnvironment(name, seed=seed)


class NativeEnvironment:
    """An environment in Rust with dm_env's interface; see :func:`make`. Each step returns its observation in new
    arrays."""

    def __init__(self, name: str, *, seed: int = 0) -> None:
        if not 0 <= whole("seed", seed) < 2**64:
            raise ValueError(f"seed is {seed}, but it must be at least 0, and below 2**64")
        self._native = _native.NativeEnvironment(name, seed)
        self._spec = EnvironmentSpec(*self._native.specs())
        self.name = name

    def __repr__(self) -> str:
        return f"relive.rl.make({self.name!r})"

    def reset(self) -> TimeStep:
        """Starts an episode."""
        return _time_step(self._native.reset())

    def step(self, action: Any) -> TimeStep:
        """Takes one step.

        Raises:
          ValueError: an action that the spec does not allow; the environment is unchanged.
        """
        return _time_step(self._native.step(action))

    def observation_spec(self) -> Any:
        """Returns the spec of observations."""
        return self._spec.observations

    def action_spec(self) -> Any:
        """Returns the spec of actions."""
        return self._spec.actions

    def reward_spec(self) -> Any:
        """Returns the spec of rewards."""
        return self._spec.rewards

    def discount_spec(self) -> Any:
        """Returns the spec of discounts."""
        return self._spec.discounts

    @property
    def bsuite_num_episodes(self) -> int:
        """The number of episodes that bsuite specifies for this environment.

        Raises:
          AttributeError: the environment is not one of bsuite's.
        """
        episodes = self._native.num_episodes()
        if episodes is None:
            raise AttributeError(f"{self.name} is not an environment of bsuite, and has no bsuite_num_episodes or bsuite_info")
        return episodes

    @property
    def bsuite_info(self) -> Callable[[], dict[str, float]]:
        """A function that returns bsuite's totals over all episodes so far, such as ``total_regret``; bsuite's log
        files contain these totals, and its scores are computed from them.

        Raises:
          AttributeError: the environment is not one of bsuite's.
        """
        _ = self.bsuite_num_episodes
        return lambda: self._native.totals() or {}

    def close(self) -> None:
        """Does nothing; it is part of dm_env's interface."""

    def __enter__(self) -> NativeEnvironment:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_STEP_TYPES = (StepType.FIRST, StepType.MID, StepType.LAST)


def _time_step(answer: tuple[int, float, float, Any]) -> TimeStep:
    step_type, reward, discount, observation = answer
    if step_type == 0:
        return TimeStep(StepType.FIRST, None, None, observation)
    return TimeStep(_STEP_TYPES[step_type], reward, discount, observation)
