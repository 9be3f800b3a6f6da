"""relive.rl: the effect of each wrapper on steps and specs, and its conformance to the contract."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from rl_environments import Line

import relive
from relive import nest, rl

LOW, HIGH = [0.0, 0.0, 5.0], [1.0, 1.0, 6.0]


class Toy:
    """Episodes of five steps that earn 0.1, 0.2, … with discount 0.5. It has many kinds of leaves, and reuses the array
    of its observations."""

    def __init__(self, seed: int = 1, bounds: Any = ([0, 2], [1, 4])) -> None:
        self._random = np.random.default_rng(seed)
        self._bounds = bounds
        self._a = np.zeros(3)
        self._steps, self._over = 0, True
        self.forces: list[Any] = []

    def _observe(self) -> Any:
        self._a[:] = LOW + self._random.random(3)
        return {"b": {"x": self._random.random(), "y": -self._steps}, "a": self._a, "c": [np.full((2, 2), 7, np.uint8)]}

    def reset(self) -> rl.TimeStep:
        self._steps, self._over = 0, False
        return rl.restart(self._observe())

    def step(self, action: Any) -> rl.TimeStep:
        if self._over:
            return self.reset()
        assert action["choice"] in range(3)
        self.forces.append(action["force"])
        self._steps += 1
        self._over = self._steps == 5
        if self._over:
            return rl.termination(0.5, self._observe())
        return rl.transition(0.1 * self._steps, self._observe(), 0.5)

    def observation_spec(self) -> Any:
        inner = {"x": relive.BoundedArraySpec((), np.float64, 0, 1), "y": relive.ArraySpec((), np.int64)}
        return {"b": inner, "a": relive.BoundedArraySpec((3,), np.float64, LOW, HIGH), "c": [relive.ArraySpec((2, 2), np.uint8)]}

    def action_spec(self) -> Any:
        return {"choice": rl.DiscreteArraySpec(3, np.int64), "force": relive.BoundedArraySpec((2,), np.float64, *self._bounds)}

    def reward_spec(self) -> Any:
        return relive.BoundedArraySpec((), np.float64, 0, 0.5)


def act(force: list[float]) -> dict[str, Any]:
    return {"choice": 2, "force": np.array(force)}


ACTION = act([0.5, 3.0])


def played(environment: Any, action: Any, steps: int) -> list[rl.TimeStep]:
    return [environment.reset(), *(environment.step(action) for _ in range(steps))]


def test_actions_are_repeated_within_an_episode() -> None:
    _, step, last, first = played(rl.ActionRepeat(Toy(), num_repeats=3), ACTION, 3)
    assert step.mid() and step.reward == 0.1 + 0.5 * 0.2 + 0.25 * (0.1 * 3) and step.discount == 0.125
    assert last.last() and last.reward == pytest.approx(0.4 + 0.5 * 0.5) and last.discount == 0.0
    assert first.first() and first.reward is None


@pytest.mark.parametrize(
    ("period", "sums"), [(2, [0, 0.3, 0, 0.7, 0.5]), (None, [0, 0, 0, 0, 1.5]), (1, [0.1, 0.2, 0.3, 0.4, 0.5])]
)
def test_rewards_are_delayed(period: int | None, sums: list[float]) -> None:
    environment = rl.DelayedReward(Toy(), accumulation_period=period)
    for start in (environment.reset, lambda: environment.step(None), environment.reset):
        assert start().reward is None
        assert [environment.step(ACTION).reward for _ in range(5)] == [pytest.approx(reward) for reward in sums]
        environment.reset()
        for _ in range(3):
            # The next start drops what is withheld.
            environment.step(ACTION)
        environment.environment = Toy()


def test_delayed_rewards_keep_their_data_type() -> None:
    narrow = rl.DelayedReward(rl.SinglePrecision(Line()), None)
    assert {step.reward.dtype for step in played(narrow, 1, 10)[1:]} == {np.dtype(np.float32)}


def test_episodes_may_have_no_limit() -> None:
    assert played(rl.StepLimit(Toy(), step_limit=None), ACTION, 5)[-1].discount == 0.0
    assert played(rl.StepLimit(Toy(), step_limit=4), ACTION, 4)[-1].last()


@pytest.mark.parametrize("flatten", [False, True])
def test_observations_are_stacked(flatten: bool) -> None:
    environment = rl.FrameStacking(Toy(), num_frames=3, flatten=flatten)
    spec = environment.observation_spec()
    shapes = nest.map_structure(lambda leaf: "x".join(map(str, leaf.shape)), spec)
    assert shapes == {"b": {"x": "3", "y": "3"}, "a": "9" if flatten else "3x3", "c": ["2x6" if flatten else "2x2x3"]}
    low, high = np.reshape(spec["a"].minimum, (3, 3)), np.reshape(spec["a"].maximum, (3, 3))
    assert low.tolist() == [[0.0] * 3] * 3 and high.tolist() == [[bound] * 3 for bound in HIGH]
    for _ in range(2):
        plain = Toy()
        environment.environment = Toy()
        frames = [np.zeros(3)] * 3
        for time in range(5):
            step = environment.step(ACTION) if time else environment.reset()
            seen = plain.step(ACTION) if time else plain.reset()
            frames = [*frames[1:], seen.observation["a"].copy()]
            np.testing.assert_array_equal(np.reshape(step.observation["a"], (3, 3)), np.stack(frames, axis=-1))
            assert step.observation["b"]["y"].tolist() == [-max(0, time - 2), -max(0, time - 1), -time]


def test_observations_are_concatenated_in_order() -> None:
    environment = rl.ConcatObservation(Toy(), name_filter=["b/x", "a"])
    assert environment.observation_spec() == relive.BoundedArraySpec((4,), np.float64, [0, *LOW], [1, *HIGH], "observation")
    seen = Toy().reset().observation
    assert environment.reset().observation.tolist() == [seen["b"]["x"], *seen["a"]]
    assert rl.ConcatObservation(rl.make("catch/0")).reset().observation.shape == (50,)
    with pytest.raises(TypeError, match="one data type to be concatenated, but a is float64 and b/y is int64"):
        rl.ConcatObservation(Toy())
    with pytest.raises(ValueError, match="must name leaves of the observation, which has a, b/x, b/y, c/0, got 'b'"):
        rl.ConcatObservation(Toy(), ["b"])
    with pytest.raises(ValueError, match="name_filter is empty"):
        rl.ConcatObservation(Toy(), [])


def test_canonical_actions_are_scaled_to_the_bounds() -> None:
    for clip, forces in ((False, [[1.0, 2.0], [0.625, 3.5], [1.5, 1.0]]), (True, [[1.0, 2.0], [0.625, 3.5], [1.0, 2.0]])):
        toy = Toy()
        environment = rl.CanonicalSpec(toy, clip=clip)
        assert environment.action_spec()["force"] == relive.BoundedArraySpec((2,), np.float64, -1, 1)
        assert environment.action_spec()["choice"] == toy.action_spec()["choice"]
        assert environment.step(None).first(), "a step that resets ignores its action"
        for action in ([1.0, -1.0], [0.25, 0.5], [2.0, -2.0]):
            environment.step(act(action))
        assert [force.tolist() for force in toy.forces] == forces
        # 0.5 * 2 * (0.1 - -0.3) + -0.3 is above 0.1.
        uneven = rl.CanonicalSpec(Toy(bounds=(-0.3, 0.1)), clip=clip)
        uneven.reset()
        for action in ([1.0, 1.0], [-1.0, -1.0]):
            uneven.step(act(action))
        assert [force.tolist() for force in uneven.environment.forces] == [[0.1, 0.1], [-0.3, -0.3]]
        with pytest.raises(ValueError, match=r"must have the shape \(2,\) of .*, but it has the shape \(1,\)"):
            environment.step(act([1.0]))

    class OneSided(Toy):
        def action_spec(self) -> Any:
            return {"force": relive.BoundedArraySpec((2,), np.float64, 0, [1, np.inf])}

    with pytest.raises(ValueError, match="the action at 'force' must have bounds on both sides"):
        rl.CanonicalSpec(OneSided())


def test_observations_include_the_previous_action_and_reward() -> None:
    environment = rl.ObservationActionReward(Toy())
    spec = environment.observation_spec()
    assert isinstance(spec, rl.OAR) and spec.reward.shape == () and spec.observation["a"].shape == (3,)
    assert spec.action["force"].minimum.tolist() == [0, 0] and spec.action["force"].maximum.tolist() == [1, 4]
    force = np.array([0.5, 3.0])
    for time in range(7):
        step = environment.step({"choice": 2, "force": force} if time % 6 else None)
        _, action, reward = step.observation
        expected = (0, [0.0, 0.0], 0.0) if time % 6 == 0 else (2, [0.5, 3.0], step.reward)
        force[:] = 0.75, 3.5
        assert (int(action["choice"]), action["force"].tolist(), float(reward)) == expected
        assert action["choice"].dtype == np.int64 and reward.dtype == np.float64
        force[:] = 0.5, 3.0


def test_numbers_become_arrays() -> None:
    environment = rl.ExpandScalar(rl.ObservationActionReward(rl.make("deep_sea/0")))
    spec, step = environment.observation_spec(), environment.reset()
    assert spec.action == relive.BoundedArraySpec((1,), np.int32, 0, 1, "action") and spec.reward.shape == (1,)
    assert spec.observation.shape == step.observation.observation.shape == (10, 10)
    assert step.observation.action.tolist() == [0] and step.observation.reward.tolist() == [0.0]


@pytest.mark.parametrize("make", [
    lambda: rl.ActionRepeat(Toy(), 0), lambda: rl.DelayedReward(Toy(), 0), lambda: rl.StepLimit(Toy(), 0), lambda: rl.FrameStacking(Toy(), 0),
])  # fmt: skip
def test_counts_must_be_positive(make: Any) -> None:
    with pytest.raises(ValueError, match="must be at least 1, got 0"):
        make()


@pytest.mark.parametrize("make", [
    lambda: rl.StepLimit(Toy(), 2.5), lambda: rl.StepLimit(Toy(), float("nan")), lambda: rl.ActionRepeat(Toy(), 2.5),  # type: ignore[arg-type]
    lambda: rl.NoopStarts(Toy(), noop_max=1.5), lambda: rl.NoopStarts(Toy(), noop_action=None),  # type: ignore[arg-type]
    lambda: rl.DiscreteArraySpec(2.5), lambda: rl.DiscreteArraySpec(None), lambda: rl.make("catch/0", seed=True),  # type: ignore[arg-type]
])  # fmt: skip
def test_counts_must_be_whole_numbers(make: Any) -> None:
    with pytest.raises(TypeError, match="but it must be a whole number"):
        make()


def test_numbers_must_fit() -> None:
    assert rl.DiscreteArraySpec(3, "int64") == rl.DiscreteArraySpec(np.int64(3), np.int64)
    with pytest.raises(ValueError, match=r"num_values is 2147483649, but int32 has no numbers up to 2147483648"):
        rl.DiscreteArraySpec(2**31 + 1)
    with pytest.raises(ValueError, match="seed is -1, but it must be at least 0"):
        rl.make("catch/0", seed=-1)


WRAPPED = {
    "limit": lambda seed: rl.StepLimit(Toy(seed)),
    "repeat": lambda seed: rl.ActionRepeat(Toy(seed), 3),
    "delay": lambda seed: rl.DelayedReward(Toy(seed), 2),
    "stack": lambda seed: rl.FrameStacking(Toy(seed), 3),
    "flat stack": lambda seed: rl.FrameStacking(rl.make("catch/0", seed=seed), 4, flatten=True),
    "scaled": lambda seed: rl.CanonicalSpec(Toy(seed)),
    "clipped": lambda seed: rl.CanonicalSpec(rl.make("Pendulum-v1", seed=seed), clip=True),
    "added": lambda seed: rl.ObservationActionReward(Toy(seed)),
    "vector": lambda seed: rl.ConcatObservation(Toy(seed), ["b/x", "a"]),
    "expanded": lambda seed: rl.ExpandScalar(rl.ObservationActionReward(Line())),
    "several": lambda seed: rl.FrameStacking(
        rl.DelayedReward(rl.ConcatObservation(rl.SinglePrecision(rl.CanonicalSpec(rl.StepLimit(Toy(seed), 4), True)), ["a", "b/x"]), None), 2
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRAPPED)
def test_wrappers_meet_the_environment_contract(kind: str) -> None:
    rl.check_environment(WRAPPED[kind])


@pytest.mark.parametrize("kind", ["limit", "repeat", "delay", "stack", "scaled", "added", "vector"])
def test_wrappers_are_pickled_with_their_state(kind: str) -> None:
    environment = WRAPPED[kind](1)
    played(environment, ACTION, 2)
    copied = pickle.loads(pickle.dumps(environment))
    nest.map_structure(np.testing.assert_array_equal, tuple(copied.step(ACTION)), tuple(environment.step(ACTION)))
