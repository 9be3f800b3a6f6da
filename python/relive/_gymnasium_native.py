"""Native environments with Gymnasium's interfaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from relive.rl._as_gymnasium import AsGymnasium
from relive.rl._vector_resets import mask_of, seeds_of
from relive.rl.environments import NativeEnvironment


class NativeEnv(AsGymnasium):
    """The environment of ``gymnasium.make("relive/catch-0")``. ``reset(seed=…)`` restarts the environment with that
    seed."""

    def __init__(self, name: str, render_mode: None = None) -> None:
        super().__init__(NativeEnvironment(name, seed=_any_seed()))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            # Checks the seed, and creates a generator for wrappers; the environment does not draw from it.
            gymnasium.Env.reset(self, seed=seed)
            self.environment = NativeEnvironment(self.environment.name, seed=seed)
        return super().reset(options=options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        # A list is an array, as in Gymnasium's environments; dm_env's interface would take it for a structure.
        return super().step(np.asarray(action, self.action_space.dtype) if isinstance(action, list) else action)


class NativeVectorEnv(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """The vector of ``gymnasium.make_vec("relive/catch-0", num_envs=8)``; each environment resets at the step after the
    last step of its episode."""

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.NEXT_STEP, "render_modes": []}

    def __init__(self, name: str, num_envs: int = 1, render_mode: None = None) -> None:
        self.num_envs, self.name = num_envs, name
        self._environments = [NativeEnvironment(name, seed=_any_seed()) for _ in range(num_envs)]
        one = AsGymnasium(self._environments[0])
        self.single_observation_space, self.single_action_space = one.observation_space, one.action_space
        self.observation_space = batch_space(one.observation_space, num_envs)
        self.action_space = batch_space(one.action_space, num_envs)
        self._actions_shape = self.action_space.shape
        # The environments that have not been reset yet.
        self._unbegun = set(range(num_envs))
        # The newest observations.
        self._seen: list[Any] = [np.zeros(one.observation_space.shape or (), one.observation_space.dtype)] * num_envs

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[Any], dict[str, Any]]:
        """Starts an episode in every environment, or in those that the array of bools ``options["reset_mask"]`` selects.
        If ``seed`` is a number, environment ``i`` uses the seed ``seed + i``."""
        seeds, (mask, _) = seeds_of(seed, self.num_envs), mask_of(options, self.num_envs)
        super().reset(seed=seeds[0] if isinstance(seed, (int, np.integer)) else None)
        for number in np.flatnonzero(mask):
            given = seeds[number]
            if given is not None:
                self._environments[number] = NativeEnvironment(self.name, seed=given)
            self._seen[number] = self._environments[number].reset().observation
            self._unbegun.discard(int(number))
        return np.stack(self._seen), {}

    def step(
        self, actions: Any
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.bool_], dict[str, Any]]:
        """Takes one step in all environments; where an episode has ended, the action is ignored and a new episode
        starts.

        Raises:
          ValueError: an action is invalid, or the number of actions is wrong; no environment takes a step.
          TypeError: actions of the wrong type; no environment takes a step.
          ResetNeeded: an environment has not been reset yet.
        """
        if self._unbegun:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        rows = self._checked(actions)
        answers = [environment._native.step(action) for environment, action in zip(self._environments, rows, strict=True)]
        kinds, rewards, discounts, observations = zip(*answers, strict=True)
        self._seen = list(observations)
        last = np.array(kinds) == 2
        terminated = last & (np.array(discounts) == 0)
        return np.stack(observations), np.array(rewards, np.float64), terminated, last & ~terminated, {}

    def _checked(self, actions: Any) -> Sequence[Any] | npt.NDArray[Any]:
        """Returns an action for each environment. Environments also check their actions, but when the others may have
        taken a step already."""
        rows = np.asarray(actions)
        if rows.shape != self._actions_shape:
            raise ValueError(f"the actions must have the shape {self._actions_shape}, one row for each environment, got {rows.shape}")
        if isinstance(self.single_action_space, gymnasium.spaces.Discrete):
            if rows.dtype.kind not in "iu":
                raise TypeError(f"the actions must be whole numbers, got {rows.dtype}")
            # For a few numbers, a list is faster than numpy.
            numbers: list[int] = rows.tolist()
            if min(numbers) < 0 or max(numbers) >= self.single_action_space.n:
                raise ValueError(f"the actions must be from 0 to {self.single_action_space.n - 1}, got {numbers}")
            return numbers
        if rows.dtype.kind not in "iuf" or not np.isfinite(rows).all():
            raise ValueError(f"the actions must be finite numbers, got {rows.tolist()}")
        return rows


def _any_seed() -> int:
    """Returns a seed that bsuite's environments also accept."""
    return int(np.random.SeedSequence().generate_state(1)[0])
