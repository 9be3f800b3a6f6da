"""Trained policies: values without acting, and numbers of other types."""

from __future__ import annotations

import copy
import pathlib
import zipfile
from collections.abc import Iterator
from typing import Any

import dm_env
import gymnasium
import numpy as np
import pytest
from dm_env import specs
from gymnasium import spaces
from own_agents import TRANSITIONS, Agent

from relive import rl
from relive.errors import DataLossError
from relive.rl import torch as rlt


@pytest.fixture(scope="module")
def recurrent() -> rl.Policy:
    return rl.R2D2(min_replay_size=10, batch_size=4).train("catch/0", steps=300, seed=2).policy


def observations() -> Iterator[Any]:
    return iter(np.random.default_rng(0).random((12, 10, 5)).astype(np.float32))


def test_a_policy_that_returns_nothing_is_named() -> None:
    with pytest.raises(TypeError, match="^the policy returned None, but it must return an action for each observation"):
        rl.evaluate(lambda observation: None, "catch/0")


def test_values_have_no_effect_on_a_recurrent_policy(recurrent: rl.Policy) -> None:
    recurrent.reset()
    alone = [recurrent.values(seen) for seen in observations() if recurrent(seen) is not None]
    recurrent.reset()
    found = []
    for seen in observations():
        recurrent.values(np.stack([seen, 1 - seen]))
        recurrent.values(1 - seen)
        recurrent(seen)
        found.append(recurrent.values(seen))
    np.testing.assert_array_equal(found, alone)
    assert not np.array_equal(found[-1], found[-2]), "the memory has an effect"


def test_the_values_of_a_batch_are_those_of_each_observation(recurrent: rl.Policy) -> None:
    batch = np.stack(list(observations()))
    recurrent.reset()
    recurrent(batch[0])
    together = recurrent.values(batch)
    np.testing.assert_array_equal(together, [recurrent.values(seen) for seen in batch])
    np.testing.assert_array_equal(together[::-1], recurrent.values(batch[::-1]))


def test_reset_holds_after_values(recurrent: rl.Policy) -> None:
    first, second, *_ = observations()
    recurrent.reset()
    fresh = recurrent.values(second)
    recurrent(first)
    assert not np.array_equal(recurrent.values(second), fresh)
    recurrent.reset()
    np.testing.assert_array_equal(recurrent.values(second), fresh)
    np.testing.assert_array_equal(recurrent.values(second), fresh)


class Bytes(dm_env.Environment):  # type: ignore[misc]
    """Observations are three bytes."""

    is_over = True

    def reset(self) -> dm_env.TimeStep:
        self.is_over = False
        return dm_env.restart(np.zeros(3, np.uint8))

    def step(self, action: Any) -> dm_env.TimeStep:
        if self.is_over:
            return self.reset()
        self.is_over = True
        return dm_env.termination(0.0, np.full(3, 255, np.uint8))

    def observation_spec(self) -> specs.Array:
        return specs.Array((3,), np.uint8, "bytes")

    def action_spec(self) -> specs.DiscreteArray:
        return specs.DiscreteArray(2)


def test_whole_numbers_are_not_wrapped() -> None:
    policy = rl.DQN(batch_size=4, min_replay_size=8).train(Bytes, steps=40).policy
    expected = policy.values(np.array([0, 7, 255], np.uint8))
    for dtype in (np.int8, np.int16, np.int64, np.uint64):
        given = np.array([0, 7, 127 if dtype == np.int8 else 255], dtype)
        found = policy.values(given)
        assert dtype == np.int8 or np.array_equal(found, expected)
    np.testing.assert_array_equal(policy.values(np.array([True, False, True])), policy.values(np.array([1, 0, 1], np.uint8)))
    for number in (256, -1, 2**40):
        with pytest.raises(TypeError, match=rf"observation: expected uint8 \(3,\), got int64 with the number {number}"):
            policy(np.array([0, number, 0]))
    with pytest.raises(TypeError, match=rf"got uint64 with the number {2**64 - 1}"):
        policy.values(np.array([0, 1, 2**64 - 1], np.uint64))
    with pytest.raises(ValueError, match=r"expected uint8 \(3,\), got uint8 \(0,\)"):
        policy(np.zeros(0, np.int64))


