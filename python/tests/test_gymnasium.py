"""relive.gymnasium: compares a recorder's items with values derived directly from the episode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
import relive
from conftest import uniform_table
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from relive import nest
from relive.gymnasium import Episodes, Kind, Recorder, Sequences, Transitions, signature

FORMS = ["plain", "dict"]


class Script(gymnasium.Env[Any, Any]):
    """Episodes of given lengths.

    Observation t of episode e is 100·e + t, always in the same memory; the reward of step t is t + 1. The arrays of
    actions are overwritten.
    """

    def __init__(self, lengths: list[int], *, truncates: bool = False, form: str = "plain") -> None:
        box = spaces.Box(-1e6, 1e6, (2,), np.float32)
        self._nested = form == "dict"
        self.observation_space: Any = (
            spaces.Dict({"position": box, "parts": spaces.Tuple((spaces.Discrete(1000), box))}) if self._nested else box
        )
        self.action_space: Any = spaces.Tuple((spaces.Discrete(9), box)) if self._nested else spaces.Discrete(9)
        self._lengths = lengths
        self._truncates = truncates
        self._episode = -1
        self._step = 0
        self._memory = np.zeros(2, np.float32)
        self.closed = 0

    def _observe(self) -> Any:
        number = 100 * self._episode + self._step
        self._memory[:] = number
        return {"position": self._memory, "parts": (number, self._memory)} if self._nested else self._memory

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._episode += 1
        self._step = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._step += 1
        if self._nested:
            action[1][:] = -1.0
        over = self._step == self._lengths[self._episode]
        return self._observe(), float(self._step), over and not self._truncates, over and self._truncates, {}

    def close(self) -> None:
        self.closed += 1


def action_of(env: Script, step: int) -> Any:
    """Returns a policy with the action t modulo 9 at step t."""
    return (step % 9, np.full(2, step % 9, np.float32)) if env._nested else step % 9


class Setting:
    """A server with a queue that has the items' signature, and a client."""

    def __init__(self, env: gymnasium.Env[Any, Any], kind: Kind, max_size: int = 1_000) -> None:
        self.table = relive.Table.queue("items", max_size, signature=signature(env, kind))
        self.server = relive.Server([self.table])
        self.client = self.server.localhost_client()

    def __enter__(self) -> Setting:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop()

    def items(self) -> list[Any]:
        """Returns all items in order, each without the batch dimension."""
        count = self.table.info.current_size
        if not count:
            return []
        with self.client.batches("items", 1, max_batches=count) as batches:
            return [nest.map_structure(lambda column: column[0], batch.data) for batch in batches]


def play(recorder: Recorder, env: Script, num_episodes: int) -> None:
    for _ in range(num_episodes):
        recorder.reset()
        step, over = 0, False
        while not over:
            _, _, terminated, truncated, _ = recorder.step(action_of(env, step))
            step, over = step + 1, terminated or truncated


def first_number(observation: Any) -> Any:
    """Returns the number that an observation or action encodes; checks that all its parts encode the same number."""
    numbers = [leaf[..., 0] if leaf.dtype == np.float32 else leaf for leaf in nest.flatten(observation)]
    for number in numbers:
        np.testing.assert_array_equal(number, numbers[0])
    return numbers[0]


def expected_transitions(episode: int, length: int, truncates: bool, kind: Transitions) -> list[dict[str, float]]:
    expected = []
    for start in range(length):
        end = min(start + kind.n_steps, length)
        terminated = end == length and not truncates
        expected.append({
            "observation": 100 * episode + start,
            "action": start % 9,
            "reward": sum(kind.discount**k * (start + k + 1) for k in range(end - start)),
            "discount": 0.0 if terminated else kind.discount ** (end - start),
            "next_observation": 100 * episode + end,
        })
    return expected


@settings(max_examples=40, deadline=None)
@given(
    n_steps=st.integers(1, 5),
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=3),
    truncates=st.booleans(),
    form=st.sampled_from(FORMS),
)
def test_transitions(n_steps: int, lengths: list[int], truncates: bool, form: str) -> None:
    kind = Transitions(n_steps=n_steps, discount=0.5)
    env = Script(lengths, truncates=truncates, form=form)
    with Setting(env, kind) as setting:
        with Recorder(env, setting.client, "items", kind) as recorder:
            play(recorder, env, len(lengths))
        items = setting.items()
    expected = [
        row for episode, length in enumerate(lengths) for row in expected_transitions(episode, length, truncates, kind)
    ]
    found = [
        {
            "observation": first_number(item["observation"]),
            "action": first_number(item["action"]),
            "reward": item["reward"],
            "discount": item["discount"],
            "next_observation": first_number(item["next_observation"]),
        }
        for item in items
    ]
    # Within an episode, items are created when their windows are complete, that is, in the order of their starts.
    assert found == expected


def expected_rows(episode: int, length: int, truncates: bool, padding: int = 0) -> list[tuple[float, ...]]:
    """Returns observation, action, reward, terminated, truncated and mask of each row of an episode."""
    rows: list[tuple[float, ...]] = [
        (
            100 * episode + step, step % 9, step + 1,
            step + 1 == length and not truncates, step + 1 == length and truncates, True,
        )
        for step in range(length)
    ]
    return [*rows, (100 * episode + length, 0, 0, False, False, False), *[(0, 0, 0, False, False, False)] * padding]


