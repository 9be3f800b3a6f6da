"""relive.rl.adders: compares the items with a naive implementation of the rules."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from adder_episodes import SPEC, Place, Row, play, rows
from hypothesis import given, settings
from hypothesis import strategies as st

import relive
from relive import rl
from relive.rl import adders
from relive.rl.adders import EndBehavior

PADDING: Row = (0.0, 0, 0.0, 0.0, False)


def expected(episodes: list[int], length: int, period: int, end: EndBehavior) -> list[list[Row]]:
    """Sequences end at rows number length, length + period, …; `end` determines how the last row is handled."""
    scripts = [rows(episode, steps) for episode, steps in enumerate(episodes)]
    if end is EndBehavior.CONTINUE:
        together = [row for script in scripts for row in script]
        return [together[n - length : n] for n in range(length, len(together) + 1, period)]
    items = []
    for script in scripts:
        count = len(script)
        items += [script[n - length : n] for n in range(length, count, period)]
        due = next(n for n in range(length, count + length + period, period) if n >= count)
        if end is EndBehavior.WRITE and count >= length:
            items.append(script[count - length :])
        elif end is EndBehavior.TRUNCATE and due - length < count:
            items.append(script[due - length :])
        elif end is EndBehavior.ZERO_PAD and due - length < count:
            items.append((script + [PADDING] * (due - count))[due - length :])
    return items


@given(st.integers(1, 5), st.integers(1, 7), st.sampled_from(EndBehavior), st.lists(st.integers(1, 12), min_size=1, max_size=3))
@settings(max_examples=25, deadline=None)
def test_sequences_match_the_adder_rules(length: int, period: int, end: EndBehavior, episodes: list[int]) -> None:
    with Place(adders.SequenceAdder.signature(SPEC)) as place:
        adder = adders.SequenceAdder(place.client, length, period, end_of_episode_behavior=end, max_in_flight_items=2)
        for episode, steps in enumerate(episodes):
            play(adder, episode, steps)
        adder.flush()
        assert place.sequences() == expected(episodes, length, period, end)
    if end in (EndBehavior.WRITE, EndBehavior.TRUNCATE):
        with Place() as place:
            step = adders.create_step_spec(SPEC)
            configs = adders.create_sequence_config(step, length, period, "priority_table", end)
            patterns = adders.StructuredAdder(place.client, configs)
            for episode, steps in enumerate(episodes):
                play(patterns, episode, steps)
            assert place.sequences() == expected(episodes, length, period, end)


@pytest.mark.parametrize(
    ("old", "end"),
    [
        ({}, EndBehavior.ZERO_PAD), ({"pad_end_of_episode": True}, EndBehavior.ZERO_PAD), ({"break_end_of_episode": True}, EndBehavior.ZERO_PAD),
        ({"pad_end_of_episode": False}, EndBehavior.TRUNCATE), ({"break_end_of_episode": False}, EndBehavior.CONTINUE),
        ({"pad_end_of_episode": False, "break_end_of_episode": False}, EndBehavior.CONTINUE),
    ],
)  # fmt: skip
def test_acmes_old_arguments_for_the_end_of_an_episode_are_accepted(old: dict[str, bool], end: EndBehavior) -> None:
    with Place(adders.SequenceAdder.signature(SPEC)) as place:
        adder = adders.SequenceAdder(place.client, 3, 2, **old)
        for episode, steps in enumerate([3, 6]):
            play(adder, episode, steps)
        adder.flush()
        assert place.sequences() == expected([3, 6], 3, 2, end)
        with pytest.raises(ValueError, match="end_of_episode_behavior replaces pad_end_of_episode and break_end_of_episode"):
            adders.SequenceAdder(place.client, 3, 2, end_of_episode_behavior=end, pad_end_of_episode=True)


@pytest.mark.parametrize(
    ("n", "g", "rewards", "discounts", "made"),
    [
        (3, 1.0, [1, 1], [1, 0], [(1, 1), (2, 0), (1, 0)]),
        (3, 0.4, [1, 1, 1], [0.5, 0.5, 0], [(1, 0.5), (1.2, 0.1), (1.24, 0), (1.2, 0), (1, 0)]),
        (2, 1.0, [1, 1, 1], [0.5, 0.5, 0], [(1, 0.5), (1.5, 0.25), (1.5, 0), (1, 0)]),
        (3, 0.5, [2, 3, 5, 7], [1, 1, 1, 0], [(2, 1), (3.5, 0.5), (4.75, 0.25), (7.25, 0), (8.5, 0), (7, 0)]),
        (1, 0.9, [1, 2], [1, 0.5], [(1, 1), (2, 0.5)]),
    ],
)
def test_transitions_are_acmes(
    n: int, g: float, rewards: list[float], discounts: list[float], made: list[tuple[float, float]]
) -> None:
    steps = len(rewards)
    ends = [*range(1, steps + 1), *[steps] * (min(n, steps) - 1)]
    starts = [max(0, end - n) for end in range(1, steps + 1)]
    starts += [steps - left for left in range(min(n, steps) - 1, 0, -1)]

    def run(adder: adders.Adder) -> None:
        for _ in range(2):
            adder.add_first(rl.restart({"x": np.float32(0)}))
            for t in range(steps):
                kind = rl.truncation if t + 1 == steps else rl.transition
                adder.add(np.int32(t), kind(rewards[t], {"x": np.float32(t + 1)}, discounts[t]), {"t": np.int64(t)})

    nested = SPEC._replace(observations={"x": relive.ArraySpec((), np.float32)})
    extras = {"t": relive.ArraySpec((), np.int64)}
    with Place(adders.NStepTransitionAdder.signature(nested, extras)) as place:
        run(adders.NStepTransitionAdder(place.client, n, g))
        plain = [adders.Transition(*sample.data) for sample in place.items()]
    with Place() as place:
        configs = adders.create_n_step_transition_config(adders.create_step_spec(nested, extras), n, "priority_table")
        run(adders.StructuredAdder(place.client, configs, max_in_flight_items=1))
        patterned = [adders.n_step_from_trajectory(sample.data, g) for sample in place.items()]
    for transitions in (plain, patterned):
        numbers = [(float(item.reward), float(item.discount)) for item in transitions]
        assert numbers == [pytest.approx(pair) for pair in made] * 2
        places = [(int(item.observation["x"]), int(item.action), int(item.next_observation["x"])) for item in transitions]
        assert places == [(start, start, end) for start, end in zip(starts, ends, strict=True)] * 2
        assert [int(item.extras["t"]) for item in transitions] == starts * 2
        assert all(item.reward.dtype == item.discount.dtype == np.float32 for item in transitions)


def test_episodes_are_items() -> None:
    with Place(adders.EpisodeAdder.signature(SPEC)) as place:
        adder = adders.EpisodeAdder(place.client, 4)
        play(adder, 0, 3)
        play(adder, 1, 3, until=2)
        play(adder, 2, 1)
        assert place.sequences() == [rows(0, 3), rows(2, 1)], "what is abandoned leaves nothing"
        with pytest.raises(ValueError, match="more than max_sequence_length = 4 observations"):
            play(adder, 3, 4)
        padded = adders.EpisodeAdder(place.client, 4, padding_fn=lambda shape, dtype: np.full(shape, 1, dtype))
        play(padded, 0, 1)
        assert place.sequences() == [rows(0, 1) + [(1.0, 1, 1.0, 1.0, False)] * 2]


def test_an_abandoned_episode_ends_no_sequence() -> None:
    for patterns in (False, True):
        with Place() as place:
            end = EndBehavior.TRUNCATE
            configs = adders.create_sequence_config(adders.create_step_spec(SPEC), 2, 2, "priority_table", end)
            adder: adders.Adder = (
                adders.StructuredAdder(place.client, configs)
                if patterns
                else adders.SequenceAdder(place.client, 2, 2, end_of_episode_behavior=end)
            )
            play(adder, 0, 9, until=3)
            play(adder, 1, 2)
            assert place.sequences() == [rows(0, 9)[:2], rows(1, 2)[:2], rows(1, 2)[2:]]


def test_an_abandoned_episode_keeps_its_items() -> None:
    with Place() as place:
        configs = adders.create_sequence_config(adders.create_step_spec(SPEC), 1, 1, "priority_table")
        adder = adders.StructuredAdder(relive.Client(place.client.server_address, transport="tcp"), configs)
        place.client.pause_table("priority_table", samples=False)
        play(adder, 0, 9, until=3)
        resetting = threading.Thread(target=adder.reset)
        resetting.start()
        place.client.resume_table("priority_table")
        resetting.join()
        assert len(place.sequences()) == 3


def test_unsupported_adder_arguments_are_reported() -> None:
    with Place() as place:
        client, step = place.client, adders.create_step_spec(SPEC)
        configs = adders.create_n_step_transition_config(step, 2, "priority_table")
        for adder in (
            adders.NStepTransitionAdder(client, 2, 0.9),
            adders.SequenceAdder(client, 2, 1),
            adders.EpisodeAdder(client, 5),
            adders.StructuredAdder(client, configs),
        ):
            with pytest.raises(ValueError, match="call add_first"):
                adder.add(np.int32(0), rl.transition(0.0, np.float32(0)))
            with pytest.raises(ValueError, match="must start with FIRST"):
                adder.add_first(rl.transition(0.0, np.float32(0)))
        for wrong in (
            lambda: adders.NStepTransitionAdder(client, 0, 0.9),
            lambda: adders.SequenceAdder(client, 0, 1),
            lambda: adders.EpisodeAdder(client, 1),
            lambda: adders.create_n_step_transition_config(step, 0, "priority_table"),
            lambda: adders.create_sequence_config(step, 1, 0, "priority_table"),
            lambda: adders.SequenceAdder(client, 1, 1, max_in_flight_items=0),
        ):
            with pytest.raises(ValueError, match="must be at least"):
                wrong()
        with pytest.raises(NotImplementedError, match="WRITE and TRUNCATE"):
            adders.create_sequence_config(step, 2, 1, "priority_table", EndBehavior.ZERO_PAD)
