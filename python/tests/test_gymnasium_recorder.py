"""Recorders of Gymnasium environments: priorities, the ends of episodes, invalid environments and arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
import relive
from gymnasium import spaces
from relive.gymnasium import Episodes, Kind, Recorder, Sequences, Transitions, signature
from scripted_episodes import Script, Setting, first_number, play


@pytest.fixture
def cartpole() -> Iterator[gymnasium.Env[Any, Any]]:
    env = gymnasium.make("CartPole-v1", max_episode_steps=30)
    yield env
    env.close()


def test_a_real_environment(cartpole: gymnasium.Env[Any, Any]) -> None:
    kind = Transitions(n_steps=2)
    with Setting(cartpole, kind) as setting:
        recorder = Recorder(cartpole, setting.client, "items", kind)
        observation, _ = recorder.reset(seed=1)
        seen, over = [observation.copy()], False
        while not over:
            observation, _, terminated, truncated, _ = recorder.step(np.int64(len(seen) % 2))
            seen.append(observation.copy())
            over = terminated or truncated
        items = setting.items()
        recorder.close()
    assert len(items) == len(seen) - 1
    for step, item in enumerate(items):
        np.testing.assert_array_equal(item["observation"], seen[step])
        np.testing.assert_array_equal(item["next_observation"], seen[min(step + 2, len(seen) - 1)])
    assert items[-1]["discount"] == 0


def test_the_recorder_passes_everything_through(cartpole: gymnasium.Env[Any, Any]) -> None:
    with Setting(cartpole, Transitions()) as setting:
        recorder = Recorder(cartpole, setting.client, "items")
        assert recorder.observation_space == cartpole.observation_space
        assert recorder.unwrapped is cartpole.unwrapped
        observation, info = recorder.reset(seed=3)
        assert info == {}
        again, _ = cartpole.reset(seed=3)
        np.testing.assert_array_equal(observation, again)
        recorder.close()


def test_a_function_gives_the_priority() -> None:
    kind = Transitions(discount=1.0)
    env = Script([4])

    def priority(item: Any) -> float:
        assert isinstance(item["observation"], np.ndarray)
        return float(item["observation"][0] + item["reward"])

    with Setting(env, kind) as setting:
        with Recorder(env, setting.client, "items", kind, priority=priority) as recorder:
            play(recorder, env, 1)
        with setting.client.batches("items", 4, max_batches=1) as batches:
            assert next(batches).info.priority.tolist() == [1, 3, 5, 7]


def test_lists_are_accepted_as_actions() -> None:
    env = Script([1])
    env.action_space = spaces.Box(-9, 9, (2,), np.float32)
    with Setting(env, Transitions()) as setting:
        with Recorder(env, setting.client, "items") as recorder:
            recorder.reset()
            recorder.step([3, 4])
        (item,) = setting.items()
    assert item["action"].tolist() == [3, 4]


def test_a_number_gives_the_priority() -> None:
    env = Script([2])
    with Setting(env, Transitions()) as setting:
        with Recorder(env, setting.client, "items", priority=2.5) as recorder:
            play(recorder, env, 1)
        with setting.client.batches("items", 2, max_batches=1) as batches:
            assert next(batches).info.priority.tolist() == [2.5, 2.5]


@pytest.mark.parametrize("kind", [Transitions(n_steps=2), Sequences(length=3, period=1), Episodes(max_length=9)])
def test_an_abandoned_episode_leaves_what_is_complete(kind: Kind) -> None:
    env = Script([9, 2])
    with Setting(env, kind) as setting:
        with Recorder(env, setting.client, "items", kind) as recorder:
            recorder.reset()
            for step in range(4):
                recorder.step(step)
            play(recorder, env, 1)
        numbers = [np.atleast_1d(first_number(item["observation"]))[0] for item in setting.items()]
    abandoned = {Transitions: [0, 1, 2], Sequences: [0, 1], Episodes: []}[type(kind)]
    assert numbers == [*abandoned, *([100, 101] if isinstance(kind, Transitions) else [100])]


def test_close_ends_episode_and_environment_once() -> None:
    env = Script([9])
    with Setting(env, Transitions()) as setting:
        recorder = Recorder(env, setting.client, "items")
        recorder.reset()
        recorder.step(0)
        recorder.close()
        recorder.close()
        assert env.closed == 1
        assert setting.table.info.current_size == 1
        with pytest.raises(gymnasium.error.ResetNeeded):
            recorder.step(0)


def test_flush_sends_items_before_the_end_of_the_episode() -> None:
    env = Script([9])
    with Setting(env, Transitions()) as setting, Recorder(env, setting.client, "items") as recorder:
        recorder.reset()
        for step in range(3):
            recorder.step(step)
        recorder.flush()
        assert setting.table.info.current_size == 3


def test_recording_into_a_full_table_times_out_and_loses_nothing() -> None:
    env = Script([3, 2])
    with Setting(env, Transitions(), max_size=2) as setting:
        recorder = Recorder(env, setting.client, "items", timeout=0.05)
        with pytest.raises(relive.DeadlineExceededError):
            play(recorder, env, 1)
        assert setting.table.info.current_size == 2
        with setting.client.batches("items", 3, max_batches=1) as batches:
            assert next(batches).data["reward"].tolist() == [1, 2, 3]
        play(recorder, env, 1)
        assert [item["reward"] for item in setting.items()] == [1, 2]
        recorder.close()


def test_steps_need_an_episode() -> None:
    env = Script([1, 1])
    with Setting(env, Transitions()) as setting, Recorder(env, setting.client, "items") as recorder:
        with pytest.raises(gymnasium.error.ResetNeeded, match="reset"):
            recorder.step(0)
        play(recorder, env, 1)
        with pytest.raises(gymnasium.error.ResetNeeded, match="Autoreset"):
            recorder.step(0)


def test_autoreset_must_wrap_the_recorder() -> None:
    env = Script([2, 2, 2])
    with Setting(env, Transitions()) as setting:
        recorder = Recorder(env, setting.client, "items")
        auto = gymnasium.wrappers.Autoreset(recorder)
        auto.reset()
        for _ in range(5):
            auto.step(0)
        recorder.close()
        assert [first_number(item["observation"]) for item in setting.items()] == [0, 1, 100, 101]


def test_a_vector_of_environments_is_refused_and_one_of_recorders_works() -> None:
    kind = Transitions()
    with Setting(Script([1]), kind) as setting:
        def make() -> gymnasium.Env[Any, Any]:
            return Recorder(Script([3, 3]), setting.client, "items", kind)

        vector = gymnasium.vector.SyncVectorEnv([make, make])
        vector.reset()
        for _ in range(3):
            vector.step(np.zeros(2, np.int64))
        vector.close()
        assert len(setting.items()) == 6
        with pytest.raises(TypeError, match="vector of environments"):
            Recorder(vector, setting.client, "items", kind)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="vector of environments"):
            signature(vector, kind)  # type: ignore[arg-type]


def test_invalid_environments_are_refused() -> None:
    with pytest.raises(TypeError, match="gymnasium.Env"):
        signature("CartPole-v1")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="kind"):
        signature(Script([1]), "transitions")  # type: ignore[arg-type]


def test_spaces_without_a_shape_are_refused() -> None:
    env = Script([1])
    env.observation_space = spaces.Dict({"words": spaces.Text(5)})
    with pytest.raises(ValueError, match="words"):
        signature(env)


def test_episodes_require_a_max_length_and_obey_it(cartpole: gymnasium.Env[Any, Any]) -> None:
    env = Script([3])
    with Setting(env, Episodes(max_length=2)) as setting:
        with pytest.raises(ValueError, match="max_length"):
            Recorder(env, setting.client, "items", Episodes())
        recorder = Recorder(env, setting.client, "items", Episodes(max_length=2))
        with pytest.raises(ValueError, match="TimeLimit"):
            play(recorder, env, 1)
        recorder.close()
        assert setting.items() == []
        Recorder(cartpole, setting.client, "items", Episodes()).close()


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Transitions(n_steps=0), "n_steps"),
        (lambda: Transitions(discount=1.5), "discount"),
        (lambda: Sequences(0), "length"),
        (lambda: Sequences(3, period=4), "period"),
        (lambda: Sequences(3, period=0), "period"),
        (lambda: Episodes(max_length=0), "max_length"),
    ],
)
def test_numbers_out_of_range(make: Any, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        make()
