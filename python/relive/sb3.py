"""A replay buffer for the off-policy algorithms of Stable-Baselines3.

>>> model = DQN("MlpPolicy", "CartPole-v1", replay_buffer_class=relive.sb3.ReplayBuffer)  # doctest: +SKIP

Needs the package ``stable_baselines3``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from stable_baselines3.common import buffers
from stable_baselines3.common.type_aliases import DictReplayBufferSamples, ReplayBufferSamples
from stable_baselines3.common.vec_env import VecNormalize

import relive
from relive import nest
from relive._n_step import NStep

__all__ = ["ReplayBuffer"]


class ReplayBuffer(buffers.ReplayBuffer):
    """A replay buffer for DQN, SAC, TD3 and DDPG (``replay_buffer_class=relive.sb3.ReplayBuffer``), built on a
    :class:`relive.ReplayBuffer`.

    Its transitions are items of a table. They are compressed if that makes them smaller, and sampled without Python's
    interpreter lock. Observations may be dicts.

    ``model.save_replay_buffer`` and ``model.load_replay_buffer`` save and load it as one file, as does
    :mod:`pickle`. The state of the random choices and incomplete n-step windows are not saved.

    Until the first n-step window is complete, :meth:`sample` returns shortened windows, as Stable-Baselines3's buffer
    does. A window ends where the next observation does not continue it, such as at the start of a second
    ``model.learn()``, which resets the environments in the middle of their episodes.

    Args:
      buffer_size: the number of transitions that are kept, over all environments; rounded to a multiple of ``n_envs``.
      observation_space, action_space, device, n_envs: as passed by Stable-Baselines3.
      optimize_memory_usage: must be false: a table has no neighboring rows that could share observations, and
        compresses observations instead.
      handle_timeout_termination: whether an episode that was ended by a time limit counts as not terminated, so that
        its target bootstraps.
      n_steps: the number of steps that a transition covers: ``replay_buffer_kwargs={"n_steps": 3, "gamma": 0.99}``.
      gamma: the discount of these steps, equal to the algorithm's.

    Raises:
      ValueError: ``optimize_memory_usage`` is true, a number is out of range, or ``n_steps`` is above 1 with a version of
        Stable-Baselines3 before 2.7, whose batches have no discounts.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: torch.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        *,
        n_steps: int = 1,
        gamma: float = 0.99,
    ) -> None:
        if optimize_memory_usage:
            raise ValueError(
                "optimize_memory_usage=True is not supported by relive.sb3.ReplayBuffer, whose tables have no neighboring rows; omit it"
            )
        if n_steps != 1 and "discounts" not in ReplayBufferSamples._fields:
            raise ValueError(f"n_steps={n_steps} needs Stable-Baselines3 2.7 or later, because batches of earlier versions have no discounts")
        # Skips the superclass's constructor, which allocates arrays for all transitions.
        buffers.BaseBuffer.__init__(self, buffer_size, observation_space, action_space, device, n_envs)
        self.buffer_size = max(buffer_size // n_envs, 1)
        self.optimize_memory_usage = False
        self.handle_timeout_termination = handle_timeout_termination
        self.n_steps, self.gamma = n_steps, gamma
        # Stable-Baselines3 has seeded numpy's generator by now, if it was given a seed.
        seed = int(np.random.randint(2**31))
        kind, discount = (relive.ReplayBuffer, None) if n_steps == 1 else (_Windows, gamma)
        self.replay = kind(self.buffer_size * n_envs, n_step=n_steps, discount=discount, seed=seed)

    def add(
        self, obs: Any, next_obs: Any, action: npt.NDArray[Any], reward: npt.NDArray[Any], done: npt.NDArray[Any], infos: list[dict[str, Any]]
    ) -> None:
        """Adds a step of each environment."""
        done = np.asarray(done, np.bool_)
        terminated = done
        if self.handle_timeout_termination and done.any():
            terminated = done & ~np.array([info.get("TimeLimit.truncated", False) for info in infos], np.bool_)
        # A buffer takes a single step at a lower cost than a batch of one.
        lead = () if self.n_envs == 1 and self.n_steps == 1 else (self.n_envs,)
        step = {
            "observation": self._observations(obs, lead),
            "next_observation": self._observations(next_obs, lead),
            "action": _shaped(action, (*lead, self.action_dim), self._maybe_cast_dtype(self.action_space.dtype)),
            "reward": _shaped(reward, lead, np.float32),
            "terminated": terminated.reshape(lead),
        }
        if isinstance(self.replay, _Windows):
            self.replay.end_interrupted(step["observation"])
            step["truncated"] = done & ~terminated
        if lead:
            self.replay.add_batch(step)
        else:
            self.replay.add(step)
        self.pos += 1
        if self.pos == self.buffer_size:
            self.full, self.pos = True, 0

    def _observations(self, observations: Any, lead: tuple[int, ...]) -> Any:
        shapes: Any = self.obs_shape
        if isinstance(shapes, dict):
            parts = self.observation_space.spaces  # type: ignore[attr-defined]
            return {name: _shaped(observations[name], (*lead, *shapes[name]), part.dtype) for name, part in parts.items()}
        return _shaped(observations, (*lead, *shapes), self.observation_space.dtype)

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> ReplayBufferSamples | DictReplayBufferSamples:  # type: ignore[override]
        """Returns a batch of transitions; ``env``, if given, normalizes observations and rewards."""
        data = self.replay.sample(batch_size)
        observations, following = (self._normalize_obs(data[name], env) for name in ("observation", "next_observation"))
        columns: dict[str, Any] = {
            "actions": data["action"],
            "dones": data["terminated"].astype(np.float32)[:, None],
            "rewards": self._rewards(data, env)[:, None],
        }
        if self.n_steps != 1:
            # 0 where the episode terminated, which "dones" already contains.
            columns["discounts"] = data["discount"][:, None]
        tensors = {name: self.to_torch(column, copy=False) for name, column in columns.items()}
        kind = DictReplayBufferSamples if isinstance(observations, dict) else ReplayBufferSamples
        return kind(observations=self._tensors(observations), next_observations=self._tensors(following), **tensors)

    def _rewards(self, data: Mapping[str, Any], env: VecNormalize | None) -> npt.NDArray[Any]:
        if env is None or self.n_steps == 1:
            return self._normalize_reward(data["reward"], env)
        # Normalization clips, so it must precede the sum.
        total = self._normalize_reward(data["rewards"], env) @ self.gamma ** np.arange(self.n_steps)
        return np.asarray(total, np.float32)

    def _tensors(self, observations: Any) -> Any:
        if isinstance(observations, dict):
            return {name: self.to_torch(part, copy=False) for name, part in observations.items()}
        return self.to_torch(observations, copy=False)

    def _get_samples(self, batch_inds: npt.NDArray[Any], env: VecNormalize | None = None) -> Any:
        raise NotImplementedError("transitions in a table cannot be sampled by index; use sample()")

    def reset(self) -> None:
        """Removes all transitions."""
        super().reset()
        self.replay.clear()


class _Windows(relive.ReplayBuffer):
    """Keeps the rewards of each window's steps, and samples open windows as long as no window is complete."""

    def __init__(self, *args: Any, seed: int, **settings: Any) -> None:
        super().__init__(*args, seed=seed, **settings)
        self._random = np.random.default_rng(seed)

    def _windows(self) -> NStep:
        assert self._settings.discount is not None
        return NStep(self._settings.n_step, self._settings.discount, keeps_rewards=True)

    def end_interrupted(self, observations: Any) -> None:
        """Ends the episodes of the environments that do not continue with these observations: they were reset without a
        last step."""
        newest = self._n_step.newest if self._n_step is not None else None
        if newest is not None:
            pairs = list(zip(nest.flatten(newest["next_observation"]), nest.flatten(observations), strict=True))
            # The usual case, which is cheap to detect.
            if any(one.tobytes() != other.tobytes() for one, other in pairs):
                self.end_episode(np.logical_or.reduce([_rows_differ(*pair) for pair in pairs]))

    def _sample_empty(self, batch_size: int) -> dict[str, Any]:
        assert self._n_step is not None
        count, windows = self._n_step.open()
        if not count:
            return super()._sample_empty(batch_size)
        rows = self._random.integers(count, size=batch_size)
        sampled: dict[str, Any] = nest.map_structure(lambda leaf: leaf[rows], windows)
        return sampled


def _rows_differ(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Returns whether the rows of two arrays differ; NaN equals NaN."""
    differs = (one != other) & ((one == one) | (other == other))
    return np.asarray(differs.any(axis=tuple(range(1, differs.ndim))))


def _shaped(values: Any, shape: tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
    return np.asarray(values, dtype).reshape(shape)
