"""Dataflow whose shards are processes."""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import os
import pathlib
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from relive import flow
from relive.flow import LocalIterator, _processes

GATHERED = pytest.mark.parametrize("gathered", ["gather_sync", "gather_async"])


def same(x: Any) -> Any:
    return x


def pid(_: Any) -> int:
    return os.getpid()


def outcomes(items: LocalIterator[Any]) -> list[Any]:
    """Returns the items of a stream, with exceptions in place of the items that failed."""
    found: list[Any] = []
    while True:
        try:
            found.append(items.next(timeout=60))
        except StopIteration:
            return found
        except Exception as error:
            assert not isinstance(error, TimeoutError), found
            found.append(error)



def waits_after(count: int, gate: pathlib.Path) -> Iterator[int]:
    yield from range(count)
    # Waits until the test opens the pipe.
    gate.read_text()
    yield count


@pytest.mark.parametrize("count", [1, 3])
def test_an_item_is_sent_before_the_next_one_is_finished(count: int, tmp_path: pathlib.Path) -> None:
    gate = tmp_path / "open"
    os.mkfifo(gate)
    items = flow.from_iterators([functools.partial(waits_after, count, gate)], on="processes").gather_async()
    assert [items.next(timeout=60) for _ in range(count)] == list(range(count))
    gate.write_text("")
    assert items.next(timeout=60) == count and next(items, None) is None


def test_items_arrive_complete_and_in_order() -> None:
    items = list(flow.from_range(20_000, num_shards=2, on="processes").for_each(same).gather_async(num_async=64))
    assert [x for x in items if x < 10_000] == list(range(10_000))
    assert [x for x in items if x >= 10_000] == list(range(10_000, 20_000))


def content(file: pathlib.Path) -> Iterator[str]:
    while True:
        yield file.read_text()


@pytest.mark.parametrize("change", [same, lambda shards: shards.union(flow.from_iterators([[]], on="processes"))])
def test_resubmit_after_makes_each_item_at_its_request(change: Callable[[Any], Any], tmp_path: pathlib.Path) -> None:
    file = tmp_path / "state"
    items = change(flow.from_iterators([functools.partial(content, file)], on="processes")).gather_async(resubmit="after")
    for text in ("one", "two", "three"):
        file.write_text(text)
        assert items.next(timeout=60) == text


class Counter(flow.ParallelIteratorWorker):
    """A shard with state that calls change. It notes each item in a pipe."""

    def __init__(self, step: int, notes: pathlib.Path | None = None) -> None:
        self.step, self.at, self.notes = step, 0, notes
        super().__init__(self.items)

    def items(self) -> Iterator[int]:
        while True:
            self.at += self.step
            if self.notes is not None:
                with self.notes.open("wb", buffering=0) as notes:
                    notes.write(b".")
            yield self.at

    def set_step(self, step: int, *, plus: int = 0) -> None:
        self.step = step + plus

    def fail(self) -> None:
        raise LookupError("no such step")


def test_calls_of_methods_reach_the_shard_before_its_next_round() -> None:
    items = flow.from_actors([Counter(1), Counter(10)], on="processes").gather_sync().zip_with_source_actor()
    seen, shards = [], {}
    for shard, item in itertools.islice(items, 8):
        seen.append(item)
        shards[len(seen) % 2] = shard
        if len(seen) == 4:
            for each in shards.values():
                assert each.set_step(90, plus=10) is None
    assert seen == [1, 10, 2, 20, 102, 120, 202, 220]


@GATHERED
def test_the_actors_of_a_stream_receive_calls_before_the_first_item(gathered: str) -> None:
    counters = [Counter(1), Counter(10)]
    items = getattr(flow.from_actors(counters, on="processes"), gathered)()
    for actor in items.actors:
        actor.set_step(100)
    # One shard may be faster than the other.
    assert set(items.take(2)) <= {100, 200} and [counter.step for counter in counters] == [1, 10]
    items.close()


def test_a_round_with_its_shards_is_a_batch_after_which_weights_can_be_sent() -> None:
    rounds = flow.from_actors([Counter(1), Counter(10)], on="processes").gather_sync().zip_with_source_actor().batch(2)
    seen = []
    for pairs in itertools.islice(rounds, 3):
        seen.append([item for _, item in pairs])
        for shard, _ in pairs:
            shard.set_step(100)
    assert seen == [[1, 10], [101, 110], [201, 210]]


def test_a_call_that_fails_is_raised_in_place_of_an_item_and_wrong_calls_are_refused() -> None:
    items = flow.from_actors([Counter(1)], on="processes").gather_sync().zip_with_source_actor()
    shard, item = next(items)
    assert item == 1 and repr(shard) == "<shard 0 in another process, a Counter>"
    shard.fail()
    with pytest.raises(LookupError, match="no such step"):
        next(items)
    assert next(items)[1] == 2
    with pytest.raises(AttributeError, match="at is not a method"):
        _ = shard.at
    with pytest.raises(AttributeError, match="'Counter' object has no attribute 'step_by'"):
        shard.step_by(1)
    with pytest.raises(AttributeError, match="step cannot be set from here; call a method that sets it"):
        shard.step = 100
    with pytest.raises(TypeError, match="the arguments of set_step cannot be pickled"):
        shard.set_step(Stays())
    items.close()
    # The shard has ended.
    shard.set_step(1)


