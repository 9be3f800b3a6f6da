"""Several environments as rows: Gymnasium vector environments, lists of functions, and PettingZoo agents."""

from __future__ import annotations

import dataclasses
import logging
import pathlib
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pettingzoo
import pytest
from gymnasium import wrappers
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from relive import rl
from relive.rl.specs import difference
from relive.rl.vector import ProcessVectorEnv
from relive.specs import ArraySpec, BoundedArraySpec

PPO = rl.PPO(num_envs=3, num_steps=16, hidden=(16,))


def cart_pole() -> Any:
    return gymnasium.make("CartPole-v1", max_episode_steps=20)


class Walk(gymnasium.Env[Any, Any]):
    """Observes the number of its resets, the number of steps since the last reset, and its last action. Its episodes
    have 1, 2, …, ``longest`` steps in turn; those of even length terminate, and all others are truncated."""

    observation_space = Dict({"at": Box(0, 1000, (3,), np.float32), "begun": Discrete(1000)})
    action_space = Discrete(4, start=2)

    def __init__(self, longest: int = 5) -> None:
        self.begun, self.steps, self.action, self.longest = 0, 0, 0, longest

    def seen(self) -> Any:
        return {"at": np.array([self.begun, self.steps, self.action], np.float32), "begun": self.begun}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.begun, self.steps, self.action = self.begun + 1, 0, 0
        return self.seen(), {}

    def step(self, action: Any) -> Any:
        self.steps, self.action = self.steps + 1, int(action)
        length = 1 + self.begun % self.longest
        over = self.steps == length
        return self.seen(), float(self.action), over and length % 2 == 0, over and length % 2 == 1, {}


class Policy:
    """Acts at random, row by row."""

    def __init__(self, context: rl.PolicyContext, num_values: int) -> None:
        self.rngs = [np.random.default_rng(seed) for seed in context.seeds]
        self.num_values = num_values

    def act(self, observations: Any, starts: Any) -> Any:
        return np.array([rng.integers(self.num_values) for rng in self.rngs])

    def load(self, weights: Any) -> None:
        pass

    def state(self) -> Any:
        return [rng.bit_generator.state for rng in self.rngs]

    def restore(self, state: Any) -> None:
        for rng, saved in zip(self.rngs, state, strict=True):
            rng.bit_generator.state = saved


class Learner:
    """Stores its batches."""

    def __init__(self, kept: list[Any]) -> None:
        self.kept = kept
        self.sum = np.zeros(1)

    def learn(self, batch: Any) -> None:
        self.kept.append(batch)
        self.sum = self.sum + (batch.rewards.sum() if isinstance(batch, rl.Rollout) else batch.data["reward"].sum())

    def weights(self) -> Any:
        return self.sum

    def state(self) -> Any:
        return self.sum

    def restore(self, state: Any) -> None:
        self.sum = state


@dataclasses.dataclass
class Agent:
    experience: Any
    kept: list[Any] = dataclasses.field(default_factory=list)
    settings: Any = dataclasses.field(default_factory=dict)

    def policy(self, spec: rl.EnvironmentSpec, context: rl.PolicyContext) -> Any:
        return Policy(context, spec.actions.num_values)

    def learner(self, spec: rl.EnvironmentSpec, seed: int) -> Any:
        return Learner(self.kept)


def rollouts(env: Any, *, rows: int = 3, steps: int = 240, **options: Any) -> tuple[rl.TrainingResult, list[rl.Rollout]]:
    agent = Agent(rl.Rollouts(steps=20, environments=rows))
    return rl.run(agent, env, steps=steps, **options), agent.kept


def sync(mode: AutoresetMode, make: Callable[[], Any] = cart_pole, rows: int = 3) -> Callable[[int], Any]:
    return lambda seed: SyncVectorEnv([make] * rows, autoreset_mode=mode)


def same(one: list[rl.Rollout], other: list[rl.Rollout]) -> None:
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        for name in ("actions", "rewards", "discounts", "starts", "ends"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name), name)
        np.testing.assert_array_equal(a.observations, b.observations)


def check_walks(found: list[rl.Rollout]) -> None:
    """Checks that all steps are consistent with the environment."""
    learnt = 0
    for rollout in found:
        at, begun = rollout.observations["at"], rollout.observations["begun"]
        assert np.array_equal(at[..., 0], begun)
        for time, row in zip(*np.nonzero(~rollout.starts), strict=True):
            before, after = at[time, row], at[time + 1, row]
            length = 1 + before[0] % 5
            assert after.tolist() == [before[0], before[1] + 1, rollout.actions[time, row] + 2]
            assert rollout.rewards[time, row] == after[2]
            assert rollout.ends[time, row] == (after[1] == length)
            assert rollout.discounts[time, row] == float(after[1] != length or length % 2 == 1)
            learnt += 1
        # The step after the end of an episode only resets.
        assert np.array_equal(rollout.starts[1:], rollout.ends[:-1])
    assert learnt > 100


