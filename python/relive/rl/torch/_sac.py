"""SAC in PyTorch with replaceable networks and a replaceable loss."""

from __future__ import annotations

import copy
import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from relive.rl._run import run
from relive.rl._setting_names import expect_options, names_checked, names_of
from relive.rl.contracts import Learnt, PolicyContext
from relive.rl.experience import Transitions
from relive.rl.sac import SACConfig
from relive.rl.specs import EnvironmentSpec
from relive.rl.torch._adam import Adam
from relive.rl.torch._bounds import WIDEST
from relive.rl.torch._given import (
    Network,
    Observations,
    check,
    expect_shape,
    flat,
    inputs,
    layers,
    made_in_float32,
    module_of,
    shape_of,
    threads_for,
)
from relive.rl.torch._parts import Learner, Policy, step, tensors, update_target
from relive.rl.torch._random import Stream
from relive.specs import BoundedArraySpec

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from relive.rl._run_options import RunOptions
    from relive.rl._training import TrainingResult

CriticLoss = Callable[[nn.Module, Mapping[str, Any], Tensor], Tensor]


def squared_critic_loss(critics: nn.Module, data: Mapping[str, Any], targets: Tensor) -> Tensor:
    """Returns the squared errors of all critics for each transition (Haarnoja et al., 2018, equation 5), ``[B]``.

    Args:
      critics: returns values ``[critics, B]`` for observations and actions.
      data: ``observation``, ``action``, ``reward``, ``discount`` and ``next_observation``, each ``[B, …]``.
      targets: the target values, ``[B]``.
    """
    errors: Tensor = (critics(data["observation"], data["action"]) - targets).square().sum(0)
    return errors


@functools.partial(names_checked, like=SACConfig, of_like="rl.SAC")
@dataclasses.dataclass(frozen=True, kw_only=True)
class SAC:
    """SAC in PyTorch: an agent for :func:`relive.rl.run`, for continuous actions (one bounded array), with the settings
    and defaults of :class:`relive.rl.SAC`, except for ``critics_of_target``, ``normalize_observations`` and
    ``noise_correlation``, which it does not have. ``critics`` is a function instead of a number.

    Args:
      network: a function from an :class:`relive.rl.EnvironmentSpec` to a module. For observations ``[B, …]``, with
        floats as float32, the module returns a pair of means and logarithms of standard deviations, each ``[B, n]`` for
        actions of ``n`` numbers. They define a normal distribution, which tanh then maps into the bounds. The default
        is a stack of layers of the sizes ``hidden`` with ReLUs between them.
      critics: a function from an :class:`relive.rl.EnvironmentSpec` to a module. For observations ``[B, …]`` and
        actions ``[B, …]``, the module returns values ``[critics, B]``, of which the minimum is used. The default is two
        stacks of such layers.
      critic_loss: a function of the critics, a mapping of the transitions as tensors (``observation``, ``action``,
        ``reward``, ``discount`` and ``next_observation``, each ``[B, …]``) and the targets ``[B]``. It returns the loss
        of each transition, ``[B]``. The default is :func:`squared_critic_loss`.

    Raises:
      TypeError: a setting has the wrong type.
      ValueError: a setting that is out of range.
    """

    batch_size: int = SACConfig.batch_size
    samples_per_insert: float = SACConfig.samples_per_insert
    n_step: int = SACConfig.n_step
    discount: float = SACConfig.discount
    min_replay_size: int = SACConfig.min_replay_size
    max_replay_size: int = SACConfig.max_replay_size
    num_envs: int = SACConfig.num_envs
    learning_rate: float = SACConfig.learning_rate
    tau: float = SACConfig.tau
    initial_temperature: float = SACConfig.initial_temperature
    target_entropy: float | None = SACConfig.target_entropy
    hidden: tuple[int, ...] = SACConfig.hidden
    network: Network | None = None
    critics: Network | None = None
    critic_loss: CriticLoss | None = None

    def __post_init__(self) -> None:
        check(self, SACConfig, ("network", "critics", "critic_loss"))

    @property
    def experience(self) -> Transitions:
        """The experience of the learner."""
        return Transitions(
            batch_size=self.batch_size, samples_per_insert=self.samples_per_insert, n_step=self.n_step, discount=self.discount,
            min_size=self.min_replay_size, max_size=self.max_replay_size, environments=self.num_envs,
        )  # fmt: skip

    def policy(self, spec: EnvironmentSpec, context: PolicyContext) -> _Policy:
        """Returns a policy that draws actions or, without exploration, takes the center of the distribution."""
        random = Stream(context.seeds[0])
        return _Policy(_Squashed(self._network(spec, random), spec), context, random, _bounded(spec))

    def learner(self, spec: EnvironmentSpec, seed: int) -> _Learner:
        """Returns a learner that updates critics, policy and temperature with each batch."""
        random = Stream(seed)
        return _Learner(_Squashed(self._network(spec, random), spec), self._critics(spec, random), self, random)

    def train(self, environment: Any, **options: Unpack[RunOptions]) -> TrainingResult:
        """Trains the agent in an environment by calling :func:`relive.rl.run`, which describes the options."""
        expect_options(type(self).__name__, options, names_of(type(self)))
        return run(self, environment, **options)

    def _network(self, spec: EnvironmentSpec, random: Stream) -> nn.Module:
        outputs = 2 * math.prod(shape_of(_bounded(spec)))
        if self.network is not None:
            return module_of("network", self.network, spec, random)
        read = Observations(spec, "SAC")
        return _Normal(read, made_in_float32(random, layers, [read.width, *self.hidden], outputs))

    def _critics(self, spec: EnvironmentSpec, random: Stream) -> nn.Module:
        if self.critics is not None:
            return module_of("critics", self.critics, spec, random)
        return made_in_float32(random, _Critics, spec, self.hidden)


