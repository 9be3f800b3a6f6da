"""Names and arguments of Ray's iterators that ``relive.flow`` also accepts."""

from __future__ import annotations

import itertools
import pickle
import queue
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from relive import flow
from relive.flow import LocalIterator, MetricsContext, SharedMetrics, Timer, _metrics


def is_even(x: int) -> bool:
    return x % 2 == 0


def test_a_stream_of_a_function_that_takes_the_timeout() -> None:
    given: list[Any] = []

    def numbers(timeout: float | None = None) -> Iterator[int]:
        given.append(timeout)
        yield from range(3)

    def counted(x: int) -> int:
        LocalIterator.get_metrics().counters["seen"] += 1
        return x

    metrics = SharedMetrics()
    items = LocalIterator(numbers, metrics, name="numbers").for_each(counted)
    assert given == [] and "numbers" in repr(items)
    assert items.take(2) == [0, 1] and given == [None] and metrics.get().counters["seen"] == 2
    assert list(LocalIterator(numbers, metrics, timeout=0)) == [0, 1, 2] and given == [None, 0]
    with pytest.raises(TypeError, match=r"must be a function that returns an iterator, got \[1\]; use LocalIterator.of"):
        LocalIterator([1], metrics)  # type: ignore[arg-type]


@pytest.mark.parametrize("resources", [{"num_cpus": 0.1}, 2, None])
def test_resources_have_no_effect(resources: Any) -> None:
    assert flow.from_range(4).for_each(str, resources=resources).gather_sync().take(4) == ["0", "2", "1", "3"]
    assert LocalIterator.of([1]).for_each(str, resources=resources).take(1) == ["1"]


def test_filters_have_the_name_of_their_function() -> None:
    assert list(flow.from_range(4).filter(fn=is_even).gather_sync()) == [0, 2]
    assert list(LocalIterator.of(range(4)).filter(fn=is_even)) == [0, 2]


def test_the_names_of_streams_match_ray() -> None:
    shards = flow.from_range(6, num_shards=3)
    assert repr(shards.local_shuffle(2, seed=1)) == "ParallelIterator[from_range[6, shards=3].local_shuffle(shuffle_buffer_size=2, seed=1)]"
    selected = shards.select_shards([0, 2])
    assert repr(selected) == "ParallelIterator[ParallelIterator[from_range[6, shards=3]].select_shards(2 total)]"
    assert selected.gather_sync().shuffle(2).name == f"{selected!r}.gather_sync().shuffle(shuffle_buffer_size=2, seed=None)"


def test_no_weights_are_an_empty_list_or_none() -> None:
    for weights in ([], None):
        one, other = LocalIterator.of([1, 2]), LocalIterator.of([3, 4])
        assert list(one.union(other, deterministic=True, round_robin_weights=weights)) == [1, 3, 2, 4]


def test_weights_override_the_order_of_a_union() -> None:
    for weights, expected in (([1, "*"], [1, 2, 2, 2, 1, 1]), ([2, 1], [1, 1, 2, 1, 2, 2])):
        ones, twos = LocalIterator.of([1] * 3), LocalIterator.of([2] * 3)
        assert list(ones.union(twos, deterministic=True, round_robin_weights=weights)) == expected


@pytest.mark.parametrize(("weights", "share"), [([1, 0.5], 1 / 3), ([1.75, 1], 1 / 2.75)])
def test_fractions_of_weights_are_probabilities(weights: list[float], share: float) -> None:
    ones, others = LocalIterator.of(itertools.repeat(0)), LocalIterator.of(itertools.repeat(1))
    taken = ones.union(others, round_robin_weights=weights).take(6_000)
    assert abs(sum(taken) / 6_000 - share) < 0.02


class Inbox:
    """A queue, and the stream of what is in it, as in the queues of RLlib's learners."""

    def __init__(self) -> None:
        self.queue: queue.Queue[Any] = queue.Queue()
        self.timeouts: list[float | None] = []

    def put(self, item: Any) -> Any:
        self.queue.put(("learned", item))
        return item

    def items(self, timeout: float | None = None) -> Iterator[Any]:
        self.timeouts.append(timeout)
        while True:
            try:
                yield self.queue.get(timeout=timeout)
            except queue.Empty:
                yield flow._NextValueNotReady()

    def stream(self) -> LocalIterator[Any]:
        return LocalIterator(self.items, SharedMetrics())


SKIPPED = [
    lambda acting, inbox: acting.union(inbox.stream()),
    lambda acting, inbox: acting.union(inbox.stream(), round_robin_weights=[1, "*"]),
    lambda acting, inbox: acting.union(inbox.stream().for_each(tuple).filter(bool)),
    lambda acting, inbox: acting.union(inbox.stream().union(LocalIterator.of([]))),
    lambda acting, inbox: acting.union(LocalIterator.of([]).transform(lambda _: inbox.items(0))),
]


