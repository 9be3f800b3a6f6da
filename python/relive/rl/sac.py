"""SAC."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from relive.rl._agent import Agent
from relive.rl._setting_names import names_checked
from relive.rl._settings import Settings


@names_checked
@dataclasses.dataclass(frozen=True, kw_only=True)
class SACConfig(Settings):
    """The settings of a SAC agent. The defaults are Stable-Baselines3's.

    Args:
      batch_size: the number of transitions in a batch.
      samples_per_insert: the average number of times that each transition is sampled; with a value equal to
        ``batch_size``, there is one gradient step per environment step.
      n_step: the number of steps that a transition covers.
      discount: the agent's discount γ.
      min_replay_size: the number of transitions before learning starts.
      max_replay_size: the number of transitions that are kept.
      num_envs: the number of environments, divided among the actors; at least one for each actor. An actor acts in all
        of its environments at once.
      learning_rate: the step size of Adam, for policy, critics and temperature.
      tau: τ, the fraction by which the target critics move toward the critics with each batch.
      initial_temperature: the initial temperature α.
      target_entropy: the target for the policy's entropy, to which the temperature is tuned; ``None``: minus the number
        of elements of an action.
      hidden: the sizes of the hidden layers of each network.
      critics: the number of critics.
      critics_of_target: the number of critics over which the target takes the minimum. If this is less than
        ``critics``, they are drawn at random for each batch, and the policy uses the mean of all critics.
      normalize_observations: whether observations are normalized to mean 0 and standard deviation 1.
      noise_correlation: the correlation of an action's noise with the previous action's noise; 0 means independent
        noise.

    Raises:
      TypeError: a setting has the wrong type.
      ValueError: a setting that is out of range.
    """

    batch_size: int = 256
    samples_per_insert: float = 256.0
    n_step: int = 1
    discount: float = 0.99
    min_replay_size: int = 100
    max_replay_size: int = 1_000_000
    num_envs: int = 1
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
    """Soft actor-critic (Haarnoja et al. 2018), for continuous actions that are one bounded float32 array.

    >>> result = SAC.for_environment("Pendulum-v1").train("Pendulum-v1", steps=6_000)  # doctest: +SKIP
    """

    _config_type = SACConfig

    def _num_environments(self, actors: int) -> int:
        return max(actors, self.config.num_envs)
