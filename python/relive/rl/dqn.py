"""DQN."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from relive.rl._agent import Agent
from relive.rl._settings import Settings

# The greatest float32, to which nothing is clipped.
_UNCLIPPED = 3.4028234663852886e38


@dataclasses.dataclass(frozen=True, kw_only=True)
class DQNConfig(Settings):
    """The settings of a DQN agent, by Acme's names and with its defaults.

    Args:
      batch_size: transitions of a batch.
      samples_per_insert: how often each transition is learned from, on average.
      n_step: steps of a transition.
      discount: the agent's discount γ.
      min_replay_size: transitions before learning begins.
      max_replay_size: transitions that are kept.
      replay_shards: tables that transitions are divided among; each gives its share of a batch, by its own priorities.
      priority_exponent: how much priorities count when transitions are sampled; 0: not at all.
      importance_sampling_exponent: how much of the bias that this brings is taken back by weights, β.
      epsilon: the share of actions that are taken at random.
      epsilon_alpha: how far ε differs among actors: row i of N has ε^(1 + α·i/(N − 1)), as in Ape-X; 0: the same everywhere.
      learning_rate: step size of Adam.
      target_update_period: learner steps from one copy to the target network to the next.
      huber_loss_parameter: where the Huber loss turns from squares to lines.
      max_abs_reward: returns over ``n_step`` steps are clipped to this on either side; ``None`` or infinity: not at all.
      max_gradient_norm: bound on the gradient's norm; ``None``: none.
      hidden: sizes of the network's hidden layers.
      duelling: whether the network has a value and an advantage head.
      noisy: whether the weights of linear layers have noise on them, whose size is learned: it explores, so that ``epsilon`` may be 0.
      loss: double Q-learning; Q-learning with squared errors (``"q-learning"``), and the same with a tenth of the values (``"regularized-q"``); Munchausen; C51 (``"categorical"``); QR-DQN (``"quantile"``); IQN (``"implicit-quantile"``).
      atoms: atoms of a categorical distribution, or quantiles.
      quantile_samples: fractions that implicit quantiles are learned at, drawn for each transition, and as many that targets are made at.
      value_range: the outermost atoms of a categorical distribution.
      demonstrations: what is learned from beside what the agent sees itself: ``ratio``, its share of a batch; ``folder``, of recorded episodes, or
        ``None`` for the environment's own demonstrator; ``episodes``, of the latter.

    Raises:
      TypeError: a setting of another type.
      ValueError: a setting out of its range.
    """

    batch_size: int = 256
    samples_per_insert: float = 32.0
    n_step: int = 5
    discount: float = 0.99
    min_replay_size: int = 1_000
    max_replay_size: int = 1_000_000
    replay_shards: int = 1
    priority_exponent: float = 0.6
    importance_sampling_exponent: float = 0.2
    epsilon: float = 0.05
    epsilon_alpha: float = 0.0
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
        default_factory=lambda: {"ratio": 0.0, "folder": None, "episodes": 1}
    )

    agent: ClassVar[str] = "dqn"
    _rust_names: ClassVar[Mapping[str, str]] = {
        "importance_sampling_exponent": "importance_exponent",
        "huber_loss_parameter": "huber",
    }

    def __post_init__(self) -> None:
        # Infinity is a setting here, and stands for none.
        if self.max_abs_reward == math.inf:
            object.__setattr__(self, "max_abs_reward", None)
        super().__post_init__()

    def _values(self) -> dict[str, Any]:
        values = super()._values()
        if values["max_abs_reward"] is None:
            values["max_abs_reward"] = _UNCLIPPED
        return values


class DQN(Agent[DQNConfig]):
    """Deep Q-learning with double Q, transitions over several steps and prioritised replay.

    >>> result = DQN(DQNConfig(batch_size=32)).train("CartPole-v1", steps=20_000, seed=1)  # doctest: +SKIP

    The settings are Acme's, whatever the environment, unless given.
    """

    _config_type = DQNConfig

    def _num_environments(self, actors: int) -> int:
        return max(1, actors)
