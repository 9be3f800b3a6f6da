"""PPO in PyTorch with a replaceable network and loss."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Distribution, Independent, Normal

from relive import nest
from relive._numbers import count
from relive.rl._run import run
from relive.rl._setting_names import expect_options, names_checked, names_of
from relive.rl.contracts import Learnt, PolicyContext
from relive.rl.experience import Rollouts
from relive.rl.on_policy import PPOConfig
from relive.rl.rollout import Rollout, minibatches
from relive.rl.specs import DiscreteArraySpec, EnvironmentSpec
from relive.rl.torch._adam import Adam
from relive.rl.torch._bounds import Bounds
from relive.rl.torch._choices import MAX_VALUES, Categorical, Choices, ChoiceSpec
from relive.rl.torch._given import Network, Observations, check, expect_shape, inputs, made_in_float32, module_of, shape_of, threads_for
from relive.rl.torch._parts import Learner, Policy, step, tensors
from relive.rl.torch._random import Stream
from relive.specs import ArraySpec, BoundedArraySpec

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from relive.rl._run_options import RunOptions
    from relive.rl._training import TrainingResult

Loss = Callable[[nn.Module, Mapping[str, Any]], Tensor]


def clipped_surrogate_loss(
    module: nn.Module, data: Mapping[str, Any], *, clip: float = 0.2, value_cost: float = 0.5, entropy_cost: float = 0.0
) -> Tensor:
    """Returns PPO's loss for each step (Schulman et al., 2017, equations 7 and 9), ``[B]``.

    Args:
      module: returns the distribution of actions and the values ``[B]`` of observations.
      data: ``observation``, ``action``, ``log_prob`` of the drawn action, ``advantage`` and ``return``, each ``[B,
        …]``.
      clip: ε, the maximum distance from 1 of the ratio of new to old probability.
      value_cost: the weight of the squared value error.
      entropy_cost: the weight of the distribution's entropy.
    """
    distribution, values = module(data["observation"])
    ratio = (distribution.log_prob(data["action"]) - data["log_prob"]).exp()
    gained = torch.min(ratio * data["advantage"], ratio.clamp(1 - clip, 1 + clip) * data["advantage"])
    loss: Tensor = value_cost * (values - data["return"]).square() - gained
    return loss - entropy_cost * distribution.entropy() if entropy_cost else loss


@functools.partial(names_checked, like=PPOConfig, of_like="rl.PPO")
@dataclasses.dataclass(frozen=True, kw_only=True)
class PPO:
    """PPO in PyTorch: an agent for :func:`relive.rl.run`, for actions that are one choice, an array of choices, or
    continuous, with the settings and defaults of :class:`relive.rl.PPO`, except for ``target_kl``,
    ``normalize_observations`` and ``normalize_rewards``, which it does not have, and for ``anneal``, in whose place it
    has ``anneal_steps``.

    Args:
      anneal_steps: the number of environment steps over which the learning rate and ``clip`` fall linearly to 0, such as
        the length of the run, which the agent does not know; 0: they are constant. A run may be resumed with another
        number.
      network: a function from an :class:`relive.rl.EnvironmentSpec` to a module. For observations ``[B, …]``, with
        floats as float32, the module returns a pair: a ``torch.distributions`` distribution with one action per row,
        and the values ``[B]``. The distribution must have a ``mode``: the actions without exploration. The default is
        two separate stacks of layers of the sizes ``hidden`` with tanh between them, and a normal distribution of
        actions that are scaled to their bounds, or a categorical distribution of each choice, depending on the actions.
      loss: a function of the module and a mapping of steps as tensors: ``observation``, ``action``, ``log_prob``,
        ``advantage`` and ``return``, each ``[B, …]``. The actions are those that the distribution drew. It returns the
        loss of each step, ``[B]``. The default is :func:`clipped_surrogate_loss` with the settings.

    The default network's distribution of continuous actions is for actions that are scaled so that the bounds are -1
    and 1, as in :class:`relive.rl.PPO`; actions without two bounds within about ±10⁶ are not scaled. The distribution
    of your own network is not scaled: it draws actions in the environment's units. Actions that are drawn outside their
    bounds are clipped for the environment; the learner receives the drawn actions, before they are mapped to the bounds
    and clipped.

    Raises:
      TypeError: a setting has the wrong type.
      ValueError: a setting that is out of range.
    """

    num_envs: int = PPOConfig.num_envs
    num_steps: int = PPOConfig.num_steps
    minibatch_size: int = PPOConfig.minibatch_size
    epochs: int = PPOConfig.epochs
    discount: float = PPOConfig.discount
    gae_lambda: float = PPOConfig.gae_lambda
    clip: float = PPOConfig.clip
    learning_rate: float = PPOConfig.learning_rate
    value_cost: float = PPOConfig.value_cost
    entropy_cost: float = PPOConfig.entropy_cost
    max_gradient_norm: float = PPOConfig.max_gradient_norm
    normalize_advantages: bool = PPOConfig.normalize_advantages
    hidden: tuple[int, ...] = PPOConfig.hidden
    anneal_steps: int = 0
    network: Network | None = None
    loss: Loss | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "anneal_steps", count("anneal_steps", self.anneal_steps))
        check(self, PPOConfig, ("network", "loss"), own=("anneal_steps",))

    @property
    def settings(self) -> dict[str, Any]:
        """The settings with which a run can be resumed."""
        return {name: getattr(self, name) for name in names_of(type(self)) if name != "anneal_steps"}

    @property
    def experience(self) -> Rollouts:
        """The experience of the learner."""
        return Rollouts(steps=self.num_steps, environments=self.num_envs)

    def policy(self, spec: EnvironmentSpec, context: PolicyContext) -> _Policy:
        """Returns a policy that draws actions or, without exploration, takes the likeliest action."""
        random = Stream(context.seeds[0])
        return _Policy(self._module(spec, random), context, random, spec.actions)

    def learner(self, spec: EnvironmentSpec, seed: int) -> _Learner:
        """Returns a learner that learns from each rollout in several epochs of minibatches."""
        random = Stream(seed)
        return _Learner(self._module(spec, random), self, random, seed)

    def train(self, environment: Any, **options: Unpack[RunOptions]) -> TrainingResult:
        """Trains the agent in an environment by calling :func:`relive.rl.run`, which describes the options."""
        expect_options(type(self).__name__, options, names_of(type(self)))
        return run(self, environment, **options)

    def _module(self, spec: EnvironmentSpec, random: Stream) -> nn.Module:
        # A user's network may return a distribution over any single array.
        if not isinstance(spec.actions, ArraySpec):
            raise _mismatch(spec)
        if self.network is not None:
            return module_of("network", self.network, spec, random)
        return made_in_float32(random, _ActorCritic, spec, self.hidden)


def _mismatch(spec: EnvironmentSpec) -> TypeError:
    expected = f"one discrete action, one array of integers in ranges of at most {MAX_VALUES:,} values, or one float array"
    return TypeError(f"PPO takes {expected}, but the environment's actions are {spec.actions!r}")


class _ActorCritic(nn.Module):
    """The distribution of actions, and the value, each from its own stack of layers. The distribution of continuous
    actions is for actions that are scaled so that the bounds are -1 and 1."""

    def __init__(self, spec: EnvironmentSpec, hidden: tuple[int, ...]) -> None:
        super().__init__()
        self.is_discrete, self.choices = isinstance(spec.actions, DiscreteArraySpec), ChoiceSpec.of(spec.actions)
        if self.choices is None and spec.actions.dtype.kind != "f":
            raise _mismatch(spec)
        self.shape = shape_of(spec.actions)
        outputs = math.prod(self.shape) if self.choices is None else sum(self.choices.counts)
        self.read = Observations(spec, "PPO")
        sizes = [self.read.width, *hidden]
        self.policy, self.value = _tower(sizes, outputs, gain=0.01), _tower(sizes, 1, gain=1.0)
        self.log_std = nn.Parameter(torch.zeros(outputs if self.choices is None else 0))

    def forward(self, observations: Tensor) -> tuple[Distribution, Tensor]:
        """Returns the distribution and the values for observations ``[B, …]``."""
        rows = self.read(observations)
        return self._distribution(rows), self.value(rows).squeeze(1)

    def distribution(self, observations: Tensor) -> Distribution:
        """Returns only the distribution."""
        return self._distribution(self.read(observations))

    def _distribution(self, rows: Tensor) -> Distribution:
        outputs = self.policy(rows)
        if self.is_discrete:
            return Categorical(outputs)
        if self.choices is not None:
            return Choices(outputs, self.choices)
        means, stds = (part.reshape(-1, *self.shape) for part in (outputs, self.log_std.exp().expand_as(outputs)))
        return Independent(Normal(means, stds, validate_args=False), len(self.shape), validate_args=False)


def _tower(sizes: list[int], outputs: int, *, gain: float) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs_of, outputs_of in zip(sizes, sizes[1:], strict=False):
        layers += [_orthogonal(inputs_of, outputs_of, 2**0.5), nn.Tanh()]
    return nn.Sequential(*layers, _orthogonal(sizes[-1], outputs, gain))


def _orthogonal(inputs_of: int, outputs_of: int, gain: float) -> nn.Linear:
    layer = nn.Linear(inputs_of, outputs_of)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def _drawn(distribution: Any, random: Stream) -> Tensor:
    """Returns a sample, which distributions themselves can only draw from PyTorch's global generator."""
    if type(distribution) is torch.distributions.Categorical:
        distribution = Categorical(distribution.logits)
    if type(distribution) in (Categorical, Choices):
        part = distribution.parts[0] if isinstance(distribution, Choices) else distribution
        drawn: Tensor = distribution.sample(generator=random.on(part.logits.device))
        return drawn
    normal = distribution.base_dist if type(distribution) is Independent else distribution
    if type(normal) is Normal:
        return torch.normal(normal.loc, normal.scale, generator=random.on(normal.loc.device))
    with random.redirected():
        drawn = distribution.sample()
    return drawn