@pytest.mark.parametrize("num_async", [None, 1, 3])
def test_items_that_arrive_in_any_order_name_their_shard(num_async: int | None) -> None:
    shards = flow.from_actors([Counter(1), Counter(-1)], on="processes")
    items = shards.gather_async(num_async=num_async).zip_with_source_actor()
    seen = {f"<shard {number} in another process, a Counter>": [0] for number in (0, 1)}
    while min(abs(of_shard[-1]) for of_shard in seen.values()) < 50_000:
        shard, item = items.next(timeout=60)
        seen[repr(shard)].append(item)
        if abs(item) == 100:
            shard.set_step(1000 * item)
    items.close()
    for sign, of_shard in zip((1, -1), seen.values(), strict=True):
        assert [sign * item for item in of_shard[:101]] == list(range(101))
        # The call has reached the shard that the item named.
        assert all(sign * (after - before) in (1, 100_000) for before, after in itertools.pairwise(of_shard))


@pytest.mark.parametrize(("num_async", "ahead"), [(1, 1), (2, 2), (3, 2), (5, 2), (8, 3)])
def test_num_async_limits_how_far_a_shard_is_ahead(num_async: int, ahead: int, tmp_path: pathlib.Path) -> None:
    notes = tmp_path / "notes"
    os.mkfifo(notes)
    # With a writer of its own, the pipe does not end between two items.
    pipe, made = os.open(notes, os.O_RDWR | os.O_NONBLOCK), 0
    items = flow.from_actors([Counter(1, notes)], on="processes").gather_async(num_async=num_async)
    for taken in range(1, 300):
        assert next(items) == taken
        while select.select([pipe], [], [], 0)[0]:
            made += len(os.read(pipe, 4096))
        assert made <= taken + num_async
    # If the latest message has a single item, the shard may have been asked for no more than these items.
    while made < taken + ahead:
        assert select.select([pipe], [], [], 60)[0], "the shard works while the consumer does"
        made += len(os.read(pipe, 4096))
    assert made <= taken + num_async
    os.close(pipe)


@pytest.mark.parametrize("num_async", [None, 2])
def test_resubmit_is_checked_also_for_processes(num_async: int | None) -> None:
    with pytest.raises(ValueError, match="resubmit is 'never', but it must be 'before' or 'after'"):
        flow.from_range(4, on="processes").gather_async(num_async=num_async, resubmit="never")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changed",
    [
        lambda shards: shards.local_shuffle(4, seed=7),
        lambda shards: shards.select_shards([1]),
        lambda shards: shards.union(flow.from_range(4, num_shards=1, on="processes")),
    ],
)
def test_operators_stay_in_the_processes_of_their_shards(changed: Callable[[Any], Any]) -> None:
    processes = set(changed(flow.from_range(20, on="processes")).for_each(pid).gather_sync())
    assert processes and os.getpid() not in processes


def test_shards_are_shuffled_as_in_threads() -> None:
    shuffled = [list(flow.from_range(40, on=on).local_shuffle(8, seed=5).for_each(same).gather_sync()) for on in ("threads", "processes")]
    assert shuffled[0] == shuffled[1]
    halves = [[item - offset for item in shuffled[0][number::2]] for number, offset in ((0, 0), (1, 20))]
    assert halves[0] != halves[1]


class Stays:
    """An object that cannot be pickled."""

    def __reduce__(self) -> Any:
        raise ValueError("this object stays here")


class Breaks:
    """An object that cannot be unpickled."""

    def __reduce__(self) -> Any:
        return broken, ()


def broken() -> None:
    raise KeyError("broken")


def odd_ones(x: int) -> Any:
    return {0: Breaks(), 3: lambda: 0, 5: Stays(), 6: Breaks()}.get(x, x)


@GATHERED
def test_an_item_that_cannot_be_sent_is_one_error(gathered: str) -> None:
    found = outcomes(getattr(flow.from_range(9, num_shards=1, on="processes").for_each(odd_ones), gathered)())
    assert [item for item in found if isinstance(item, int)] == [1, 2, 4, 7, 8]
    errors = [(number, str(item)) for number, item in enumerate(found) if isinstance(item, TypeError)]
    assert [number for number, _ in errors] == [0, 3, 5, 6]
    assert "cannot be pickled in the process of its shard: ValueError: this object stays here" in errors[2][1]
    assert "cannot be unpickled in the process that pulls it: KeyError: 'broken'" in errors[3][1]


class Strange(Exception):
    """An exception that can be unpickled only in its own process."""

    def __reduce__(self) -> Any:
        return strange, (os.getpid(),)


def strange(process: int) -> Strange:
    assert process == os.getpid()
    return Strange("it is strange")


