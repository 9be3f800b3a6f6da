"""Dataflow of Python objects: ``relive.flow``."""

from __future__ import annotations

import collections
import functools
import math
import os
import pathlib
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

from relive import flow
from relive.flow import LocalIterator

# For tests with the same result on one thread and on several threads.
HERE = pytest.mark.parametrize("on", ["threads", "serial"])
EVERYWHERE = pytest.mark.parametrize("on", ["threads", "serial", "processes"])


def double(x: int) -> int:
    return 2 * x


def is_multiple_of_four(x: int) -> bool:
    return x % 4 == 0


def twice(x: Any) -> list[Any]:
    return [x, x]


def fails_at_five(x: int) -> int:
    if x == 5:
        raise LookupError("five")
    return x


def local(*items: Any) -> LocalIterator[Any]:
    return LocalIterator.of(items)


@EVERYWHERE
def test_operators_match_the_behavior_of_ray(on: Any) -> None:
    pair = [[0, 1, 2, 3], [0, 1]]
    assert list(flow.from_iterators(pair, on=on).gather_sync()) == [0, 0, 1, 1, 2, 3]
    assert list(flow.from_iterators(pair, on=on).batch_across_shards()) == [[0, 0], [1, 1], [2], [3]]
    numbers = flow.from_range(10, num_shards=2, on=on).for_each(double).filter(is_multiple_of_four).batch(2)
    assert list(numbers.gather_sync()) == [[0, 4], [12, 16], [8]]
    letters = flow.from_items(list("abc"), num_shards=1, on=on).union(flow.from_items(["x"], num_shards=1, on=on))
    assert list(letters.gather_sync()) == ["a", "x", "b", "c"]


def test_unions_match_ray() -> None:
    assert list(local(1, 2, 3).union(local(4, 5, 6), deterministic=True)) == [1, 4, 2, 5, 3, 6]
    ones, twos, threes = [1] * 3, [2] * 3, [3] * 3
    weighted = [([2, 1], [ones, twos], [1, 1, 2, 1, 2, 2]), ([1, "*"], [ones, twos], [1, 2, 2, 2, 1, 1]),
                ([3, 1, 2], [ones, twos, threes], [1, 1, 1, 2, 3, 3, 2, 3, 2]),
                ([1, 1, "*"], [ones, twos, threes], [1, 2, 3, 3, 3, 1, 2, 1, 2])]
    for weights, (first, *others), expected in weighted:
        assert list(local(*first).union(*(local(*other) for other in others), round_robin_weights=weights)) == expected
    one, other = local(0, 1, 2, 3).duplicate(2)
    assert list(one.union(other, deterministic=True)) == [0, 0, 1, 1, 2, 2, 3, 3]
    one, other = local(0, 1, 2, 3, 4).duplicate(2)
    assert list(one.union(other.batch(2))) == [0, [0, 1], 1, 2, [2, 3], 3, 4, [4]]


@EVERYWHERE
def test_operators_of_shards(on: Any) -> None:
    shards = flow.from_range(6, num_shards=2, on=on)
    assert shards.combine(twice).gather_sync().take(4) == [0, 3, 0, 3]
    assert sorted(shards.batch(2).flatten().gather_async()) == list(range(6))
    assert sorted(shards.local_shuffle(3, seed=1).gather_sync()) == list(range(6))
    assert list(shards.local_shuffle(3, seed=1).gather_sync()) == list(shards.local_shuffle(3, seed=1).gather_sync())
    assert list(shards.local_shuffle(1).gather_sync()) == list(shards.gather_sync())
    assert shards.select_shards([1]).take(9) == [3, 4, 5]
    assert [shard.take(9) for shard in shards.shards()] == [[0, 1, 2], [3, 4, 5]]
    assert shards.get_shard(1).take(2) == [3, 4] and shards.num_shards() == 2
    again = shards.repartition(3)
    assert again.num_shards() == 3 and sorted(again.gather_async()) == list(range(6))
    assert sorted(shards.for_each(double, max_concurrency=2).gather_sync()) == [0, 2, 4, 6, 8, 10]


