"""relive.rl.torch.PPO and SAC: the settings of the agents in Rust, and user-defined networks and losses."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Categorical, Independent, Normal

from relive import rl
from relive.rl import torch as rlt
from relive.rl.torch._given import Observations
from relive.rl.torch._random import Stream
from relive.rl.torch._sac import _Squashed
from relive.specs import ArraySpec, BoundedArraySpec

PPO: dict[str, Any] = {"num_envs": 4, "num_steps": 32, "minibatch_size": 32, "epochs": 2, "hidden": (16,)}
SAC: dict[str, Any] = {"batch_size": 16, "samples_per_insert": 4.0, "min_replay_size": 50, "hidden": (16,)}


SCALAR = ArraySpec((), np.float32)
MOST = float(np.finfo(np.float32).max)

pytestmark = pytest.mark.usefixtures("one_thread")


class Shared(nn.Module):
    """A network with one body for the policy and the value."""

    def __init__(self, inputs: int, actions: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(inputs, 16), nn.ReLU())
        self.logits, self.value = nn.Linear(16, actions), nn.Linear(16, 1)

    def forward(self, observations: Any) -> Any:
        features = self.body(observations)
        return Categorical(logits=self.logits(features)), self.value(features).squeeze(1)


def shared(spec: Any) -> nn.Module:
    return Shared(50, spec.actions.num_values)


def to_the_left(module: Any, data: Any) -> Any:
    """Returns a loss that always prefers action 0."""
    return -module(data["observation"])[0].log_prob(torch.zeros_like(data["action"]))


class Narrow(nn.Module):
    """A policy with a learned mean but a fixed standard deviation."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Linear(3, 1)

    def forward(self, observations: Any) -> Any:
        mean = self.mean(observations)
        return mean, torch.full_like(mean, -3.0)


class Three(nn.Module):
    """Three critics."""

    def __init__(self) -> None:
        super().__init__()
        self.all = nn.Linear(4, 3)

    def forward(self, observations: Any, actions: Any) -> Any:
        return self.all(torch.cat([observations, actions], -1)).T


