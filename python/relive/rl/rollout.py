"""Rollouts, and functions that operate on rollouts."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from relive import nest
from relive._frameworks import is_tensor
from relive._numbers import count

Floats = npt.NDArray[np.float32]


@dataclasses.dataclass(frozen=True, eq=False)
class Rollout:
    """``T`` steps in each of ``N`` environments, time first.

    After the end of an episode, an environment starts a new episode at the next step. This step is only a reset:
    ``starts`` marks it, its action was ignored, and it must not be learned from. Its observation is the previous
    episode's last observation, so that ``observations[t + 1]`` is always the result of step ``t``.
    """

    observations: Any
    """``[T + 1, N, …]``: the observation before each step, and the observation after the last step."""
    actions: Any
    """``[T, N, …]``"""
    extras: Mapping[str, npt.NDArray[Any]]
    """Further outputs of the policy, each ``[T, N, …]``."""
    rewards: Floats
    """``[T, N]``"""
    discounts: Floats
    """``[T, N]``: 0 where the episode terminated, otherwise 1, including truncation; a dm_env environment may have
    other values."""
    starts: npt.NDArray[np.bool_]
    """``[T, N]``: steps that are only resets. The new episode's first observation comes one row later, where the
    argument ``starts`` of a policy's ``act`` is set; :attr:`begins` marks these rows."""
    ends: npt.NDArray[np.bool_]
    """``[T, N]``: the last steps of episodes."""

    @property
    def begins(self) -> npt.NDArray[np.bool_]:
        """``[T + 1, N]``, like the observations: whether an observation is the first of an episode that began in this
        rollout, as in the argument ``starts`` of a policy's ``act``.

        A learner that recomputes a recurrent policy's outputs resets its state in these rows. In row 0, it takes the
        state that the policy had there after any reset, which the policy returns as an extra; row 0 is never marked.
        """
        return np.concatenate([np.zeros_like(self.starts[:1]), self.starts])

    @property
    def env_steps(self) -> int:
        """The number of environment steps, excluding resets; schedules over the run count these steps."""
        return int(self.starts.size - self.starts.sum())

    def advantages(self, values: Any, *, discount: float = 0.99, gae_lambda: float = 0.95) -> tuple[Floats, Floats]:
        """Returns the advantages and the returns, each ``[T, N]``, computed by generalized advantage estimation
        (Schulman et al., 2016, equation 16).

        Args:
          values: the values of the observations, ``[T + 1, N]``. At a step that truncates an episode, the return
            bootstraps from the value of the episode's last observation.
        """
        values = np.asarray(values, np.float32)
        expected = (len(self.rewards) + 1, *self.rewards.shape[1:])
        if values.shape != expected:
            raise ValueError(f"values have the shape {values.shape}, but those of the observations have {expected}")
        discounts = discount * self.discounts
        errors = self.rewards + discounts * values[1:] - values[:-1]
        advantages = np.where(self.starts, np.float32(0), errors)
        goes_on = np.float32(gae_lambda) * discounts * ~(self.ends | self.starts)
        for time in range(len(errors) - 2, -1, -1):
            advantages[time] += goes_on[time] * advantages[time + 1]
        return advantages, advantages + values[:-1]

    def steps(self, **more: npt.NDArray[Any]) -> dict[str, Any]:
        """Returns all usable steps as ``{"observations": [n, …], "actions": [n, …], …}``, with the extras and any other
        arrays ``[T, N, …]``.

        Each extra has its own entry, such as ``steps()["log_prob"]``; in the batches of a replay table, the extras are
        in a mapping, ``batch.data["extras"]["log_prob"]``.

        Raises ``ValueError`` for an array with other leading dimensions."""
        kept = ~self.starts
        for name, array in more.items():
            if (shape := np.shape(array)[:2]) != kept.shape:
                raise ValueError(f"{name} must have the leading dimensions {kept.shape}, for steps and environments, but it has {shape}")
        before = nest.map_structure(lambda leaf: leaf[:-1][kept], self.observations)
        return {
            "observations": before,
            "actions": nest.map_structure(lambda leaf: leaf[kept], self.actions),
            **{name: np.asarray(leaf)[kept] for name, leaf in {**self.extras, **more}.items()},
        }


def minibatches(steps: Any, size: int, rng: np.random.Generator, *, drop_last: bool = False) -> Iterator[Any]:
    """Shuffles a nest of arrays, or of PyTorch tensors, along the first dimension, and yields it in parts of ``size``.
    The last part may be smaller; ``drop_last`` leaves a smaller one out, so that all parts have the same shapes, for
    example for ``jax.jit``.

    Raises:
      ValueError: ``size`` is below 1.
      TypeError: ``size`` is not a whole number, or ``rng`` is not a random generator.
    """
    if not hasattr(rng, "permutation"):
        raise TypeError(f"rng is {rng!r}, but it must be a random generator, such as numpy.random.default_rng(0)")
    return _parts(steps, count("size", size, least=1), rng, drop_last)


def _parts(steps: Any, size: int, rng: np.random.Generator, drop_last: bool) -> Iterator[Any]:
    leaves = nest.flatten(steps)
    length = len(leaves[0]) if leaves else 0
    order = rng.permutation(length)
    on_device = functools.cache(lambda device: _indices(order, device).split(size))
    for number, begin in enumerate(range(0, length - length % size if drop_last else length, size)):
        chosen = order[begin : begin + size]
        yield nest.map_structure(
            lambda leaf, number=number, chosen=chosen: (
                # Tensors convert arrays of indices slowly.
                leaf.index_select(0, on_device(leaf.device)[number]) if is_tensor(leaf) else leaf[chosen]
            ),
            steps,
        )


def _indices(order: npt.NDArray[np.int64], device: Any) -> Any:
    import torch

    return torch.from_numpy(order).to(device)
