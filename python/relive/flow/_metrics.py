"""Metrics that are shared by the functions of a graph."""

from __future__ import annotations

import collections
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from relive import _native
from relive.flow._turns import take_turns_here

# Held while a timer adds numbers. It belongs to no timer, so that timers can be pickled.
_adding = threading.Lock()


class Timer:
    """Counts and times an operation: ``with metrics.timers["learn"]: …``. Several threads may use a timer at a time,
    and its blocks may be nested; each block counts with its own duration."""

    def __init__(self) -> None:
        self.count, self.total = 0, 0.0
        self.units, self._units_count = 0.0, 0
        # The times at which the current blocks began, for each thread, the innermost last.
        self._begun: dict[int, list[float]] = {}

    def __enter__(self) -> Timer:
        self._begun.setdefault(threading.get_ident(), []).append(time.perf_counter())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        now, thread = time.perf_counter(), threading.get_ident()
        if thread not in self._begun:
            # A block around a generator's yield may end in another thread than it began in.
            thread = next(reversed(self._begun))
        begun = self._begun[thread]
        self.push(now - begun.pop())
        if not begun:
            del self._begun[thread]

    def push(self, seconds: float) -> None:
        """Records the duration of one operation."""
        with _adding:
            self.count, self.total = self.count + 1, self.total + seconds

    def push_units_processed(self, units: float) -> None:
        """Records the number of units that were processed during the operation."""
        with _adding:
            self.units, self._units_count = self.units + units, self._units_count + 1

    def has_units_processed(self) -> bool:
        """Returns whether a number of units was recorded."""
        return self._units_count > 0

    @property
    def mean(self) -> float:
        """The average duration of an operation in seconds."""
        return self.total / self.count if self.count else 0.0

    @property
    def mean_units_processed(self) -> float:
        """The average of the recorded numbers of units."""
        return self.units / self._units_count if self._units_count else 0.0

    @property
    def mean_throughput(self) -> float:
        """The average number of units processed per second."""
        return self.units / self.total if self.total else 0.0

    def save(self) -> dict[str, float]:
        """Returns the recorded sums for a checkpoint."""
        return {"count": self.count, "total": self.total, "units": self.units, "units_count": self._units_count}

    def restore(self, saved: dict[str, float]) -> None:
        """Restores the recorded sums."""
        self.count, self.total = int(saved["count"]), saved["total"]
        self.units, self._units_count = saved["units"], int(saved["units_count"])


class MetricsContext:
    """Counters, timers and values of a graph, by name."""

    def __init__(self) -> None:
        self.counters: collections.defaultdict[str, int] = collections.defaultdict(int)
        self.timers: collections.defaultdict[str, Timer] = collections.defaultdict(Timer)
        self.info: dict[str, Any] = {}

    @property
    def current_actor(self) -> Any:
        """The shard of the item that a function in this thread is processing, or has processed last; ``None`` if the
        item does not come from a shard."""
        take_turns_here()
        return getattr(_now, "actor", None)

    @current_actor.setter
    def current_actor(self, actor: Any) -> None:
        _now.actor = actor

    def save(self) -> dict[str, Any]:
        """Returns counters, values and timers for a checkpoint."""
        timers = {name: timer.save() for name, timer in self.timers.items()}
        return {"counters": dict(self.counters), "info": dict(self.info), "timers": timers}

    def restore(self, saved: dict[str, Any]) -> None:
        """Restores counters, values and timers. Timers that the state lacks, as in a state from Ray, start from
        zero."""
        self.counters.clear()
        self.counters.update(saved["counters"])
        self.info = dict(saved["info"])
        self.timers.clear()
        for name, timer in (saved.get("timers") or {}).items():
            self.timers[name].restore(timer)


class SharedMetrics:
    """The metrics of a graph; two graphs that are joined share their metrics.

    Args:
      metrics: the metrics; by default, new ones.
      parents: the metrics of other graphs, which are joined with these.
    """

    def __init__(self, metrics: MetricsContext | None = None, parents: Sequence[SharedMetrics] = ()) -> None:
        self._context: MetricsContext | SharedMetrics = metrics or MetricsContext()
        for parent in parents:
            parent.join(self)

    def get(self) -> MetricsContext:
        """Returns the metrics."""
        context = self._context
        while isinstance(context, SharedMetrics):
            context = context._context
        return context

    def set(self, metrics: MetricsContext) -> None:
        """Replaces the metrics of the graph."""
        self._last()._context = metrics

    def join(self, other: SharedMetrics) -> None:
        """Makes both graphs refer to the metrics of ``other``."""
        if self.get() is other.get():
            return
        self._last()._context = other

    def _last(self) -> SharedMetrics:
        end = self
        while isinstance(end._context, SharedMetrics):
            end = end._context
        return end


_now = threading.local()

# A source yields an object of this type while it has no item; its consumer then tries again.
NotReady = _native.FlowNotYet


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


class Origins:
    """The shards that items come from, by number.

    Args:
      actors: the shards.
      metrics: the metrics of all items; by default, each shard has its own.
      otherwise: the origin of items that have no shard number.
    """

    def __init__(self, actors: list[Any], metrics: SharedMetrics | None = None, otherwise: Any = None) -> None:
        self._actors, self._shared, self._otherwise = actors, metrics, otherwise
        # The metrics of each shard, followed by those of items that do not come from a shard.
        self._own = [] if metrics is not None else [SharedMetrics() for _ in range(len(actors) + 1)]

    def of(self, number: int) -> tuple[Any, MetricsContext]:
        """Returns a shard and its metrics. The number -1 stands for items without a shard number."""
        place = number if 0 <= number < len(self._actors) else len(self._actors)
        actor = self._actors[place] if place < len(self._actors) else self._otherwise
        return actor, (self._own[place] if self._shared is None else self._shared).get()


class Binding:
    """The objects to which the functions of a graph are bound: the origins of items, and the stream, which stores the
    functions.

    The extension has only weak references to the functions, because Python's garbage collector cannot see its
    references. An object whose own stream calls its methods is thus freed together with the stream.
    """

    def __init__(self, origins: Origins, kept: list[Any]) -> None:
        self.origins, self.kept = origins, kept

    def weakly(self, function: Callable[[Any], Any]) -> Callable[[], Callable[[Any], Any]]:
        """Stores a function, and returns a getter that holds only a weak reference to it."""
        held = _Held(function)
        self.kept.append(held)
        reference = weakref.ref(held)

        def get() -> Callable[[Any], Any]:
            held = reference()
            if held is None:
                raise RuntimeError("the stream that this function belongs to no longer exists")
            return held.function

        return get


class _Held:
    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function


def within(function: Callable[[Any], Any], binding: Binding) -> Callable[[Any, int], Any]:
    """Wraps a function for an operator: the wrapper is called with an item and the number of the item's shard."""
    origins, get = binding.origins, binding.weakly(function)

    def call(item: Any, number: int) -> Any:
        function = get()
        outer = getattr(_now, "metrics", None), getattr(_now, "actor", None)
        _now.actor, _now.metrics = origins.of(number)
        try:
            made = function(item)
            if type(made) is NotReady:
                raise TypeError(
                    "a function returned _NextValueNotReady(), but only a source or a function of transform() may yield it; to wait in a "
                    "function while a union continues, use for_each(function, max_concurrency=2)"
                )
            return made
        finally:
            _now.metrics = outer[0]
            if outer[0] is not None:
                # Another function of this thread called this one.
                _now.actor = outer[1]

    return call