@pytest.mark.parametrize("joined", SKIPPED)
def test_a_union_skips_a_source_without_an_item(joined: Any) -> None:
    inbox = Inbox()
    items = joined(LocalIterator.of(range(3)).for_each(inbox.put), inbox)
    assert items.take(6) == [0, ("learned", 0), 1, ("learned", 1), 2, ("learned", 2)]
    with pytest.raises(TimeoutError):
        items.next(timeout=0.05)
    inbox.put(3)
    assert items.next(timeout=60) == ("learned", 3) and inbox.timeouts == [0]


FIRST = [("stored", number) for number in range(5)]
NEXT = [("replayed", 4), ("stored", 5), ("replayed", 5), ("stored", 6)]
TWICE = [("replayed", 4), ("replayed", 4), ("stored", 5), ("replayed", 5)]


@pytest.mark.parametrize(("joined", "expected"), [({"deterministic": True}, NEXT), ({"round_robin_weights": [1, 2]}, TWICE)])
@pytest.mark.parametrize(
    "changed",
    [
        lambda replay: replay,
        lambda replay: replay.for_each(tuple).filter(bool).combine(lambda item: [item]),
        lambda replay: replay.batch(1).flatten().shuffle(1),
        lambda replay: replay.timeout(60).retry(1).window(1).flatten(),
        lambda replay: replay.union(LocalIterator.of([]), deterministic=True),
    ],
)
def test_a_source_without_an_item_ends_its_turn(joined: Any, expected: list[Any], changed: Any) -> None:
    """The plan of DQN: it stores and replays in turn, and there is nothing to replay at first."""
    stored: list[int] = []

    def store(number: int) -> tuple[str, int]:
        stored.append(number)
        return "stored", number

    def replays(timeout: float | None = None) -> Iterator[Any]:
        while True:
            yield flow._NextValueNotReady() if len(stored) < 5 else ("replayed", stored[-1])

    storing = LocalIterator.of(itertools.count()).for_each(store)
    items = storing.union(changed(LocalIterator(replays, SharedMetrics())), **joined)
    assert [items.next(timeout=60) for _ in range(9)] == [*FIRST, *expected]


WAITING = [
    lambda learning: learning,
    lambda learning: learning.union(LocalIterator.of([]), deterministic=True),
    lambda learning: learning.union(LocalIterator.of([]), round_robin_weights=[1, 1]),
    lambda learning: learning.prefetch(1).union(LocalIterator.of([])),
    lambda learning: learning.transform(iter).union(LocalIterator.of([])),
]


@pytest.mark.parametrize("changed", WAITING)
def test_other_streams_wait_for_a_source(changed: Any) -> None:
    inbox = Inbox()
    inbox.put(0)
    assert changed(inbox.stream()).next(timeout=60) == ("learned", 0) and inbox.timeouts == [None]
    # A source that waits in a thread of its own ends with its next item.
    inbox.put(1)


def test_copies_of_a_source_without_an_item_are_skipped() -> None:
    inbox = Inbox()
    one, other = inbox.stream().duplicate(2)
    items = one.union(other, LocalIterator.of([1]))
    assert next(items) == 1 and inbox.timeouts == [0]
    inbox.put(0)
    assert items.take(2) == [("learned", 0)] * 2


@pytest.mark.parametrize("max_concurrency", [1, 2])
def test_a_function_cannot_postpone_its_item(max_concurrency: int) -> None:
    items = LocalIterator.of(range(2)).for_each(lambda item: item or flow._NextValueNotReady(), max_concurrency=max_concurrency)
    with pytest.raises(TypeError, match=r"only a source .* may yield it; .* use for_each\(function, max_concurrency=2\)"):
        items.take(2)


def test_queues_can_wait_in_threads_of_their_own() -> None:
    full, done = queue.Queue[int](maxsize=1), queue.Queue[Any]()
    learner = threading.Thread(target=lambda: [done.put(full.get()) for _ in range(8)])
    learner.start()
    acting = LocalIterator.of(range(8)).for_each(full.put, max_concurrency=2)
    learning = LocalIterator.of(iter(done.get, None)).prefetch(1)
    items = acting.union(learning)
    taken = [items.next(timeout=60) for _ in range(16)]
    assert sorted(item for item in taken if item is not None) == list(range(8))
    learner.join()
    done.put(None)
    assert list(items) == []


def test_timers_count_units() -> None:
    timer = Timer()
    assert not timer.has_units_processed() and timer.mean_units_processed == 0.0
    timer.push(2.0)
    timer.push_units_processed(10)
    timer.push_units_processed(20)
    assert timer.has_units_processed()
    assert (timer.mean, timer.mean_units_processed, timer.mean_throughput) == (2.0, 15.0, 15.0)