def test_models_of_other_libraries_are_not_damaged_policies(tmp_path: pathlib.Path) -> None:
    model = tmp_path / "model.zip"
    with zipfile.ZipFile(model, "w") as archive:
        archive.writestr("data", "{}")
    with pytest.raises(ValueError, match=r"model\.zip is not a policy file, but a zip archive, such as a model of Stable-Baselines3"):
        rl.Policy.load(model)
    with pytest.raises(ValueError, match=r"^the file is not a policy file, but a zip archive"):
        rl.Policy.from_bytes(model.read_bytes())
    model.write_bytes(b"PK")
    with pytest.raises(DataLossError, match="damaged"):
        rl.Policy.load(model)


def test_a_list_of_numbers_is_an_observation() -> None:
    policy = rl.DQN(batch_size=4, min_replay_size=8).train(Bytes, steps=40).policy
    assert policy([0, 7, 255]) == policy(np.array([0, 7, 255], np.uint8))
    np.testing.assert_array_equal(policy.values([[0, 7, 255]]), policy.values(np.array([[0, 7, 255]], np.uint8)))
    assert policy([np.array([0, 7, 255], np.uint8)]) == policy([0, 7, 255]), "a structure with one leaf"


def test_a_batch_is_acted_on_row_by_row() -> None:
    batch = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    policy = rl.DQN(min_replay_size=50).train("CartPole-v1", steps=100).policy
    actions = policy(batch)
    assert actions.shape == (6,) and actions.tolist() == [policy(seen) for seen in batch]
    assert policy(batch[:1]).shape == (1,) and policy(batch.tolist()).tolist() == actions.tolist()
    with pytest.raises(ValueError, match="the batch has no observations"):
        policy(batch[:0])
    with pytest.raises(ValueError, match=r"expected float32 \(4,\), got float32 \(2, 3, 4\)"):
        policy(batch.reshape(2, 3, 4))
    turns = rl.SAC(min_replay_size=50, batch_size=8).train("Pendulum-v1", steps=60).policy
    np.testing.assert_array_equal(turns(batch[:, :3]), [turns(seen) for seen in batch[:, :3]])


def test_a_policy_that_may_have_memory_acts_for_one_observation_at_a_time(recurrent: rl.Policy) -> None:
    batch = np.stack(list(observations()))
    text = r"got a batch of 12 observations, but a policy of {} may have memory, so it acts for one observation at a time: .* copy"
    with pytest.raises(ValueError, match=text.format("r2d2")):
        recurrent(batch)
    # A copy for each environment has its own memory.
    copies = [copy.deepcopy(recurrent) for _ in range(2)]
    for policy in copies:
        policy.reset()
    alone = [int(copies[0](seen)) for seen in batch]
    assert [copies[1](seen) for seen in batch] == alone
    custom = rl.run(Agent(TRANSITIONS), "catch/0", steps=40).policy
    with pytest.raises(ValueError, match=text.format("Agent")):
        custom(batch)
    assert custom(batch[:1]).shape == (1,)
    one = rl.IMPALA(lstm_units=2).train("catch/0", steps=90).policy
    with pytest.raises(ValueError, match=text.format("impala")):
        one(batch)
    assert rl.IMPALA().train("catch/0", steps=90).policy(batch).shape == (12,)
    own = rlt.DQN(min_replay_size=20, batch_size=4).train("catch/0", steps=40).policy
    assert own(batch).tolist() == [own(seen) for seen in batch]


@pytest.mark.parametrize("agent", [rl.PPO(num_steps=16), rl.IMPALA(), rlt.PPO(num_steps=16)], ids=lambda agent: type(agent).__module__)
def test_an_exploring_policy_draws_its_actions(agent: Any, tmp_path: pathlib.Path) -> None:
    policy = agent.train("catch/0", steps=200, seed=1, progress=False).policy
    seen = np.zeros((10, 5), np.float32)
    assert len({policy(seen) for _ in range(50)}) == 1
    drawn = policy.exploring(seed=3)
    actions = [drawn(seen) for _ in range(200)]
    # An untrained policy is nearly uniform.
    assert min(actions.count(action) for action in range(3)) > 20
    again = copy.deepcopy(drawn)
    assert [again(seen) for _ in range(200)] == actions
    other = policy.exploring(seed=4)
    assert [other(seen) for _ in range(200)] != actions != [drawn(seen) for _ in range(200)]
    drawn.save(tmp_path / "policy")
    loaded = rl.Policy.load(tmp_path / "policy", agent=agent if isinstance(agent, rlt.PPO) else None)
    assert len({loaded(seen) for _ in range(50)}) == 1
    assert len({policy(seen) for _ in range(50)}) == 1
    for seed, kind in ((-1, ValueError), (1.5, TypeError)):
        with pytest.raises(kind, match="seed"):
            policy.exploring(seed)


