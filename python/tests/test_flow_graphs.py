"""Graphs of ``relive.flow``: which shard an item comes from, shared metrics, selected shards, and functions in threads."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from relive import flow
from relive.flow import LocalIterator

EVERYWHERE = pytest.mark.parametrize("on", ["threads", "serial", "processes"])


class Named(flow.ParallelIteratorWorker):
    def __init__(self, name: str, count: int = 3) -> None:
        self.name = name
        super().__init__([name] * count)


def named(names: str, count: int = 3, on: Any = "threads") -> flow.ParallelIterator[str]:
    return flow.from_actors([Named(name, count) for name in names], on=on)


def told(stream: LocalIterator[Any]) -> list[str]:
    """Returns the name of each item's shard; items are names themselves."""
    return [actor.name for actor, item in stream.zip_with_source_actor() if actor.name == item]


def test_selected_and_joined_shards_keep_their_actors() -> None:
    assert told(named("abc").select_shards([1, 2]).gather_sync()) == list("bcbcbc")
    assert told(named("abc").select_shards([1, 2]).select_shards([1]).gather_sync()) == list("ccc")
    assert told(named("ab").union(named("xy")).gather_sync()) == list("abxy" * 3)
    assert told(named("ab").gather_sync().union(named("xy").gather_sync(), deterministic=True)) == list("axbyaxbyaxby")
    assert sorted(told(flow.ratio(named("ab").gather_sync(), named("xy").gather_sync(), 1))) == sorted("abxy" * 3)
    assert [told(shard) for shard in named("abc").shards()] == [list("aaa"), list("bbb"), list("ccc")]
    assert told(named("abc").get_shard(1)) == list("bbb")
    assert told(named("ab").get_shard(1).union(named("xy").get_shard(0), deterministic=True)) == list("bxbxbx")


@EVERYWHERE
def test_the_shards_of_a_stream_are_its_actors(on: Any) -> None:
    shards = named("abc", on=on)
    selected = shards.select_shards([2, 0])
    assert len(shards.actors) == 3 and selected.actors == [shards.actors[0], shards.actors[2]]
    items = selected.gather_sync().for_each(str)
    assert items.actors == selected.actors
    assert [actor for actor, _ in items.zip_with_source_actor().take(4)] == selected.actors * 2
    assert [shard.actors for shard in shards.shards()] == [[actor] for actor in shards.actors]
    assert shards.get_shard(1).actors == [shards.actors[1]]
    joined = named("ab", on=on).gather_sync().union(named("xy", on=on).gather_sync())
    assert len(joined.actors) == 4 and LocalIterator.of([1]).actors == []
    assert shards.repartition(2).actors == [0, 1]


def test_actors_in_this_process_are_the_objects_of_the_program() -> None:
    objects = [Named("a"), Named("b")]
    for on in ("threads", "serial"):
        assert flow.from_actors(objects, on=on).actors == objects  # type: ignore[arg-type]


class TogetherRight:
    """Returns whether an item has the name of its shard. The first calls, two and two, are in progress at a time."""

    def __init__(self) -> None:
        self.calls, self.meeting = itertools.count(), threading.Barrier(2)

    def __call__(self, item: str) -> bool:
        if next(self.calls) < 40:
            self.meeting.wait(30)
        return bool(flow.get_metrics().current_actor.name == item)


def test_functions_see_the_shard_of_their_item() -> None:
    for shards in (named("abcd", 100), named("ab", 100).union(named("cd", 100)), named("abcd", 100).select_shards([3, 1])):
        assert all(shards.for_each(TogetherRight()).gather_async())
        assert all(shards.gather_async().for_each(TogetherRight(), max_concurrency=3))

    def who(item: str) -> str | None:
        actor = flow.get_metrics().current_actor
        return None if actor is None else actor.name

    mixed = named("a").gather_sync().union(LocalIterator.of(["local"] * 3), deterministic=True).for_each(who)
    assert list(mixed) == ["a", None] * 3


def by_shard(item: Any) -> tuple[Any, str]:
    return item, flow.get_metrics().current_actor.name


