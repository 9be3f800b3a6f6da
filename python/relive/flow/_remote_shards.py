"""Shards in other processes, as seen by the process that pulls from them. A :class:`Link` starts a process and connects
to it."""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Literal, Protocol

from relive import _native
from relive._numbers import count
from relive._remote import raised
from relive.flow._local import LocalIterator
from relive.flow._metrics import Binding, NotReady
from relive.flow._operators import Operator
from relive.flow._parallel import ParallelIterator
from relive.flow._parcels import Parcel, pack, unpack
from relive.flow._shard_process import Message

# How long a thread waits for a message before it checks whether its stream was closed.
LOOK_SECONDS = 0.1

_NOT_YET = NotReady()


class Link(Protocol):
    """The connection to a shard, in the pulling process."""

    where: str
    """The shard's location, for error messages."""

    def begin(self) -> None:
        """Starts the shard. If this raises an exception, :meth:`end` releases what was started."""
        ...

    def ask(self, items: int) -> None:
        """Allows the shard to produce the given number of further items."""
        ...

    def tell(self, call: Parcel) -> None:
        """Sends a call of one of the shard's methods, which the shard performs before the items that are requested
        later. Has no effect if the shard has ended."""
        ...

    def receive(self) -> Message | None:
        """Returns the shard's next message, or ``None`` if none has arrived within :data:`LOOK_SECONDS`. Raises
        RuntimeError if the shard has ended without a message."""
        ...

    def end(self) -> None:
        """Ends the shard, and waits for its end. A shard that does not end by itself in time is killed."""
        ...


Ahead = int | Literal["most"]
"""The number of items that a shard may produce before they are requested, or as many as its connection allows."""

LinkOf = Callable[[Any, list[Operator], int, Ahead], Link]
"""A function that creates the connection to a shard, from the shard, its operators, its number, and how far it may work
ahead."""