def found_rows(item: Any) -> list[tuple[float, ...]]:
    columns = [first_number(item["observation"]), first_number(item["action"])]
    columns += [item[name] for name in ("reward", "terminated", "truncated", "mask")]
    return list(zip(*[column.tolist() for column in columns], strict=True))


def expected_sequences(length: int, truncates: bool, kind: Sequences, episode: int) -> list[list[tuple[float, ...]]]:
    rows = expected_rows(episode, length, truncates, padding=kind.length)
    period = kind.period or kind.length
    complete = [start for start in range(0, length + 1, period) if start + kind.length <= length + 1]
    covered = complete[-1] + kind.length if complete else 0
    if kind.pad and covered < length:
        complete.append(complete[-1] + period if complete else 0)
    return [rows[start : start + kind.length] for start in complete]


@settings(max_examples=60, deadline=None)
@given(
    shape=st.integers(1, 6).flatmap(lambda length: st.tuples(st.just(length), st.none() | st.integers(1, length))),
    pad=st.booleans(),
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    truncates=st.booleans(),
    form=st.sampled_from(FORMS),
)
def test_sequences(
    shape: tuple[int, int | None], pad: bool, lengths: list[int], truncates: bool, form: str
) -> None:
    kind = Sequences(length=shape[0], period=shape[1], pad=pad)
    env = Script(lengths, truncates=truncates, form=form)
    with Setting(env, kind) as setting:
        with Recorder(env, setting.client, "items", kind) as recorder:
            play(recorder, env, len(lengths))
        found = [found_rows(item) for item in setting.items()]
    assert found == [
        rows for episode, length in enumerate(lengths) for rows in expected_sequences(length, truncates, kind, episode)
    ]
    if pad:
        steps = {row[0] for rows in found for row in rows if row[-1]}
        assert steps == {100 * episode + step for episode, length in enumerate(lengths) for step in range(length)}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("truncates", [False, True])
def test_episodes(form: str, truncates: bool) -> None:
    lengths, kind = [3, 1, 7], Episodes(max_length=7)
    env = Script(lengths, truncates=truncates, form=form)
    with Setting(env, kind) as setting:
        with Recorder(env, setting.client, "items", kind) as recorder:
            play(recorder, env, len(lengths))
        found = [found_rows(item) for item in setting.items()]
    assert found == [expected_rows(episode, length, truncates) for episode, length in enumerate(lengths)]


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


def test_observations_are_stored_once() -> None:
    """Transitions of overlapping windows refer to the same frames."""
    class Noise(Script):
        def __init__(self) -> None:
            super().__init__([50])
            self.observation_space = spaces.Box(0, 255, (64, 64), np.uint8)
            self._rng = np.random.default_rng(0)

        def _observe(self) -> Any:
            return self._rng.integers(256, size=(64, 64), dtype=np.uint8)

    env, kind = Noise(), Transitions(n_steps=3)
    with Setting(env, kind) as setting, Recorder(env, setting.client, "items", kind) as recorder:
        play(recorder, env, 1)
        assert setting.table.info.current_size == 50
        assert setting.client.status()["encoded_bytes"] < 1.1 * 51 * 64 * 64


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


def test_signatures() -> None:
    env = Script([1], form="dict")
    transitions = signature(env, Transitions())
    assert sorted(transitions) == ["action", "discount", "next_observation", "observation", "reward"]
    assert transitions["next_observation"]["parts"][1] == relive.ArraySpec((2,), np.float32)
    sequences = signature(env, Sequences(length=4))
    assert sequences["observation"]["parts"][0] == relive.ArraySpec((4,), np.int64)
    assert sequences["mask"] == relive.ArraySpec((4,), np.bool_)
    assert signature(env, Episodes(max_length=9))["reward"] == relive.ArraySpec((None,), np.float32)


def test_sequences_include_the_recurrent_state(serve: Any) -> None:
    kind = Sequences(4, period=4, state={"h": relive.ArraySpec((2, 3), np.float32), "c": relive.ArraySpec((), np.float32)})
    env = gymnasium.make("CartPole-v1")
    server = serve(uniform_table("sequences", sampler=relive.selectors.Fifo(), signature=signature(env, kind)))
    client = server.localhost_client()
    with Recorder(env, client, "sequences", kind) as recorder:
        recorder.reset(seed=0)
        assert recorder.agent_state["h"].shape == (2, 3) and not recorder.agent_state["h"].any()
        for number in range(8):
            recorder.agent_state = {"h": np.full((2, 3), number, np.float64), "c": number}
            recorder.step(number % 2)
        recorder.flush()
        with pytest.raises(ValueError, match=r"'h'.*\(2, 3\).*\(3,\)"):
            recorder.agent_state = {"h": np.zeros(3), "c": 0.0}
        with client.batches("sequences", 2, timeout=30.0, max_batches=1) as batches:
            state = next(batches).data["state"]
    assert state["h"].shape == (2, 4, 2, 3) and state["h"].dtype == np.float32
    assert sorted(set(state["c"][:, 0].tolist())) in ([0.0], [0.0, 4.0], [4.0])
    np.testing.assert_array_equal(state["h"][:, :, 1, 1], state["c"])
    with Recorder(gymnasium.make("CartPole-v1"), client, "sequences", Transitions()) as plain, pytest.raises(AttributeError, match="state"):
        plain.agent_state = 0
