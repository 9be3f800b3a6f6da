"""One stream of items."""

from __future__ import annotations

import atexit
import itertools
import json
import math
import random
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import index
from typing import Any, Generic, Literal, TypeVar, cast

from relive import _native
from relive._numbers import any_number, count
from relive.flow import _metrics
from relive.flow._metrics import Binding, MetricsContext, Origins, SharedMetrics
from relive.flow._operators import Operator, bound, each, itself, label
from relive.flow._turns import take_turns_here, turns_of

T = TypeVar("T")
U = TypeVar("U")

# The largest number of copies of a stream.
_MAX_COPIES = 1 << 16

# The open streams. They are closed before the interpreter exits, since their shards may need the interpreter.
_streams: weakref.WeakSet[LocalIterator[Any]] = weakref.WeakSet()


@atexit.register
def _end_streams() -> None:
    for stream in list(_streams):
        stream.close()


class LocalIterator(Generic[T]):
    """A lazy stream of items. Its operators run in the thread that pulls from it, and a pull performs only the work for
    one item.

    An operator turns this iterator into a new one; do not use the old one afterwards. :meth:`duplicate` creates several
    copies of an iterator.
    """

    def __init__(
        self,
        base_iterator: Callable[[float | None], Iterable[T]],
        shared_metrics: SharedMetrics,
        *,
        timeout: float | None = None,
        name: str = "unknown",
    ) -> None:
        """Returns the items of the iterator that a function returns, as in Ray. :meth:`of` takes an iterable.

        Args:
          base_iterator: the function. It is called at the first pull, with ``timeout``. Its iterator may yield
            ``flow._NextValueNotReady()`` while it has no item, after a wait of at most ``timeout`` seconds; it is then
            asked again, and a union continues with its other streams.
          shared_metrics: the metrics of the graph.
          timeout: the argument of the function. In a union that does not wait for this stream, the argument is 0.
          name: the name of the stream.
        """
        if not callable(base_iterator):
            raise TypeError(f"base_iterator must be a function that returns an iterator, got {base_iterator!r}; use LocalIterator.of()")
        source = _Begun(base_iterator, timeout)
        self._begin(_native.FlowStream.of(name, source), name, shared_metrics, sources=[source])

    @classmethod
    def _over(
        cls,
        native: Any,
        name: str,
        metrics: SharedMetrics | None = None,
        actors: Sequence[Any] = (),
        kept: Sequence[Any] = (),
        sources: Sequence[_Begun] = (),
    ) -> LocalIterator[Any]:
        stream: LocalIterator[Any] = cls.__new__(cls)
        stream._begin(native, name, metrics, actors, kept, sources)
        return stream

    def _begin(
        self,
        native: Any,
        name: str,
        metrics: SharedMetrics | None,
        actors: Sequence[Any] = (),
        kept: Sequence[Any] = (),
        sources: Sequence[_Begun] = (),
    ) -> None:
        self._native = native
        self.name = name
        self.shared_metrics = metrics or SharedMetrics()
        # The shards by number; `None` for shards of which the stream has no items.
        self._actors = list(actors)
        # The functions of the graph.
        self._kept = list(kept)
        # The sources that can report that they have no item yet, unless an operator waits for their items anyway.
        self._sources = list(sources)
        _streams.add(self)

    @classmethod
    def of(cls, items: Iterable[T], name: str = "items") -> LocalIterator[T]:
        """Returns a stream of the items of an iterable."""
        return cls._over(_native.FlowStream.of(name, items), f"{name}[]")

    @staticmethod
    def get_metrics() -> MetricsContext:
        """Returns the metrics of the graph that the calling function belongs to; see
        :func:`relive.flow.get_metrics`."""
        return _metrics.get_metrics()

    def __repr__(self) -> str:
        return f"LocalIterator[{self.name}]"

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        item = self._native.next(None)
        if item is None:
            raise StopIteration
        return cast("T", item[0])

    def close(self) -> None:
        """Ends the stream and its shards; a shard that does not end within a second is abandoned."""
        if self._native.close():
            return
        # Calls of methods do not wait for the item of an abandoned shard.
        for turns in filter(None, map(turns_of, self._actors)):
            turns.release_item()

    @property
    def actors(self) -> list[Any]:
        """The shards that items come from, in order: the objects that :meth:`zip_with_source_actor` returns, for
        example to send the first weights to all shards before the first item. For a shard in another process, the
        object only calls the shard's methods; that shard is a copy of the object that the program has created. After
        ``repartition``, the shards are numbers."""
        take_turns_here()
        return [actor for actor in self._actors if actor is not None]

    def next(self, timeout: float | None = None) -> T:
        """Returns the next item.

        Raises:
          StopIteration: the stream has ended.
          TimeoutError: there was no item within ``timeout`` seconds; no item is lost. Work in the calling thread, such
            as all operators after the shards are gathered, is not interrupted; nor is a wait in :meth:`transform`.
          ValueError: ``timeout`` is negative or not a number; or the stream is closed.
        """
        item = self._native.next(timeout)
        if item is None:
            raise StopIteration
        return cast("T", item[0])

    def _then(self, operator: Operator, name: str) -> LocalIterator[Any]:
        kept = [*self._kept]
        operator = bound(operator, Binding(Origins(self._actors, self.shared_metrics), kept))
        sources = () if operator[0] in ("transform", "prefetch") else self._sources
        return LocalIterator._over(self._native.then(operator), self.name + name, self.shared_metrics, self._actors, kept, sources)

    def transform(self, fn: Callable[[Iterator[T]], Iterable[U]]) -> LocalIterator[U]:
        """Applies a function, which takes an iterator and returns an iterator, to the stream. The iterator that the
        function receives waits for each item. A union therefore waits for each item of the result, unless the result
        has a source of its own and yields ``flow._NextValueNotReady()``."""
        stream = self._then(("transform", label("transform", fn), fn), ".transform()")
        # The function may combine items, so the items of the result do not belong to a shard.
        stream._actors = []
        return stream

    def for_each(self, fn: Callable[[T], U], max_concurrency: int = 1, resources: Any = None) -> LocalIterator[U]:
        """Applies a function to each item. If ``max_concurrency`` is not 1, threads process up to that many items at a
        time (0: up to 1,024), and results are returned as they complete. ``resources`` has no effect."""
        return self._then(each(fn, max_concurrency), ".for_each()")

    def filter(self, fn: Callable[[T], bool]) -> LocalIterator[T]:
        """Keeps the items for which a function returns true."""
        return self._then(("filter", label("filter", fn), fn), ".filter()")

    def batch(self, n: int) -> LocalIterator[list[T]]:
        """Groups items into lists of ``n`` items; the last list may be shorter."""
        return self._then(("batch", count("n", n, 1)), f".batch({n})")

    def flatten(self) -> LocalIterator[Any]:
        """Flattens items that are iterables."""
        return self._then(("combine", "flatten", itself), ".flatten()")

    def combine(self, fn: Callable[[T], Iterable[U]]) -> LocalIterator[U]:
        """Applies a function that returns any number of results for each item, including none."""
        return self._then(("combine", label("combine", fn), fn), ".combine()")

    def shuffle(self, shuffle_buffer_size: int, seed: int | None = None) -> LocalIterator[T]:
        """Shuffles the items: each item is drawn at random from a buffer of the given size."""
        size = count("shuffle_buffer_size", shuffle_buffer_size, 1)
        return self._then(("shuffle", size, _seed(seed)), f".shuffle(shuffle_buffer_size={size}, seed={seed})")

    def window(self, size: int, step: int = 1) -> LocalIterator[list[T]]:
        """Yields lists of ``size`` consecutive items; each list starts ``step`` items after the previous one."""
        return self._then(("window", count("size", size, 1), count("step", step, 1)), f".window({size}, {step})")

    def window_by_time(self, seconds: float) -> LocalIterator[list[T]]:
        """Yields lists of the items that arrive within a time: each list begins with an item, and contains the items of
        the following ``seconds``. A list has no maximum length. If the source waits in the thread that pulls, a list is
        returned only with the next item, which begins the next list; ``prefetch(1)`` before the window prevents this."""
        within = any_number("seconds", seconds)
        # The extension counts whole nanoseconds.
        if not within >= 1e-9:
            raise ValueError(f"seconds is {seconds}, but it must be above 0, and at least a nanosecond")
        return self._then(("window_by_time", within), f".window_by_time({seconds})")

    def prefetch(self, depth: int) -> LocalIterator[T]:
        """Yields the same items; a thread produces up to ``depth`` of them ahead of time."""
        return self._then(("prefetch", count("depth", depth, 1)), f".prefetch({depth})")

    def timeout(self, seconds: float) -> LocalIterator[T]:
        """Yields the same items, and raises a TimeoutError if an item does not arrive in time."""
        # The extension refuses negative numbers.
        limit = any_number("seconds", seconds)
        return self._then(("timeout", limit), f".timeout({seconds})")

    def retry(self, times: int) -> LocalIterator[T]:
        """Yields the same items, ignoring up to ``times`` consecutive errors."""
        return self._then(("retry", count("times", times, bits=32)), f".retry({times})")

    def zip_with_source_actor(self) -> LocalIterator[tuple[Any, T]]:
        """Yields pairs: the shard that an item comes from, and the item.

        Raises, when it is pulled:
          ValueError: the item does not come from a shard, or comes from several shards.
        """
        actors = self._actors

        def pair(item: T, source: int) -> tuple[Any, T]:
            if source < 0:
                raise ValueError("zip_with_source_actor: the item has no single source; it comes from no shard, or from several")
            take_turns_here()
            return (actors[source] if source < len(actors) else source), item

        native = self._native.then(("for_each", "zip_with_source_actor", pair))
        name = f"{self.name}.zip_with_source_actor()"
        return LocalIterator._over(native, name, self.shared_metrics, actors, self._kept, self._sources)

    def take(self, n: int) -> list[T]:
        """Returns the first ``n`` items as a list."""
        taken = []
        for _ in range(n):
            item = self._native.next(None)
            if item is None:
                break
            taken.append(item[0])
        return taken

    def show(self, n: int = 20) -> None:
        """Prints the first ``n`` items, each as it arrives."""
        for item in itertools.islice(self, n):
            print(item)

    def duplicate(
        self, n: int, max_lead: int = 1, *, when_full: Literal["wait", "drop_oldest"] = "wait"
    ) -> list[LocalIterator[T]]:
        """Returns copies of the stream. For a copy that is behind, up to ``max_lead`` items are kept.

        Args:
          n: the number of copies, 2 to 65,536.
          max_lead: the number of items that are kept for a copy.
          when_full: what happens when ``max_lead`` items are kept for a copy, and another copy is pulled. ``"wait"``:
            the other copy waits, so each copy yields all items. Waiting for copies that no thread will pull raises a
            RuntimeError that names these copies; if no thread of the graph pulls a copy, another thread must pull it
            within a second. ``"drop_oldest"``: the oldest of the kept items is dropped; :meth:`operators` counts these
            items as ``dropped``.
        """
        if count("n", n, 1) < 2:
            raise ValueError(f"n must be at least 2, got {n}")
        if n > _MAX_COPIES:
            raise ValueError(f"n must be at most {_MAX_COPIES}, got {n}")
        if when_full not in ("wait", "drop_oldest"):
            raise ValueError(f"when_full is {when_full!r}, but it must be 'wait' or 'drop_oldest'")
        copies = self._native.copies(n, count("max_lead", max_lead, 1), when_full == "drop_oldest")
        return [
            LocalIterator._over(copy, f"{self.name}.duplicate[{number}]", self.shared_metrics, self._actors, self._kept, self._sources)
            for number, copy in enumerate(copies)
        ]

    def union(
        self,
        *others: LocalIterator[U],
        deterministic: bool = False,
        round_robin_weights: Sequence[float | str] | None = None,
    ) -> LocalIterator[T | U]:
        """Merges the items of several streams, which share their metrics afterwards.

        Args:
          others: the other streams.
          deterministic: whether to take one item from each stream in turn, and to wait for it; otherwise streams
            without an item are skipped.
          round_robin_weights: the number of items to take from each stream in its turn, waiting for each; ``"*"`` takes
            all that are available, up to a hundred, without waiting. As in Ray, a source that yields
            ``flow._NextValueNotReady()`` ends its turn in any case.
        """
        streams: list[LocalIterator[Any]] = [self, *others]
        if any(not isinstance(stream, LocalIterator) for stream in streams):
            raise TypeError(f"union takes LocalIterators, got {next(o for o in streams if not isinstance(o, LocalIterator))!r}")
        # As in Ray, an empty list has no weights.
        weights = None if round_robin_weights is None else _weights(round_robin_weights, len(streams)) or None
        for other in others:
            other.shared_metrics.join(self.shared_metrics)
        actors = [actor for stream in streams for actor in stream._actors]
        native = _native.FlowStream.union([stream._native for stream in streams], deterministic, weights)
        is_skipped = [not deterministic] * len(streams) if weights is None else [weight is None for weight in weights]
        for stream in itertools.compress(streams, is_skipped):
            for source in stream._sources:
                source.timeout = 0
        kept = [function for stream in streams for function in stream._kept]
        return LocalIterator._over(native, f"LocalUnion[{', '.join(map(repr, streams))}]", self.shared_metrics, actors, kept)

    def mermaid(self) -> str:
        """Returns the graph in mermaid syntax."""
        return str(self._native.show(True))

    def graph(self) -> str:
        """Returns the graph as text: each operator with the number of its items."""
        return str(self._native.show(False))

    def operators(self) -> list[dict[str, Any]]:
        """Returns the number of items, of queued and of dropped items, and the waiting time of each operator."""
        found: list[dict[str, Any]] = json.loads(self._native.operators())
        return found

    def _repr_markdown_(self) -> str:
        return f"```mermaid\n{self.mermaid()}\n```"

    def step(self, to: str | None = None) -> tuple[str, T | None]:
        """Pulls once without waiting, to inspect a graph, and returns the outcome and the item.

        The outcome is ``"item"``, ``"waiting"``, ``"end"``, or ``"stopped"`` if the operator named ``to`` has produced
        an item that was not passed on.
        """
        kind, item = self._native.step(to)
        return kind, None if item is None else item[0]


