"""DQN in PyTorch with a replaceable network and loss."""

from __future__ import annotations

import copy
import dataclasses
import functools
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import Module
from torch.nn import functional as F

from relive.rl._run import run
from relive.rl._setting_names import expect_options, names_checked, names_of
from relive.rl.contracts import Learnt, PolicyContext
from relive.rl.dqn import DQNConfig
from relive.rl.experience import Transitions
from relive.rl.specs import DiscreteArraySpec, EnvironmentSpec
from relive.rl.torch._adam import Adam
from relive.rl.torch._given import Network, Observations, check, expect_shape, inputs, layers, made_in_float32, module_of, threads_for
from relive.rl.torch._parts import Learner, Policy, step, tensors, update_target
from relive.rl.torch._random import Stream

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from relive.rl._run_options import RunOptions
    from relive.rl._training import TrainingResult

_log = logging.getLogger("relive")

Loss = Callable[[Module, Module, Mapping[str, Any]], Tensor | tuple[Tensor, Tensor]]


def double_q_loss(module: Module, target: Module, data: Mapping[str, Any], *, huber: float = 1.0) -> tuple[Tensor, Tensor]:
    """Returns the Huber loss of double Q-learning (van Hasselt et al., 2016) and the absolute error for each
    transition: both ``[B]``.

    Args:
      module: returns the values ``[B, actions]`` of observations; −∞ for actions that are not allowed.
      target: an earlier copy of ``module``.
      data: ``observation``, ``action``, ``reward``, ``discount`` and ``next_observation``, each ``[B, …]``.
      huber: the error above which the loss is linear.
    """
    following = data["next_observation"]
    with torch.no_grad():
        best = module(following).argmax(1, keepdim=True)
        value = target(following).gather(1, best).squeeze(1)
        # Where no action is allowed, such as after the end of an episode, nothing follows.
        goal = data["reward"] + data["discount"] * value.masked_fill(value == -torch.inf, 0.0)
    taken = module(data["observation"]).gather(1, data["action"][:, None]).squeeze(1)
    return F.huber_loss(taken, goal, reduction="none", delta=huber), (taken - goal).detach().abs()


@functools.partial(names_checked, like=DQNConfig, of_like="rl.DQN")
@dataclasses.dataclass(frozen=True, kw_only=True)
class DQN:
    """DQN in PyTorch: an agent for :func:`relive.rl.run`, with the settings and defaults of :class:`relive.rl.DQN`,
    except for ``replay_shards``, ``duelling``, ``noisy``, ``atoms``, ``quantile_samples``, ``value_range`` and
    ``demonstrations``, which it does not have. Batches are prioritized and weighted by importance; the new priorities
    are the errors.

    Args:
      network: a function from an :class:`relive.rl.EnvironmentSpec` to a module, which returns the values ``[B,
        actions]`` for observations ``[B, …]``. Observations are the environment's, with floats as float32. Actions with
        the value −∞ are not allowed: the policy does not take them, unless no action is allowed. The default is a stack
        of layers of the sizes ``hidden`` with ReLUs between them.
      loss: a function of the module, the target module, and a mapping of the transitions as tensors: ``observation``,
        ``action``, ``reward``, ``discount`` and ``next_observation``, each ``[B, …]``. It returns the loss of each
        transition, ``[B]``, or a pair of losses and new priorities, ``[B]``; without priorities, the losses are the
        priorities. The default is :func:`double_q_loss`.

    Raises:
      TypeError: a setting has the wrong type.
      ValueError: a setting that is out of range.
    """

    batch_size: int = DQNConfig.batch_size
    samples_per_insert: float = DQNConfig.samples_per_insert
    n_step: int = DQNConfig.n_step
    discount: float = DQNConfig.discount
    min_replay_size: int = DQNConfig.min_replay_size
    max_replay_size: int = DQNConfig.max_replay_size
    num_envs: int = DQNConfig.num_envs
    priority_exponent: float = DQNConfig.priority_exponent
    importance_sampling_exponent: float = DQNConfig.importance_sampling_exponent
    epsilon: float = DQNConfig.epsilon
    epsilon_alpha: float = DQNConfig.epsilon_alpha
    epsilon_decay_steps: int = DQNConfig.epsilon_decay_steps
    learning_rate: float = DQNConfig.learning_rate
    target_update_period: int = DQNConfig.target_update_period
    huber_loss_parameter: float = DQNConfig.huber_loss_parameter
    max_abs_reward: float | None = DQNConfig.max_abs_reward
    max_gradient_norm: float | None = DQNConfig.max_gradient_norm
    hidden: tuple[int, ...] = DQNConfig.hidden
    network: Network | None = None
    loss: Loss | None = None

    def __post_init__(self) -> None:
        check(self, DQNConfig, ("network", "loss"))

    @property
    def experience(self) -> Transitions:
        """The experience of the learner."""
        return Transitions(
            batch_size=self.batch_size, samples_per_insert=self.samples_per_insert, n_step=self.n_step, discount=self.discount,
            min_size=self.min_replay_size, max_size=self.max_replay_size, priority_exponent=self.priority_exponent or None,
            environments=self.num_envs,
        )

    def policy(self, spec: EnvironmentSpec, context: PolicyContext) -> _Policy:
        """Returns a policy that takes a best action or, sometimes, a random one."""
        random = Stream(context.seeds[0])
        return _Policy(self._module(spec, random), context, random, _num_actions(spec), self)

    def learner(self, spec: EnvironmentSpec, seed: int) -> _Learner:
        """Returns a learner that uses the loss."""
        random = Stream(seed)
        return _Learner(self._module(spec, random), self, random)

    def train(self, environment: Any, **options: Unpack[RunOptions]) -> TrainingResult:
        """Trains the agent in an environment by calling :func:`relive.rl.run`, which describes the options."""
        expect_options(type(self).__name__, options, names_of(type(self)))
        return run(self, environment, **options)

    def _module(self, spec: EnvironmentSpec, random: Stream) -> Module:
        if self.network is not None:
            return module_of("network", self.network, spec, random)
        return made_in_float32(random, _Layers, spec, self.hidden)