def is_of_shard(item: str) -> bool:
    return bool(flow.get_metrics().current_actor.name == item)


@EVERYWHERE
def test_functions_in_shards_see_their_shard(on: Any) -> None:
    shards = named("a", on=on).union(named("xyz", on=on).select_shards([2, 1]))
    items = shards.filter(is_of_shard).transform(renewed).for_each(by_shard).for_each(by_shard, max_concurrency=2).gather_async()
    assert sorted(items) == [((name, name), name) for name in "ayz" for _ in range(3)]


def test_functions_of_a_shard_share_their_counters() -> None:
    def count(item: int) -> int:
        flow.get_metrics().counters["items"] += 1
        return item

    def seen(item: int) -> tuple[int, int]:
        return item, flow.get_metrics().counters["items"]

    shards = flow.from_items([10, 20, 11, 21], num_shards=2).for_each(count).for_each(seen)
    assert list(shards.gather_sync()) == [(10, 1), (20, 1), (11, 2), (21, 2)]
    assert list(shards.gather_sync()) == [(10, 1), (20, 1), (11, 2), (21, 2)], "counters start over"


def test_copies_that_advance_unevenly_can_be_merged_in_turn() -> None:
    for options in ({"deterministic": True}, {"round_robin_weights": [1, 1]}):
        one, other = LocalIterator.of(range(6)).duplicate(2)
        assert list(one.batch(2).union(other, **options)) == [0, [0, 1], 1, 2, [2, 3], 3, 4, [4, 5], 5]  # type: ignore[arg-type]


def test_the_shards_of_a_repartition_share_their_source() -> None:
    shards = flow.from_iterators([(number for number in range(8))]).repartition(2).shards()
    assert [list(shard) for shard in shards] == [[0, 2, 4, 6], [1, 3, 5, 7]]


def test_flattened_items_are_produced_one_by_one() -> None:
    assert LocalIterator.of([0]).combine(lambda _: itertools.count()).take(3) == [0, 1, 2]
    assert LocalIterator.of([itertools.count()]).flatten().take(3) == [0, 1, 2]

    def parts(number: int) -> Iterator[int]:
        yield number
        yield number // (number - 1)

    stream = LocalIterator.of([1, 2]).combine(parts)
    assert next(stream) == 1
    with pytest.raises(ZeroDivisionError):
        next(stream)
    assert list(stream) == [2, 2]


def test_exceptions_in_threads_take_no_other_item_with_them() -> None:
    def checked(number: int) -> int:
        if number == 2:
            raise LookupError("two")
        return number

    stream, found, failed = LocalIterator.of(range(8)).for_each(checked, max_concurrency=2), [], 0
    while True:
        try:
            found.append(next(stream))
        except LookupError:
            failed += 1
        except StopIteration:
            break
    assert sorted(found) == [0, 1, 3, 4, 5, 6, 7] and failed == 1


def test_functions_without_a_limit_all_run_at_a_time() -> None:
    together = threading.Barrier(60)
    assert len(list(LocalIterator.of(range(60)).for_each(lambda _: together.wait(10), max_concurrency=0))) == 60


class Running:
    """Counts the calls that are running and those that have started. The calls meet in groups."""

    def __init__(self, group: int) -> None:
        self.meeting, self.changes = threading.Barrier(group), threading.Lock()
        self.started = self.now = self.most = 0

    def __call__(self, item: int) -> int:
        with self.changes:
            self.started, self.now = self.started + 1, self.now + 1
            self.most = max(self.most, self.now)
        self.meeting.wait(60)
        with self.changes:
            self.now -= 1
        return item


def test_each_shard_runs_exactly_the_given_number_of_calls_at_a_time() -> None:
    running = Running(group=4)
    shards = flow.from_range(400, num_shards=2).for_each(running, max_concurrency=2)
    assert sorted(shards.gather_async()) == list(range(400)) and running.most == 4