@pytest.mark.parametrize("actors", [0, 3])
def test_lists_and_vectors_are_single_environments(actors: int) -> None:
    result, expected = rollouts(lambda seed: cart_pole())
    assert any(rollout.starts.any() for rollout in expected)
    of_list, found = rollouts([cart_pole] * 3, actors=actors)
    same(expected, found)
    assert np.array_equal(result.episodes.returns, of_list.episodes.returns)
    rows = 1 if actors else 3
    of_vectors, found = rollouts(sync(AutoresetMode.NEXT_STEP, rows=rows), actors=actors)
    same(expected, found)
    assert np.array_equal(result.episodes.lengths, of_vectors.episodes.lengths)


def test_a_process_vector_serves_a_rust_agent_and_stays_open() -> None:
    expected = PPO.train(lambda seed: cart_pole(), steps=200)
    vector = ProcessVectorEnv([cart_pole] * 3, workers=2)
    try:
        found = PPO.train(vector, steps=200)
        assert found.policy.to_bytes() == expected.policy.to_bytes()
        assert vector.reset(seed=1)[0].shape == (3, 4)
    finally:
        vector.close()


def test_a_vector_is_created_several_times_for_more_rows() -> None:
    _, expected = rollouts(lambda seed: cart_pole(), rows=4)
    _, found = rollouts(sync(AutoresetMode.NEXT_STEP, rows=2), rows=4)
    same(expected, found)


def test_a_vector_with_one_random_generator_gets_one_seed() -> None:
    def make(seed: int) -> Any:
        vector = gymnasium.make_vec("CartPole-v1", num_envs=3)
        assert "reset" in vars(type(vector.unwrapped)), "the vector is not made of single environments"
        return wrappers.vector.RecordEpisodeStatistics(vector)

    (_, found), (_, again), (_, other) = rollouts(make), rollouts(make), rollouts(make, seed=7)
    same(found, again)
    assert any(rollout.starts.any() for rollout in found)
    assert not np.array_equal(found[0].observations, other[0].observations)


def test_a_wrapped_vector_gets_a_seed_for_each_row() -> None:
    _, expected = rollouts(sync(AutoresetMode.NEXT_STEP))
    _, found = rollouts(lambda seed: wrappers.vector.RecordEpisodeStatistics(SyncVectorEnv([cart_pole] * 3)))
    same(expected, found)


class Composed(VectorEnv[Any, Any, Any]):
    """A vector of one's own, which contains another one."""

    def __init__(self) -> None:
        self.inner = SyncVectorEnv([cart_pole] * 3)
        self.num_envs, self.metadata = 3, self.inner.metadata
        self.single_observation_space, self.single_action_space = self.inner.single_observation_space, self.inner.single_action_space
        self.observation_space, self.action_space = self.inner.observation_space, self.inner.action_space

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return self.inner.reset(seed=seed)

    def step(self, actions: Any) -> Any:
        return self.inner.step(actions)


def test_a_vector_of_ones_own_gets_a_seed_for_each_row() -> None:
    _, expected = rollouts(sync(AutoresetMode.NEXT_STEP))
    _, found = rollouts(lambda seed: Composed())
    same(expected, found)


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.DISABLED])
def test_rows_that_end_together_match_single_environments(mode: AutoresetMode) -> None:
    _, expected = rollouts(lambda seed: cart_pole(), rows=1)
    _, found = rollouts(sync(mode, rows=1), rows=1)
    same(expected, found)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_every_autoreset_mode_yields_only_environment_steps(mode: AutoresetMode) -> None:
    # Rows that end at different times.
    makes: list[Any] = [Walk, lambda: wound(1), lambda: wound(3)]
    _, found = rollouts(lambda seed: SyncVectorEnv(makes, autoreset_mode=mode))
    check_walks(found)
    _, single = rollouts(makes)
    check_walks(single)
    assert single[0].observations["at"][0].tolist() == found[0].observations["at"][0].tolist()


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_vector_that_skips_first_steps_is_logged(mode: AutoresetMode, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "relive"):
        rollouts(lambda seed: SyncVectorEnv([Walk] * 2, autoreset_mode=mode), rows=2)
    is_told = "does not learn from the first step of an episode while other rows continue" in caplog.text
    assert is_told == (mode != AutoresetMode.NEXT_STEP)


def wound(begun: int) -> Walk:
    walk = Walk()
    walk.begun = begun
    return walk


