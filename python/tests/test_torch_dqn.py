"""relive.rl.torch.DQN: the settings of rl.DQN, and a user-defined network and loss."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from torch import nn

from relive import rl
from relive.rl import torch as rlt

SMALL: dict[str, Any] = {"batch_size": 16, "samples_per_insert": 4.0, "min_replay_size": 50, "hidden": (8,)}


pytestmark = pytest.mark.usefixtures("one_thread")


def network(spec: rl.EnvironmentSpec) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(50, 16), nn.Tanh(), nn.Linear(16, spec.actions.num_values))


def conservative(module: Any, target: Any, data: Any) -> Any:
    losses, priorities = rlt.double_q_loss(module, target, data)
    values = module(data["observation"])
    return losses + 0.1 * (values.logsumexp(1) - values.gather(1, data["action"][:, None]).squeeze(1)), priorities


def flat(module: Any, target: Any, data: Any) -> Any:
    return (module(data["observation"]).mean(1) - data["reward"]).square()


def test_defaults_match_the_rust_agent() -> None:
    native = {field.name: getattr(rl.DQNConfig(), field.name) for field in dataclasses.fields(rl.DQNConfig)}
    own = {field.name: getattr(rlt.DQN(), field.name) for field in dataclasses.fields(rlt.DQN)}
    assert own.pop("network") is None and own.pop("loss") is None
    assert own == {name: native[name] for name in own}


def test_catch_is_learned() -> None:
    result = rlt.DQN().train("catch/0", steps=7_000, seed=1)
    assert result.mean_return_last_100 > 0.6


def test_the_loss_matches_double_q_learning() -> None:
    module, target = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
        target.weight.copy_(torch.tensor([[10.0, 0.0], [0.0, 0.5]]))
    data = {
        "observation": torch.eye(2), "action": torch.tensor([0, 1]), "reward": torch.tensor([1.0, -1.0]),
        "discount": torch.tensor([0.5, 0.0]), "next_observation": torch.ones(2, 2),
    }
    losses, priorities = rlt.double_q_loss(module, target, data)
    # The online network prefers the second action, to which the target network assigns 0.5: targets are 1.25 and -1,
    # values 1 and 2.
    assert losses.tolist() == pytest.approx([0.25**2 / 2, 3 - 0.5]) and priorities.tolist() == pytest.approx([0.25, 3.0])


def test_ties_are_broken_randomly_while_exploring() -> None:
    def tied(spec: rl.EnvironmentSpec) -> nn.Module:
        module = nn.Sequential(nn.Flatten(), nn.Linear(50, 3))
        with torch.no_grad():
            module[1].weight.zero_()
            module[1].bias.copy_(torch.tensor([1.0, 0.0, 1.0]))
        return module

    agent, spec = rlt.DQN(epsilon=0.0, network=tied), rl.make_environment_spec(rl.make("catch/0"))

    def counts(explores: bool) -> list[int]:
        context = rl.PolicyContext(explores=explores, seeds=tuple(range(300)), first=0, of=300)
        actions = agent.policy(spec, context).act(np.zeros((300, 10, 5), np.float32), np.ones(300, np.bool_))
        return np.bincount(actions, minlength=3).tolist()

    # Six standard deviations around half of them.
    first, worse, last = counts(explores=True)
    assert worse == 0 and 98 <= first <= 202 and first + last == 300
    assert counts(explores=False) == [300, 0, 0]


def test_random_actions_become_fewer() -> None:
    def always_first(spec: rl.EnvironmentSpec) -> nn.Module:
        module = nn.Sequential(nn.Flatten(), nn.Linear(50, 3))
        with torch.no_grad():
            module[1].weight.zero_()
            module[1].bias.copy_(torch.tensor([1.0, 0.0, 0.0]))
        return module

    agent, spec = rlt.DQN(epsilon=0.0, epsilon_decay_steps=3_000, network=always_first), rl.make_environment_spec(rl.make("catch/0"))
    context = rl.PolicyContext(explores=True, seeds=tuple(range(300)), first=0, of=600)
    policy, seen = agent.policy(spec, context), (np.zeros((300, 10, 5), np.float32), np.ones(300, np.bool_))
    # Half of the rows are another worker's, so each row has five steps. A random action is the first in a third of all
    # cases; the bounds are six standard deviations.
    others = [int((policy.act(*seen) != 0).sum()) for _ in range(6)]
    for count, share in zip(others, (1.0, 0.8, 0.6, 0.4, 0.2)):
        expected = 200 * share
        assert abs(count - expected) < 6 * np.sqrt(expected * (1 - expected / 300))
    assert others[5] == 0


class Forbids(gymnasium.Env[Any, Any]):
    """Forbids some of its actions in each step, and all of them after the last step of an episode."""

    observation_space = Dict({"seen": Box(-1, 1, (3,), np.float32), "allowed": MultiBinary(4)})
    action_space = Discrete(4)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.left = 10
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        assert self.allowed[action], "the action is allowed"
        self.left -= 1
        ends = not self.left
        # Every second episode is truncated.
        is_cut = bool(self.np_random.integers(2))
        return self.observe(), float(action), ends and not is_cut, ends and is_cut, {}

    def observe(self) -> Any:
        self.allowed = self.np_random.integers(2, size=4, dtype=np.int8)
        self.allowed[self.np_random.integers(4)] = 1
        if not self.left:
            self.allowed[:] = 0
        return {"seen": self.np_random.uniform(-1, 1, 3).astype(np.float32), "allowed": self.allowed.copy()}


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.values = nn.Linear(3, 4)

    def forward(self, observations: Any) -> Any:
        return self.values(observations["seen"]).masked_fill(observations["allowed"] == 0, -torch.inf)


def test_actions_with_infinitely_low_values_are_not_taken() -> None:
    figures: list[Any] = []
    agent = rlt.DQN(**SMALL, network=lambda spec: Masked(), epsilon=0.5)
    result = agent.train(
        lambda seed: Forbids(), steps=600, evaluate_every=600, evaluation_episodes=5, on_batch=lambda _, found: figures.append(found["loss"])
    )
    assert len(figures) > 20 and np.isfinite(figures).all() and len(result.evaluation.returns) == 5


def test_all_allowed_actions_are_explored_alike() -> None:
    agent, spec = rlt.DQN(epsilon=1.0, network=lambda spec: Masked()), rl.make_environment_spec(Forbids())
    context = rl.PolicyContext(explores=True, seeds=tuple(range(300)), first=0, of=300)
    seen = {"seen": np.zeros((300, 3), np.float32), "allowed": np.tile(np.int8([0, 1, 0, 1]), (300, 1))}
    none, first, other, second = np.bincount(agent.policy(spec, context).act(seen, np.ones(300, np.bool_)), minlength=4)
    # Six standard deviations around half of them.
    assert none == other == 0 and 98 <= first <= 202 and first + second == 300


@pytest.mark.parametrize("loss", [conservative, flat])
def test_a_custom_network_and_loss_are_used(loss: Any) -> None:
    seen: list[Any] = []
    agent = rlt.DQN(**SMALL, network=network, loss=loss)
    result = agent.train("catch/0", steps=200, on_batch=lambda batch, _: seen.append(batch))
    assert result.learner_steps == len(seen) > 5
    assert result.policy(np.zeros((10, 5), np.float32)) in (0, 1, 2)
    # Soon, all priorities have been updated.
    assert len({float(priority) for priority in seen[-1].info.priority}) > 2


@pytest.mark.parametrize("decay", [0, 600])
def test_a_saved_run_resumes_identically(decay: int, tmp_path: pathlib.Path) -> None:
    def run(steps: int, folder: str) -> Any:
        agent = rlt.DQN(**SMALL, network=network, loss=conservative, epsilon_decay_steps=decay)
        return agent.train("catch/0", steps=steps, seed=3, checkpoint_dir=tmp_path / folder, checkpoint_every=150)

    whole = run(450, "whole")
    run(300, "parts")
    resumed = run(450, "parts")
    returns = whole.episodes.returns.tolist()
    assert resumed.episodes.returns.tolist() == returns[-len(resumed.episodes.returns) :]


@pytest.mark.parametrize(
    ("settings", "kind", "text"),
    [
        ({"network": 3}, TypeError, "network is 3, but it must be a function"),
        ({"loss": "huber"}, TypeError, "loss is 'huber', but it must be a function"),
        ({"discount": 2.0}, ValueError, "discount is 2, but it must be from 0 to 1"),
        ({"importance_sampling_exponent": -1.0}, ValueError, "importance_sampling_exponent is -1"),
    ],
)
def test_settings_are_checked(settings: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        rlt.DQN(**settings)


@pytest.mark.parametrize(
    ("settings", "environment", "kind", "text"),
    [
        ({"network": lambda spec: 3}, "catch/0", TypeError, "network returned int, but it must return a torch.nn.Module"),
        (
            {"network": lambda spec: nn.Sequential(nn.Flatten(), nn.Linear(50, 4))}, "catch/0", ValueError,
            r"the network returned a tensor of the shape \(1, 4\), but it must return \(1, 3\): the values of all actions for each "
            r"observation",
        ),
        ({"loss": lambda *_: torch.zeros(())}, "catch/0", ValueError, r"loss returned a tensor of the shape \(\), but it must return "
                                                                      r"\(16,\): losses, one for each transition"),
        ({"loss": lambda *_: 3}, "catch/0", TypeError, r"loss returned int, but it must return a tensor of the shape \(16,\)"),
        ({}, "Pendulum-v1", TypeError, "DQN requires one discrete action, but the environment's actions are"),
    ],
)
def test_mismatched_environments_and_settings_are_reported(settings: Any, environment: str, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        rlt.DQN(**SMALL, **settings).train(environment, steps=200)