class _Begun:
    """The items of the iterator that a function returns for a timeout. A later timeout has no effect after the first
    pull."""

    def __init__(self, function: Callable[[float | None], Iterable[Any]], timeout: float | None) -> None:
        self._function, self.timeout = function, timeout

    def __iter__(self) -> Iterator[Any]:
        return iter(self._function(self.timeout))


def ratio(
    inserts: LocalIterator[Any],
    samples: LocalIterator[Any],
    samples_per_insert: float,
    min_inserted: int = 1,
    *,
    tolerance: float | None = None,
) -> LocalIterator[Any]:
    """Combines two streams in lockstep: ``samples_per_insert`` items of ``samples`` for each item of ``inserts``, after
    the first ``min_inserted`` items of ``inserts``.

    ``tolerance`` is the number of samples by which the streams may deviate from this ratio if one of them has no item
    ready. The default is the smallest possible value: the larger of 1 and ``samples_per_insert``.

    Raises:
      ValueError: a number that is out of range. Neither stream is taken in this case.
      TypeError: an argument of the wrong type.
    """
    for name, stream in (("inserts", inserts), ("samples", samples)):
        if not isinstance(stream, LocalIterator):
            raise TypeError(f"{name} must be a LocalIterator, got {stream!r}")
    per_insert = any_number("samples_per_insert", samples_per_insert)
    if not 0 < per_insert < math.inf:
        raise ValueError(f"samples_per_insert must be a number above 0, got {samples_per_insert}")
    least = max(per_insert, 1.0)
    if tolerance is not None and not least <= any_number("tolerance", tolerance) < math.inf:
        raise ValueError(f"the tolerance must be at least {least:g}, got {tolerance}; it must also be finite")
    first = count("min_inserted", min_inserted)
    samples.shared_metrics.join(inserts.shared_metrics)
    native = _native.FlowStream.in_ratio(inserts._native, samples._native, per_insert, first, tolerance)
    actors = [*inserts._actors, *samples._actors]
    return LocalIterator._over(native, f"ratio[{inserts!r}, {samples!r}]", inserts.shared_metrics, actors, [*inserts._kept, *samples._kept])


def _weights(given: Sequence[float | str], streams: int) -> list[float | None]:
    """Returns the weights of a union's streams, with ``None`` for ``"*"``."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"round_robin_weights must be a list with a weight for each of {streams} streams, got {given!r}")
    weights = [None if isinstance(weight, str) and weight == "*" else any_number("a weight", weight) for weight in given]
    if weights and (len(weights) != streams or all(weight is None for weight in weights)):
        raise ValueError(
            f"round_robin_weights is {list(given)}, but it must have a weight for each of {streams} streams, and a number for one of them"
        )
    for weight in weights:
        if weight is not None and not 0 < weight < math.inf:
            raise ValueError(f"a weight must be a number above 0, got {weight:g}")
    return weights


def _seed(seed: int | None) -> int:
    return random.getrandbits(64) if seed is None else index(seed) % 2**64