def _num_actions(spec: EnvironmentSpec) -> int:
    if not isinstance(spec.actions, DiscreteArraySpec):
        raise TypeError(f"DQN requires one discrete action, but the environment's actions are {spec.actions!r}")
    return spec.actions.num_values


class _Layers(Module):
    """The default network, which returns the values of all actions."""

    def __init__(self, spec: EnvironmentSpec, hidden: tuple[int, ...]) -> None:
        super().__init__()
        self.read = Observations(spec, "DQN")
        self.layers = layers([self.read.width, *hidden], _num_actions(spec))

    def forward(self, observations: Tensor) -> Any:
        """Returns the values ``[B, actions]`` for observations ``[B, …]``."""
        return self.layers(self.read(observations))


class _Policy(Policy):
    _draws_globally = False

    def __init__(self, module: Module, context: PolicyContext, random: Stream, num_actions: int, settings: DQN) -> None:
        super().__init__(module)
        self.rng, self.random, self.num_actions, self.explores = context.rng(), random, num_actions, context.explores
        place = np.arange(context.first, context.first + context.rows) / max(context.of - 1, 1)
        self.epsilon = settings.epsilon ** (1 + settings.epsilon_alpha * place) if context.explores else np.zeros(context.rows)
        # The number of steps in each row, taken and in all, over which the probability of a random action falls from 1.
        self.decayed, self.decay = 0, -(-settings.epsilon_decay_steps // context.of) if context.explores else 0

    def act(self, observations: Any, starts: Any) -> Any:
        with self.random.given("network"):
            values = self.module(inputs(tensors(observations)))
        expect_shape("the network", values, (len(starts), self.num_actions), "the values of all actions for each observation")
        # Numpy is faster with a few numbers, but has no bfloat16.
        values = (values if values.dtype != torch.bfloat16 else values.float()).numpy()
        any_of_them = self.rng.integers(self.num_actions, size=len(starts))
        if self.explores and not (are_allowed := values != -np.inf).all():
            any_of_them = np.where(are_allowed, self.rng.random(are_allowed.shape), -1.0).argmax(1)
        left = max(0, self.decay - self.decayed) / max(1, self.decay)
        self.decayed += 1
        return np.where(self.rng.random(len(starts)) < self.epsilon + (1 - self.epsilon) * left, any_of_them, self._best(values))

    def _best(self, values: npt.NDArray[np.float32]) -> Any:
        """Returns one of the best actions of each row; while exploring, each of several is equally likely."""
        are_best = values == values.max(1, keepdims=True)
        if self.explores and np.count_nonzero(are_best) > len(values):
            return np.where(are_best, self.rng.random(are_best.shape), -1.0).argmax(1)
        return values.argmax(1)


class _Learner(Learner):
    _draws_globally = False
    unsaved = ("torch_threads", "told")

    def __init__(self, module: Module, settings: DQN, random: Stream) -> None:
        self.module, self.target, self.settings = module, copy.deepcopy(module), settings
        self.optimizer = Adam(module.parameters(), settings.learning_rate)
        self.steps, self.random, self.told = 0, random, False
        self.torch_threads = threads_for(settings.batch_size, module)

    def learn(self, batch: Any) -> Learnt:
        """Takes a gradient step on the loss."""
        with self.random.given("loss"):
            losses, priorities = self._losses(self._transitions(batch))
        weights = torch.as_tensor(batch.weights(self.settings.importance_sampling_exponent))
        loss = step(self.optimizer, (weights * losses).mean(), max_norm=self.settings.max_gradient_norm)
        if self.steps % self.settings.target_update_period == 0:
            update_target(self.target, self.module)
        self.steps += 1
        return Learnt({"loss": loss}, priorities=priorities if self.settings.priority_exponent else None)

    def _transitions(self, batch: Any) -> dict[str, Any]:
        data = dict(tensors(batch.data))
        data["action"] = data["action"].long()
        bound = self.settings.max_abs_reward
        if bound is not None:
            self._tell_clipping(float(batch.data["reward"][0]), bound)
            data["reward"] = data["reward"].clamp(-bound, bound)
        return data | {name: inputs(data[name]) for name in ("observation", "next_observation")}

    def _tell_clipping(self, found: float, bound: float) -> None:
        """Warns once, like ``rl.DQN``, if the return of a batch's first transition is larger than the bound. One transition
        of each batch takes hardly any time, and over many batches shows as much."""
        if not self.told and abs(found) > bound:
            self.told = True
            _log.warning("a transition has a return of %g, which the agent clips to max_abs_reward = %g: it cannot tell such returns apart; "
                         "unless this is intended, set max_abs_reward to a larger number, or to None", found, bound)

    def _losses(self, data: dict[str, Any]) -> tuple[Tensor, Tensor]:
        if self.settings.loss is None:
            return double_q_loss(self.module, self.target, data, huber=self.settings.huber_loss_parameter)
        result = self.settings.loss(self.module, self.target, data)
        losses, priorities = result if isinstance(result, tuple) and len(result) == 2 else (result, result)
        for name, value in (("losses", losses), ("priorities", priorities)):
            expect_shape("loss", value, tuple(data["reward"].shape), f"{name}, one for each transition")
        return losses, priorities.detach().abs()