def _likeliest(distribution: Distribution) -> Tensor:
    """Returns the likeliest actions."""
    try:
        likeliest: Tensor = distribution.mode
    except NotImplementedError as error:
        raise TypeError(
            f"the network's distribution has no mode ({error}), but evaluations and the trained policy take the likeliest action; "
            "return a subclass with the property mode"
        ) from error
    return likeliest


def _bounds_of(actions: ArraySpec, *, is_scaled: bool) -> Bounds | None:
    # Discrete actions have bounds too, but a distribution of them draws no others.
    if not isinstance(actions, BoundedArraySpec) or isinstance(actions, DiscreteArraySpec):
        return None
    return Bounds.of_scaled(actions) if is_scaled else Bounds(actions.minimum, actions.maximum)


class _Policy(Policy):
    _draws_globally = False

    def __init__(self, module: nn.Module, context: PolicyContext, random: Stream, actions: Any) -> None:
        super().__init__(module)
        self.explores, self.random = context.explores, random
        self._bounds = _bounds_of(actions, is_scaled=isinstance(module, _ActorCritic) and module.choices is None)
        self._has_mode = False
        self.extras = {"log_prob": np.float32, "drawn": (actions.dtype, actions.shape)}

    def act(self, observations: Any, starts: Any) -> Any:
        with self.random.given("network"):
            distribution = self._distribution(inputs(tensors(observations)), len(starts))
        if not self._has_mode:
            # A missing mode is reported at the first step, rather than by the first evaluation.
            _likeliest(distribution)
            self._has_mode = True
        drawn = _drawn(distribution, self.random) if self.explores else _likeliest(distribution)
        log_prob = expect_shape(
            "log_prob of the network's distribution",
            distribution.log_prob(drawn),
            (len(starts),),
            "one number for each action; for arrays, use torch.distributions.Independent",
        )
        actions = drawn.numpy()
        if self._bounds is not None:
            actions = self._bounds.within(actions)
        return actions, {"log_prob": log_prob, "drawn": drawn}

    def _distribution(self, observations: Any, rows: int) -> Distribution:
        if isinstance(self.module, _ActorCritic):
            # Acting does not need the values.
            return self.module.distribution(observations)
        return _network_output(self.module, observations, rows)[0]