def _bounded(spec: EnvironmentSpec) -> BoundedArraySpec:
    actions = spec.actions
    if not isinstance(actions, BoundedArraySpec) or actions.dtype.kind != "f" or not _is_finite(actions):
        raise TypeError(f"SAC requires actions that are one array of floats between bounds, but the environment's actions are {actions!r}")
    _expect_ranges(actions)
    return actions


def _is_finite(actions: BoundedArraySpec) -> bool:
    return bool(np.isfinite(actions.minimum).all() and np.isfinite(actions.maximum).all())


def _bounds(actions: BoundedArraySpec) -> tuple[Tensor, Tensor]:
    """Returns the lower and the upper bounds of an action's components, as float32."""
    low, high = (torch.as_tensor(np.broadcast_to(bound, shape_of(actions)).copy()) for bound in (actions.minimum, actions.maximum))
    return low.float().flatten(), high.float().flatten()


def _expect_ranges(actions: BoundedArraySpec) -> None:
    """Checks that each component of an action has a range, like the agents without PyTorch (``expect_ranges``)."""
    low, high = _bounds(actions)
    wrong = torch.nonzero(~((low < high) & (0.5 * high - 0.5 * low < WIDEST)))
    if not len(wrong):
        return
    component = int(wrong[0])
    name = f" of `{actions.name}`" if actions.name else ""
    expected, advice = "actions whose lower bounds are below their upper bounds", "remove the component from the actions"
    if low[component] < high[component]:
        expected, advice = "actions between bounds that are less than 2,000,000 apart", "narrow the bounds to those of useful actions"
    first, last = (np.format_float_positional(bound.numpy()[component], trim="-") for bound in (low, high))
    raise ValueError(
        f"this agent takes {expected}, but the environment has the bounds {first} and {last} for component {component}{name}; {advice}"
    )


class _Normal(nn.Module):
    """Means and logarithms of standard deviations, from one stack of layers."""

    def __init__(self, read: Observations, both: nn.Module) -> None:
        super().__init__()
        self.read, self.both = read, both

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        means, log_stds = self.both(self.read(observations)).chunk(2, -1)
        return means, log_stds


class _Critics(nn.Module):
    """Two critics, each of which returns a value for an action."""

    def __init__(self, spec: EnvironmentSpec, hidden: tuple[int, ...]) -> None:
        super().__init__()
        self.read = Observations(spec, "SAC")
        sizes = [self.read.width + math.prod(shape_of(_bounded(spec))), *hidden]
        self.both = nn.ModuleList([layers(sizes, 1), layers(sizes, 1)])

    def forward(self, observations: Tensor, actions: Tensor) -> Tensor:
        rows = torch.cat([self.read(observations), flat(actions)], -1)
        return torch.stack([critic(rows).squeeze(-1) for critic in self.both])