def test_async_vectors_with_same_step_autoreset_are_supported() -> None:
    made = []

    def make(seed: int) -> Any:
        made.append(AsyncVectorEnv([Walk] * 2, context="spawn", autoreset_mode=AutoresetMode.SAME_STEP))
        return made[-1]

    _, found = rollouts(make, rows=2)
    check_walks(found)
    # The environment was created once: after its spec was read, the same environment is stepped.
    assert len(made) == 1
    made[0].close()


def test_transitions_of_vectors_end_where_episodes_do() -> None:
    agent = Agent(rl.Transitions(batch_size=16, min_size=50, environments=2, discount=1.0))
    rl.run(agent, lambda seed: SyncVectorEnv([Walk, lambda: wound(2)], autoreset_mode=AutoresetMode.SAME_STEP), steps=300)
    data = [batch.data for batch in agent.kept]
    before, after = (np.concatenate([part[name]["at"] for part in data]) for name in ("observation", "next_observation"))
    discounts = np.concatenate([part["discount"] for part in data])
    lengths = 1 + before[:, 0] % 5
    assert np.array_equal(after[:, :2], before[:, :2] + [0, 1])
    assert np.array_equal(discounts == 0, (after[:, 1] == lengths) & (lengths % 2 == 0))


def test_evaluations_take_equally_many_episodes_from_each_row() -> None:
    agent = Agent(rl.Rollouts(steps=20, environments=3))
    result = rl.run(agent, sync(AutoresetMode.NEXT_STEP, Walk), steps=120, evaluate_every=1_000, evaluation_episodes=7)
    # Each row starts with episodes of two and three steps; the first row has one more episode.
    assert sorted(result.evaluation.lengths) == [2, 2, 2, 3, 3, 3, 4]


class Without(SyncVectorEnv):
    """Does not return the final observation."""

    def step(self, actions: Any) -> Any:
        observations, rewards, terminated, truncated, _ = super().step(actions)
        return observations, rewards, terminated, truncated, {}


class Silent(SyncVectorEnv):
    """Does not declare its reset mode."""

    def __init__(self, makes: Any) -> None:
        super().__init__(makes)
        self.metadata = {}