def every_other(items: Iterator[int]) -> Iterator[int]:
    for number, item in enumerate(items):
        if number % 2 == 0:
            yield item


@EVERYWHERE
def test_a_stream_is_transformed_as_an_iterator(on: Any) -> None:
    assert list(flow.from_range(8, num_shards=2, on=on).transform(every_other).gather_sync()) == [0, 4, 2, 6]


def test_operators_of_streams() -> None:
    assert list(LocalIterator.of(range(6)).for_each(double).filter(is_multiple_of_four)) == [0, 4, 8]
    assert list(LocalIterator.of(range(5)).batch(2).flatten()) == list(range(5))
    assert list(LocalIterator.of(range(3)).combine(twice)) == [0, 0, 1, 1, 2, 2]
    assert list(LocalIterator.of(range(5)).window(3, 2)) == [[0, 1, 2], [2, 3, 4]]
    assert list(LocalIterator.of(range(5)).prefetch(2)) == list(range(5))
    assert sorted(LocalIterator.of(range(9)).shuffle(4, seed=3)) == list(range(9))
    assert sorted(LocalIterator.of(range(9)).for_each(double, max_concurrency=3)) == [2 * x for x in range(9)]
    assert LocalIterator.of(range(5)).take(2) == [0, 1]
    assert list(local(None, 0)) == [None, 0]


def test_an_ended_iterator_stays_ended() -> None:
    items = local(1)
    assert next(items) == 1
    assert [next(items, None), next(items, None)] == [None, None]
    assert items.step() == ("end", None)


@HERE
def test_iterating_twice_over_iterators_continues_and_over_lists_restarts(on: Any) -> None:
    shards = flow.from_iterators([iter(range(10))], on=on).for_each(double)
    assert (shards.take(3), shards.take(2)) == ([0, 2, 4], [6, 8])
    lists = flow.from_items(range(4), num_shards=1, on=on)
    assert (lists.take(2), lists.take(2)) == ([0, 1], [0, 1])


def one_two() -> Iterator[int]:
    yield from (1, 2)


@EVERYWHERE
def test_items_are_repeated(on: Any) -> None:
    assert flow.from_items([1, 2], num_shards=2, repeat=True, on=on).take(6) == [1, 2] * 3
    sources = [[1, 2], one_two, functools.partial(iter, [1, 2])]
    assert flow.from_iterators(sources, repeat=True, on=on).take(18) == [1, 1, 1, 2, 2, 2] * 3


def test_an_iterator_cannot_be_repeated() -> None:
    numbers = iter([1, 2])
    for source, count in ((iter([1, 2]), 0), (lambda: numbers, 2)):
        items = flow.from_iterators([source], repeat=True, on="serial").gather_sync()
        assert items.take(count) == [1, 2][:count]
        with pytest.raises(ValueError, match="repeat=True requires a list, or a function that returns a new iterator each time"):
            next(items)


def noted(notes: pathlib.Path) -> Iterator[int]:
    """Returns a new iterator, and notes the thread in which this happens."""
    with notes.open("a") as file:
        file.write(f"{os.getpid()} {threading.get_ident()}\n")
    return iter((1, 2, 3))


