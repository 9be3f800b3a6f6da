"""relive.rl.torch: the random numbers of policies and learners depend only on their seeds."""

from __future__ import annotations

import os
import pathlib
import threading
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from test_agent_examples import SHORT, example
from torch import nn
from torch.distributions import Beta, Categorical, Independent

from relive import rl
from relive.rl import torch as rlt
from relive.rl.torch._random import Stream

PPO: dict[str, Any] = {"num_envs": 2, "num_steps": 16, "minibatch_size": 16, "epochs": 2, "hidden": (8,)}
SAC: dict[str, Any] = {"batch_size": 8, "samples_per_insert": 2.0, "min_replay_size": 20, "hidden": (8,)}
DQN: dict[str, Any] = {**SAC, "epsilon": 0.2}
FOLDER = "RELIVE_TEST_ACTIONS"


pytestmark = pytest.mark.usefixtures("one_thread")


class Uncertain(nn.Module):
    """A network with dropout, and noise in its own forward pass, as noisy networks have it."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(inputs, 8), nn.Dropout(0.5), nn.ReLU())
        self.head, self.value = nn.Linear(8, outputs), nn.Linear(8, 1)

    def features(self, observations: Any) -> Any:
        features = self.layers(observations)
        return features + 0.5 * torch.randn_like(features)


class Values(Uncertain):
    def forward(self, observations: Any) -> Any:
        return self.head(self.features(observations))


class Choices(Uncertain):
    def forward(self, observations: Any) -> Any:
        features = self.features(observations)
        return Categorical(logits=self.head(features)), self.value(features).squeeze(1)


class Shares(Uncertain):
    """A distribution that PyTorch samples with operations of its own."""

    def forward(self, observations: Any) -> Any:
        features = self.features(observations)
        means = self.head(features).sigmoid() + 1
        return Independent(Beta(means, means), 1), self.value(features).squeeze(1)


class Means(Uncertain):
    def forward(self, observations: Any) -> Any:
        means = self.head(self.features(observations))
        return means, means - 2


AGENTS: dict[str, tuple[Any, str]] = {
    "dqn": (rlt.DQN(**DQN), "catch/0"),
    "ppo": (rlt.PPO(**PPO), "catch/0"),
    "ppo of arrays": (rlt.PPO(**PPO), "Pendulum-v1"),
    "sac": (rlt.SAC(**SAC), "Pendulum-v1"),
    "uncertain dqn": (rlt.DQN(**DQN, network=lambda spec: Values(50, 3)), "catch/0"),
    "uncertain ppo": (rlt.PPO(**PPO, network=lambda spec: Choices(50, 3)), "catch/0"),
    "uncertain ppo of arrays": (rlt.PPO(**PPO, network=lambda spec: Shares(3, 1)), "Pendulum-v1"),
    "uncertain sac": (rlt.SAC(**SAC, network=lambda spec: Means(3, 1)), "Pendulum-v1"),
}


def trained(name: str, **options: Any) -> bytes:
    agent, environment = AGENTS[name]
    result = agent.train(environment, **{"steps": 120, "seed": 3, "progress": False, **options})
    assert result.learner_steps > 2
    return bytes(result.policy.to_bytes())


@pytest.mark.parametrize("name", AGENTS)
def test_nothing_else_changes_a_run(name: str) -> None:
    alone = trained(name)
    assert alone != trained(name, seed=4)
    torch.manual_seed(1)
    assert trained(name, evaluate_every=30, evaluation_episodes=1) == alone
    assert trained(name, on_step=lambda rollout: torch.rand(1)) == alone


@pytest.mark.parametrize("name", AGENTS)
def test_a_run_leaves_the_global_generator_as_it_was(name: str, tmp_path: pathlib.Path) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    trained(name, evaluate_every=60, evaluation_episodes=1, checkpoint_dir=tmp_path, checkpoint_every=60)
    trained(name, steps=160, checkpoint_dir=tmp_path)
    assert torch.equal(torch.get_rng_state(), before)


def test_runs_in_several_threads_do_not_change_each_other() -> None:
    names = ["uncertain ppo", "uncertain sac", "ppo"]
    alone = {name: trained(name) for name in names}
    together: dict[str, bytes] = {}
    threads = [threading.Thread(target=lambda name=name: together.update({name: trained(name)})) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


@pytest.mark.parametrize("name", AGENTS)
def test_a_resumed_run_continues_with_the_same_numbers(name: str, tmp_path: pathlib.Path) -> None:
    whole = trained(name, checkpoint_dir=tmp_path / "whole", checkpoint_every=60)
    trained(name, steps=60, checkpoint_dir=tmp_path / "parts", checkpoint_every=60)
    torch.manual_seed(9)
    assert trained(name, checkpoint_dir=tmp_path / "parts", checkpoint_every=60) == whole


def actions(agent: Any, spec: Any, seeds: tuple[int, ...]) -> Any:
    """The first actions of a policy in a process in which PyTorch's generator has always the same seed."""
    torch.manual_seed(0)
    learner = agent.learner(spec, 1)
    policy = agent.policy(spec, rl.PolicyContext(True, seeds, 0, len(seeds)))
    policy.load({name: value.numpy() for name, value in learner.weights().items()})
    chosen = [policy.act(np.zeros((len(seeds), *spec.observations.shape), np.float32), np.zeros(len(seeds), np.bool_)) for _ in range(10)]
    return [(of[0] if isinstance(of, tuple) else of).tolist() for of in chosen]