class _Squashed(nn.Module):
    """The network's normal distribution, squashed into the bounds of the actions."""

    center: Tensor
    scale: Tensor

    def __init__(self, network: nn.Module, spec: EnvironmentSpec) -> None:
        super().__init__()
        actions = _bounded(spec)
        self.network, self.shape = network, shape_of(actions)
        low, high = _bounds(actions)
        self.register_buffer("center", (high + low) / 2)
        self.register_buffer("scale", (high - low) / 2)

    def forward(self, observations: Any, random: Stream | None) -> tuple[Tensor, Tensor]:
        """Returns actions ``[B, …]``, drawn or, without random numbers, from the center of the distribution, and their
        log-probabilities ``[B]``, which are those of the actions scaled to [-1, 1]."""
        means, log_stds = self._network_output(observations)
        noise = torch.zeros_like(means)
        if random is not None:
            noise.normal_(generator=random.on(means.device))
        log_stds = log_stds.clamp(-20, 2)
        drawn = means + log_stds.exp() * noise
        log_prob = -0.5 * noise.square() - log_stds - 0.5 * math.log(2 * math.pi)
        # ln(1 − tanh²) of Haarnoja et al., appendix C, in the form that does not overflow.
        log_prob -= 2 * (math.log(2) - drawn - F.softplus(-2 * drawn))
        return (self.center + self.scale * drawn.tanh()).reshape(-1, *self.shape), log_prob.sum(-1)

    def _network_output(self, observations: Any) -> tuple[Tensor, Tensor]:
        output = self.network(observations)
        if not isinstance(output, tuple) or len(output) != 2:
            raise TypeError(f"the network returned {type(output).__name__}, but it must return a pair: means, and logarithms of standard "
                            "deviations")
        size = len(self.scale)
        for value in output:
            rows = len(value) if isinstance(value, Tensor) and value.ndim else 0
            expect_shape("the network", value, (rows, size), "a number of each action")
        return output


class _Policy(Policy):
    _draws_globally = False

    def __init__(self, module: _Squashed, context: PolicyContext, random: Stream, actions: Any) -> None:
        super().__init__(module)
        self.explores, self.random, self._actions = context.explores, random, actions

    def act(self, observations: Any, starts: Any) -> Any:
        with self.random.given("network"):
            actions = self.module(inputs(tensors(observations)), self.random if self.explores else None)[0]
        # Rounding can move actions out of their bounds.
        return np.clip(actions.numpy().astype(self._actions.dtype, copy=False), self._actions.minimum, self._actions.maximum)


class _Learner(Learner):
    _draws_globally = False
    unsaved = ("torch_threads",)

    def __init__(self, module: _Squashed, critics: nn.Module, settings: SAC, random: Stream) -> None:
        self.random = random
        self.module, self.critics, self.target, self.settings = module, critics, copy.deepcopy(critics), settings
        self.log_temperature = nn.Parameter(torch.tensor(math.log(settings.initial_temperature), dtype=torch.float32))
        entropy = settings.target_entropy
        self.target_entropy = -float(len(module.scale)) if entropy is None else entropy
        self.of_actor, self.of_critics, self.of_temperature = (
            Adam(parameters, settings.learning_rate)
            for parameters in (module.parameters(), critics.parameters(), [self.log_temperature])
        )
        self.torch_threads = threads_for(settings.batch_size, module, critics)

    def learn(self, batch: Any) -> Learnt:
        """Updates critics, policy and temperature."""
        data = dict(tensors(batch.data))
        data |= {name: inputs(data[name]) for name in ("observation", "action", "next_observation")}
        temperature = self.log_temperature.exp().detach()
        with self.random.given("critic_loss"):
            losses = self._critic_losses(data, temperature)
        critic_loss = step(self.of_critics, losses.mean())
        with self.random.given("network"):
            actions, log_prob = self.module(data["observation"], self.random)
            values = self.critics(data["observation"], actions).amin(0)
        step(self.of_actor, (temperature * log_prob - values).mean())
        step(self.of_temperature, -self.log_temperature * (log_prob.detach() + self.target_entropy).mean())
        update_target(self.target, self.critics, self.settings.tau)
        return Learnt({"critic_loss": critic_loss, "temperature": float(temperature)})

    def _critic_losses(self, data: Mapping[str, Any], temperature: Tensor) -> Tensor:
        targets = self._targets(data, temperature)
        loss = self.settings.critic_loss or squared_critic_loss
        return expect_shape("critic_loss", loss(self.critics, data, targets), tuple(targets.shape), "the loss of each transition")

    @torch.no_grad()
    def _targets(self, data: Mapping[str, Any], temperature: Tensor) -> Tensor:
        actions, log_prob = self.module(data["next_observation"], self.random)
        values = self.target(data["next_observation"], actions)
        if not isinstance(values, Tensor) or values.ndim != 2 or values.shape[1] != len(log_prob):
            found = f"a tensor of the shape {tuple(values.shape)}" if isinstance(values, Tensor) else type(values).__name__
            raise ValueError(f"critics returned {found}, but it must return a tensor of the shape (critics, {len(log_prob)})")
        targets: Tensor = data["reward"] + data["discount"] * (values.amin(0) - temperature * log_prob)
        return targets