@EVERYWHERE
def test_a_function_creates_a_source_at_the_first_pull_in_its_shard(on: Any, tmp_path: pathlib.Path) -> None:
    notes = tmp_path / "notes"
    notes.touch()
    shards = flow.from_iterators([functools.partial(noted, notes)] * 2, on=on)
    items = shards.gather_sync()
    assert notes.read_text() == ""
    assert items.take(2) == [1, 1]
    here, places = f"{os.getpid()} {threading.get_ident()}", notes.read_text().splitlines()
    assert (len(places), len(set(places)), here in places) == ((2, 1, True) if on == "serial" else (2, 2, False))
    items.close()
    if on == "processes":
        # New processes start over.
        assert list(shards.gather_sync()) == [1, 1, 2, 2, 3, 3] and len(notes.read_text().splitlines()) == 4
    else:
        # A shard in a thread may have produced its second item already.
        rest = list(shards.gather_sync())
        assert sorted(rest)[-2:] == [3, 3] and 1 not in rest and notes.read_text().splitlines() == places


class Passes(flow.ParallelIteratorWorker):
    """Yields the number of the pass, twice in each pass."""

    def __init__(self, repeat: bool) -> None:
        self.passes = 0
        super().__init__(self.items, repeat)

    def items(self) -> Iterator[int]:
        self.passes += 1
        yield from [self.passes] * 2


@EVERYWHERE
def test_the_items_of_a_shard_may_be_a_method(on: Any) -> None:
    assert flow.from_actors([Passes(False)], on=on).take(5) == [1, 1]
    assert flow.from_actors([Passes(True)], on=on).take(5) == [1, 1, 2, 2, 3]
    shard = Passes(False)
    assert next(iter(shard)) == 1
    # The items that have begun continue here; a copy of the shard in another process starts over.
    assert flow.from_actors([shard], on=on).take(5) == ([2, 2] if on == "processes" else [1])


def test_show_prints(capsys: Any) -> None:
    flow.from_range(3, num_shards=1).show(2)
    LocalIterator.of("xy").show()
    assert capsys.readouterr().out.split() == ["0", "1", "x", "y"]


class Counter(flow.ParallelIteratorWorker):
    """A shard with state that messages change."""

    def __init__(self, step: int) -> None:
        self.step, self.at, self.has_three = step, 0, threading.Event()
        super().__init__(self.items, False)

    def items(self) -> Iterator[int]:
        while True:
            self.at += self.step
            if self.at == 3:
                self.has_three.set()
            yield self.at


@HERE
def test_calls_between_rounds_apply_to_the_next_round(on: Any) -> None:
    counters = [Counter(1), Counter(10)]
    items = flow.from_actors(counters, on=on).gather_sync().zip_with_source_actor()
    seen = []
    for counter, item in items:
        seen.append(item)
        if len(seen) == 4:
            for each in counters:
                each.step = 100
        if len(seen) == 6:
            break
        assert counter is counters[(len(seen) - 1) % 2]
    assert seen == [1, 10, 2, 20, 102, 120]


@HERE
@pytest.mark.parametrize(("resubmit", "expected"), [("after", [1, 2, 102]), ("before", [1, 2, 3, 103])])
def test_resubmit_chooses_when_a_shard_starts_its_next_item(on: Any, resubmit: Any, expected: list[int]) -> None:
    counter = Counter(1)
    items = flow.from_actors([counter], on=on).gather_async(resubmit=resubmit)
    seen = [next(items), next(items)]
    if resubmit == "before" and on == "threads":
        # The shard produces the third item in the meantime.
        assert counter.has_three.wait(60)
    counter.step = 100
    # In one thread, no item is produced before a pull.
    expected = [1, 2, 102] if on == "serial" else expected
    assert [*seen, *(next(items) for _ in expected[2:])] == expected


def test_metrics_cover_the_whole_graph() -> None:
    def count(x: int) -> int:
        metrics = LocalIterator.get_metrics()
        metrics.counters["seen"] += 1
        with metrics.timers["count"]:
            metrics.info["last"] = x
        return x

    one, other = LocalIterator.of(range(3)).for_each(count), LocalIterator.of(range(4)).for_each(count)
    alone = LocalIterator.of(range(2)).for_each(count)
    joined = one.union(other, deterministic=True)
    assert len(list(joined)) == 7 and len(list(alone)) == 2
    metrics = joined.shared_metrics.get()
    assert metrics.counters["seen"] == 7 and metrics.info["last"] == 3 and metrics.timers["count"].count == 7
    assert one.shared_metrics.get() is other.shared_metrics.get() is metrics
    assert alone.shared_metrics.get().counters["seen"] == 2
    saved = metrics.save()
    metrics.restore({"counters": {"seen": 1}, "info": {}})
    assert metrics.counters["seen"] == 1 and saved["counters"] == {"seen": 7}
    with pytest.raises(ValueError, match="only inside a function that an operator calls"):
        flow.get_metrics()


