"""relive.rl.adders: programs written for Acme find the items, arguments and waiting times that they expect."""

from __future__ import annotations

import collections
import threading
from typing import Any

import numpy as np
import pytest
from adder_episodes import SPEC, Place, play, rows
from conftest import PATIENCE_S

import relive
from relive import nest, rl
from relive.rl import adders

# Acme's classes, which only have the same fields as this package's.
Transition = collections.namedtuple("Transition", ["observation", "action", "reward", "discount", "next_observation", "extras"])
Step = collections.namedtuple("Step", ["observation", "action", "reward", "discount", "start_of_episode", "extras"])
STEP_SPEC = adders.create_step_spec(SPEC)
EXTRAS = {"state": relive.ArraySpec((2,), np.float32)}


def patterns(client: relive.Client, configs: list[Any]) -> adders.StructuredAdder:
    return adders.StructuredAdder(client, configs)


ADDERS: dict[str, tuple[Any, Any]] = {
    "transitions": (lambda client: adders.NStepTransitionAdder(client, 1, 0.5), Transition(*adders.NStepTransitionAdder.signature(SPEC))),
    "sequences": (lambda client: adders.SequenceAdder(client, 3, 3), Step(*adders.SequenceAdder.signature(SPEC))),
    "episodes": (lambda client: adders.EpisodeAdder(client, 3), Step(*adders.EpisodeAdder.signature(SPEC))),
    "patterns": (
        lambda client: patterns(client, adders.create_sequence_config(STEP_SPEC, 3, 3, "priority_table")),
        Step(*adders.SequenceAdder.signature(SPEC)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ADDERS)
def test_items_fit_acmes_signatures(kind: str) -> None:
    make, signature = ADDERS[kind]
    for given in (signature, None):
        with Place(given) as place:
            play(make(place.client), 0, 2)
            sample = place.items()[0]
            rewards = np.array([row[2] for row in rows(0, 2)], np.float32)
            np.testing.assert_array_equal(sample.data.reward, rewards[0] if kind == "transitions" else rewards)
            assert sample.data[2] is sample.data.reward and sample.data.extras == ()
            assert type(sample.data)._fields == signature._fields


@pytest.mark.parametrize("kind", [kind for kind in ADDERS if kind != "patterns"])
def test_priority_functions_receive_the_items(kind: str) -> None:
    with Place() as place:
        seen: list[Any] = []

        def priority(item: Any) -> float:
            seen.append(item)
            return 1.0 + float(np.sum(item.reward))

        adder = ADDERS[kind][0](place.client)
        adder.add_priority_table("other", priority)
        with pytest.raises(ValueError, match="already writes to the table 'other'; its tables are priority_table, other"):
            adder.add_priority_table("other", None)
        play(adder, 0, 2)
        samples = place.items("other")
        assert [sample.info.priority for sample in samples] == [1.0 + float(np.sum(sample.data.reward)) for sample in samples]
        assert [sample.info.priority for sample in place.items()] == [1.0] * len(samples)
        for item, sample in zip(seen, samples, strict=True):
            nest.map_structure(np.testing.assert_array_equal, tuple(item), tuple(sample.data))
            # The names in earlier versions of Acme.
            assert item.observations is item.observation and item.actions is item.action
            assert item.rewards is item.reward and item.discounts is item.discount
        if kind == "transitions":
            assert [float(item.next_observation) for item in seen] == [row[0] for row in rows(0, 2)[1:]]


NESTS = [
    (1.5, np.array([0.5, 0.25])),
    (np.array([1.0, 2.0, 3.0]), 0.5),
    (np.ones((2, 1)), np.array([0.5, 0.25])),
    ({"a": 1.0, "b": np.array([2.0, 3.0])}, 0.5),
    (1.5, (0.5, np.array([0.25, 0.75]))),
    ((1.0, 2.0), (0.5, np.array([0.25, 0.75]))),
]


@pytest.mark.parametrize(("reward", "discount"), NESTS)
def test_rewards_and_discounts_are_broadcast(reward: Any, discount: Any) -> None:
    spec = SPEC._replace(
        rewards=nest.map_structure(lambda value: relive.ArraySpec(np.shape(value), np.float64), reward),
        discounts=nest.map_structure(lambda value: relive.ArraySpec(np.shape(value), np.float64), discount),
    )

    def run(adder: adders.Adder) -> None:
        adder.add_first(rl.restart(np.float32(0)))
        for time, kind in ((1, rl.transition), (2, rl.truncation)):
            earned = nest.map_structure(lambda value, time=time: time * value, reward)
            adder.add(np.int32(0), kind(earned, np.float32(time), discount))

    earned, kept = nest.flatten(reward), nest.flatten(discount)
    count = max(len(earned), len(kept))
    leaves = [(np.asarray(r), np.asarray(d)) for r, d in zip(earned * (count // len(earned)), kept * (count // len(kept)), strict=True)]
    expected = [
        [part for r, d in leaves for part in (r + 0 * d, d)],
        [part for r, d in leaves for part in (r + 0.9 * d * 2 * r, 0.9 * d * d)],
        [part for r, d in leaves for part in (2 * r + 0 * d, d)],
    ]
    with Place(adders.NStepTransitionAdder.signature(spec)) as place:
        run(adders.NStepTransitionAdder(place.client, 2, 0.9))
        plain = [sample.data for sample in place.items()]
    with Place() as place:
        configs = adders.create_n_step_transition_config(adders.create_step_spec(spec), 2, "priority_table")
        run(patterns(place.client, configs))
        items = [sample.data for sample in place.items()]
        patterned = [adders.n_step_from_trajectory(item, 0.9) for item in items]
        patterned_mappings = [adders.n_step_from_trajectory(item._asdict(), 0.9) for item in items]
    for transitions in (plain, patterned, patterned_mappings):
        for transition, parts in zip(transitions, expected, strict=True):
            pairs = zip(nest.flatten(transition.reward), nest.flatten(transition.discount), strict=True)
            for made, part in zip([part for pair in pairs for part in pair], parts, strict=True):
                assert made.dtype == np.float32 and made.shape == part.shape
                np.testing.assert_allclose(made, part, rtol=1e-6)


def test_returns_of_arrays_of_steps() -> None:
    assert adders.n_step_return(np.ones(2), np.full(2, 0.5), 0.4) == (pytest.approx(1.2), pytest.approx(0.1))
    with pytest.raises(ValueError, match="at least one step"):
        adders.n_step_return([], [], 0.9)


def test_nests_that_differ_are_refused_before_anything_is_written() -> None:
    with Place() as place:
        adder = adders.NStepTransitionAdder(place.client, 2, 0.9)
        adder.add_first(rl.restart(np.float32(0)))
        with pytest.raises(ValueError, match="the reward has the parts .*, but the discount has"):
            adder.add(np.int32(0), rl.transition({"a": 1.0}, np.float32(1), {"b": 1.0}))
        with pytest.raises(ValueError, match="shape mismatch"):
            adder.add(np.int32(0), rl.transition({"a": np.ones(3)}, np.float32(1), {"a": np.ones(2)}))
        adder.add(np.int32(0), rl.truncation({"a": 1.0}, np.float32(2), {"a": 0.5}))
        assert [sample.data.reward for sample in place.items()] == [{"a": 1.0}]


@pytest.mark.parametrize(
    ("make", "bound"),
    [(lambda client, **of: adders.NStepTransitionAdder(client, 1, 0.9, **of), 5), (lambda client, **of: adders.SequenceAdder(client, 1, 1, **of), 2)],
    ids=["transitions", "sequences"],
)
def test_adders_wait_for_tables_that_refuse_items(make: Any, bound: int) -> None:
    with Place() as place:
        place.client.pause_table("priority_table", samples=False)
        created: list[Any] = []
        is_bound_exceeded, is_done = threading.Event(), threading.Event()

        def priority(item: Any) -> float:
            created.append(item)
            if len(created) == bound + 1:
                is_bound_exceeded.set()
            return 1.0

        def run() -> None:
            play(make(relive.Client(place.client.server_address, transport="tcp"), priority_fns={"priority_table": priority}), 0, 20)
            is_done.set()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        assert is_bound_exceeded.wait(PATIENCE_S)
        # An adder that did not wait would have time for many items.
        for _ in range(50):
            place.client.status()
        assert len(created) == bound + 1
        place.client.resume_table("priority_table")
        assert is_done.wait(PATIENCE_S)
        thread.join(PATIENCE_S)
        assert len(place.items()) == len(created)


def test_a_reset_may_have_a_deadline() -> None:
    with Place() as place:
        client = relive.Client(place.client.server_address, transport="tcp", timeout=PATIENCE_S)
        adder = adders.NStepTransitionAdder(client, 1, 0.9)
        place.client.pause_table("priority_table", samples=False)
        play(adder, 0, 9, until=1)
        with pytest.raises(relive.DeadlineExceededError, match="after 1ms"):
            adder.reset(timeout_ms=1)
        place.client.resume_table("priority_table")
        adder.add(np.int32(2), rl.transition(1.0, np.float32(2)))
        adder.reset(timeout_ms=None)
        assert [int(sample.data.action) for sample in place.items()] == [1, 2], "the episode continues after the deadline"


def test_acmes_other_arguments_are_accepted() -> None:
    with Place() as place:
        sequences = adders.SequenceAdder(place.client, 3, 3, delta_encoded=True, chunk_length=1, get_signature_timeout_ms=300_000)
        play(sequences, 0, 2)
        play(adders.EpisodeAdder(place.client, 4, False, {"priority_table": None}, 1, np.zeros, chunk_length=1), 1, 2)
        assert place.sequences() == [rows(0, 2), rows(1, 2) + [(0.0, 0, 0.0, 0.0, False)]]
        with pytest.raises(ValueError, match="pad_end_of_episode=True and break_end_of_episode=False contradict each other"):
            adders.SequenceAdder(place.client, 3, 3, pad_end_of_episode=True, break_end_of_episode=False)


def test_adders_write_through_others() -> None:
    with Place(adders.SequenceAdder.signature(SPEC)) as place:
        inner = [adders.SequenceAdder(place.client, 3, 3, priority_fns={table: None}) for table in ("priority_table", "other")]
        adder = adders.IgnoreExtrasAdder(adders.ForkingAdder(iter(inner)))
        for episode in (1, 0):
            adder.add_first(rl.restart(np.float32(100.0 * (episode + 1))))
            for time, (_, action, reward, discount, _) in enumerate(rows(episode, 2)[:2]):
                step = rl.TimeStep(rl.StepType(1 + time), reward, discount, np.float32(rows(episode, 2)[time + 1][0]))
                adder.add(np.int32(action), step, extras={"state": np.zeros(2, np.float32)})
                if episode == 1:
                    adder.reset()
                    break
        assert place.sequences() == [rows(0, 2)]
        assert [sample.data.reward.tolist() for sample in place.items("other")] == [[row[2] for row in rows(0, 2)]]


def test_extras_are_part_of_the_items() -> None:
    for made, signature in (
        (lambda client: adders.NStepTransitionAdder(client, 1, 0.9), adders.NStepTransitionAdder.signature(SPEC, EXTRAS)),
        (lambda client: adders.EpisodeAdder(client, 3), adders.EpisodeAdder.signature(SPEC, EXTRAS)),
    ):
        with Place(signature) as place:
            adder = made(place.client)
            adder.add_first(rl.restart(np.float32(0)))
            adder.add(np.int32(0), rl.termination(1.0, np.float32(1)), {"state": np.array([1, 2], np.float32)})
            assert nest.flatten(place.items()[0].data.extras)[0].ravel()[:2].tolist() == [1, 2]