@pytest.mark.parametrize(("num_async", "max_concurrency"), [(1, 1), (1, 3), (3, 2), (4, 4)])
def test_a_shard_starts_no_more_calls_ahead_than_its_limits_allow(num_async: int, max_concurrency: int) -> None:
    running = Running(group=1)
    shards = flow.from_range(400, num_shards=1).for_each(running, max_concurrency=max_concurrency)
    items = shards.gather_async(num_async=num_async)
    for taken in range(1, 400):
        next(items)
        assert running.started <= taken + num_async + max_concurrency - 1


def test_a_union_does_not_wait_for_a_function_in_threads() -> None:
    release = threading.Event()
    slow = LocalIterator.of(["slow"]).for_each(lambda item: release.wait(10) and item, max_concurrency=2)
    merged = slow.union(LocalIterator.of(["fast"]))
    assert next(merged) == "fast"
    with pytest.raises(TimeoutError):
        merged.next(timeout=0.05)
    release.set()
    assert list(merged) == ["slow"]


def test_a_failed_shard_does_not_cost_a_round_its_other_items() -> None:
    rounds = flow.from_iterators([range(4), range(10, 14)]).for_each(lambda x: 1 // 0 if x == 2 else x).batch_across_shards()
    assert rounds.take(2) == [[0, 10], [1, 11]]
    with pytest.raises(ZeroDivisionError):
        next(rounds)
    assert list(rounds) == [[12], [3, 13]]


def test_a_refused_union_changes_nothing() -> None:
    one, used = LocalIterator.of(range(3)), LocalIterator.of(range(3))
    merged = used.for_each(str)
    for others in ([used], [one]):
        with pytest.raises(ValueError, match="already part of another one"):
            one.union(*others)
    assert list(one) == [0, 1, 2] and list(merged) == ["0", "1", "2"]
    closed = LocalIterator.of(range(3))
    closed.close()
    with pytest.raises(ValueError, match="this iterator is closed"):
        next(closed)


@pytest.mark.parametrize("seconds", [-1.0, float("nan")])
def test_timeouts_that_are_no_durations_are_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="timeout must be a number of seconds"):
        LocalIterator.of(range(3)).next(timeout=seconds)
    with pytest.raises(ValueError, match="timeout must be a number of seconds"):
        LocalIterator.of(range(3)).timeout(seconds)


def test_infinite_timeouts_never_end_a_wait() -> None:
    stream = LocalIterator.of(range(2)).timeout(float("inf"))
    assert stream.next(timeout=float("inf")) == 0 and list(stream) == [1]


def test_only_ordinary_exceptions_are_retried() -> None:
    def fail(number: int) -> int:
        if number == 1:
            raise ValueError("one")
        if number == 3:
            raise SystemExit("three")
        return number

    stream = LocalIterator.of(range(5)).for_each(fail).retry(3)
    assert stream.take(2) == [0, 2]
    with pytest.raises(SystemExit):
        next(stream)
    assert list(stream) == [4]


def test_threads_of_a_function_keep_their_local_data() -> None:
    local = threading.local()

    def count(_: int) -> int:
        local.count = getattr(local, "count", 0) + 1
        return int(local.count)

    assert max(LocalIterator.of(range(20)).for_each(count, max_concurrency=2)) >= 10
    shards = flow.from_range(20, num_shards=2, on="serial").for_each(count, max_concurrency=2)
    assert max(shards.gather_async()) >= 5
    assert max(flow.from_range(20, num_shards=2).for_each(count, max_concurrency=2).gather_sync()) >= 5


def test_transformed_items_come_from_no_shard() -> None:
    streams = named("ab").gather_sync().transform(iter), named("xy").gather_sync()
    with pytest.raises(ValueError, match="no single source"):
        next(streams[0].union(streams[1], deterministic=True).zip_with_source_actor())
    one, other = named("ab").gather_sync().transform(iter), named("xy").gather_sync()
    merged = one.union(other, deterministic=True).for_each(lambda item: (item, flow.get_metrics().current_actor))
    assert all(actor is None if item in "ab" else actor.name == item for item, actor in merged)