@HERE
def test_functions_after_gathering_see_the_shard_of_their_item(on: Any) -> None:
    counters = [Counter(1), Counter(10)]

    def whose(_: int) -> Any:
        return flow.get_metrics().current_actor

    assert flow.from_actors(counters, on=on).gather_sync().for_each(whose).take(4) == counters * 2


def test_two_flows_keep_a_ratio() -> None:
    joined = flow.ratio(LocalIterator.of(["i"] * 10), LocalIterator.of(["s"] * 40), samples_per_insert=3, min_inserted=2)
    # After the first two items, three samples follow each item.
    assert "".join(joined.take(19)) == "ii" + 4 * "isss" + "i"


@EVERYWHERE
def test_exceptions_have_traceback_and_position_and_the_flow_continues(on: Any) -> None:
    items = flow.from_range(8, num_shards=1, on=on).for_each(fails_at_five).gather_sync()
    assert items.take(5) == [0, 1, 2, 3, 4]
    with pytest.raises(LookupError, match="five") as caught:
        next(items)
    text = "".join(traceback.format_exception(caught.value))
    assert "fails_at_five" in text and "of shard 0" in text
    assert list(items) == [6, 7]


def test_errors_of_streams_name_the_item() -> None:
    items = LocalIterator.of(range(8)).for_each(fails_at_five).batch(3)
    assert next(items) == [0, 1, 2]
    with pytest.raises(LookupError) as caught:
        next(items)
    if hasattr(caught.value, "__notes__"):
        assert caught.value.__notes__ == ["for_each(fails_at_five) failed at item 5: LookupError: five"]


def test_an_item_is_awaited_for_the_given_timeout() -> None:
    gate = threading.Event()

    def waits() -> Iterator[int]:
        yield 1
        gate.wait()
        yield 2

    items = flow.from_iterators([waits]).gather_async()
    assert items.next(timeout=60) == 1
    with pytest.raises(TimeoutError):
        items.next(timeout=0.02)
    gate.set()
    assert items.next(timeout=60) == 2
    with pytest.raises(StopIteration):
        items.next()


def test_a_graph_is_shown_and_stepped_through() -> None:
    items = LocalIterator.of(range(4)).for_each(double).batch(2)
    assert items.step(to="for_each(double)") == ("stopped", None)
    assert "for_each(double)" in items.graph() and "-->" in items.mermaid() and "mermaid" in items._repr_markdown_()
    assert items.step() == ("item", [0, 2])
    assert [operator["name"] for operator in items.operators()][-1] == "batch(2)"
    assert list(items) == [[4, 6]] and items.step() == ("end", None)
    with pytest.raises(ValueError, match="the graph has no operator"):
        LocalIterator.of([1]).step(to="learn")


def test_the_repr_names_the_operators() -> None:
    shards = flow.from_range(4, num_shards=2).for_each(double).batch(2)
    assert repr(shards) == "ParallelIterator[from_range[4, shards=2].for_each().batch(2)]"
    assert repr(flow.from_items([1], num_shards=1, repeat=True)) == "ParallelIterator[from_items[int, 1, shards=1, repeat=True]]"


