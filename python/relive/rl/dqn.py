"""DQN."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from relive.rl._agent import Agent
from relive.rl._setting_names import names_checked
from relive.rl._settings import UNCLIPPED, Settings


@names_checked
@dataclasses.dataclass(frozen=True, kw_only=True)
class DQNConfig(Settings):
    """The settings of a DQN agent, with Acme's names and defaults.

    Args:
      batch_size: the number of transitions in a batch.
      samples_per_insert: the average number of times that each transition is sampled.
      n_step: the number of steps that a transition covers.
      discount: the agent's discount γ.
      min_replay_size: the number of transitions before learning starts.
      max_replay_size: the number of transitions that are kept.
      num_envs: the number of environments, divided among the actors; at least one for each actor. An actor acts in all
        of its environments at once.
      replay_shards: the number of tables that share the transitions; each provides its share of a batch, sampled by its
        own priorities.
      priority_exponent: the influence of priorities on sampling; 0 means no influence.
      importance_sampling_exponent: β, the degree to which importance weights correct the resulting bias.
      epsilon: the fraction of random actions.
      epsilon_alpha: α, the variation of ε among actors: row i of N has ε^(1 + α·i/(N − 1)), as in Ape-X; 0 means no
        variation.
      epsilon_decay_steps: the number of steps of all environments, resets included, over which the probability of a
        random action falls linearly from 1 to ``epsilon``; 0: it is ``epsilon`` from the start, as in Acme. With
        actors, the decay starts over when an actor is restarted or the run is resumed.
      learning_rate: the step size of Adam.
      target_update_period: the number of learner steps between copies to the target network.
      huber_loss_parameter: the error at which the Huber loss changes from quadratic to linear.
      max_abs_reward: the bound on the absolute return over ``n_step`` steps; ``None`` or infinity: no clipping.
      max_gradient_norm: the bound on the gradient's norm; ``None``: no bound.
      hidden: the sizes of the network's hidden layers.
      duelling: whether the network has a value head and an advantage head.
      noisy: whether noise of learned magnitude is added to the weights of linear layers. The noise explores, so
        ``epsilon`` may be 0.
      loss: double Q-learning; Q-learning with squared errors (``"q-learning"``), or with half the squared errors plus a
        tenth of the values (``"regularized-q"``); Munchausen; C51 (``"categorical"``); QR-DQN (``"quantile"``); IQN
        (``"implicit-quantile"``).
      atoms: the number of atoms of a categorical distribution, or of quantiles.
      quantile_samples: for implicit quantiles, the number of fractions drawn for each transition, and the number drawn
        for each target.
      value_range: the outermost atoms of a categorical distribution.
      demonstrations: additional experience to learn from. ``ratio`` is its share of a batch; ``folder`` is the folder
        of recorded episodes, or ``None`` for the environment's own demonstrator; ``episodes`` is the number of episodes
        that the demonstrator plays.

    Raises:
      TypeError: a setting has the wrong type.
      ValueError: a setting that is out of range.
    """

    batch_size: int = 256
    samples_per_insert: float = 32.0
    n_step: int = 5
    discount: float = 0.99
    min_replay_size: int = 1_000
    max_replay_size: int = 1_000_000
    num_envs: int = 1
    replay_shards: int = 1
    priority_exponent: float = 0.6
    importance_sampling_exponent: float = 0.2
    epsilon: float = 0.05
    epsilon_alpha: float = 0.0
    epsilon_decay_steps: int = 0
    learning_rate: float = 1e-3
    target_update_period: int = 100
    huber_loss_parameter: float = 1.0
    max_abs_reward: float | None = 1.0
    max_gradient_norm: float | None = None
    hidden: tuple[int, ...] = (50, 50)
    duelling: bool = False
    noisy: bool = False
    loss: Literal[
        "double-q", "q-learning", "regularized-q", "munchausen", "categorical", "quantile", "implicit-quantile"
    ] = "double-q"
    atoms: int = 51
    quantile_samples: int = 8
    value_range: tuple[float, float] = (-10.0, 10.0)
    demonstrations: Mapping[str, Any] = dataclasses.field(
        default_factory=lambda: {"ratio": 0.0, "folder": None, "episodes": 1}, hash=False
    )

    agent: ClassVar[str] = "dqn"
    _rust_names: ClassVar[Mapping[str, str]] = {
        "importance_sampling_exponent": "importance_exponent",
        "huber_loss_parameter": "huber",
    }

    def __post_init__(self) -> None:
        # Infinity is a valid setting here, and means that there is no bound.
        if self.max_abs_reward == math.inf:
            object.__setattr__(self, "max_abs_reward", None)
        super().__post_init__()

    def _values(self) -> dict[str, Any]:
        values = super()._values()
        if values["max_abs_reward"] is None:
            values["max_abs_reward"] = UNCLIPPED
        return values


class DQN(Agent[DQNConfig]):
    """Deep Q-learning with double Q-learning, n-step transitions and prioritized replay.

    >>> result = DQN(DQNConfig(batch_size=32)).train("CartPole-v1", steps=20_000, seed=1)  # doctest: +SKIP

    Omitted settings have Acme's values, in every environment.
    """

    _config_type = DQNConfig

    def _num_environments(self, actors: int) -> int:
        return max(actors, self.config.num_envs)
