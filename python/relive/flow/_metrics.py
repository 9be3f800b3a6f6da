"""Metrics that are shared by the functions of a graph."""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any


class Timer:
    """Counts and times an operation: ``with metrics.timers["learn"]: …``."""

    def __init__(self) -> None:
        self.count, self.total, self.units = 0, 0.0, 0.0
        self._since = 0.0

    def __enter__(self) -> Timer:
        self._since = time.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.push(time.perf_counter() - self._since)

    def push(self, seconds: float) -> None:
        """Records the duration of one operation."""
        self.count, self.total = self.count + 1, self.total + seconds

    def push_units_processed(self, units: float) -> None:
        """Records the number of units that were processed during the operation."""
        self.units += units

    @property
    def mean(self) -> float:
        """The average duration of an operation in seconds."""
        return self.total / self.count if self.count else 0.0

    @property
    def mean_throughput(self) -> float:
        """The average number of units processed per second."""
        return self.units / self.total if self.total else 0.0


class MetricsContext:
    """Counters, timers and values of a graph, by name."""

    def __init__(self) -> None:
        self.counters: collections.defaultdict[str, int] = collections.defaultdict(int)
        self.timers: collections.defaultdict[str, Timer] = collections.defaultdict(Timer)
        self.info: dict[str, Any] = {}
        self.current_actor: Any = None
        """The shard of the item that a function is processing, or ``None`` if the item does not come from a shard."""

    def save(self) -> dict[str, Any]:
        """Returns counters and values for a checkpoint."""
        return {"counters": dict(self.counters), "info": dict(self.info)}

    def restore(self, saved: dict[str, Any]) -> None:
        """Restores counters and values."""
        self.counters.clear()
        self.counters.update(saved["counters"])
        self.info = dict(saved["info"])


class SharedMetrics:
    """The metrics of a graph; two graphs that are joined share their metrics."""

    def __init__(self, context: MetricsContext | None = None) -> None:
        self._context: MetricsContext | SharedMetrics = context or MetricsContext()

    def get(self) -> MetricsContext:
        """Returns the metrics."""
        context = self._context
        while isinstance(context, SharedMetrics):
            context = context._context
        return context

    def join(self, other: SharedMetrics) -> None:
        """Makes both graphs refer to the metrics of ``other``."""
        if self.get() is other.get():
            return
        end = self
        while isinstance(end._context, SharedMetrics):
            end = end._context
        end._context = other


_now = threading.local()


def get_metrics() -> MetricsContext:
    """Returns the metrics of the graph that the calling function belongs to.

    Raises:
      ValueError: no function of a graph is running.
    """
    context = getattr(_now, "metrics", None)
    if context is None:
        raise ValueError("metrics are available only inside a function that an operator calls, such as that of for_each()")
    found: MetricsContext = context
    return found


def within(function: Callable[[Any], Any], metrics: SharedMetrics, actors: list[Any]) -> Callable[[Any, int], Any]:
    """Wraps a function for an operator: the wrapper is called with an item and the number of the item's shard."""

    def call(item: Any, source: int) -> Any:
        context = metrics.get()
        if source >= 0:
            context.current_actor = actors[source] if source < len(actors) else source
        outer = getattr(_now, "metrics", None)
        _now.metrics = context
        try:
            return function(item)
        finally:
            _now.metrics = outer

    return call
