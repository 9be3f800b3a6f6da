"""Making shards."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from relive import _native
from relive.flow._operators import counted
from relive.flow._parallel import On, ParallelIterator

if TYPE_CHECKING:
    from relive.ray import Workers

T = TypeVar("T")


class ParallelIteratorWorker:
    """A shard with a state of its own: a subclass gives its items to :meth:`__init__`. Functions of operators get at it as the source of an item.

    Args:
      item_generator: an iterable, or a function that makes one.
      repeat: whether it begins anew for ever.
    """

    def __init__(self, item_generator: Any, repeat: bool = False) -> None:
        self._items = _repeated(item_generator) if repeat else item_generator() if callable(item_generator) else item_generator

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)


def from_items(items: Iterable[T], num_shards: int = 2, repeat: bool = False, *, on: On | Workers = "threads") -> ParallelIterator[T]:
    """These items: number ``i`` in shard ``i`` modulo the number of shards."""
    every, count = list(items), counted("num_shards", num_shards)
    shards = [every[number::count] for number in range(count)]
    kind = type(every[0]).__name__ if every else "None"
    name = f"from_items[{kind}, {len(every)}, shards={count}{', repeat=True' if repeat else ''}]"
    return from_iterators(shards, repeat, name, on=on)


def from_range(n: int, num_shards: int = 2, repeat: bool = False, *, on: On | Workers = "threads") -> ParallelIterator[int]:
    """The numbers below ``n``, in ranges; the last shard takes what does not go into equal parts."""
    count = counted("num_shards", num_shards)
    size = n // count
    shards = [range(number * size, n if number + 1 == count else (number + 1) * size) for number in range(count)]
    name = f"from_range[{n}, shards={count}{', repeat=True' if repeat else ''}]"
    return from_iterators(shards, repeat, name, on=on)


def from_iterators(
    generators: Iterable[Iterable[T] | Callable[[], Iterable[T]]], repeat: bool = False, name: str | None = None, *, on: On | Workers = "threads"
) -> ParallelIterator[T]:
    """A shard for each iterable, or for each function that makes one.

    Args:
      generators: they. With ``on="processes"`` and ``"ray"`` they are pickled, so that a generator is given by the function that makes it.
      repeat: whether they begin anew for ever.
      name: what graphs call them.
      on: where shards run: each in a thread, or a process, of its own, or ``"serial"``, all in the thread that pulls; ``"ray"``, or what
        :class:`relive.ray.Workers` says: each in an actor of Ray, on any machine of a cluster. Items come from there on Relive's own connections.
    """
    given = list(generators)
    name = name or f"from_iterators[shards={len(given)}{', repeat=True' if repeat else ''}]"
    return from_actors([_Shard(generator, repeat) for generator in given], name, on=on)


def from_actors(actors: Iterable[Any], name: str | None = None, *, on: On | Workers = "threads") -> ParallelIterator[Any]:
    """A shard for each of these objects, which are iterated over: a :class:`ParallelIteratorWorker`, or any iterable.

    :meth:`LocalIterator.zip_with_source_actor` tells which of them an item comes from, so that its methods can be called.
    """
    shards = list(actors)
    if on not in get_args(On) and not hasattr(on, "_launcher"):
        raise ValueError(f"on is {on!r}, but it must be 'threads', 'serial', 'processes', 'ray' or a relive.ray.Workers")
    name = name or f"from_actors[shards={len(shards)}]"
    if on == "processes":
        from relive.flow._processes import in_processes

        return in_processes(shards, name)
    if on not in ("threads", "serial"):
        from relive.flow._ray import on_ray
        from relive.ray import Workers

        return on_ray(shards, name, on if isinstance(on, Workers) else Workers())
    return ParallelIterator(lambda _: _native.FlowShards.of("items", shards, on == "threads"), name, shards)


class _Shard(ParallelIteratorWorker):
    """A shard of an iterable that was given as it is."""

    def __init__(self, generator: Any, repeat: bool) -> None:
        self._given = generator, repeat
        super().__init__(generator, repeat)

    def __reduce__(self) -> Any:
        return _Shard, self._given


def _repeated(generator: Any) -> Iterator[Any]:
    for number in itertools.count():
        items = generator() if callable(generator) else generator
        iterator = iter(items)
        if iterator is items and number:
            raise ValueError("repeat=True needs a list, or a function that makes an iterator: an iterator cannot begin anew")
        yield from iterator