class RemoteShard:
    """A shard in another process, as the source of items. Its methods can be called: the shard performs the calls in order,
    before items that are requested later. A call returns ``None`` at once, and has no effect if the shard has ended. An
    exception in a method is raised in place of an item."""

    _shard: Any
    _number: int
    # The connections of the gatherings that are in use.
    _links: weakref.WeakSet[Link]

    def __init__(self, shard: Any, number: int) -> None:
        self.__dict__.update(_shard=shard, _number=number, _links=weakref.WeakSet[Link]())

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("__"):
            raise AttributeError(name)
        if not callable(getattr(self._shard, name)):
            raise AttributeError(f"{self!r}: {name} is not a method; only methods can be called from here")
        return functools.partial(self._tell, name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{self!r}: {name} cannot be set from here; call a method that sets it")

    def __repr__(self) -> str:
        return f"<shard {self._number} in another process, a {type(self._shard).__name__}>"

    def _tell(self, name: str, /, *args: Any, **kwargs: Any) -> None:
        try:
            call = pack((name, args, kwargs))
        except Exception as error:
            raise TypeError(f"{self!r}: the arguments of {name} cannot be pickled: {error}") from error
        for link in list(self._links):
            link.tell(call)


@dataclasses.dataclass(frozen=True)
class _Work:
    """A shard, the operators that run in its process, and how to connect to it."""

    shard: RemoteShard
    operators: list[Operator]
    link: LinkOf

    def then(self, operator: Operator) -> _Work:
        return dataclasses.replace(self, operators=[*self.operators, operator])

    def linked(self, number: int, ahead: Ahead) -> Link:
        """Creates the connection to the shard; ``number`` is its position among the shards that are gathered together."""
        operators = [_in_shard(operator, number) for operator in self.operators]
        link = self.link(self.shard._shard, operators, number, ahead)
        self.shard._links.add(link)
        return link


def _in_shard(operator: Operator, number: int) -> Operator:
    """Returns an operator for one shard. As in this process, each shard shuffles in its own order."""
    if operator[0] != "shuffle":
        return operator
    kind, size, seed = operator
    return kind, size, (seed + number) % 2**64


@dataclasses.dataclass(frozen=True)
class _Window:
    """How far a shard works ahead."""

    items: Ahead
    """The number of items that a shard may make before they are requested."""
    is_early: bool = False
    """Whether further items are requested when items arrive, rather than when these have been returned."""

    @classmethod
    def of(cls, num_async: int) -> _Window:
        """Returns the window of an asynchronous gathering in which each shard is at most ``num_async`` items ahead of the
        returned items: a third of these items is being produced, a third has arrived, and a third is being returned."""
        return cls(1) if num_async == 1 else cls((num_async + 1) // 3, is_early=True)


class RemoteShards(ParallelIterator[Any]):
    """Shards in other processes with their operators, until they are merged or redistributed in this process."""

    def __init__(self, works: list[_Work], name: str) -> None:
        super().__init__(self._made, name, [work.shard for work in works])
        self._works = works

    @classmethod
    def of(cls, shards: list[Any], name: str, link: LinkOf) -> RemoteShards:
        """Returns these shards, without operators."""
        return cls([_Work(RemoteShard(shard, number), [], link) for number, shard in enumerate(shards)], name)

    def _then(self, operator: Operator, name: str) -> ParallelIterator[Any]:
        return RemoteShards([work.then(operator) for work in self._works], self.name + name)

    def _joined(self, other: ParallelIterator[Any], name: str) -> ParallelIterator[Any]:
        if isinstance(other, RemoteShards):
            return RemoteShards([*self._works, *other._works], name)
        return super()._joined(other, name)

    def _selected(self, numbers: list[int], name: str) -> ParallelIterator[Any]:
        return RemoteShards([self._works[number] for number in numbers], name)

    def gather_async(
        self, batch_ms: int = 0, num_async: int | None = None, resubmit: Literal["before", "after"] = "before"
    ) -> LocalIterator[Any]:
        """Like :meth:`ParallelIterator.gather_async`; items that were sent together stay together."""
        window = _Window(1 if resubmit == "after" else "most")
        if num_async is not None and resubmit == "before":
            window, num_async = _Window.of(count("num_async", num_async, 1)), 1
        together: ParallelIterator[list[Any]] = ParallelIterator(lambda *_: self._shards(window, together=True), self.name, self._actors)
        items = together.gather_async(batch_ms, num_async, resubmit).flatten()
        items.name = f"{self}.gather_async()"
        return items

    def _made(self, ahead: bool, _binding: Binding) -> Any:
        return self._shards(_Window("most" if ahead else 1), together=False)

    def _shards(self, window: _Window, together: bool) -> Any:
        """Returns the shards as streams of items, or of lists of items that were sent together."""
        links = [work.linked(number, window.items) for number, work in enumerate(self._works)]
        sources = [_Source(link, together, window) for link in links]
        return _native.FlowShards.of("messages" if together else "items", sources, True)


def refused(on: str, error: Exception) -> TypeError:
    """Returns the error for a shard or a function that cannot be sent to another process."""
    return TypeError(
        f"on={on!r} sends shards and functions to other processes, but they cannot be pickled: {error}; use functions that a module "
        "defines at its top level, no lambdas or generators"
    )


class _Source:
    """The items of a shard as an iterable: one by one, or in lists of items that were sent together. The shard ends when
    its iterator is dropped."""

    def __init__(self, link: Link, together: bool, window: _Window) -> None:
        self._link, self._together, self._window = link, together, window

    def __iter__(self) -> Iterator[Any]:
        lists = _Lists(self._link, self._window)
        items: Iterator[Any] = lists if self._together else _Items(lists)
        return map(lambda _: next(items), _Owner(lists))


class _Owner:
    """Ends a shard when it is dropped. Only the shard's iterator owns this object. Frames of an exception, which may
    outlive the iterator, do not refer to it."""

    def __init__(self, lists: _Lists) -> None:
        self._lists = lists

    def __iter__(self) -> _Owner:
        return self

    def __next__(self) -> None:
        return None

    def __del__(self) -> None:
        self._lists.end()


class _Lists:
    """Yields lists of items that were sent together, or :data:`_NOT_YET`. The shard starts at the first request."""

    def __init__(self, link: Link, window: _Window) -> None:
        self._link = link
        # The number of received items from which more are requested at once.
        self._enough = window.items // 2 + 1 if window.is_early and window.items != "most" else None
        self._is_open, self._is_over = False, False
        # The items of the latest message that have not been returned yet, and the error that follows the returned
        # items.
        self._arrived: Iterator[Parcel] = iter(())
        self._error: Exception | None = None
        # The number of items received since the last request.
        self._received = 0

    def __iter__(self) -> _Lists:
        return self

    def __next__(self) -> Any:
        while True:
            items = self._unpacked()
            if items:
                return items
            if self._error is not None:
                error, self._error = self._error, None
                try:
                    raise error
                finally:
                    # The exception refers to this frame.
                    del error
            if self._is_over:
                raise StopIteration
            if not self._receive():
                return _NOT_YET

    def _unpacked(self) -> list[Any]:
        """Returns the items before the next error."""
        items: list[Any] = []
        if self._error is None:
            try:
                for item in self._arrived:
                    items.append(unpack(item))
            except Exception as error:
                text = f"an item cannot be unpickled in the process that pulls it: {type(error).__name__}: {error}"
                self._error = TypeError(text)
                self._error.__cause__ = error
        return items

    def _receive(self) -> bool:
        """Takes the shard's next message. Returns whether there is one."""
        try:
            if not self._is_open:
                self._begin()
            elif self._enough is None:
                self._ask()
            message = self._link.receive()
        except Exception:
            self.end()
            raise
        if message is None:
            return False
        kind, text, parcels = message
        if kind == "items":
            self._arrived, self._received = iter(parcels), self._received + len(parcels)
        elif kind == "error":
            self._error, self._received = self._exception(parcels[0], text), self._received + 1
        else:
            self.end()
        if self._enough is not None and self._received >= self._enough:
            self._ask()
        return True

    def _ask(self) -> None:
        if self._received:
            self._link.ask(self._received)
            self._received = 0

    def _begin(self) -> None:
        self._is_open = True
        try:
            self._link.begin()
        except KeyboardInterrupt:
            # The next request starts the shard again.
            self._is_open = False
            self._link.end()
            raise

    def _exception(self, packed: Parcel, text: str) -> Exception:
        try:
            error = unpack(packed)
        except Exception:
            # The exception's class may exist only in the other process.
            error = RuntimeError(text.strip().rpartition("\n")[2])
        return raised((error, text), f"in {self._link.where}")

    def end(self) -> None:
        """Ends the shard."""
        self._is_over = True
        if self._is_open:
            self._is_open = False
            self._link.end()


class _Items:
    """Yields the items of a shard one by one, or :data:`_NOT_YET`, and continues after an error."""

    def __init__(self, lists: _Lists) -> None:
        self._lists = lists
        self._items: Iterator[Any] = iter(())

    def __iter__(self) -> _Items:
        return self

    def __next__(self) -> Any:
        for item in self._items:
            return item
        items = next(self._lists)
        if items is _NOT_YET:
            return items
        self._items = iter(items)
        return next(self._items)
