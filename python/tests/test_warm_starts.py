"""Runs that begin with the learner of an earlier run."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import torch
from own_agents import TRANSITIONS, Agent

import relive.rl.torch as rlt
from relive import rl

SMALL = {"hidden": [16], "batch_size": 16, "min_replay_size": 50}


def weights(result: rl.TrainingResult) -> bytes:
    return result.policy.to_bytes()


def test_a_native_agent_is_fine_tuned_in_another_environment_with_other_settings(tmp_path: pathlib.Path) -> None:
    rl.DQN(**SMALL).train("catch/0", steps=500, checkpoint_dir=tmp_path / "catch")

    def begun(**options: Any) -> rl.TrainingResult:
        # The run is too short to learn.
        return rl.DQN(**SMALL, learning_rate=1e-5).train("catch_noise/3", steps=1, **options)

    warm, cold = begun(warm_start=tmp_path / "catch"), begun()
    assert (warm.env_steps, warm.learner_steps) == (1, 0)
    observation = rl.make("catch/0", seed=3).reset().observation
    trained = rl.DQN(**SMALL).train("catch/0", steps=500, checkpoint_dir=tmp_path / "catch").policy
    values = [policy.values(observation).tolist() for policy in (trained, warm.policy, cold.policy)]
    assert values[0] == values[1] != values[2]


class Annealed(rlt.Learner):
    """Adds to the parameter; the number of calls and the step size do not belong to what it has learned."""

    def __init__(self, lr: float) -> None:
        self.module, self.calls, self.memory = torch.nn.Linear(1, 1), 0, [1.0]
        self.optimizer = torch.optim.SGD(self.module.parameters(), lr=lr, momentum=0.5)

    def advance(self) -> None:
        self.calls += 1
        self.memory = [*self.memory, 2.0]
        rlt.step(self.optimizer, self.module.weight.sum())


def test_learners_in_torch_keep_their_own_counters_and_step_sizes() -> None:
    earlier, own = Annealed(0.5), Annealed(0.25)
    earlier.advance()
    own.warm_start(earlier.state())
    assert torch.equal(own.module.weight, earlier.module.weight)
    assert (own.calls, own.memory, own.optimizer.param_groups[0]["lr"]) == (0, [1.0, 2.0], 0.25)
    before = own.module.weight.item()
    own.advance()
    # The momentum of the earlier run goes on: half of its gradient is added to the new one.
    assert own.module.weight.item() == pytest.approx(before - 0.25 * 1.5)


def test_a_custom_learner_gets_the_earlier_state(tmp_path: pathlib.Path) -> None:
    first = rl.run(Agent(TRANSITIONS), "catch/0", steps=200, checkpoint_dir=tmp_path / "run")
    # These runs are too short to learn.
    warm = rl.run(Agent(TRANSITIONS, rate=0.25), "catch/0", steps=1, seed=2, warm_start=tmp_path / "run")
    cold = rl.run(Agent(TRANSITIONS, rate=0.25), "catch/0", steps=1, seed=2)
    assert weights(warm) != weights(cold)
    assert first.learner_steps > 0 == warm.learner_steps


def test_the_learner_of_a_schedule_may_define_its_own_warm_start(tmp_path: pathlib.Path) -> None:
    rl.run(Agent(TRANSITIONS), "catch/0", steps=200, checkpoint_dir=tmp_path / "run")
    given: list[Any] = []

    class Scheduled(Agent):
        name = "Agent"

        def learner(self, spec: Any, seed: int) -> Any:
            learner = super().learner(spec, seed)
            learner.warm_start = given.append
            return learner

    rl.run(Scheduled(TRANSITIONS), "catch/0", steps=100, warm_start=tmp_path / "run")
    assert len(given) == 1


def test_what_does_not_fit_is_named(tmp_path: pathlib.Path) -> None:
    rl.DQN(**SMALL).train("catch/0", steps=100, checkpoint_dir=tmp_path)
    with pytest.raises(ValueError, match="agent: the checkpoint has dqn, this run has ppo; a warm start needs the same agent"):
        rl.PPO().train("catch/0", steps=100, warm_start=tmp_path)
    with pytest.raises(ValueError, match="networks of the same shapes"):
        rl.DQN(**{**SMALL, "hidden": [17]}).train("catch/0", steps=100, warm_start=tmp_path)
    with pytest.raises(ValueError, match="missing, but it must be a folder with the checkpoints of a run"):
        rl.DQN().train("catch/0", steps=100, warm_start=tmp_path / "missing")
    with pytest.raises(TypeError, match="warm_start is 3, but it must be the path of a folder"):
        rl.DQN().train("catch/0", steps=100, warm_start=3)  # type: ignore[arg-type]
