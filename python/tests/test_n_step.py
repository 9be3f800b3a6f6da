"""Transitions over several steps in a :class:`relive.ReplayBuffer`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relive import ReplayBuffer


def windows(returns: list[float], terminates: bool, n_step: int, discount: float) -> list[tuple[int, float, int, float]]:
    """Computes naively, for each transition of an episode: first step, return, following step, bootstrap discount."""
    found = []
    for first in range(len(returns)):
        end = min(first + n_step, len(returns))
        total = sum(discount**k * returns[first + k] for k in range(end - first))
        is_over = terminates and end == len(returns)
        found.append((first, total, end, 0.0 if is_over else discount ** (end - first)))
    return found


@pytest.mark.parametrize("n_step", [1, 2, 3, 5])
@pytest.mark.parametrize("flags", ["terminated", "done"])
def test_windows_over_several_steps_end_with_the_episode_of_each_environment(n_step: int, flags: str) -> None:
    random, discount, environments = np.random.default_rng(n_step), 0.9, 4
    buffer = ReplayBuffer(10_000, n_step=n_step, discount=discount)
    episodes: list[list[tuple[list[int], list[float], bool]]] = [[] for _ in range(environments)]
    running: list[tuple[list[int], list[float]]] = [([], []) for _ in range(environments)]
    for number in range(60):
        reward = random.standard_normal(environments).astype(np.float32)
        terminated = random.random(environments) < 0.15
        truncated = ~terminated & (random.random(environments) < 0.1)
        identity = np.arange(environments) * 1_000 + number
        end = {"terminated": terminated} if flags == "terminated" else {"done": terminated | truncated}
        buffer.add_batch(
            observation={"id": identity}, reward=reward, next_observation={"id": identity + 1}, truncated=truncated, **end
        )
        for environment, (identities, gained) in enumerate(running):
            identities.append(int(identity[environment]))
            gained.append(float(reward[environment]))
            if terminated[environment] or truncated[environment]:
                episodes[environment].append((identities, gained, bool(terminated[environment])))
                running[environment] = ([], [])
    wanted = {}
    for identities, gained, terminates in (episode for each in episodes for episode in each):
        for first, total, after, bootstrap in windows(gained, terminates, n_step, discount):
            wanted[identities[first]] = (total, identities[after - 1] + 1, bootstrap)
    client = buffer.server.localhost_client()
    len(buffer)
    samples = client.get_items("replay", [item.key for item in client.items("replay")])
    found = {
        int(sample.data["observation"]["id"]): (
            float(sample.data["reward"]), int(sample.data["next_observation"]["id"]), float(sample.data["discount"])
        )
        for sample in samples if sample is not None
    }
    assert len(found) == len(samples)
    unfinished = {identity for identities, _ in running for identity in identities}
    assert set(wanted) <= set(found) and set(found) - set(wanted) <= unfinished
    for identity, expected in wanted.items():
        np.testing.assert_allclose(found[identity], expected, rtol=1e-5, atol=1e-6)


def test_a_single_environment_has_windows_too() -> None:
    buffer = ReplayBuffer(100, n_step=3, discount=0.5)
    for number in range(5):
        buffer.add(observation=number, reward=1.0, next_observation=number + 1, terminated=number == 4)
    batch = buffer.sample(200)
    found = sorted(set(zip(*(batch[name].tolist() for name in ("observation", "reward", "next_observation", "discount")))))
    assert found == [(0, 1.75, 3, 0.125), (1, 1.75, 4, 0.125), (2, 1.75, 5, 0.0), (3, 1.5, 5, 0.0), (4, 1.0, 5, 0.0)]


def test_the_steps_of_many_environments_need_a_reward_for_each() -> None:
    with pytest.raises(ValueError, match=r"reward must have one number for each environment, but it is a single number; add\(\) is for"):
        ReplayBuffer(10, n_step=2, discount=0.9).add_batch(reward=1.0, next_observation=np.zeros(2), terminated=np.zeros(2, bool))


def test_windows_have_rows_of_one_type() -> None:
    buffer = ReplayBuffer(100, n_step=3, discount=0.5)
    buffer.add(observation=np.zeros(3, np.float32), reward=1, next_value=1, done=False)
    with pytest.raises(ValueError, match=r"'observation' has rows of float64 \(3,\), but those of the previous step were float32 \(3,\)"):
        buffer.add(observation=np.zeros(3), reward=1.5, next_value=1, done=False)
    # The refused step is not part of a window.
    buffer.add(observation=np.ones(3, np.float32), reward=1.5, next_value=1, done=True)
    assert sorted(set(buffer.sample(50)["reward"].tolist())) == [1.5, 1.75]


def test_without_a_complete_window_the_error_tells_so() -> None:
    buffer = ReplayBuffer(10, n_step=3, discount=0.9)
    for _ in range(2):
        buffer.add(observation=1, reward=1.0, next_observation=2, done=False)
        with pytest.raises(ValueError, match="no window of n_step=3 steps is complete yet; add more steps"):
            buffer.sample()
    buffer.clear()
    with pytest.raises(ValueError, match="the buffer is empty"):
        buffer.sample()


def test_windows_need_a_column_for_the_observation_after_them() -> None:
    buffer = ReplayBuffer(10, n_step=3, discount=0.9)
    with pytest.raises(ValueError, match=r"with n_step=3, .* whose name begins with next_.* \['done', 'obs_next', 'reward'\]"):
        buffer.add(obs_next=1, reward=1.0, done=False)
    for number in range(3):
        buffer.add(reward=1.0, done=False, next={"observation": number + 1}, obs_next=number + 1)
    batch = buffer.sample(4)
    assert batch["next"]["observation"].tolist() == [3] * 4 and batch["obs_next"].tolist() == [1] * 4
    # A single step has no other observation.
    ReplayBuffer(10, n_step=1, discount=0.9).add(obs_next=1, reward=1.0, done=False)


@pytest.mark.parametrize("flag", ["terminated", "done", "truncated"])
def test_flags_have_one_value_for_each_environment(flag: str) -> None:
    buffer = ReplayBuffer(10, n_step=2, discount=0.9)
    rows = {"reward": np.ones(1), "next_observation": np.zeros((1, 2)), "terminated": np.zeros(1, bool)}
    with pytest.raises(ValueError, match=rf"{flag} must have one value for each environment, shape \(1,\), but its shape is \(1, 1\)"):
        buffer.add_batch({**rows, flag: np.zeros((1, 1), bool)})
    with pytest.raises(ValueError, match=f"{flag} must have one value"):
        buffer.add({name: rows[name][0] for name in rows} | {flag: np.array([True])})
    buffer.add_batch({**rows, flag: np.ones(1, bool)})
    assert len(buffer) == 1


@pytest.mark.parametrize("flag", ["terminated", "done", "truncated"])
@pytest.mark.parametrize("value", [float("nan"), 0.5, 2, -1, np.int8(2)], ids=repr)
def test_ends_of_episodes_are_bools_or_0_or_1(flag: str, value: Any) -> None:
    buffer = ReplayBuffer(10, discount=0.9)
    told = rf"column '{flag}' must contain bools, or the numbers 0 and 1, but it contains {value}$"
    with pytest.raises(ValueError, match=told):
        buffer.add({"reward": 1.0, "terminated": False, flag: value})
    with pytest.raises(ValueError, match=told):
        buffer.add_batch({"reward": np.ones(2), "terminated": np.zeros(2, bool), flag: np.array([1, value])})
    assert len(buffer) == 0


@pytest.mark.parametrize("value", [True, np.True_, 1, 1.0, np.float32(1), np.array(1, np.int8)], ids=repr)
def test_ends_of_episodes_may_be_numbers(value: Any) -> None:
    for given, discount in ((value, 0.0), (value * 0, 0.5)):
        buffer = ReplayBuffer(10, discount=0.5)
        buffer.add(reward=1.0, terminated=given)
        assert buffer.sample(1)["discount"].tolist() == [discount]


def test_a_wrong_step_after_clear_leaves_an_n_step_buffer_as_it_was() -> None:
    buffer = ReplayBuffer(10, n_step=2, discount=0.5, batch_size=4)

    def step(dtype: Any) -> dict[str, Any]:
        return {"obs": np.zeros(2, dtype), "next_obs": np.zeros(2, dtype), "reward": 1.0, "done": True}

    buffer.add(step(np.float32))
    buffer.clear()
    for _ in range(3):
        with pytest.raises(ValueError, match="float64"):
            buffer.add(step(np.float64))
    buffer.add(step(np.float32))
    assert len(buffer) == 1


def added(buffer: ReplayBuffer) -> list[tuple[int, float, int, float]]:
    """Returns the transitions of a buffer: observation, return, following observation, bootstrap discount."""
    batch = buffer.sample(300)
    names = ("observation", "reward", "next_observation", "discount")
    return sorted(set(zip(*(batch[name].tolist() for name in names), strict=True)))


def numbered(numbers: list[int]) -> dict[str, Any]:
    seen, off = np.array(numbers), np.zeros(len(numbers), bool)
    return {"observation": seen, "reward": np.ones(len(numbers)), "next_observation": seen + 1, "terminated": off, "truncated": off}


def test_no_transition_spans_an_abandoned_episode() -> None:
    buffer = ReplayBuffer(100, n_step=3, discount=0.5)
    buffer.end_episode()
    for first in (0, 100):
        for number in range(first, first + 3 + first // 100):
            buffer.add(observation=number, reward=1.0, next_observation=number + 1, terminated=False)
        buffer.end_episode()
        buffer.end_episode()
    one = [(0, 1.75, 3, 0.125), (1, 1.5, 3, 0.25), (2, 1.0, 3, 0.5)]
    other = [(100, 1.75, 103, 0.125), (101, 1.75, 104, 0.125), (102, 1.5, 104, 0.25), (103, 1.0, 104, 0.5)]
    assert added(buffer) == one + other and len(buffer) == 7
    ReplayBuffer(10).end_episode()


@pytest.mark.parametrize("chosen", [[1], np.array([False, True])], ids=["numbers", "bools"])
def test_episodes_of_some_environments_can_be_ended(chosen: Any) -> None:
    buffer = ReplayBuffer(100, n_step=2, discount=0.5)
    buffer.add_batch(numbered([0, 100]))
    with pytest.raises(IndexError, match="index 2 is out of bounds"):
        buffer.end_episode([2])
    buffer.end_episode(chosen)
    buffer.add_batch(numbered([1, 200]))
    assert added(buffer) == [(0, 1.5, 2, 0.25), (100, 1.0, 101, 0.5)]


def test_environments_can_be_left_out_if_windows_have_one_step() -> None:
    # As for the resets of a vector of Gymnasium that resets in the next step.
    buffer = ReplayBuffer(100, n_step=1, discount=0.5)
    for numbers in ([0, 100], [101], [1, 102]):
        buffer.add_batch(numbered(numbers))
    assert added(buffer) == [(number, 1.0, number + 1, 0.5) for number in (0, 1, 100, 101, 102)]
    several = ReplayBuffer(100, n_step=2, discount=0.5)
    several.add_batch(numbered([0, 100]))
    with pytest.raises(ValueError, match="must always get steps of the same environments"):
        several.add_batch(numbered([101]))


def test_reserved_names_are_refused_before_a_window_is_complete() -> None:
    buffer = ReplayBuffer(100, n_step=2, discount=0.5, prioritized=1.0)
    step = {"observation": 0, "reward": 1.0, "next_observation": 1, "terminated": True}
    with pytest.raises(ValueError, match="'weights' and 'keys' are extra columns"):
        buffer.add({**step, "terminated": False, "keys": 1.0})
    buffer.add(step)
    assert len(buffer) == 1