def test_an_iterator_that_keeps_raising_costs_one_error() -> None:
    class Raising:
        def __iter__(self) -> Iterator[int]:
            return self

        def __next__(self) -> int:
            raise LookupError("again")

    stream = LocalIterator.of([1, 2]).combine(lambda number: Raising() if number == 1 else [number])
    with pytest.raises(LookupError):
        next(stream)
    assert list(stream) == [2]


def shown(item: Any) -> Any:
    """Returns an item with the number of earlier items that had the same metrics."""
    counters = flow.get_metrics().counters
    counters["seen"] += 1
    return item, counters["seen"]


def renewed(items: Iterator[Any]) -> Iterator[Any]:
    yield from items


@EVERYWHERE
def test_transformed_items_of_a_shard_belong_to_the_shard(on: Any) -> None:
    shards = ["ab", "xy"]
    items = flow.from_actors(shards, on=on).transform(renewed).gather_sync().zip_with_source_actor()
    found = list(items)
    assert [item for _, item in found] == ["a", "x", "b", "y"]
    # The source of an item from another process stands for the shard there.
    sources = [repr(source).startswith(f"<shard {number}") for source, number in zip((shard for shard, _ in found), (0, 1, 0, 1), strict=True)]
    assert all(sources) if on == "processes" else [shard for shard, _ in found] == ["ab", "xy", "ab", "xy"]
    counted = flow.from_actors(shards, on=on).transform(renewed).for_each(shown).gather_sync()
    assert list(counted) == [("a", 1), ("x", 1), ("b", 2), ("y", 2)]


def test_metrics_of_items_without_a_shard_are_those_of_no_shard() -> None:
    origins = flow._metrics.Origins(["one", "other"])
    (_, of_one), (_, of_other), (nothing, of_none) = (origins.of(number) for number in (0, 1, -1))
    assert nothing is None and len({id(of_one), id(of_other), id(of_none)}) == 3


@pytest.mark.parametrize("first", ["serial", "threads"])
def test_a_union_runs_each_shard_where_it_ran(first: Any) -> None:
    def where(_: Any) -> bool:
        return threading.current_thread() is threading.main_thread()

    second: Any = "threads" if first == "serial" else "serial"
    parts = [flow.from_items([0, 1], num_shards=2, on=on).for_each(where) for on in (first, second)]
    in_main = first == "serial"
    assert list(parts[0].union(parts[1]).gather_sync()) == [in_main] * 2 + [not in_main] * 2


def test_an_iterator_that_another_thread_uses_raises() -> None:
    begins, goes_on, iterators = threading.Event(), threading.Event(), list[Any]()

    def slow(item: int) -> int:
        begins.set()
        assert goes_on.wait(60)
        return item

    def given(items: Iterator[int]) -> Iterator[int]:
        iterators.append(items)
        return items

    stream = LocalIterator.of([1, 2]).for_each(slow).transform(given)
    pulling = threading.Thread(target=lambda: found.append(next(stream)))
    found: list[int] = []
    pulling.start()
    assert begins.wait(60)
    with pytest.raises(ValueError, match="another thread is using this iterator"):
        next(iterators[0])
    goes_on.set()
    pulling.join()
    assert found == [1] and list(stream) == [2]


ENDLESS = {
    "transform": "LocalIterator.of(itertools.repeat(0)).transform(lambda items: filter(bool, items))",
    "flatten": "LocalIterator.of([itertools.repeat(0)]).flatten().batch(10**8)",
}


@pytest.mark.parametrize("stream", ENDLESS.values(), ids=ENDLESS)
def test_iterators_in_c_let_signal_handlers_and_threads_run(stream: str) -> None:
    program = f"""if True:
        import itertools, signal, threading
        from relive.flow import LocalIterator
        begins, ticks = threading.Event(), []
        def tick():
            begins.wait()
            while len(ticks) < 5:
                ticks.append(1)
                threading.Event().wait(0.001)
            signal.setitimer(signal.ITIMER_REAL, 0.01)
        def ring(*_):
            raise KeyError("rung")
        signal.signal(signal.SIGALRM, ring)
        threading.Thread(target=tick, daemon=True).start()
        begins.set()
        try:
            next({stream})
        except KeyError as error:
            print(error, len(ticks))
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "'rung' 5\n"
