"""Dataflow whose shards are processes."""

from __future__ import annotations

import functools
import multiprocessing
import os
import pathlib
import signal
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
    assert "failed: ValueError: this object stays here" in errors[2][1] and "failed: KeyError: 'broken'" in errors[3][1]


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


def test_a_closed_stream_ends_its_process_while_an_exception_is_kept() -> None:
    children = set(multiprocessing.active_children())
    items = flow.from_range(9, num_shards=1, on="processes").for_each(odd_ones).gather_sync()
    with pytest.raises(TypeError, match="items are unpickled") as caught:
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
