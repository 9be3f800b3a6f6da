"""Runs with several learners, each in its own process."""

from __future__ import annotations

import os
import pathlib
import re
import signal
from typing import Any

import numpy as np
import pytest
import torch

from relive import rl
from relive.rl import torch as rlt


class Policy(rlt.Policy):
    def act(self, observations: Any, starts: Any) -> Any:
        return self.module(torch.as_tensor(observations, dtype=torch.float32).flatten(1)).argmax(1)


class Learner(rlt.Learner):
    """Learns with the mean of all gradients, and writes every version of its weights to its rank's file."""

    def __init__(self, folder: pathlib.Path, *, ends: bool) -> None:
        torch.manual_seed(os.getpid())
        self.module = torch.nn.Linear(50, 3)
        self.optimizer = torch.optim.SGD(self.module.parameters(), 0.01)
        self._folder, self._ends, self._ring, self._rank = folder, ends, None, 0

    def share(self, rank: int, ranks: int, address: str) -> None:
        self._ring = rl.AllReduce(rank, ranks, address)
        self._rank = rank

    def learn(self, rollout: rl.Rollout) -> dict[str, float]:
        if self._ends and self._rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        steps = rlt.tensors(rollout.steps(rewards=rollout.rewards))
        loss = self.module(steps["observations"].flatten(1)).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        gradients = [parameter.grad.numpy() for parameter in self.module.parameters()]
        if self._ring is not None:
            self._ring.mean(gradients)
        self.optimizer.step()
        with (self._folder / f"rank-{self._rank}").open("ab") as file:
            np.save(file, self.module.weight.detach().numpy())
        return {"loss": float(loss.detach()), "columns": rollout.rewards.shape[1]}


class Agent:
    experience = rl.Rollouts(steps=8, environments=4)

    def __init__(self, folder: pathlib.Path, *, ends: bool = False) -> None:
        self.folder, self.ends = folder, ends

    def policy(self, spec: Any, context: Any) -> Policy:
        return Policy(torch.nn.Linear(50, 3))

    def learner(self, spec: Any, seed: int) -> Any:
        return Learner(self.folder, ends=self.ends)


class LoneLearner(Learner):
    share = None  # type: ignore[assignment]


class LoneAgent(Agent):
    def learner(self, spec: Any, seed: int) -> Any:
        return LoneLearner(self.folder, ends=False)


def weights(path: pathlib.Path) -> list[Any]:
    with path.open("rb") as file:
        found = []
        while file.read(1):
            file.seek(-1, os.SEEK_CUR)
            found.append(np.load(file))
        return found


@pytest.mark.parametrize("on", ["threads", "processes"])
def test_custom_learners_have_equal_weights_after_each_step(on: Any, tmp_path: pathlib.Path) -> None:
    result = rl.run(Agent(tmp_path), "catch/0", steps=500, on=on, actors=2, learners=2)
    assert result.is_complete and result.learner_steps > 10
    first, second = weights(tmp_path / "rank-0"), weights(tmp_path / "rank-1")
    # The first learner may report one step more than the others.
    assert abs(len(first) - len(second)) <= 1 and min(len(first), len(second)) > 10
    for mine, others in zip(first, second, strict=False):
        assert np.array_equal(mine, others)


def test_agents_in_rust_learn_together(tmp_path: pathlib.Path) -> None:
    agent = rl.DQN(rl.DQNConfig(batch_size=16, min_replay_size=50, samples_per_insert=4.0))
    result = rl.run(agent, "catch/0", steps=1_000, actors=1, learners=2, checkpoint_dir=tmp_path)
    assert result.is_complete and abs(result.samples_per_insert - 4.0) < 0.5
    assert result.learner_steps < 1_000 * 4 / 16, "a step has the batches of both"
    again = result.resume(steps=1_400)
    assert again.is_complete and again.learner_steps > result.learner_steps


def test_a_killed_learner_ends_the_run(tmp_path: pathlib.Path) -> None:
    with pytest.raises(RuntimeError, match=r"member 1 \(|learner 1"):
        rl.run(Agent(tmp_path, ends=True), "catch/0", steps=10**9, actors=1, learners=2)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"learners": 0}, "learners is 0, but it must be at least 1"),
        ({"learners": 2, "actors": 0}, "learners is 2, but it must be 1 without actors"),
        ({"learners": 2, "on": "serial"}, "learners is 2, but it must be 1 with on='serial'"),
    ],
)
def test_settings_are_checked(options: Any, text: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        rl.run(Agent(tmp_path), "catch/0", steps=100, **options)


def test_a_learner_without_share_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(TypeError, match=r"has no method share\(rank, ranks, address\)"):
        rl.run(LoneAgent(tmp_path), "catch/0", steps=100, actors=1, learners=2)