@pytest.mark.parametrize(
    ("wrong", "kind", "text"),
    [
        (lambda: iter(flow.from_range(3)), TypeError, r"call gather_sync\(\) or gather_async\(\) first"),
        (lambda: flow.from_range(3).batch(0), ValueError, "n is 0, but it must be at least 1"),
        (lambda: flow.from_range(3, num_shards=0), ValueError, "num_shards is 0"),
        (lambda: flow.from_range(3).select_shards([]), ValueError, "at least one shard must be selected"),
        (lambda: flow.from_range(3).select_shards([2]), ValueError, "the shards are 0 to 1; there is no shard 2"),
        (lambda: flow.from_range(3).union(3), TypeError, "other must be a ParallelIterator, got int"),
        (lambda: flow.from_range(3, on="rays"), ValueError, "on is 'rays', but it must be"),
        (lambda: flow.from_range(3).gather_async(resubmit="never"), ValueError, "resubmit is 'never'"),
        (lambda: local(1).duplicate(1), ValueError, "at least 2, got"),
        (lambda: local(1).union(local(2), round_robin_weights=["*", "*"]), ValueError, "a number for one of them"),
        (lambda: local(1).union([2]), TypeError, "union takes LocalIterators"),
        (lambda: local(1).union(local(2), round_robin_weights=5), TypeError, "round_robin_weights must be a list"),
        (lambda: local(1).union(local(2), round_robin_weights=["x", 1]), TypeError, "a weight must be a number, not 'x'"),
        (lambda: local(1).duplicate(2**62), ValueError, "n must be at most 65536, got 4611686018427387904"),
        (lambda: local(1).duplicate(2**32), ValueError, "n must be at most 65536, got 4294967296"),
        (lambda: local(1).retry(2**32), ValueError, r"times is 4294967296, but it must be at least 0, and below 2\*\*32"),
        (lambda: local(1).timeout(None), TypeError, "seconds must be a number, not None"),
        (lambda: local(1).window_by_time(None), TypeError, "seconds must be a number, not None"),
        (lambda: flow.ratio(local(1), local(2), 1.0, -1), ValueError, "min_inserted is -1"),
        (lambda: flow.ratio(None, local(2), 1.0), TypeError, "inserts must be a LocalIterator, got None"),
        (lambda: flow.ratio(local(1), None, 1.0), TypeError, "samples must be a LocalIterator, got None"),
        (lambda: flow.from_range("x"), TypeError, "n is 'x', but it must be a whole number"),
        (lambda: flow.from_range(3).get_shard(0.5), TypeError, "shard_index is 0.5, but it must be a whole number"),
        (lambda: flow.from_range(3).select_shards([0.5]), TypeError, "a number in shards_to_keep is 0.5"),
        (lambda: flow.from_range(3).select_shards(None), TypeError, "shards_to_keep must be a list"),
        (lambda: next(local(1).zip_with_source_actor()), ValueError, "it comes from no shard"),
        (lambda: flow.from_range(3).for_each(3), TypeError, "for_each needs a function, but got 3"),
        (lambda: local(1).filter(None), TypeError, "filter needs a function, but got None"),
        (lambda: list(LocalIterator.of(3)), TypeError, "'int'"),
        (lambda: list(local(1).combine(double)), TypeError, "not iterable"),
    ],
)
def test_invalid_flows_are_refused(wrong: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        wrong()


def test_a_single_copy_stays_within_its_lead() -> None:
    one, other = local(0, 1, 2).duplicate(2)
    assert next(one) == 0
    with pytest.raises(RuntimeError, match="copy"):
        next(one)
    assert next(other) == 0 and next(one) == 1


def test_an_iterator_used_in_another_cannot_be_read() -> None:
    items = local(1, 2)
    items.for_each(double)
    with pytest.raises(ValueError, match=r"already part of another one.*duplicate\(\) splits one"):
        next(items)


@pytest.mark.parametrize("gathered", ["gather_async()", "gather_async().prefetch(2)", "gather_sync()"])
@pytest.mark.parametrize("on", ["threads", "processes"])
def test_a_program_can_exit_with_open_flows(gathered: str, on: str, tmp_path: pathlib.Path) -> None:
    script = tmp_path / "ends.py"
    script.write_text(
        "import math\nfrom relive import flow\n"
        f"if __name__ == '__main__':\n    kept = flow.from_range(10**6, on={on!r}).for_each(math.sqrt).{gathered}\n    print(next(kept))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout in ("0.0\n", f"{math.sqrt(500_000)}\n")


ENDS = {
    "a function": "LocalIterator.of(iter(int, 1)).for_each(slow)",
    "a thread that works ahead": "LocalIterator.of(iter(int, 1)).for_each(slow).prefetch(2)",
    "shards": "flow.from_iterators([lambda: iter(int, 1)] * 2).for_each(slow).gather_async()",
    "copies": "both(*LocalIterator.of(iter(int, 1)).for_each(slow).duplicate(2, max_lead=2))",
    "a source": "LocalIterator.of(map(slow, iter(int, 1)))",
}


@pytest.mark.parametrize("stream", ENDS.values(), ids=ENDS)
def test_a_program_ends_with_its_own_exit_code_while_a_daemon_thread_pulls(stream: str, tmp_path: pathlib.Path) -> None:
    script = tmp_path / "ends.py"
    script.write_text(
        "import os, sys, threading\nfrom relive import flow\nfrom relive.flow import LocalIterator\n"
        "def slow(item):\n    os.sched_yield()\n    return item\n"
        "def both(one, other):\n    return one.union(other, deterministic=True)\n"
        f"stream = {stream}\npulled = threading.Event()\n"
        "def pull():\n    for number, _ in enumerate(stream):\n        if number == 100:\n            pulled.set()\n"
        "threading.Thread(target=pull, daemon=True).start()\npulled.wait()\nsys.exit(7)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (7, "")


def test_copies_that_deadlock_report_it() -> None:
    one, other = local(*range(100)).duplicate(2)
    joined = one.prefetch(2).union(other, round_robin_weights=[3, 1])
    with pytest.raises(RuntimeError, match=r"copy 0 of 2: this copy is ahead by the limit \(1\).*nothing pulls copy 1 of 2"):
        list(joined)
    one, other = local(*range(100)).duplicate(2)
    ahead = one.prefetch(2)
    assert next(ahead) == 0
    taken = []
    with pytest.raises(RuntimeError, match="prefetch.2. pulls copy 0 of 2, but nothing takes its items"):
        for item in other:
            taken.append(item)
    assert taken == [0, 1, 2, 3]
    one, other = local(0, 1, 2).duplicate(2)
    assert next(one) == 0
    with pytest.raises(RuntimeError, match="a thread that is waiting here pulls copy 0 of 2"):
        list(other)


@HERE
def test_one_slow_shard_does_not_starve_the_others(on: Any) -> None:
    gate = threading.Event()

    def slow() -> Iterator[str]:
        gate.wait()
        yield "slow"

    if on == "serial":
        gate.set()
    shards: list[Any] = [slow, *(["fast"] * 10 for _ in range(31))]
    items = flow.from_iterators(shards, on=on).gather_async()
    seen = items.take(310)
    gate.set()
    assert collections.Counter([*seen, *items]) == {"fast": 310, "slow": 1}


def test_a_function_that_raises_stop_iteration_does_not_end_the_flow() -> None:
    def ends(number: int) -> int:
        if number == 1:
            raise StopIteration("mine")
        return number

    for numbers in (flow.from_range(4, num_shards=1).for_each(ends).gather_async(), flow.LocalIterator.of(range(4)).for_each(ends)):
        assert next(numbers) == 0
        with pytest.raises(RuntimeError, match="a function raised StopIteration") as caught:
            next(numbers)
        assert isinstance(caught.value.__cause__, StopIteration)
        assert list(numbers) == [2, 3]