@pytest.mark.parametrize("name", AGENTS)
def test_workers_explore_differently(name: str) -> None:
    agent, environment = AGENTS[name]
    spec = rl.make_environment_spec(rl.make(environment))
    first, second = (actions(agent, spec, seeds) for seeds in ((1, 2, 3, 4), (5, 6, 7, 8)))
    assert first != second and first == actions(agent, spec, (1, 2, 3, 4))
    rows = list(zip(*first, strict=True))
    assert len(set(map(str, rows))) == len(rows), "the rows of a worker differ, too"


@pytest.mark.parametrize("name", ["ppo", "sac", "world_model"])
def test_the_workers_of_an_example_explore_differently(name: str) -> None:
    make, environment, *_ = SHORT[name]
    agent, spec = make(example(name)), rl.make_environment_spec(rl.make(environment))
    first, second = (actions(agent, spec, seeds) for seeds in ((1, 2, 3, 4), (5, 6, 7, 8)))
    assert first != second and first == actions(agent, spec, (1, 2, 3, 4))


class Recorded(gymnasium.Env[Any, Any]):
    """Records its actions in a file of its process."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        with (pathlib.Path(os.environ[FOLDER]) / str(os.getpid())).open("a") as file:
            file.write(f"{action[0]}\n")
        return np.zeros(2, np.float32), 0.0, False, False, {}


def test_worker_processes_explore_differently(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    rl.run(rlt.PPO(**PPO), Recorded, steps=32, on="processes", actors=2, seed=1, progress=False)
    # The workers begin with the same weights and observations, so only their noise differs.
    first, second = (path.read_text().split()[:10] for path in tmp_path.iterdir())
    assert len(first) == len(second) == 10 and not set(first) & set(second) - {"-1.0", "1.0"}


def drawn() -> list[Any]:
    """A number of each kind of operation that draws."""
    ones, probs = torch.ones(3, 4), torch.tensor([0.2, 0.3, 0.5])
    return [
        torch.rand(2), torch.randn(2), torch.rand_like(ones), torch.randint(9, (9,)), torch.randint(2, 9, (9,)), torch.randperm(9),
        torch.normal(ones, ones), torch.bernoulli(0.5 * ones), torch.poisson(ones), torch.multinomial(probs, 1), ones.clone().exponential_(),
        nn.functional.dropout(ones), nn.functional.rrelu(-ones, training=True), torch.native_dropout(ones, 0.5, True)[0],
        torch.distributions.Gamma(ones, ones).sample(), torch.distributions.Dirichlet(probs).sample(), nn.Linear(2, 2).weight.detach(),
        nn.LSTM(4, 5, 2, dropout=0.5)(ones)[0].detach(),
    ]  # fmt: skip


def test_a_stream_serves_all_operations() -> None:
    before, streams = torch.get_rng_state(), (Stream(1), Stream(1), Stream(2))
    first, again, other = (stream.made(drawn) for stream in streams)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(one, two) for one, two in zip(first, again, strict=True))
    assert sum(torch.equal(one, two) for one, two in zip(first, other, strict=True)) <= 3
    saved = streams[0].state_dict()
    following = streams[0].made(drawn)
    streams[2].load_state_dict(saved)
    assert all(torch.equal(one, two) for one, two in zip(following, streams[2].made(drawn), strict=True))


def test_given_generators_are_used_within_a_stream() -> None:
    stream, own = Stream(1), torch.Generator().manual_seed(7)
    found = stream.made(lambda: torch.rand(3, generator=own))
    assert torch.equal(found, torch.rand(3, generator=torch.Generator().manual_seed(7)))


def test_functions_that_draw_nothing_are_redirected_only_once() -> None:
    stream, modes = Stream(1), []

    def depth() -> int:
        return torch._C._len_torch_dispatch_stack()

    for name, draws in (("plain", False), ("noisy", True)):
        for _ in range(3):
            with stream.given(name):
                torch.rand(1) if draws else torch.ones(1)
                modes.append(depth())
    assert modes == [1, 0, 0, 1, 1, 1]