class Wide(nn.Module):
    """A critic that confuses its dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.all = nn.Linear(4, 1)

    def forward(self, observations: Any, actions: Any) -> Any:
        return self.all(torch.cat([observations, actions], -1))


@pytest.mark.parametrize("of", ["PPO", "SAC"])
def test_defaults_match_the_rust_agent(of: str) -> None:
    native, own = getattr(rl, f"{of}Config")(), getattr(rlt, of)()
    names = {field.name for field in dataclasses.fields(own)} - {"network", "loss", "critics", "critic_loss", "anneal_steps"}
    assert len(names) > 10 and all(getattr(own, name) == getattr(native, name) for name in names)


def test_ppo_learns_to_choose() -> None:
    result = rlt.PPO(num_steps=128, minibatch_size=256, learning_rate=1e-3, discount=0.98, gae_lambda=0.9).train("CartPole-v1", steps=40_000, seed=1)
    assert result.mean_return_last_100 > 150


def test_sac_learns_to_swing_up() -> None:
    agent = rlt.SAC(learning_rate=2e-3, hidden=(64, 64), batch_size=64, samples_per_insert=64.0)
    result = agent.train("Pendulum-v1", steps=5_000, seed=1, evaluate_every=5_000, evaluation_episodes=5)
    assert result.evaluation.returns.mean() > -400


def test_the_entropy_of_sac_does_not_depend_on_the_units_of_actions() -> None:
    network, log_probs = Narrow(), []
    for bound in (0.1, 2.0):
        spec = rl.make_environment_spec(rl.make("Pendulum-v1"))._replace(actions=BoundedArraySpec((1,), np.float32, -bound, bound))
        actions, log_prob = _Squashed(network, spec)(torch.zeros(4, 3), Stream(1))
        assert actions.abs().max() <= bound
        log_probs.append(log_prob)
    assert torch.equal(*log_probs)


def test_the_loss_of_ppo_is_clipped() -> None:
    module = Shared(2, 2)
    for layer in (module.logits, module.value):
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
    # Both actions now have a probability of one half; the ratios are 2 (clipped to 1.2), with positive and negative
    # advantages, and 1.
    data = {
        "observation": torch.zeros(3, 2), "action": torch.tensor([0, 1, 0]), "log_prob": torch.tensor([0.25, 0.25, 0.5]).log(),
        "advantage": torch.tensor([1.0, -1.0, 3.0]), "return": torch.tensor([1.0, 0.0, 2.0]),
    }  # fmt: skip
    losses = rlt.clipped_surrogate_loss(module, data, clip=0.2, value_cost=0.5, entropy_cost=0.1)
    entropy = 0.1 * np.log(2)
    assert losses.tolist() == pytest.approx([0.5 - 1.2 - entropy, 2.0 - entropy, 2.0 - 3.0 - entropy])


def test_ppo_accepts_a_custom_network_and_loss() -> None:
    result = rlt.PPO(**PPO, network=shared, loss=to_the_left, learning_rate=0.01).train("catch/0", steps=4_000)
    assert {result.policy(np.random.default_rng(seed).random((10, 5), np.float32)) for seed in range(20)} == {0}


def frozen(module: Any, body: Any) -> Any:
    """Returns a network with a part that does not learn."""
    body.requires_grad_(False)
    return module


def test_networks_may_have_frozen_parts() -> None:
    def ppo(spec: Any) -> Any:
        network = shared(spec)
        return frozen(network, network.body)  # type: ignore[attr-defined]

    def dqn(spec: Any) -> Any:
        network = nn.Sequential(nn.Flatten(), nn.Linear(50, 16), nn.Linear(16, spec.actions.num_values))
        return frozen(network, network[1])

    def sac(spec: Any) -> Any:
        body = nn.Linear(3, 3)
        return frozen(nn.Sequential(body, Narrow()), body)

    for agent, environment in [
        (rlt.PPO(**PPO, network=ppo), "catch/0"),
        (rlt.DQN(network=dqn, min_replay_size=20, batch_size=8), "catch/0"),
        (rlt.SAC(**SAC, network=sac), "Pendulum-v1"),
    ]:
        assert agent.train(environment, steps=200).learner_steps > 0


def test_ppo_draws_arrays_within_bounds() -> None:
    seen: list[Any] = []
    result = rlt.PPO(**PPO).train("Pendulum-v1", steps=300, on_step=seen.append)
    assert result.learner_steps > 0
    actions = np.concatenate([rollout.actions.ravel() for rollout in seen])
    assert np.abs(actions).max() <= 2.0 and actions.std() > 0.1


def test_sac_accepts_custom_networks_and_loss() -> None:
    seen: list[Any] = []

    def loss(critics: Any, data: Any, targets: Any) -> Any:
        seen.append(critics(data["observation"], data["action"]).shape)
        return rlt.squared_critic_loss(critics, data, targets)

    agent = rlt.SAC(**SAC, network=lambda spec: Narrow(), critics=lambda spec: Three(), critic_loss=loss)
    result = agent.train("Pendulum-v1", steps=200)
    assert result.learner_steps == len(seen) > 5 and set(seen) == {torch.Size([3, 16])}
    assert -2 <= float(result.policy(np.zeros(3, np.float32))[0]) <= 2


@pytest.mark.parametrize(("agent", "environment"), [(rlt.PPO(**PPO), "catch/0"), (rlt.SAC(**SAC), "Pendulum-v1")])
def test_a_saved_run_resumes_identically(agent: Any, environment: str, tmp_path: pathlib.Path) -> None:
    def train(steps: int, folder: str) -> Any:
        return agent.train(environment, steps=steps, seed=3, checkpoint_dir=tmp_path / folder, checkpoint_every=200)

    whole = train(1_000, "whole")
    train(600, "parts")
    resumed = train(1_000, "parts")
    returns = whole.episodes.returns.tolist()
    assert 0 < len(resumed.episodes.returns) < len(returns)
    assert resumed.episodes.returns.tolist() == returns[-len(resumed.episodes.returns) :]


@pytest.mark.parametrize(
    ("agent", "settings", "kind", "text"),
    [
        (rlt.PPO, {"network": nn.Linear(2, 2)}, TypeError, "network is a module, but it must be a function that creates one"),
        (rlt.PPO, {"network": 3}, TypeError, "network is 3, but it must be a function"),
        (rlt.PPO, {"loss": "clip"}, TypeError, "loss is 'clip', but it must be a function"),
        (rlt.PPO, {"gae_lambda": 2.0}, ValueError, "gae_lambda is 2, but it must be from 0 to 1"),
        (rlt.SAC, {"critics": 2}, TypeError, "critics is 2, but it must be a function"),
        (rlt.SAC, {"tau": 2.0}, ValueError, "tau is 2"),
    ],
)
def test_settings_are_checked(agent: Any, settings: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        agent(**settings)


@pytest.mark.parametrize(
    ("agent", "environment", "kind", "text"),
    [
        (rlt.PPO(**PPO, network=lambda spec: 3), "catch/0", TypeError, "network returned int, but it must return a torch.nn.Module"),
        (rlt.PPO(**PPO, network=lambda spec: nn.Linear(5, 3)), "catch/0", TypeError, "the network returned Tensor, but it must return a pair"),
        (
            rlt.PPO(**PPO, loss=lambda module, data: torch.zeros(())), "catch/0", ValueError,
            r"loss returned a tensor of the shape \(\), but it must return \(32,\): the loss of each step",
        ),
        (rlt.SAC(**SAC), "catch/0", TypeError, "SAC requires actions that are one array of floats between bounds, but the environment's actions are"),
        (rlt.SAC(**SAC, network=lambda spec: nn.Linear(3, 2)), "Pendulum-v1", TypeError, "the network returned Tensor, but it must return a pair"),
        (
            rlt.SAC(**SAC, critics=lambda spec: Wide()), "Pendulum-v1", ValueError,
            r"critics returned a tensor of the shape \(16, 1\), but it must return a tensor of the shape \(critics, 16\)",
        ),
        (rlt.SAC(**SAC, critic_loss=lambda *_: 3.0), "Pendulum-v1", TypeError, r"critic_loss returned float, but it must return a tensor of the shape \(16,\)"),
    ],
)  # fmt: skip
def test_mismatched_environments_and_settings_are_reported(agent: Any, environment: str, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        agent.train(environment, steps=300)


class Still(gymnasium.Env[Any, Any]):
    """An environment of given spaces, which stores the actions."""

    def __init__(self, observations: Any, actions: Any) -> None:
        self.observation_space, self.action_space, self.steps = observations, actions, 0
        self.seen: list[Any] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(self.observation_space.shape, self.observation_space.dtype), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(np.asarray(action)), action
        self.seen.append(np.array(action))
        self.steps += 1
        return np.zeros(self.observation_space.shape, self.observation_space.dtype), 0.0, self.steps == 5, False, {}


Box, Discrete = gymnasium.spaces.Box, gymnasium.spaces.Discrete
ONE = Box(-1.0, 1.0, (1,), np.float32)


@pytest.mark.parametrize("space", [Discrete(4), Box(-1.0, 1.0, (), np.float32), Box(-1.0, 1.0, (2, 3), np.float64)], ids=str)
@pytest.mark.parametrize("agent", [rlt.DQN(min_replay_size=20, batch_size=8, hidden=(8,)), rlt.PPO(**PPO), rlt.SAC(**SAC)], ids=lambda agent: type(agent).__name__)
def test_an_observation_may_be_a_single_number(agent: Any, space: Any) -> None:
    actions = ONE if isinstance(agent, rlt.SAC) else Discrete(2)
    assert rl.run(agent, lambda: Still(space, actions), steps=200, progress=False).learner_steps > 0


def test_default_networks_read_discrete_observations_one_hot() -> None:
    def read(space: Any, seen: Any) -> tuple[int, list[Any]]:
        observations = Observations(rl.make_environment_spec(Still(space, ONE)), "PPO")
        return observations.width, observations(torch.tensor(seen)).tolist()

    assert read(Discrete(3), [2, 0]) == (3, [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    assert read(Discrete(5_000), [7]) == (1, [[7.0]])
    assert read(Box(-1.0, 1.0, (2,), np.float32), [[0.5, 1.0]]) == (2, [[0.5, 1.0]])


def test_default_networks_read_images_as_numbers_from_0_to_1() -> None:
    def read(spec: ArraySpec) -> float:
        observations = Observations(rl.EnvironmentSpec(spec, rl.DiscreteArraySpec(2), SCALAR, SCALAR), "DQN")
        return float(observations(torch.full((2, *(spec.shape or ())), 255, dtype=torch.uint8)).amax())

    assert read(ArraySpec((96, 96, 3), np.uint8)) == read(BoundedArraySpec((4, 36, 36), np.uint8, 0, 255)) == 1.0
    # Numbers below 255 are kinds; so are small grids.
    assert read(BoundedArraySpec((96, 96), np.uint8, 0, 254)) == read(ArraySpec((35, 96, 3), np.uint8)) == 255.0
    assert read(ArraySpec((96, 96), np.int32)) == 255.0


@pytest.mark.parametrize("agent", [rlt.DQN(hidden=(4,)), rlt.PPO(hidden=(4,)), rlt.SAC(hidden=(4,))], ids=lambda agent: type(agent).__name__)
def test_default_networks_scale_images(agent: Any) -> None:
    actions = BoundedArraySpec((1,), np.float32, -1.0, 1.0) if isinstance(agent, rlt.SAC) else rl.DiscreteArraySpec(2)
    seen = np.random.default_rng(1).integers(256, size=(3, 36, 36), dtype=np.uint8)

    def act(of: Any, observations: Any) -> Any:
        spec = rl.EnvironmentSpec(of, actions, SCALAR, SCALAR)
        policy = agent.policy(spec, rl.PolicyContext(False, (1, 2, 3), 0, 3))
        with torch.no_grad():
            return torch.cat([leaf.flatten() for leaf in outputs(policy.module, torch.as_tensor(observations))])

    scaled = act(ArraySpec((36, 36), np.float32), (seen / 255).astype(np.float32))
    torch.testing.assert_close(act(ArraySpec((36, 36), np.uint8), seen), scaled)


def outputs(module: Any, observations: Any) -> list[Any]:
    """Returns the tensors that the module of a policy computes."""
    found = module(observations, None) if isinstance(module, _Squashed) else module(observations)
    if isinstance(found, torch.Tensor):
        return [found]
    return [part.logits if isinstance(part, Categorical) else part for part in found]


@pytest.mark.parametrize("agent", [rlt.PPO(**PPO), rlt.SAC(**SAC)], ids=lambda agent: type(agent).__name__)
@pytest.mark.parametrize("actions", [Box(-2.0, 1.0, (2,), np.float64), Box(-2.0, 1.0, (), np.float32), Box(-2.0, 1.0, (2, 1), np.float64)], ids=str)
def test_float_actions_of_any_type_and_shape_are_supported(agent: Any, actions: Any) -> None:
    made: list[Still] = []

    def make() -> Still:
        made.append(Still(ONE, actions))
        return made[-1]

    assert rl.run(agent, make, steps=200, progress=False).learner_steps > 0
    assert np.std([action for still in made for action in still.seen]) > 0.1


PPO_TAKES = "PPO takes one discrete action, one array of integers in ranges of at most 65,536 values, or one float array"


@pytest.mark.parametrize(
    ("agent", "actions", "kind", "text"),
    [
        (rlt.SAC(**SAC), Box(0, 5, (2,), np.int64), TypeError, "SAC requires actions that are one array of floats between bounds, but .*dtype=int64"),
        (rlt.SAC(**SAC), Box(0.0, np.inf, (2,), np.float32), TypeError, "SAC requires actions that are one array of floats between bounds, but .*inf"),
        (
            rlt.SAC(**SAC), Box(np.array([0, -1], np.float32), np.array([0, 1], np.float32)), ValueError,
            "this agent takes actions whose lower bounds are below their upper bounds, but the environment has the bounds 0 and 0 for component 0; "
            "remove the component from the actions",
        ),
        (
            rlt.SAC(**SAC), Box(1.0, np.array([2, 1 + 1e-12]), (2,), np.float64), ValueError,
            "the bounds 1 and 1 for component 1; remove the component from the actions",
        ),
        (
            rlt.SAC(**SAC), Box(-MOST, MOST, (2,), np.float32), ValueError,
            "this agent takes actions between bounds that are less than 2,000,000 apart, but the environment has the bounds "
            "-340282350000000000000000000000000000000 and 340282350000000000000000000000000000000 for component 0; narrow the bounds",
        ),
        (rlt.SAC(**SAC), Box(-1e300, 1e300, (), np.float64), ValueError, "the bounds -inf and inf for component 0; narrow the bounds"),
        (rlt.PPO(**PPO), gymnasium.spaces.MultiDiscrete([3, 70_000]), TypeError, f"{PPO_TAKES}, but .*maximum=. *2 69999."),
        (rlt.PPO(**PPO), Box(0, 2**40, (2,), np.int64), TypeError, f"{PPO_TAKES}, but .*dtype=int64"),
        (rlt.PPO(**PPO), gymnasium.spaces.Dict(a=Discrete(2)), TypeError, f"{PPO_TAKES}, but .*'a': Discrete"),
        (rlt.PPO(**PPO, network=shared), gymnasium.spaces.Dict(a=Discrete(2)), TypeError, PPO_TAKES),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_actions_that_an_agent_does_not_support_are_refused_at_the_start(agent: Any, actions: Any, kind: type[Exception], text: str) -> None:
    made: list[Still] = []

    def make() -> Still:
        made.append(Still(ONE, actions))
        return made[-1]

    with pytest.raises(kind, match=text):
        rl.run(agent, make, steps=200, progress=False)
    assert not any(still.seen for still in made)


class Named(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Observations that are a dict."""

    def __init__(self) -> None:
        super().__init__(Still(ONE, ONE))
        self.observation_space = gymnasium.spaces.Dict(only=ONE)

    def observation(self, observation: Any) -> Any:
        return {"only": observation}