@pytest.mark.parametrize(
    ("env", "kind", "text"),
    [
        (SyncVectorEnv([Walk] * 2), ValueError, "has 2 rows, but the run acts in 3 environments: set this number"),
        ([Walk] * 4, ValueError, "the list has 4 functions, but the run acts in 3 environments"),
        ([], TypeError, "is not an environment; give the name"),
        ([Walk, 3, Walk], TypeError, "is not an environment; give the name"),
        (sync(AutoresetMode.NEXT_STEP, Walk, 2), ValueError, "acts in 3 environments, but .* alone has 2"),
        (lambda seed: Silent([Walk] * 3), TypeError, "does not declare how it resets"),
        (lambda seed: Without([Walk] * 3, autoreset_mode=AutoresetMode.SAME_STEP), ValueError, "no 'final_obs' of environment 0"),
        (
            [Walk, cart_pole, Walk], ValueError,
            r"environment 1 has a different spec than the first: the observation has the parts \[''\] and \['at', 'begun'\]; all environments",
        ),
    ],
)  # fmt: skip
def test_invalid_rows_are_reported(env: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        rollouts(env)


def test_every_part_of_different_specs_is_described() -> None:
    spec = rl.make_environment_spec(cart_pole())._replace(actions=BoundedArraySpec((2,), np.float32, 0, 1))
    for other, text in (
        (spec._replace(rewards=ArraySpec((), np.float32)), "the reward has the dtype float64 and float32"),
        (
            spec._replace(actions=BoundedArraySpec((2,), np.float32, [0, 0], 1)),
            "the action has a minimum of the shape () and of (2,), with the same numbers",
        ),
    ):
        assert difference(spec, other) == text


def test_a_given_vector_serves_one_worker() -> None:
    with pytest.raises(TypeError, match="several environments are needed"):
        rollouts(SyncVectorEnv([Walk] * 3), actors=2)
    with pytest.raises(TypeError, match="several environments are needed"):
        rollouts(SyncVectorEnv([Walk] * 3), evaluate_every=10)


class Crowd(pettingzoo.ParallelEnv[str, Any, Any]):
    """Agents that leave one after the other. The first agent terminates, the others are truncated. The last agent joins
    late."""

    metadata = {"name": "crowd"}
    possible_agents = ["a", "b", "c"]

    def __init__(self, spaces: dict[str, Any] | None = None) -> None:
        self.spaces, self.begun, self.time, self.seeds = spaces or {}, 0, 0, []
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> Any:
        return self.spaces.get(agent, Box(0, 1000, (3,), np.float32))

    def action_space(self, agent: str) -> Any:
        return Discrete(3, start=1)

    def seen(self, agent: str, action: int) -> Any:
        return np.array([self.begun * 10 + self.possible_agents.index(agent), self.time, action], np.float32)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.begun, self.time, self.agents = self.begun + 1, 0, ["a", "b"]
        self.seeds.append(seed)
        return {agent: self.seen(agent, 0) for agent in self.agents}, {}

    def step(self, actions: dict[str, int]) -> Any:
        assert sorted(actions) == self.agents
        self.time += 1
        acted = list(self.agents)
        ends = {"a": self.time == 2, "b": self.time == 4, "c": self.time == 5}
        seen = {agent: self.seen(agent, actions[agent]) for agent in acted}
        self.agents = [agent for agent in acted if not ends[agent]]
        if self.time == 3:
            self.agents.append("c")
            seen["c"] = self.seen("c", 0)
        rewards = {agent: float(actions[agent]) for agent in acted}
        return seen, rewards, {agent: ends[agent] and agent == "a" for agent in acted}, {agent: ends[agent] and agent != "a" for agent in acted}, {}


def test_agents_of_pettingzoo_are_rows() -> None:
    crowd = Crowd()
    result, found = rollouts(crowd, steps=100, seed=9)
    assert crowd.seeds[:2] == [9, None]
    first = found[0]
    starts, ends = first.starts[:12].T.astype(int).tolist(), first.ends[:12].T.astype(int).tolist()
    # An episode has five steps, and one step that resets.
    assert starts == [[0, 0, 1, 1, 1, 1] * 2, [0, 0, 0, 0, 1, 1] * 2, [1, 1, 1, 0, 0, 1] * 2]
    assert ends == [[0, 1, 0, 0, 0, 0] * 2, [0, 0, 0, 1, 0, 0] * 2, [0, 0, 0, 0, 1, 0] * 2]
    for rollout in found:
        seen = rollout.observations
        for time, row in zip(*np.nonzero(~rollout.starts), strict=True):
            action = rollout.actions[time, row] + 1
            assert seen[time + 1, row].tolist() == [seen[time, row, 0], seen[time, row, 1] + 1, action]
            assert rollout.rewards[time, row] == action and seen[time, row, 0] % 10 == row
        assert np.array_equal(rollout.discounts == 0, rollout.ends & (np.arange(3) == 0))
    assert sorted(set(result.episodes.lengths.tolist())) == [2, 4]


class Numbered(Crowd):
    """Agents whose actions have different first numbers."""

    def action_space(self, agent: str) -> Any:
        return Discrete(3, start=10 * self.possible_agents.index(agent))

    def step(self, actions: dict[str, int]) -> Any:
        assert all(self.action_space(agent).contains(action) for agent, action in actions.items())
        return super().step(actions)


def test_actions_of_each_agent_begin_at_its_own_first_number() -> None:
    _, found = rollouts(Numbered(), steps=100)
    for rollout in found:
        for time, row in zip(*np.nonzero(~rollout.starts), strict=True):
            assert rollout.rewards[time, row] == rollout.actions[time, row] + 10 * row


def test_pettingzoo_agents_need_equal_spaces_and_parallel_steps() -> None:
    with pytest.raises(TypeError, match="'a' and 'b' have different spaces, but one policy acts for all agents"):
        rollouts(Crowd({"b": Box(0, 1, (2,), np.float32)}))
    turns = Crowd()
    turns.agent_iter = lambda: iter(())  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="agents take turns; pettingzoo.utils.aec_to_parallel"):
        rollouts(turns)


@pytest.mark.parametrize(
    "experience", [rl.Rollouts(steps=10, environments=2), rl.Transitions(batch_size=8, min_size=20, environments=2)]
)
def test_a_gymnasium_run_resumes_identically(tmp_path: pathlib.Path, experience: Any, caplog: pytest.LogCaptureFixture) -> None:
    def run(folder: str, steps: int) -> Any:
        return rl.run(
            Agent(experience), sync(AutoresetMode.NEXT_STEP, rows=2), steps=steps, seed=4, checkpoint_dir=tmp_path / folder, checkpoint_every=100
        )

    whole = run("whole", 400)
    run("parts", 200)
    parts = run("parts", 400)
    assert parts.policy.to_bytes() == whole.policy.to_bytes()
    episodes = whole.episodes.returns[-len(parts.episodes) :]
    assert len(parts.episodes) > 5 and np.array_equal(parts.episodes.returns, episodes)
    told = [record.getMessage() for record in caplog.records if "cannot save its state" in record.getMessage()]
    assert len(told) == 3 and "its current episodes restart after each checkpoint" in told[0]
