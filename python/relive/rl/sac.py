"""SAC."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from relive.rl._agent import Agent
from relive.rl._settings import Settings


@dataclasses.dataclass(frozen=True, kw_only=True)
class SACConfig(Settings):
    """The settings of a SAC agent. The defaults are Stable-Baselines3's.

    Args:
      batch_size: transitions of a batch.
      samples_per_insert: how often each transition is learned from, on average; as ``batch_size``, one gradient step for each step in
        the environment.
      n_step: steps of a transition.
      discount: the agent's discount γ.
      min_replay_size: transitions before learning begins.
      max_replay_size: transitions that are kept.
      learning_rate: step size of Adam, for policy, critics and temperature.
      tau: how far the target critics move towards the critics with each batch, τ.
      initial_temperature: the temperature to begin with, α.
      target_entropy: the entropy that the temperature is drawn to; ``None``: minus the numbers of an action.
      hidden: sizes of the hidden layers of each network.
      critics: critics.
      critics_of_target: critics of which the least value is a target: if these are not all, they are drawn for each batch, and the
        policy goes by the mean of all.
      normalize_observations: whether observations are shifted and scaled to mean 0 and standard deviation 1.
      noise_correlation: how much of an action's noise is that of the action before; 0: all is new.

    Raises:
      TypeError: a setting of another type.
      ValueError: a setting out of its range.
    """

    batch_size: int = 256
    samples_per_insert: float = 256.0
    n_step: int = 1
    discount: float = 0.99
    min_replay_size: int = 100
    max_replay_size: int = 1_000_000
    learning_rate: float = 3e-4
    tau: float = 0.005
    initial_temperature: float = 1.0
    target_entropy: float | None = None
    hidden: tuple[int, ...] = (256, 256)
    critics: int = 2
    critics_of_target: int = 2
    normalize_observations: bool = False
    noise_correlation: float = 0.0

    agent: ClassVar[str] = "sac"


class SAC(Agent[SACConfig]):
    """Soft actor-critic (Haarnoja et al. 2018), for one array of float32 between bounds.

    >>> result = SAC(SACConfig.for_environment("Pendulum-v1")).train("Pendulum-v1", steps=6_000)  # doctest: +SKIP
    """

    _config_type = SACConfig

    def _num_environments(self, actors: int) -> int:
        return max(1, actors)