def test_an_exploring_policy_keeps_its_memory(recurrent: rl.Policy) -> None:
    drawn = recurrent.exploring(seed=1)
    first = [drawn(seen) for seen in observations()]
    drawn.reset()
    assert len(set(first)) > 1 and all(action in (0, 1, 2) for action in first)


class Stated(gymnasium.Env[Any, Any]):
    """An episode of one step in these spaces, which checks its action."""

    def __init__(self, observations: Any, actions: Any) -> None:
        self.observation_space, self.action_space = observations, actions

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        return self.observation_space.sample(), 1.0, True, False, {}


def box(*shape: int, dtype: Any = np.float32, bound: float = 1.0) -> spaces.Box:
    return spaces.Box(-bound, bound, shape, dtype)


DISCRETE, CONTINUOUS = (box(4), spaces.Discrete(2)), (box(4), box(3))


@pytest.fixture(scope="module")
def trained() -> Any:
    discrete = rl.DQN(batch_size=4, min_replay_size=8, hidden=(4,)).train(lambda: Stated(*DISCRETE), steps=40).policy
    continuous = rl.SAC(batch_size=4, min_replay_size=8, samples_per_insert=4, hidden=(4,)).train(lambda: Stated(*CONTINUOUS), steps=40).policy
    own = rl.run(Agent(TRANSITIONS), "catch/0", steps=40).policy
    return {"discrete": discrete, "continuous": continuous, "own": own}


@pytest.mark.parametrize(("which", "environment", "text"), [
    ("discrete", (box(3, 4), spaces.Discrete(2)), r"float32 \(4,\) and 2 discrete actions, but Stated has observations float32 \(3, 4\) and 2"),
    ("discrete", (box(4), spaces.Discrete(5)), r"observations float32 \(4,\) and 2 discrete actions, but .* \(4,\) and 5 discrete actions; eval"),
    ("discrete", (box(4), box(1)), r"and 2 discrete actions, but .* and actions of the shape \(1,\)"),
    ("discrete", (spaces.Dict(a=box(4), b=box(1)), spaces.Discrete(2)), r"float32 \(4,\) and .* observations float32 \(4,\), float32 \(1,\)"),
    ("discrete", (box(4), spaces.Dict(a=spaces.Discrete(2))), r"and 2 discrete actions, but .* and actions of several parts"),
    ("continuous", (box(4), box(2)), r"actions of the shape \(3,\), but .* actions of the shape \(2,\)"),
    ("continuous", (box(4), spaces.Discrete(3)), r"actions of the shape \(3,\), but .* and 3 discrete actions"),
    ("discrete", "catch/0", r"float32 \(4,\) and 2 discrete actions, but .*catch/0.* has observations float32 \(10, 5\) and 3 discrete actions"),
    ("own", "CartPole-v1", r"float32 \(10, 5\) and 3 discrete actions, but .*CartPole-v1.* float32 \(4,\) and 2"),
], ids=str)
def test_a_policy_is_evaluated_only_in_environments_like_that_of_its_training(trained: Any, which: str, environment: Any, text: str) -> None:
    made = environment if isinstance(environment, str) else Stated(*environment)
    with pytest.raises(ValueError, match=f"the policy was trained with .*{text}"):
        rl.evaluate(trained[which], made, episodes=1)


@pytest.mark.parametrize(("which", "environment"), [
    ("discrete", DISCRETE),
    ("discrete", (box(4, dtype=np.float64, bound=9.0), spaces.Discrete(2, start=1))),
    ("discrete", (spaces.Box(0, 255, (4,), np.uint8), spaces.Discrete(2))),
    ("continuous", CONTINUOUS),
    ("own", "catch/0"),
], ids=str)
def test_a_policy_is_evaluated_with_other_data_types_and_bounds(trained: Any, which: str, environment: Any) -> None:
    made = environment if isinstance(environment, str) else Stated(*environment)
    assert rl.evaluate(trained[which], made, episodes=2).returns.shape == (2,)


def test_a_policy_is_evaluated_in_an_environment_without_specs(trained: Any) -> None:
    class Plain:
        def reset(self) -> Any:
            return dm_env.restart(np.zeros(4, np.float32))

        def step(self, action: Any) -> Any:
            return dm_env.termination(1.0, np.zeros(4, np.float32))

    assert rl.evaluate(trained["discrete"], Plain, episodes=1).mean_return == 1.0
