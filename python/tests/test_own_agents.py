"""User-defined agents, run by ``relive.rl.run``."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from own_agents import TRANSITIONS, Agent, RandomPolicy, SummingLearner

import relive
from relive import rl


def test_rollouts_match_the_environment() -> None:
    agent = Agent(rl.Rollouts(steps=12, environments=3))
    result = rl.run(agent, "catch/0", steps=100, seed=3)
    assert result.learner_steps == len(agent.batches()) == 4 and result.env_steps >= 100
    for rollout in agent.batches():
        assert rollout.observations.shape == (13, 3, 10, 5) and rollout.actions.shape == (12, 3)
        assert rollout.rewards.dtype == rollout.discounts.dtype == np.float32
        assert rollout.extras["count"].shape == (12, 3) and rollout.extras["state"].shape == (12, 3, 2)
        # An episode of catch has nine steps; the step after its last resets.
        assert np.array_equal(rollout.starts[1:], rollout.ends[:-1])
        assert (rollout.discounts[rollout.ends] == 0).all() and (rollout.discounts[~rollout.ends] == 1).all()
        assert (rollout.rewards[~rollout.ends] == 0).all() and (np.abs(rollout.rewards[rollout.ends]) == 1).all()
        # The observation after a reset shows a ball in the first row.
        seen = rollout.observations[1:][rollout.starts]
        assert (seen[:, 0].sum(-1) == 1).all()


def test_a_policy_is_told_where_episodes_start() -> None:
    agent = Agent(rl.Rollouts(steps=30))
    rl.run(agent, "catch/0", steps=60)
    counts = np.concatenate([rollout.extras["count"][:, 0] for rollout in agent.batches()])
    # Nine actions, and the ignored action for the last observation.
    assert counts[:22].tolist() == [*range(10), *range(10), 0, 1]


def test_transitions_have_named_columns() -> None:
    agent = Agent(TRANSITIONS)
    result = rl.run(agent, "catch/0", steps=200)
    assert result.samples_per_insert == pytest.approx(8, abs=1.5)
    batch = agent.batches()[-1]
    assert isinstance(batch, relive.Batch)
    assert sorted(batch.data) == ["action", "discount", "extras", "next_observation", "observation", "reward"]
    assert batch.data["observation"].shape == (8, 10, 5) and batch.data["extras"]["state"].shape == (8, 2)
    assert batch.weights(0.4).shape == (8,)


@pytest.mark.parametrize("n_step", [1, 3])
def test_discounts_of_transitions_have_all_powers(n_step: int) -> None:
    agent = Agent(rl.Transitions(batch_size=32, min_size=50, n_step=n_step, discount=0.9))
    rl.run(agent, "catch/0", steps=200)
    found = np.unique(np.concatenate([batch.data["discount"] for batch in agent.batches()]))
    # Transitions at the end of an episode span fewer steps.
    assert found == pytest.approx([0.0, *(0.9**steps for steps in range(n_step, 0, -1))])


def test_sequences_have_the_recurrent_state_of_each_row() -> None:
    agent = Agent(rl.Sequences(length=7, period=3, batch_size=4, min_size=5, max_size=100))
    rl.run(agent, "catch/0", steps=300)
    assert {batch.data["observation"].shape for batch in agent.batches()} == {(4, 7, 10, 5)}
    batch = agent.batches()[-1]
    lengths = batch.lengths["reward"]
    assert lengths.max() <= 7
    for row, length in enumerate(lengths):
        assert not batch.data["observation"][row, length:].any() and not batch.data["reward"][row, length:].any()
        counts = batch.data["extras"]["count"][row, :length]
        # The row of an episode's last observation has zeros.
        assert (np.diff(counts[:-1]) == 1).all() and counts[-1] in (0, counts[-2] + 1)
        assert (batch.data["extras"]["state"][row, :length, 1] == -counts).all()


def test_on_batch_sees_sequences_of_the_same_length_as_the_learner() -> None:
    agent = Agent(rl.Sequences(length=40, batch_size=4, min_size=5, max_size=100))
    seen: list[Any] = []
    rl.run(agent, "catch/0", steps=300, on_batch=lambda batch, _: seen.append(batch))
    for batches in (seen, agent.batches()):
        assert {batch.data["observation"].shape for batch in batches} == {(4, 40, 10, 5)}
        # Catch's episodes are shorter.
        assert max(batch.lengths["reward"].max() for batch in batches) < 40


def test_policies_get_the_weights_in_their_structure_and_share_them() -> None:
    agent = Agent(rl.Rollouts(steps=5, environments=2))
    rl.run(agent, "catch/0", steps=100, actors=2)
    acting = [made for made in agent.made if isinstance(made, RandomPolicy) and made.loaded is not None]
    assert len(acting) >= 2
    for policy in acting:
        assert np.array_equal(policy.loaded["group"]["half"] * 2, policy.loaded["sum"])
        with pytest.raises(ValueError, match="read-only"):
            policy.loaded["sum"][0] = 1.0
    # The result's policy has the newest weights.
    (learner,) = (made for made in agent.made if isinstance(made, SummingLearner))
    assert np.array_equal(acting[-1].loaded["sum"], learner.sum)


def test_a_run_that_ends_before_the_learner_starts_is_told(caplog: pytest.LogCaptureFixture) -> None:
    for steps, is_told in ((20, True), (200, False)):
        caplog.clear()
        rl.DQN(batch_size=4, min_replay_size=50).train("catch/0", steps=steps)
        assert any("before the learner's first step" in record.getMessage() for record in caplog.records) == is_told


@pytest.mark.parametrize("learns", [True, False])
def test_weights_that_do_not_change_are_told(caplog: pytest.LogCaptureFixture, learns: bool) -> None:
    class Constant(SummingLearner):
        def weights(self) -> Any:
            return super().weights() if learns else {"sum": np.zeros(2)}

    class Constants(Agent):
        def learner(self, spec: rl.EnvironmentSpec, seed: int) -> Any:
            return Constant()

    rl.run(Constants(rl.Rollouts(steps=5)), "catch/0", steps=300)
    told = [record.getMessage() for record in caplog.records if "the same weights" in record.getMessage()]
    assert [text[: text.index(":")] for text in told] == (
        [] if learns else ["test_weights_that_do_not_change_are_told.<locals>.Constant.weights() returns the same weights after 20 learner steps"]
    )


@pytest.mark.parametrize("exponent", [None, 0.6])
def test_priorities_without_effect_are_told_once(caplog: pytest.LogCaptureFixture, exponent: float | None) -> None:
    rl.run(Agent(rl.Transitions(batch_size=8, min_size=20, priority_exponent=exponent)), "catch/0", steps=100)
    told = [record for record in caplog.records if record.getMessage().startswith("SummingLearner.learn() returned priorities, but")]
    assert len(told) == (exponent is None)


def test_each_actor_needs_an_environment() -> None:
    with pytest.raises(ValueError, match="actors is 3, but Agent.experience has 2 environments"):
        rl.run(Agent(rl.Rollouts(steps=5, environments=2)), "catch/0", steps=100, actors=3)


@pytest.mark.parametrize("actors", [1, 2, 3])
def test_an_on_policy_run_does_not_depend_on_the_number_of_actors(actors: int) -> None:
    runs = []
    for count in (0, actors):
        agent = Agent(rl.Rollouts(steps=8, environments=3))
        rl.run(agent, "catch/0", steps=200, actors=count, seed=5)
        runs.append([rollout.observations for rollout in agent.batches()])
    # A policy that acts for each row separately would not depend on the number of workers; this one draws for all rows
    # of a worker, so its results differ.
    assert len(runs[0]) == len(runs[1]) and runs[0][0].shape == runs[1][0].shape
    assert np.array_equal(runs[0][0][0], runs[1][0][0])


def test_custom_agents_act_in_python_environments() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    agent = Agent(rl.Rollouts(steps=20, environments=2))
    result = rl.run(agent, lambda seed: gymnasium.make("CartPole-v1"), steps=100)
    assert result.env_steps >= 100 and agent.batches()[0].observations.shape == (21, 2, 4)
    assert rl.run(Agent(rl.Rollouts(steps=20)), lambda: gymnasium.make("CartPole-v1"), steps=20).env_steps >= 20


def test_rust_agents_are_run_in_the_same_way() -> None:
    result = rl.run(rl.PPO(num_steps=8), "CartPole-v1", steps=200)
    assert result.policy.agent == "ppo" and result.env_steps >= 200


@pytest.mark.parametrize("options", ["", ", on='threads', actors=2"])
def test_a_program_ends_with_its_own_exit_code_while_a_daemon_thread_trains(options: str, tmp_path: pathlib.Path) -> None:
    script = tmp_path / "ends.py"
    script.write_text(
        "import os, sys, threading\nimport numpy as np\nfrom relive import rl\n"
        "learned, left = threading.Event(), iter(range(100))\n"
        "class Policy:\n"
        "    def act(self, observations, starts):\n        os.sched_yield()\n        return np.zeros(len(observations), np.int32)\n"
        "    def load(self, weights):\n        pass\n"
        "class Learner:\n"
        "    def learn(self, batch):\n        next(left, None) is None and learned.set()\n        os.sched_yield()\n        return {}\n"
        "    def weights(self):\n        return {}\n"
        "class Agent:\n"
        "    experience = rl.Transitions(batch_size=4, min_size=8, max_size=100)\n"
        "    def policy(self, spec, context):\n        return Policy()\n"
        "    def learner(self, spec, seed):\n        return Learner()\n"
        f"def train():\n    rl.run(Agent(), 'catch/0', steps=10**9, progress=False{options})\n"
        "threading.Thread(target=train, daemon=True).start()\nlearned.wait()\nsys.exit(7)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (7, "")
