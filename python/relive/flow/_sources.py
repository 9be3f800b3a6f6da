"""Functions that create shards."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from relive import _native
from relive._numbers import count, whole
from relive.flow._parallel import On, ParallelIterator
from relive.flow._turns import TakesTurns, take_turns_here

if TYPE_CHECKING:
    from relive.ray import Workers

T = TypeVar("T")


class ParallelIteratorWorker(TakesTurns):
    """A shard with state. A subclass passes its items to :meth:`__init__`. Functions in operators can access the object
    as the source of an item, and call its methods. While the shard runs in a thread, a call of a public method waits until
    the shard has made its current item, so that no call changes the state while an item is being made.

    Args:
      item_generator: an iterable, or a function that creates one. The function, such as a method of the subclass, is
        called in the shard, at the first pull.
      repeat: whether the source restarts forever.
    """

    def __init__(self, item_generator: Any, repeat: bool = False) -> None:
        self._items = _Items(item_generator, repeat)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)


class _Items:
    """The items of an iterable, or of a function that creates one. If it creates an iterator, a second iteration
    continues that iterator. In another process, the items start over."""

    def __init__(self, given: Any, repeat: bool) -> None:
        self._given, self._repeat = given, repeat
        self._begun: Any = None
        # Between the items and the calls of methods, if the shard runs in a thread.
        self.turns: _native.FlowTurns | None = None

    def __reduce__(self) -> Any:
        # An iterator that has begun stays in this process.
        return _Items, (self._given, self._repeat)

    def __iter__(self) -> Iterator[Any]:
        if self._begun is None:
            self._begun = _repeated(self._given) if self._repeat else _made(self._given)
        return iter(self._begun)


def from_items(items: Iterable[T], num_shards: int = 2, repeat: bool = False, *, on: On | Workers = "threads") -> ParallelIterator[T]:
    """Distributes these items: item ``i`` goes to shard ``i`` modulo the number of shards."""
    every, parts = list(items), count("num_shards", num_shards, 1)
    shards = [every[number::parts] for number in range(parts)]
    kind = type(every[0]).__name__ if every else "None"
    name = f"from_items[{kind}, {len(every)}, shards={parts}{', repeat=True' if repeat else ''}]"
    return from_iterators(shards, repeat, name, on=on)


def from_range(n: int, num_shards: int = 2, repeat: bool = False, *, on: On | Workers = "threads") -> ParallelIterator[int]:
    """Distributes the numbers below ``n`` in contiguous ranges; the last shard takes the remainder."""
    n, parts = whole("n", n), count("num_shards", num_shards, 1)
    size = n // parts
    shards = [range(number * size, n if number + 1 == parts else (number + 1) * size) for number in range(parts)]
    name = f"from_range[{n}, shards={parts}{', repeat=True' if repeat else ''}]"
    return from_iterators(shards, repeat, name, on=on)


def from_iterators(
    generators: Iterable[Iterable[T] | Callable[[], Iterable[T]]], repeat: bool = False, name: str | None = None, *, on: On | Workers = "threads"
) -> ParallelIterator[T]:
    """Creates a shard for each iterable, or for each function that creates an iterable.

    Args:
      generators: the iterables or functions. With ``on="processes"`` and ``"ray"`` they are pickled, so pass the
        function that creates a generator rather than the generator. A function is called in its shard, at the first
        pull.
      repeat: whether the sources restart forever.
      name: the name of the sources in graphs.
      on: where shards run: each in its own thread or process; ``"serial"``, all in the pulling thread; ``"ray"`` or
        :class:`relive.ray.Workers`, each in a Ray actor on any machine of a cluster. Ray actors send items over
        Relive's own connections.
    """
    given = list(generators)
    name = name or f"from_iterators[shards={len(given)}{', repeat=True' if repeat else ''}]"
    return from_actors([ParallelIteratorWorker(generator, repeat) for generator in given], name, on=on)


def from_actors(actors: Iterable[Any], name: str | None = None, *, on: On | Workers = "threads") -> ParallelIterator[Any]:
    """Creates a shard for each of these objects: a :class:`ParallelIteratorWorker`, or any iterable.

    :meth:`LocalIterator.zip_with_source_actor` returns the object that an item comes from, so that its methods can be
    called; :attr:`LocalIterator.actors` returns the objects of all shards.
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
    turns = [_with_turns(shard) for shard in shards] if on == "threads" else []
    return ParallelIterator(lambda *_: _native.FlowShards.of("items", shards, on == "threads", turns), name, shards)


def _with_turns(shard: Any) -> _native.FlowTurns | None:
    """Returns the turns of a shard in a thread, if it has methods of its own."""
    items = getattr(shard, "_items", None)
    if type(shard) is ParallelIteratorWorker or not isinstance(shard, ParallelIteratorWorker) or not isinstance(items, _Items):
        return None
    take_turns_here()
    items.turns = items.turns or _native.FlowTurns()
    return items.turns


def _made(given: Any) -> Any:
    return given() if callable(given) else given


def _repeated(given: Any) -> Iterator[Any]:
    earlier = given
    while True:
        iterator = iter(_made(given))
        # An iterator was given, or a function returned the iterator of the pass before.
        if iterator is earlier:
            raise ValueError("repeat=True requires a list, or a function that returns a new iterator each time; an iterator cannot be restarted")
        earlier = iterator
        first = list(itertools.islice(iterator, 1))
        if not first:
            raise ValueError("repeat=True requires a source with items, but this one is empty; a shard may have none if there are few items")
        yield from first
        yield from iterator