@pytest.fixture
def moments(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Returns the times at which the blocks of timers begin and end, in this order."""
    found: list[float] = []
    monkeypatch.setattr(_metrics.time, "perf_counter", lambda: found.pop(0))
    return found


def test_overlapping_blocks_of_two_threads_count_with_their_own_durations(moments: list[float]) -> None:
    timer, has_begun, may_end = Timer(), threading.Event(), threading.Event()

    def run() -> None:
        with timer:
            has_begun.set()
            assert may_end.wait(60)

    moments += [0.0, 1.0, 10.0, 12.0]
    other = threading.Thread(target=run)
    with timer:
        other.start()
        assert has_begun.wait(60)
    may_end.set()
    other.join()
    assert (timer.count, timer.total) == (2, 10.0 + 11.0)


def test_nested_blocks_count_with_their_own_durations(moments: list[float]) -> None:
    moments += [0.0, 1.0, 3.0, 10.0]
    timer = Timer()
    with timer, timer:
        pass
    assert (timer.count, timer.total) == (2, 2.0 + 10.0)
    assert pickle.loads(pickle.dumps(timer)).total == 12.0


def test_metrics_are_saved_with_timers_and_restored_without() -> None:
    metrics = MetricsContext()
    metrics.counters["seen"], metrics.info["last"] = 3, "x"
    metrics.timers["learn"].push(2.0)
    metrics.timers["learn"].push_units_processed(8)
    restored = MetricsContext()
    restored.timers["old"].push(1.0)
    restored.restore(metrics.save())
    assert restored.save() == metrics.save() and list(restored.timers) == ["learn"]
    assert restored.timers["learn"].mean_throughput == 4.0 and restored.timers["learn"].has_units_processed()
    for of_ray in ({"counters": {"seen": 1}, "info": {}, "timers": None}, {"counters": {"seen": 1}, "info": {}}):
        restored.restore(of_ray)
        assert restored.counters == {"seen": 1} and not restored.timers


def test_metrics_of_a_joined_graph_are_replaced() -> None:
    one, other = LocalIterator.of([1]), LocalIterator.of([2])
    joined = one.union(other)
    metrics = MetricsContext()
    other.shared_metrics.set(metrics)
    assert joined.shared_metrics.get() is one.shared_metrics.get() is metrics


def test_metrics_may_have_parents() -> None:
    parents, context = [SharedMetrics(), SharedMetrics()], MetricsContext()
    joined = SharedMetrics(metrics=context, parents=parents)
    assert joined.get() is context and all(parent.get() is context for parent in parents)
    joined.set(MetricsContext())
    assert parents[0].get() is parents[1].get() is joined.get() is not context


def test_counts_of_numpy() -> None:
    four = np.int64(4)
    assert list(flow.from_range(four, num_shards=np.uint8(2)).batch(four).gather_sync()) == [[0, 1], [2, 3]]
    assert LocalIterator.of(range(8)).shuffle(np.int32(1), seed=np.int64(3)).prefetch(four).window(four, four).take(four) == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
    ]
    for wrong in (True, 2.0, np.float32(2), "2", np.bool_(True), -1):
        with pytest.raises((TypeError, ValueError), match="n is .*, but it must be (a whole number|at least 1)"):
            LocalIterator.of([1]).batch(wrong)  # type: ignore[arg-type]


def test_show_prints_items_as_they_arrive(capsys: pytest.CaptureFixture[str]) -> None:
    def fails_at_two(x: int) -> int:
        assert capsys.readouterr().out == ("" if x == 0 else f"{x - 1}\n")
        if x == 2:
            raise LookupError("two")
        return x

    with pytest.raises(LookupError, match="two"):
        LocalIterator.of(range(5)).for_each(fails_at_two).show()


def test_an_empty_source_cannot_be_repeated() -> None:
    for shards in (flow.from_items([], num_shards=1, repeat=True), flow.from_iterators([lambda: iter(())], repeat=True)):
        with pytest.raises(ValueError, match="repeat=True requires a source with items, but this one is empty"):
            shards.gather_sync().take(1)


def test_an_exception_that_is_raised_again_has_one_note_for_each_operator() -> None:
    error = LookupError("again")
    error.__notes__ = ["a note of the program"]

    def fails(_: int) -> None:
        raise error

    items = LocalIterator.of(range(9)).for_each(fails).transform(lambda numbers: numbers)
    for _ in range(3):
        with pytest.raises(LookupError):
            next(items)
    notes = error.__notes__
    assert notes[0] == "a note of the program" and len(notes) == 3
    assert sum(note.startswith("for_each(fails) failed at item 2: ") for note in notes) == 1


def test_unions_of_different_items_have_a_type() -> None:
    words: LocalIterator[str] = LocalIterator.of(range(2)).for_each(str)
    joined: LocalIterator[str | int] = words.union(LocalIterator.of([7]), deterministic=True)
    assert list(joined) == ["0", 7, "1"]
