"""Streams with parts of different speeds: copies that lose items, windows by time, and ratios with a tolerance."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from relive import flow
from relive.flow import LocalIterator


def dropped(stream: LocalIterator[Any]) -> Any:
    """Returns the number of items that the last operator has dropped."""
    return stream.operators()[-1]["dropped"]


def test_copies_that_drop_the_oldest_items_do_not_wait() -> None:
    one, other = LocalIterator.of(range(9)).duplicate(2, max_lead=2, when_full="drop_oldest")
    assert list(one) == list(range(9))
    assert other.take(1) == [7]
    assert (dropped(one), dropped(other)) == (0, 7)
    assert list(other) == [8]
    one, other = LocalIterator.of(range(9)).duplicate(2, max_lead=2, when_full="wait")
    assert one.take(2) == [0, 1] and dropped(one) is None
    with pytest.raises(RuntimeError, match=r"ahead by the limit \(2\).*or drop the oldest items"):
        next(one)


def test_a_window_by_time_ends_with_its_time_or_the_stream() -> None:
    assert list(LocalIterator.of(range(5)).window_by_time(3600)) == [[0, 1, 2, 3, 4]]
    assert list(LocalIterator.of([]).window_by_time(3600)) == []
    items: queue.Queue[int | None] = queue.Queue()

    def arrive() -> Iterator[int]:
        while (item := items.get(timeout=60)) is not None:
            yield item

    # A window takes what is there: a thread waits for more items.
    windows = LocalIterator.of(arrive()).prefetch(4).window_by_time(0.01)
    for item in (1, 2):
        items.put(item)
        assert next(windows) == [item], "the time ends although the stream has no further item"
    with pytest.raises(TimeoutError):
        windows.next(timeout=0.05)
    items.put(None)
    assert list(windows) == []
    # Without a thread, a list is returned with the next item, which does not belong to it.
    late = threading.Event()
    waits = LocalIterator.of(item for item in (1, 2) if item == 1 or not late.wait(0.02))
    assert list(waits.window_by_time(0.01)) == [[1], [2]]


def test_a_ratio_with_a_tolerance_lets_a_side_advance() -> None:
    def sides() -> tuple[LocalIterator[str], LocalIterator[str]]:
        return LocalIterator.of("i" * 6), LocalIterator.of("s" * 2)

    assert "".join(flow.ratio(*sides(), 1, 1)) == "iisisi"
    assert "".join(flow.ratio(*sides(), 1, 1, tolerance=3)) == "iisisiii"


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda items: items.duplicate(2, when_full="drop"), "when_full is 'drop', but it must be 'wait' or 'drop_oldest'"),
        (lambda items: items.window_by_time(0), "seconds is 0, but it must be above 0"),
        (lambda items: items.window_by_time(float("nan")), "seconds is nan, but it must be above 0"),
        (lambda items: items.window_by_time(1e-320), "seconds is 1e-320, but it must be above 0, and at least a nanosecond"),
        (lambda items: flow.ratio(items, LocalIterator.of("s"), 4, tolerance=3), "the tolerance must be at least 4, got 3"),
        (lambda items: flow.ratio(items, LocalIterator.of("s"), 1, tolerance=-1), "the tolerance must be at least 1, got -1"),
        (lambda items: flow.ratio(items, LocalIterator.of("s"), 1, tolerance=float("inf")), "the tolerance .* must also be finite"),
        (lambda items: flow.ratio(items, LocalIterator.of("s"), float("nan")), "samples_per_insert must be a number above 0, got nan"),
        (lambda items: items.union(LocalIterator.of("s"), round_robin_weights=[-1, 1]), "a weight must be a number above 0, got -1"),
    ],
)
def test_wrong_paces_are_refused_before_a_stream_is_taken(wrong: Any, text: str) -> None:
    items = LocalIterator.of("i")
    with pytest.raises(ValueError, match=text):
        wrong(items)
    assert list(items) == ["i"]
