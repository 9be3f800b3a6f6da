"""On-policy agents: PPO, A2C and A3C."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from relive.rl._agent import Agent, C
from relive.rl._setting_names import names_checked
from relive.rl._settings import Settings


@names_checked
@dataclasses.dataclass(frozen=True, kw_only=True)
class PPOConfig(Settings):
    """The settings of a PPO agent. The defaults are Stable-Baselines3's, with the 2,048 steps of a rollout divided
    among 8 environments.

    Args:
      num_envs: the number of environments of all actors together.
      num_steps: the number of steps of a rollout in each environment.
      minibatch_size: the number of steps in a minibatch.
      epochs: the number of passes over each rollout.
      discount: the agent's discount γ.
      gae_lambda: λ of generalized advantage estimation.
      clip: ε, the maximum distance from 1 of the ratio of new to old probability.
      learning_rate: the step size of Adam.
      anneal: whether step size and clip fall to 0 over the run.
      value_cost: the weight of the squared value error in the loss.
      entropy_cost: the weight of the policy's entropy in the loss.
      max_gradient_norm: the bound on the gradient's norm.
      target_kl: learning from a rollout stops when the estimate of KL(old ‖ new) exceeds 1.5 times this value;
        ``None``: no bound.
      normalize_advantages: whether the advantages of a minibatch are normalized to mean 0 and standard deviation 1.
      normalize_observations: whether observations are normalized to mean 0 and standard deviation 1.
      normalize_rewards: whether rewards are scaled so that discounted returns have a standard deviation of 1.
      hidden: the sizes of the hidden layers of each network.

    Raises:
      TypeError: a setting has the wrong type.
      ValueError: a setting that is out of range.
    """

    num_envs: int = 8
    num_steps: int = 256
    minibatch_size: int = 64
    epochs: int = 10
    discount: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    learning_rate: float = 3e-4
    anneal: bool = False
    value_cost: float = 0.5
    entropy_cost: float = 0.0
    max_gradient_norm: float = 0.5
    target_kl: float | None = None
    normalize_advantages: bool = True
    normalize_observations: bool = False
    normalize_rewards: bool = False
    hidden: tuple[int, ...] = (64, 64)

    agent: ClassVar[str] = "ppo"


@names_checked
@dataclasses.dataclass(frozen=True, kw_only=True)
class A2CConfig(Settings):
    """The settings of an A2C agent. The defaults are Stable-Baselines3's, with 8 environments.

    Args:
      num_envs: the number of environments of all actors together.
      num_steps: the number of steps of a rollout in each environment.
      discount: the agent's discount γ.
      gae_lambda: λ of generalized advantage estimation; 1 as in the paper.
      learning_rate: the step size of RMSProp.
      anneal: whether the step size falls to 0 over the run.
      value_cost: the weight of the squared value error in the loss.
      entropy_cost: the weight of the policy's entropy in the loss.
      max_gradient_norm: the bound on the gradient's norm.
      normalize_observations: whether observations are normalized to mean 0 and standard deviation 1.
      normalize_rewards: whether rewards are scaled so that discounted returns have a standard deviation of 1.
      hidden: the sizes of the hidden layers of each network.

    Raises:
      TypeError: a setting has the wrong type.
      ValueError: a setting that is out of range.
    """

    num_envs: int = 8
    num_steps: int = 5
    discount: float = 0.99
    gae_lambda: float = 1.0
    learning_rate: float = 7e-4
    anneal: bool = False
    value_cost: float = 0.5
    entropy_cost: float = 0.0
    max_gradient_norm: float = 0.5
    normalize_observations: bool = False
    normalize_rewards: bool = False
    hidden: tuple[int, ...] = (64, 64)

    agent: ClassVar[str] = "a2c"


@names_checked
@dataclasses.dataclass(frozen=True, kw_only=True)
class A3CConfig(A2CConfig):
    """The settings of an A3C agent: the settings of :class:`A2CConfig` for each actor.

    ``num_envs`` is the number of environments of each actor. Observations and rewards cannot be normalized, since
    actors share no statistics.
    """

    agent: ClassVar[str] = "a3c"


class _OnPolicy(Agent[C]):
    """An agent that acts in several environments at once, with any number of actors, and learns from each complete
    rollout."""

    def _num_environments(self, actors: int) -> int:
        return int(getattr(self.config, "num_envs"))


class PPO(_OnPolicy[PPOConfig]):
    """Proximal policy optimization (Schulman et al. 2017), for discrete and continuous actions.

    >>> result = PPO.for_environment("CartPole-v1").train("CartPole-v1", steps=100_000)  # doctest: +SKIP
    """

    _config_type = PPOConfig


class A2C(_OnPolicy[A2CConfig]):
    """Advantage actor-critic, the synchronous form of A3C (Mnih et al. 2016), for discrete and continuous actions.

    >>> result = A2C().train("CartPole-v1", steps=100_000)  # doctest: +SKIP
    """

    _config_type = A2CConfig


class A3C(_OnPolicy[A3CConfig]):
    """Asynchronous advantage actor-critic (Mnih et al. 2016): each actor computes its own rollout's gradient. Without
    actors, it is A2C.

    >>> result = A3C().train("CartPole-v1", steps=100_000, actors=2)  # doctest: +SKIP
    """

    _config_type = A3CConfig

    def _num_environments(self, actors: int) -> int:
        return max(1, actors) * self.config.num_envs
