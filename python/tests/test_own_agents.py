"""User-defined agents, run by ``relive.rl.run``."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import pathlib
import pickle
import re
import subprocess
import sys
import xml.etree.ElementTree
from typing import Any, ClassVar

import numpy as np
import pytest

import relive
from relive import rl
from relive.rl import loggers


class RandomPolicy:
    """Acts at random, and returns the number of its steps in each row as an extra."""

    extras = {"count": np.int64, "state": (np.float32, (2,))}

    def __init__(self, context: rl.PolicyContext, num_actions: int) -> None:
        self.rng, self.num_actions = context.rng(), num_actions
        self.count = np.zeros(context.rows, np.int64)
        self.loaded: Any = None

    def act(self, observations: Any, starts: Any) -> Any:
        self.count = np.where(starts, 0, self.count + 1)
        actions = self.rng.integers(self.num_actions, size=len(observations))
        return actions, {"count": self.count, "state": np.stack([self.count, -self.count], -1).astype(np.float32)}

    def load(self, weights: Any) -> None:
        self.loaded = weights

    def state(self) -> Any:
        return {"rng": self.rng.bit_generator.state, "count": self.count}

    def restore(self, state: Any) -> None:
        self.rng.bit_generator.state, self.count = state["rng"], state["count"]


class SummingLearner:
    """Stores its batches, and sums up their values."""

    def __init__(self) -> None:
        self.batches: list[Any] = []
        self.sum = np.zeros(2, np.float64)

    def learn(self, batch: Any) -> Any:
        self.batches.append(batch)
        if isinstance(batch, rl.Rollout):
            self.sum += [batch.rewards.sum(), batch.observations.sum()]
            return {"reward": batch.rewards.mean()}
        self.sum += [batch.data["reward"].sum(), batch.data["observation"].sum()]
        return rl.Learnt({"reward": batch.data["reward"].mean()}, priorities=np.ones(len(batch.info.key)))

    def weights(self) -> Any:
        return {"sum": self.sum, "group": {"half": self.sum / 2}}

    def state(self) -> Any:
        return self.sum

    def restore(self, state: Any) -> None:
        self.sum = state


@dataclasses.dataclass
class Agent:
    experience: Any
    rate: float = 0.5
    made: list[Any] = dataclasses.field(default_factory=list)

    settings = property(lambda self: {"rate": self.rate})

    def policy(self, spec: rl.EnvironmentSpec, context: rl.PolicyContext) -> Any:
        self.made.append(RandomPolicy(context, spec.actions.num_values))
        return self.made[-1]

    def learner(self, spec: rl.EnvironmentSpec, seed: int) -> Any:
        self.made.append(SummingLearner())
        return self.made[-1]

    def batches(self) -> list[Any]:
        (learner,) = (made for made in self.made if isinstance(made, SummingLearner))
        return learner.batches


TRANSITIONS = rl.Transitions(batch_size=8, min_size=20, max_size=200, priority_exponent=0.6)


def test_arrays_beside_a_rollout_have_its_steps() -> None:
    flags = np.zeros((5, 2), np.bool_)
    zeros = np.zeros((5, 2), np.float32)
    rollout = rl.Rollout(np.zeros((6, 2, 3)), zeros, {}, rewards=zeros, discounts=zeros, starts=flags, ends=flags)
    assert rollout.steps(returns=zeros)["returns"].shape == (10,)
    with pytest.raises(ValueError, match=r"returns must have the leading dimensions \(5, 2\), for steps and environments, but it has \(6, 2\)"):
        rollout.steps(returns=np.zeros((6, 2)))


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
    batch = agent.batches()[-1]
    assert batch.data["observation"].shape[0] == 4 and batch.data["observation"].shape[2:] == (10, 5)
    lengths = batch.lengths["reward"]
    assert lengths.max() <= 7
    for row, length in enumerate(lengths):
        counts = batch.data["extras"]["count"][row, :length]
        # The row of an episode's last observation has zeros.
        assert (np.diff(counts[:-1]) == 1).all() and counts[-1] in (0, counts[-2] + 1)
        assert (batch.data["extras"]["state"][row, :length, 1] == -counts).all()


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


@pytest.mark.parametrize("experience", [rl.Rollouts(steps=10, environments=2), TRANSITIONS])
def test_a_resumed_run_gives_identical_results(tmp_path: pathlib.Path, experience: Any) -> None:
    def run(folder: str, *steps: int) -> Any:
        for count in steps:
            result = rl.run(
                Agent(experience), "catch/0", steps=count, checkpoint_dir=tmp_path / folder, checkpoint_every=100
            )
        return result.policy.to_bytes()

    assert run("whole", 500) == run("parts", 200, 300, 500)


def test_a_run_resumes_only_with_the_same_settings(tmp_path: pathlib.Path) -> None:
    rl.run(Agent(TRANSITIONS), "catch/0", steps=100, checkpoint_dir=tmp_path, checkpoint_every=50)
    with pytest.raises(ValueError, match="rate"):
        rl.run(Agent(TRANSITIONS, rate=0.25), "catch/0", steps=200, checkpoint_dir=tmp_path)


def test_object_settings_have_stable_names_across_runs(tmp_path: pathlib.Path) -> None:
    for steps in (60, 120):
        result = rl.run(Agent(TRANSITIONS, rate=[object(), len, Agent]), "catch/0", steps=steps, checkpoint_dir=tmp_path, checkpoint_every=50)  # type: ignore[arg-type]
        assert result.env_steps >= steps


def test_arrays_and_cycles_may_be_settings(tmp_path: pathlib.Path) -> None:
    large, cyclic = np.zeros(200_000), dataclasses.make_dataclass("Cyclic", ["itself"])(None)
    cyclic.itself = cyclic
    for steps, settings in ((60, [large, cyclic]), (120, [large.copy(), cyclic])):
        rl.run(Agent(TRANSITIONS, rate=settings), "catch/0", steps=steps, checkpoint_dir=tmp_path, checkpoint_every=50)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="rate"):
        rl.run(Agent(TRANSITIONS, rate=np.ones(200_000)), "catch/0", steps=200, checkpoint_dir=tmp_path)  # type: ignore[arg-type]


def test_policies_are_saved_and_loaded_with_their_agent(tmp_path: pathlib.Path) -> None:
    result = rl.run(Agent(TRANSITIONS), "catch/0", steps=100)
    assert result.policy.agent == "Agent" and result.policy.num_actions == 3
    result.policy.save(tmp_path / "policy.safetensors")
    loaded = rl.Policy.load(tmp_path / "policy.safetensors", agent=Agent(TRANSITIONS))
    observation = np.zeros((10, 5), np.float32)
    assert [loaded(observation) for _ in range(5)] == [result.policy(observation) for _ in range(5)]
    with pytest.raises(ValueError, match="agent is Agent, but it must be one of Relive's; for an agent of your own, pass the agent as `agent=`"):
        rl.Policy.load(tmp_path / "policy.safetensors")

    class Other(Agent):
        pass

    with pytest.raises(ValueError, match="agent is Agent, but it must be Other, the agent that was passed as `agent=`"):
        rl.Policy.load(tmp_path / "policy.safetensors", agent=Other(TRANSITIONS))


def test_saved_policies_keep_the_structure_of_observations(tmp_path: pathlib.Path) -> None:
    gymnasium = pytest.importorskip("gymnasium")
    box = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    space = gymnasium.spaces.Dict({"goal": box, "view": gymnasium.spaces.Tuple((box, gymnasium.spaces.Discrete(3)))})

    class Grid(gymnasium.Env):  # type: ignore[name-defined, misc]
        observation_space, action_space = space, gymnasium.spaces.Discrete(2)

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return {"goal": np.zeros(2, np.float32), "view": (np.ones(2, np.float32), 1)}, {}

        def step(self, action: Any) -> Any:
            return self.reset()[0], 1.0, True, False, {}

    seen = []

    class Policy:
        def act(self, observations: Any, starts: Any) -> Any:
            seen.append((sorted(observations), type(observations["view"]), observations["view"][0].shape[1:]))
            return np.zeros(len(starts), np.int64)

        def load(self, weights: Any) -> None: ...

    class Learner:
        def learn(self, batch: Any) -> Any: ...

        def weights(self) -> Any:
            return {}

    class Structured:
        experience = rl.Rollouts(steps=4)

        def policy(self, spec: Any, context: Any) -> Any:
            assert set(spec.observations) == {"goal", "view"} and isinstance(spec.observations["view"], tuple)
            return Policy()

        def learner(self, spec: Any, seed: int) -> Any:
            return Learner()

    result = rl.run(Structured(), Grid, steps=8)
    result.policy.save(tmp_path / "policy.safetensors")
    for policy in (result.policy, rl.Policy.load(tmp_path / "policy.safetensors", agent=Structured())):
        assert policy(Grid().reset()[0]) == 0
    assert set(map(str, seen)) == {str((["goal", "view"], tuple, (2,)))}


def test_policies_of_custom_agents_are_pickled_with_their_agent() -> None:
    result = rl.run(Agent(TRANSITIONS), "catch/0", steps=100)
    copy = pickle.loads(pickle.dumps(result)).policy
    observation = np.zeros((10, 5), np.float32)
    assert [copy(observation) for _ in range(5)] == [result.policy(observation) for _ in range(5)]


class Counting:
    """A policy whose first action value is the number of its calls. It keeps this number in `memory`."""

    extras: ClassVar[Any] = {"values": (np.float32, (3,))}

    def __init__(self) -> None:
        self.memory: Any = np.zeros(1)

    def act(self, observations: Any, starts: Any) -> Any:
        self.memory[0] += 1
        return np.zeros(len(observations), np.int64), {"values": np.full((len(observations), 3), self.memory[0], np.float32)}

    def load(self, weights: Any) -> None: ...


class Keeping(Counting):
    def state(self) -> Any:
        # Not a copy.
        return self.memory

    def restore(self, state: Any) -> None:
        self.memory = state


class WithoutRestore(Counting):
    def state(self) -> Any:
        return self.memory


class WithAttribute(Counting):
    state = "the name of an attribute"

    def restore(self, state: Any) -> None:
        raise AssertionError("there is no state")


class Unsaveable(Keeping):
    def state(self) -> Any:
        return {"memory": self.memory, "function": len}


class Unrestorable(Keeping):
    def restore(self, state: Any) -> None:
        raise NotImplementedError


@dataclasses.dataclass
class AgentOf(Agent):
    acts: Any = Keeping

    def policy(self, spec: rl.EnvironmentSpec, context: rl.PolicyContext) -> Any:
        return self.acts()


SEEN = np.zeros((10, 5), np.float32)


def policy_of(acts: Any) -> rl.Policy:
    return rl.run(AgentOf(TRANSITIONS, acts=acts), "catch/0", steps=10, progress=False).policy


def test_the_values_of_a_custom_policy_leave_its_memory_alone() -> None:
    policy = policy_of(Keeping)
    policy(SEEN)
    assert policy.values(np.stack([SEEN] * 2)).tolist() == [[2.0] * 3] * 2
    assert policy.values(SEEN).tolist() == [2.0] * 3
    policy(SEEN)
    assert policy.values(SEEN).tolist() == [3.0] * 3


@pytest.mark.parametrize("acts", [Counting, WithoutRestore, WithAttribute])
def test_values_need_no_state(acts: Any, caplog: pytest.LogCaptureFixture) -> None:
    policy = policy_of(acts)
    assert [policy.values(SEEN).tolist() for _ in range(2)] == [[1.0] * 3, [2.0] * 3]
    assert not [record for record in caplog.records if "values()" in record.getMessage()]


@pytest.mark.parametrize(("acts", "said"), [(Unsaveable, r"Unsaveable\.state\(\)"), (Unrestorable, r"Unrestorable\.restore\(\)")])
def test_values_are_returned_although_a_state_cannot_be_saved_or_restored(acts: Any, said: str, caplog: pytest.LogCaptureFixture) -> None:
    policy = policy_of(acts)
    assert [policy.values(SEEN).tolist() for _ in range(3)] == [[1.0] * 3, [2.0] * 3, [3.0] * 3]
    warnings = [record.getMessage() for record in caplog.records if "values()" in record.getMessage()]
    assert len(warnings) == 1 and re.match(f"{said} failed, so values\\(\\) may change the actions that follow", warnings[0]), warnings


def test_a_state_that_cannot_be_saved_still_fails_a_checkpoint(tmp_path: pathlib.Path) -> None:
    with pytest.raises(TypeError, match=r"state\['function'\]"):
        rl.run(AgentOf(TRANSITIONS, acts=Unsaveable), "catch/0", steps=10, checkpoint_dir=tmp_path, progress=False)


def test_a_result_can_resume_its_run(tmp_path: pathlib.Path) -> None:
    result = rl.run(Agent(TRANSITIONS), "catch/0", steps=200, checkpoint_dir=tmp_path, checkpoint_every=100)
    assert result.resume(steps=400).env_steps >= 400
    whole = rl.run(Agent(TRANSITIONS), "catch/0", steps=400, checkpoint_dir=tmp_path / "other", checkpoint_every=100)
    assert result.resume(steps=400).policy.to_bytes() == whole.policy.to_bytes()
    with pytest.raises(ValueError, match="the run was not saved; give it a checkpoint_dir"):
        rl.run(Agent(TRANSITIONS), "catch/0", steps=100).resume(steps=200)


def test_a_result_is_plotted(tmp_path: pathlib.Path) -> None:
    result = rl.run(Agent(TRANSITIONS), "catch/0", steps=300, evaluate_every=100, evaluation_episodes=2)
    result.plot().save(tmp_path / "curve.svg")
    picture = (tmp_path / "curve.svg").read_text()
    assert xml.etree.ElementTree.fromstring(picture).tag.endswith("svg") and picture.count("<polyline") == 2
    assert "steps in the environment" in result.plot()._repr_svg_()


def test_a_run_without_episodes_has_no_mean_return() -> None:
    result = rl.run(Agent(TRANSITIONS), "catch/0", steps=5)
    assert not len(result.episodes) and np.isnan(result.mean_return_last_100)
    assert xml.etree.ElementTree.fromstring(result.plot().svg).tag.endswith("svg")


def test_several_runs_are_plotted_in_one_figure() -> None:
    results = [rl.run(Agent(TRANSITIONS), "catch/0", steps=300, seed=seed, evaluate_every=100, evaluation_episodes=2) for seed in (1, 2)]
    seeds = rl.plot({"two <seeds>": results, "one": results[0]}).svg
    assert xml.etree.ElementTree.fromstring(seeds).tag.endswith("svg")
    assert (seeds.count("<polyline"), seeds.count("<polygon")) == (2, 1) and "two &lt;seeds&gt;" in seeds
    assert rl.plot(results, of="evaluation").svg.count("<polygon") == 1
    with pytest.raises(ValueError, match="the runs of 'none' have no episodes of evaluation"):
        rl.plot({"none": rl.run(Agent(TRANSITIONS), "catch/0", steps=30)}, of="evaluation")
    with pytest.raises(ValueError, match="there are no runs of 'none'"):
        rl.plot({"none": []})
    with pytest.raises(ValueError, match='of must be "training" or "evaluation", not \'eval\''):
        rl.plot(results, of="eval")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a curve is saved as SVG, but curve.png ends in .png; name it curve.svg"):
        rl.plot(results).save("curve.png")


def test_runs_without_common_steps_are_not_plotted_as_one_line(tmp_path: pathlib.Path) -> None:
    first = rl.run(Agent(TRANSITIONS), "catch/0", steps=100, checkpoint_dir=tmp_path)
    second = first.resume(steps=200)
    with pytest.raises(ValueError, match=r"the runs of 'both' have no steps in common: one begins at step 1\d\d, and another ends at step 9\d"):
        rl.plot({"both": [first, second]})
    assert rl.plot({"first": first, "second": second}).svg.count("<polyline") == 2


def test_custom_agents_act_in_python_environments() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    agent = Agent(rl.Rollouts(steps=20, environments=2))
    result = rl.run(agent, lambda seed: gymnasium.make("CartPole-v1"), steps=100)
    assert result.env_steps >= 100 and agent.batches()[0].observations.shape == (21, 2, 4)
    assert rl.run(Agent(rl.Rollouts(steps=20)), lambda: gymnasium.make("CartPole-v1"), steps=20).env_steps >= 20


def test_loggers_get_episodes_evaluations_and_learner_metrics(tmp_path: pathlib.Path) -> None:
    jsonl, table = loggers.JSONL(tmp_path / "new" / "log.jsonl"), loggers.CSV(tmp_path)
    rl.run(Agent(TRANSITIONS), "catch/0", steps=300, evaluate_every=100, evaluation_episodes=2, loggers=[jsonl, table])
    lines = [json.loads(line) for line in (tmp_path / "new" / "log.jsonl").read_text().splitlines()]
    assert {line["label"] for line in lines} == {"actor", "evaluator", "learner"}
    assert all("reward" in line and line["learner_steps"] % 100 == 0 for line in lines if line["label"] == "learner")
    rows = (tmp_path / "actor.csv").read_text().splitlines()
    assert len(rows) == 1 + sum(line["label"] == "actor" for line in lines)


class Closed:
    """A logger that knows whether it is closed."""

    is_closed = False

    def write(self, label: str, values: Any) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("wrong", [{"on": "processes"}, {"seed": -1}, {"steps": 0}, {"progress": "bars"}], ids=str)
def test_loggers_are_closed_if_a_run_cannot_start(wrong: Any) -> None:
    logger = Closed()
    with pytest.raises((TypeError, ValueError)):
        rl.run(Agent(TRANSITIONS), lambda seed: Catch(), loggers=[logger], **{"steps": 10, **wrong})
    assert logger.is_closed


@pytest.mark.parametrize("wrong", ["runs", 3, None, ["runs"], loggers.JSONL])
def test_values_that_are_no_loggers_are_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"loggers must be a list of loggers, such as \[loggers.JSONL\(path\)\], but got"):
        rl.run(Agent(TRANSITIONS), "catch/0", steps=10, loggers=wrong)


def test_a_single_logger_is_refused(tmp_path: pathlib.Path) -> None:
    with contextlib.closing(loggers.JSONL(tmp_path / "log.jsonl")) as logger, pytest.raises(TypeError, match="must be a list of loggers"):
        rl.run(Agent(TRANSITIONS), "catch/0", steps=10, loggers=logger)  # type: ignore[arg-type]


def test_rust_agents_are_run_in_the_same_way() -> None:
    result = rl.run(rl.PPO(num_steps=8), "CartPole-v1", steps=200)
    assert result.policy.agent == "ppo" and result.env_steps >= 200


def test_advantages_match_their_definition() -> None:
    rng = np.random.default_rng(0)
    steps, rows = 9, 3
    starts, ends = np.zeros((steps, rows), bool), np.zeros((steps, rows), bool)
    ends[3, 0], starts[4, 0], ends[8, 1] = True, True, True
    discounts = np.ones((steps, rows), np.float32)
    discounts[3, 0] = 0
    rollout = rl.Rollout(
        observations=None, actions=None, extras={}, rewards=rng.normal(size=(steps, rows)).astype(np.float32),
        discounts=discounts, starts=starts, ends=ends,
    )
    values = rng.normal(size=(steps + 1, rows)).astype(np.float32)
    advantages, returns = rollout.advantages(values, discount=0.9, gae_lambda=0.8)
    for row in range(rows):
        for time in range(steps):
            expected, weight, at = 0.0, 1.0, time
            while at < steps and not starts[at, row]:
                expected += weight * (rollout.rewards[at, row] + 0.9 * discounts[at, row] * values[at + 1, row] - values[at, row])
                weight *= 0.9 * 0.8 * discounts[at, row]
                if ends[at, row]:
                    break
                at += 1
            assert advantages[time, row] == pytest.approx(expected, abs=1e-5)
    assert np.allclose(returns, advantages + values[:-1])
    with pytest.raises(ValueError, match=r"values have the shape \(9, 3\), but those of the observations have \(10, 3\)"):
        rollout.advantages(values[1:])


def test_minibatches_have_every_step_once() -> None:
    steps = {"a": np.arange(10), "b": [np.arange(10) * 2]}
    parts = list(rl.minibatches(steps, 4, np.random.default_rng(0)))
    assert [len(part["a"]) for part in parts] == [4, 4, 2]
    assert sorted(np.concatenate([part["a"] for part in parts])) == list(range(10))
    assert all((part["b"][0] == 2 * part["a"]).all() for part in parts)
    for size, rng, kind, told in (
        (0, np.random.default_rng(0), ValueError, "size is 0, but it must be at least 1"),
        (2.5, np.random.default_rng(0), TypeError, r"size is 2\.5, but it must be a whole number"),
        (4, 7, TypeError, r"rng is 7, but it must be a random generator, such as numpy\.random\.default_rng\(0\)"),
    ):
        with pytest.raises(kind, match=told):
            rl.minibatches(steps, size, rng)  # type: ignore[arg-type]


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
        "    def weights(self):\n        return {'w': np.zeros(1)}\n"
        "class Agent:\n"
        "    experience = rl.Transitions(batch_size=4, min_size=8, max_size=100)\n"
        "    def policy(self, spec, context):\n        return Policy()\n"
        "    def learner(self, spec, seed):\n        return Learner()\n"
        f"def train():\n    rl.run(Agent(), 'catch/0', steps=10**9, progress=False{options})\n"
        "threading.Thread(target=train, daemon=True).start()\nlearned.wait()\nsys.exit(7)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (7, "")


def test_tensorboard_shows_each_value_of_a_resumed_run_once(tmp_path: pathlib.Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")

    def run(steps: int, on_step: Any = None) -> None:
        options: dict[str, Any] = {"checkpoint_dir": tmp_path / "run", "checkpoint_every": 100, "loggers": [loggers.TensorBoard(tmp_path / "board")]}
        rl.run(Agent(TRANSITIONS), "catch/0", steps=steps, on_step=on_step, **options)

    left = iter(range(250))

    def killed(_: Any) -> None:
        next(left)

    with pytest.raises(StopIteration):
        run(400, killed)
    run(400)
    events = accumulator.EventAccumulator(str(tmp_path / "board"), size_guidance={"scalars": 0})
    events.Reload()
    steps = [event.step for event in events.Scalars("actor/episode_return")]
    assert steps == sorted(set(steps)) and steps[-1] > 300


ASKED_WHILE_IT_ACTS = """
import sys, threading
sys.path.insert(0, sys.argv[1])
from test_own_agents import TRANSITIONS, Agent, RandomPolicy
from relive import rl
import numpy as np

policy = rl.run(Agent(TRANSITIONS), "catch/0", steps=30).policy
acting, go_on, act = threading.Event(), threading.Event(), RandomPolicy.act

def slow(self, *args):
    acting.set()
    assert go_on.wait(30)
    return act(self, *args)

RandomPolicy.act = slow
acts = threading.Thread(target=policy, args=(np.zeros((10, 5), np.float32),))
asks = threading.Thread(target=lambda: print(policy.num_actions))
acts.start()
assert acting.wait(30)
asks.start()
go_on.set()
asks.join(30)
acts.join(30)
"""


def test_a_policy_may_be_called_while_another_thread_acts_with_it() -> None:
    program = [sys.executable, "-c", ASKED_WHILE_IT_ACTS, str(pathlib.Path(__file__).parent)]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout) == (0, "3\n"), ended.stderr
