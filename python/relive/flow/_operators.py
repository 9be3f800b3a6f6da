"""Operators that iterators and parallel iterators both have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from relive.flow._metrics import SharedMetrics, within

Operator = tuple[Any, ...]


def label(name: str, function: Any) -> str:
    """Returns the name of an operator that applies a function, for graphs and errors."""
    called = getattr(function, "__name__", type(function).__name__)
    return name if called == "<lambda>" else f"{name}({called})"


def counted(name: str, value: Any, least: int = 1) -> int:
    """Checks an integer argument of an operator.

    Raises:
      ValueError: the value is not an integer, or is below the minimum.
    """
    if not isinstance(value, int) or value < least:
        raise ValueError(f"{name} is {value!r}, but it must be a whole number of at least {least}")
    return value


def bound(operator: Operator, metrics: SharedMetrics, actors: list[Any]) -> Operator:
    """Returns the operator in the extension's form, in which its function also receives the number of the item's
    shard."""
    kind, *arguments = operator
    if kind not in ("for_each", "filter", "combine"):
        return operator
    name, function = arguments
    return kind, name, within(function, metrics, actors)


def itself(item: Any) -> Any:
    """Returns the item."""
    return item


class Concurrently:
    """Calls a function in threads, for up to a given number of items at a time (0: no limit); results are returned as
    they complete."""

    def __init__(self, function: Callable[[Any], Any], max_concurrency: int) -> None:
        self._function, self._most = function, max_concurrency
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __call__(self, items: Iterator[Any]) -> Iterator[Any]:
        """Yields the results for these items."""
        with ThreadPoolExecutor(self._most or None) as threads:
            running: set[Future[Any]] = set()
            for item in items:
                running.add(threads.submit(self._function, item))
                if self._most and len(running) >= self._most:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    yield from (call.result() for call in done)
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (call.result() for call in done)
