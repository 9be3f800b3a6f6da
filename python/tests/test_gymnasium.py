"""relive.gymnasium: compares a recorder's items with values derived directly from the episode."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import relive
from conftest import uniform_table
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from relive.gymnasium import Episodes, Recorder, Sequences, Transitions, signature
from scripted_episodes import Script, Setting, first_number, play

FORMS = ["plain", "dict"]


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