class OfNamed(nn.Module):
    """Calls a module with the only entry of the observations."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, observations: Any, *actions: Any) -> Any:
        return self.module(torch.cat([observations["only"], *actions], -1))


class Halves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.both = nn.Linear(1, 2)

    def forward(self, observations: Any) -> Any:
        return tuple(self.both(observations).chunk(2, -1))


class Transposed(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input).T


def test_networks_of_sac_may_take_a_dict_of_observations() -> None:
    agent = rlt.SAC(**SAC, network=lambda spec: OfNamed(Halves()), critics=lambda spec: OfNamed(Transposed(2, 2)))
    assert rl.run(agent, Named, steps=100, progress=False).learner_steps > 0


def test_ppo_supports_equal_bounds() -> None:
    actions = Box(np.array([0, -1], np.float32), np.array([0, 1], np.float32))
    assert rl.run(rlt.PPO(**PPO), lambda: Still(ONE, actions), steps=200, progress=False).learner_steps > 0


def test_a_network_may_have_a_distribution_of_several_choices() -> None:
    class Several(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.logits, self.value = nn.Linear(1, 6), nn.Linear(1, 1)

        def forward(self, observations: Any) -> Any:
            logits = self.logits(observations).unflatten(1, (2, 3))
            return Independent(Categorical(logits=logits), 1), self.value(observations).squeeze(1)

    agent = rlt.PPO(**PPO, network=lambda spec: Several())
    assert rl.run(agent, lambda: Still(ONE, gymnasium.spaces.MultiDiscrete([3, 3])), steps=200, progress=False).learner_steps > 0


def test_ppo_of_arrays_needs_a_distribution_of_whole_actions() -> None:
    class Apart(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mean = nn.Linear(3, 1)

        def forward(self, observations: Any) -> Any:
            mean = self.mean(observations)
            return Normal(mean, torch.ones_like(mean)), mean.squeeze(1)

    with pytest.raises(ValueError, match=r"log_prob of the network's distribution returned a tensor of the shape \(4, 1\), but it must return \(4,\)"):
        rlt.PPO(**PPO, network=lambda spec: Apart()).train("Pendulum-v1", steps=300)


@pytest.fixture
def doubles_by_default() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@pytest.mark.usefixtures("doubles_by_default")
@pytest.mark.parametrize(("agent", "environment"), [
    (rlt.PPO(**PPO), "catch/0"),
    (rlt.PPO(**PPO), "Pendulum-v1"),
    (rlt.DQN(batch_size=16, min_replay_size=50, hidden=(16,)), "catch/0"),
    (rlt.SAC(**SAC), "Pendulum-v1"),
], ids=["ppo", "ppo-continuous", "dqn", "sac"])
def test_default_networks_are_float32_whatever_the_default_data_type(agent: Any, environment: str) -> None:
    result = agent.train(environment, steps=300, evaluate_every=150, evaluation_episodes=1)
    assert result.learner_steps > 0
    learner = agent.learner(rl.make_environment_spec(rl.make(environment)), 1)
    modules = [module for module in vars(learner).values() if isinstance(module, nn.Module)]
    assert {parameter.dtype for module in modules for parameter in module.parameters()} == {torch.float32}


@pytest.mark.parametrize(("bound", "is_told"), [(0.5, True), (1.0, False), (None, False)])
def test_clipped_returns_are_told_once(bound: float | None, is_told: bool, caplog: pytest.LogCaptureFixture) -> None:
    rlt.DQN(batch_size=8, min_replay_size=10, max_abs_reward=bound, hidden=(8,)).train("bandit/0", steps=100)
    texts = [record.getMessage() for record in caplog.records if "max_abs_reward" in record.getMessage()]
    assert len(texts) == is_told and all("which the agent clips to max_abs_reward = 0.5" in text for text in texts)