def _network_output(module: nn.Module, observations: Any, rows: int) -> tuple[Distribution, Tensor]:
    """Returns the network's output after checking it."""
    output = module(observations)
    kinds = [type(part).__name__ for part in output] if isinstance(output, tuple) else [type(output).__name__]
    if not isinstance(output, tuple) or len(output) != 2 or not isinstance(output[0], Distribution):
        raise TypeError(f"the network returned {', '.join(kinds)}, but it must return a pair: a torch.distributions.Distribution, and "
                        "values")
    return output[0], expect_shape("the network", output[1], (rows,), "the values, one for each observation")


class _Learner(Learner):
    _draws_globally = False
    unsaved = ("torch_threads",)

    def __init__(self, module: nn.Module, settings: PPO, random: Stream, seed: int) -> None:
        self.module, self.settings, self.random, self.rng = module, settings, random, np.random.default_rng(seed)
        self.optimizer, self.env_steps = Adam(module.parameters(), settings.learning_rate, eps=1e-5), 0
        self.torch_threads = threads_for(settings.minibatch_size, module)

    def learn(self, rollout: Rollout) -> Learnt:
        """Learns from a rollout in several epochs of minibatches."""
        settings, shape = self.settings, (len(rollout.rewards) + 1, rollout.rewards.shape[1])
        observations = inputs(tensors(nest.map_structure(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), rollout.observations)))
        with torch.no_grad(), self.random.given("network"):
            values = _network_output(self.module, observations, math.prod(shape))[1].reshape(shape).numpy()
        advantages, returns = rollout.advantages(values, discount=settings.discount, gae_lambda=settings.gae_lambda)
        steps = tensors(rollout.steps(advantage=advantages, **{"return": returns}))
        steps = {name: steps[name] for name in ("log_prob", "advantage", "return")} | {
            "observation": inputs(steps["observations"]), "action": steps["drawn"],
        }  # fmt: skip
        self.optimizer.param_groups[0]["lr"] = settings.learning_rate * self._share_left()
        losses = [
            self._minibatch(minibatch) for _ in range(settings.epochs) for minibatch in minibatches(steps, settings.minibatch_size, self.rng)
        ]
        self.env_steps += rollout.env_steps
        # A rollout that consists only of resets has no steps to learn from.
        metrics = {"loss": float(np.mean(losses))} if losses else {}
        return Learnt(metrics, steps=len(losses), samples=settings.epochs * len(steps["return"]))

    def _share_left(self) -> float:
        """Returns the share of the annealing that is left, which is 1 without annealing."""
        steps = self.settings.anneal_steps
        return max(0.0, 1 - self.env_steps / steps) if steps else 1.0

    def _minibatch(self, data: dict[str, Any]) -> float:
        advantage = data["advantage"]
        if self.settings.normalize_advantages and len(advantage) > 1:
            data["advantage"] = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        with self.random.given("loss"):
            losses = expect_shape("loss", self._losses(data), tuple(advantage.shape), "the loss of each step")
        return step(self.optimizer, losses.mean(), max_norm=self.settings.max_gradient_norm)

    def _losses(self, data: dict[str, Any]) -> Any:
        settings = self.settings
        if settings.loss is not None:
            return settings.loss(self.module, data)
        return clipped_surrogate_loss(
            self.module, data, clip=settings.clip * self._share_left(), value_cost=settings.value_cost, entropy_cost=settings.entropy_cost
        )
