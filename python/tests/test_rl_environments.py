"""relive.rl: environments in Rust and in Python, with dm_env's and Gymnasium's interfaces."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import dm_env
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from own_agents import TRANSITIONS, Agent
from rl_environments import BOX, Line, Spaces

import relive
from relive import rl


@pytest.mark.parametrize("name", ["CartPole-v1", "Acrobot-v1", "MountainCar-v0", "Pendulum-v1", "MountainCarContinuous-v0"])
def test_native_environments_are_gymnasiums(name: str) -> None:
    native, original = rl.make(name, seed=7), rl.GymEnvironment(gymnasium.make(name), seed=7)
    rng = np.random.default_rng(3)
    spec = native.action_spec()
    for _ in range(300):
        if isinstance(spec, rl.DiscreteArraySpec):
            action: Any = rng.integers(spec.num_values)
        else:
            action = rng.uniform(spec.minimum, spec.maximum, spec.shape).astype(spec.dtype)
        one, other = native.step(action), original.step(action)
        assert one[:3] == other[:3]
        np.testing.assert_array_equal(one.observation, other.observation)
        assert one.observation.dtype == np.float32 == native.observation_spec().dtype


def test_native_environments_have_dm_envs_interface() -> None:
    with rl.make("catch/0", seed=1) as environment:
        assert environment.action_spec() == rl.DiscreteArraySpec(3, np.int32, environment.action_spec().name)
        assert environment.observation_spec().shape == (10, 5)
        assert environment.reward_spec().shape == environment.discount_spec().shape == ()
        step = environment.step(1)
        assert step.first() and step.reward is None and step.discount is None, "a step before the first reset is one"
        steps = 0
        while not step.last():
            before, step = step.observation, environment.step(np.int64(1))
            assert before is not step.observation
            steps += 1
        assert steps == 9 and step.discount == 0.0 and abs(step.reward) == 1.0
        assert environment.step(np.array(0)).first(), "a step after the last is a reset"


# As in crates/relive-env/tests/golden/bsuite_totals.json, for a thousand episodes of bsuite's environments.
TOTALS = {"catch/0": {"total_regret": 1600.0}, "deep_sea/0": {"total_bad_episodes": 1000.0, "denoised_return": 0.0}}


@pytest.mark.parametrize("name", TOTALS)
def test_environments_of_bsuite_have_its_totals(name: str) -> None:
    environment, actions = rl.make(name, seed=5), np.random.RandomState(17)
    assert environment.bsuite_num_episodes == 10_000
    assert list(environment.bsuite_info().items()) == [(total, 0.0) for total in TOTALS[name]], "in bsuite's order"
    for _ in range(1_000):
        step = environment.reset()
        while not step.last():
            step = environment.step(actions.randint(environment.action_spec().num_values))
    assert environment.bsuite_info() == TOTALS[name]
    assert rl.StepLimit(environment, 3).bsuite_info() == TOTALS[name], "wrappers pass them on"


def test_other_native_environments_have_no_totals() -> None:
    environment = rl.make("CartPole-v1")
    assert not hasattr(environment, "bsuite_info")
    with pytest.raises(AttributeError, match="CartPole-v1 is not an environment of bsuite"):
        _ = environment.bsuite_num_episodes


def test_actions_refused_by_native_environments_change_nothing() -> None:
    environment, untouched = rl.make("CartPole-v1", seed=5), rl.make("CartPole-v1", seed=5)
    environment.reset(), untouched.reset()
    for action, error in [(2, ValueError), (-1, ValueError), (0.5, TypeError), ([0, 1], ValueError), ("left", TypeError)]:
        with pytest.raises(error, match="action"):
            environment.step(action)
    np.testing.assert_array_equal(environment.step(1).observation, untouched.step(1).observation)
    with pytest.raises(ValueError, match=r"expected an id of bsuite such as catch/0, CartPole-v1.*got Pong-v5"):
        rl.make("Pong-v5")
    with pytest.raises(ValueError, match="seed"):
        rl.make("catch/0", seed=2**32)


def test_gym_environments_return_dm_env_time_steps() -> None:
    space = spaces.Dict({"b": spaces.Tuple((BOX, spaces.MultiBinary(3))), "a": spaces.MultiDiscrete([2, 3])})
    for truncates in (False, True):
        inner = Spaces(space, spaces.Discrete(4, start=10), truncates=truncates)
        environment = rl.GymEnvironment(inner, seed=9)
        steps = [environment.step(0), *(environment.step(action) for action in (0, 1, 3))]
        assert [step.step_type for step in steps] == [0, 1, 1, 2]
        assert inner.actions == [10, 11, 13], "choices count from the start of the space"
        assert steps[0].reward is None and steps[1].reward == 1.0 and steps[1].discount == 1.0
        assert steps[-1].discount == (1.0 if truncates else 0.0)
        assert space.contains(steps[1].observation)
        assert environment.step(0).first() and inner.seeds == [9, None], "the seed is for the first reset"
    spec = environment.observation_spec()
    assert spec["a"].maximum.tolist() == [1, 2] and spec["b"][1].dtype == np.int8
    assert environment.action_spec() == rl.DiscreteArraySpec(4, np.int64)


@pytest.mark.parametrize(
    ("space", "place"),
    [
        (spaces.Dict({"camera": BOX, "text": spaces.Tuple((BOX, spaces.Text(5)))}), "observation at 'text/1'"),
        (spaces.Sequence(BOX), "observation"),
    ],
)
def test_unsupported_spaces_are_reported_with_their_path(space: Any, place: str) -> None:
    with pytest.raises(TypeError, match=f"^{place}: .* is not supported: .*; supported are arrays of numbers"):
        rl.GymEnvironment(Spaces(space, spaces.Discrete(2)))


def test_vectors_of_environments_are_refused() -> None:
    vector = gymnasium.make_vec("CartPole-v1", num_envs=2)
    with pytest.raises(TypeError, match="vector of environments"):
        rl.GymEnvironment(vector)  # type: ignore[arg-type]
    vector.close()


def test_environment_specs_of_any_kind_are_converted() -> None:
    spec = rl.make_environment_spec(Line())
    assert spec.actions == rl.DiscreteArraySpec(2, np.int32, "direction")
    assert spec.observations["steps"] == relive.ArraySpec((), np.int64)
    assert spec.observations["place"][0] == relive.BoundedArraySpec((1,), np.float64, -1.0, 1.0)
    assert rl.make_environment_spec(gymnasium.make("CartPole-v1")).actions == rl.DiscreteArraySpec(2, np.int64)
    assert rl.make_environment_spec(rl.make("catch/0")).observations.shape == (10, 5)
    with pytest.raises(TypeError, match="not an environment"):
        rl.make_environment_spec("catch/0")


def test_dm_env_as_gymnasium_and_back() -> None:
    environment = rl.as_gymnasium(Line())
    assert isinstance(environment.action_space, spaces.Discrete) and environment.action_space.n == 2
    with pytest.raises(gymnasium.error.ResetNeeded):
        environment.step(0)
    observation, info = environment.reset()
    assert environment.observation_space.contains(observation) and info == {}
    total, answer = 0.0, None
    while answer is None or not answer[2]:
        answer = environment.step(np.int64(1))
        total += answer[1]
        assert environment.observation_space.contains(answer[0]) and not answer[3]
    assert total == 10.0 and answer[4] == {"discount": 0.0}
    native = rl.as_gymnasium(rl.make("CartPole-v1", seed=3))
    again = rl.GymEnvironment(native)
    for action in (0, 1, 1, 0):
        step = again.step(action)
    assert step.mid() and step.observation.shape == (4,)
    with pytest.warns(UserWarning, match="seeded when it was created"):
        native.reset(seed=1)


def test_time_steps_match_dm_env() -> None:
    assert rl.termination(1.0, 2).discount == dm_env.termination(1.0, 2).discount
    assert rl.truncation(1.0, 2, 0.5) == tuple(dm_env.truncation(1.0, 2, 0.5))
    assert rl.restart(3) == tuple(dm_env.restart(3)) and rl.transition(1.0, 3) == tuple(dm_env.transition(1.0, 3))
    assert [kind.value for kind in rl.StepType] == [kind.value for kind in dm_env.StepType]


def test_a_discrete_spec_is_replaced() -> None:
    spec = rl.DiscreteArraySpec(3, np.int64, "a")
    assert dataclasses.replace(spec, num_values=4) == rl.DiscreteArraySpec(4, np.int64, "a")
    assert dataclasses.replace(spec, name="b") == rl.DiscreteArraySpec(3, np.int64, "b")
    assert pickle.loads(pickle.dumps(spec)) == spec != rl.DiscreteArraySpec(4, np.int64, "a")
    assert len({spec, rl.DiscreteArraySpec(3, np.int64, "a")}) == 1
    with pytest.raises(ValueError, match="num_values must be at least 1, got 0"):
        dataclasses.replace(spec, num_values=0)
    with pytest.raises(ValueError, match="maximum"):
        dataclasses.replace(spec, maximum=4)


def test_protocols_are_checked_at_run_time() -> None:
    assert isinstance(rl.make("catch/0"), rl.Environment) and not isinstance(gymnasium.make("CartPole-v1"), rl.Environment)
    assert isinstance(Agent(TRANSITIONS), rl.contracts.Agent) and not isinstance(rl.DQN, rl.contracts.Policy | rl.contracts.Learner)
    assert isinstance(rl.adders.EpisodeAdder, type) and not isinstance(rl.DQN(), rl.adders.Adder | rl.loggers.Logger)