def raises_at_one(x: int) -> int:
    if x == 1:
        raise Strange("it is strange")
    return x


@GATHERED
def test_an_exception_that_cannot_be_unpickled_is_reported_with_its_text(gathered: str) -> None:
    found = outcomes(getattr(flow.from_range(3, num_shards=1, on="processes").for_each(raises_at_one), gathered)())
    assert [type(item) for item in found] == [int, RuntimeError, int]
    assert "Strange: it is strange" in str(found[1]) and "raises_at_one" in str(found[1].__cause__)


def state_at_request(x: int, file: pathlib.Path) -> str:
    if x == 0:
        raise LookupError(file.read_text())
    return file.read_text()


def test_after_an_error_a_round_also_starts_at_its_request(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "state"
    file.write_text("one")
    items = flow.from_range(2, num_shards=1, on="processes").for_each(functools.partial(state_at_request, file=file)).gather_sync()
    with pytest.raises(LookupError, match="one"):
        next(items)
    file.write_text("two")
    assert next(items) == "two"


def killed_at_two(x: int) -> int:
    if x == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return x


@GATHERED
def test_a_killed_process_is_reported_once_and_the_others_continue(gathered: str) -> None:
    shards = flow.from_iterators([range(5), range(10, 20)], on="processes").for_each(killed_at_two)
    found = outcomes(getattr(shards, gathered)())
    # A process that is killed within a millisecond after an item may not have sent it.
    assert [item for item in found if isinstance(item, int) and item < 10] in ([0, 1], [0])
    assert [item for item in found if isinstance(item, int) and item >= 10] == list(range(10, 20))
    assert [str(item).partition("\n")[0] for item in found if not isinstance(item, int)] == ["the process of shard 0 ended with signal 9"]


def test_processes_end_with_their_stream() -> None:
    items = flow.from_range(100, num_shards=2, on="processes").for_each(pid).gather_async()
    seen = {next(items) for _ in range(100)}
    assert len(seen) == 2 and os.getpid() not in seen
    del items
    for child in multiprocessing.active_children():
        child.join(30)
        assert child.exitcode == 0


def stuck_from_one(x: int) -> int:
    if x:
        threading.Event().wait()
    return x


def held() -> tuple[int, int]:
    """Returns the number of threads and of open files of this process."""
    return threading.active_count(), len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize(
    "gathered",
    [
        lambda shards: shards.gather_sync(),
        lambda shards: shards.gather_async(),
        lambda shards: shards.gather_async().for_each(same).union(LocalIterator.of([])),
        lambda shards: shards.repartition(2).gather_async(),
    ],
)
@pytest.mark.parametrize("ends", [LocalIterator.close, lambda _: None])
def test_a_busy_process_ends_within_the_grace_after_its_stream(gathered: Any, ends: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_processes, "_GRACE_SECONDS", 0.2)
    # The first process opens files that stay open for later ones.
    assert flow.from_range(1, num_shards=1, on="processes").gather_sync().take(2) == [0]
    children, before = set(multiprocessing.active_children()), held()
    items = gathered(flow.from_range(6, num_shards=1, on="processes").for_each(stuck_from_one))
    assert items.next(timeout=60) == 0
    with pytest.raises(TimeoutError):
        items.next(timeout=0.1)
    (process,) = set(multiprocessing.active_children()) - children
    ends(items)
    del items
    process.join(30)
    assert process.exitcode == -signal.SIGKILL
    del process, children
    # The threads that close the pipe belong to the extension, and signal nothing when they end.
    until = time.monotonic() + 30
    while any(now > then for now, then in zip(held(), before, strict=True)):
        assert time.monotonic() < until, (held(), before)
        time.sleep(0.01)


def test_a_process_ends_although_its_module_has_lost_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of the interpreter, the constants of modules are `None`."""
    unraisable: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    children = set(multiprocessing.active_children())
    items = flow.from_range(6, num_shards=1, on="processes").gather_sync()
    assert next(items) == 0
    (process,) = set(multiprocessing.active_children()) - children
    monkeypatch.setattr(_processes, "_GRACE_SECONDS", None)
    items.close()
    process.join(30)
    assert process.exitcode == 0 and unraisable == []


def test_a_closed_stream_ends_its_process_while_an_exception_is_kept() -> None:
    children = set(multiprocessing.active_children())
    items = flow.from_range(9, num_shards=1, on="processes").for_each(odd_ones).gather_sync()
    with pytest.raises(TypeError, match="an item cannot be unpickled") as caught:
        next(items)
    (process,) = set(multiprocessing.active_children()) - children
    items.close()
    process.join(30)
    assert process.exitcode == 0 and caught.value.__traceback__ is not None


def test_unpicklable_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="on='processes' sends shards and functions to other processes"):
        flow.from_range(8, on="processes").for_each(lambda x: x).gather_sync()
    with pytest.raises(TypeError, match="on='processes' sends shards and functions to other processes"):
        flow.from_iterators([(x for x in [1])], on="processes").gather_sync()
