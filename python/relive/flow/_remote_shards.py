"""Shards in other processes, as seen by the process that pulls from them. A :class:`Link` starts a process and connects
to it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any, Literal, Protocol

from relive import _native
from relive._remote import raised
from relive.flow._local import LocalIterator
from relive.flow._metrics import Binding
from relive.flow._operators import Operator
from relive.flow._parallel import ParallelIterator
from relive.flow._shard_process import Message

# The number of items that a shard may produce ahead.
AHEAD = 1024
# How long a thread waits for a message before it checks whether its stream was closed.
LOOK_SECONDS = 0.1

# A source returns this object when it has no item yet; its consumer then tries again.
_NOT_YET = _native.FlowNotYet()


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

    def receive(self) -> Message | None:
        """Returns the shard's next message, or ``None`` if none has arrived within :data:`LOOK_SECONDS`. Raises
        RuntimeError if the shard has ended without a message."""
        ...

    def end(self) -> None:
        """Ends the shard, and waits for its end. A shard that does not end by itself in time is killed."""
        ...


LinkOf = Callable[[Any, list[Operator], int, bool], Link]
"""A function that creates the connection to a shard. It takes the shard, its operators, its number, and whether it may
work ahead."""


class RemoteShards(ParallelIterator[Any]):
    """Shards in other processes with their operators, until they are merged or redistributed in this process."""

    def __init__(self, shards: list[Any], operators: list[Operator], name: str, on: str, link: LinkOf) -> None:
        super().__init__(self._made, name, shards)
        self._operators, self._on, self._link = operators, on, link

    def _then(self, operator: Operator, name: str) -> ParallelIterator[Any]:
        return RemoteShards(self._actors, [*self._operators, operator], self.name + name, self._on, self._link)

    def gather_async(self, batch_ms: int = 0, num_async: int = 1, resubmit: Literal["before", "after"] = "before") -> LocalIterator[Any]:
        """Like :meth:`ParallelIterator.gather_async`; items that were sent together stay together."""
        together: ParallelIterator[list[Any]] = ParallelIterator(self._messages, self.name, self._actors)
        items = together.gather_async(batch_ms, num_async, resubmit).flatten()
        items.name = f"{self}.gather_async()"
        return items

    def _made(self, ahead: bool, _binding: Binding) -> Any:
        return _native.FlowShards.of("items", [_Source(link, together=False) for link in self._links(ahead)], True)

    def _messages(self, ahead: bool, _binding: Binding) -> Any:
        """Returns the shards as streams of lists of items."""
        return _native.FlowShards.of("messages", [_Source(link, together=True) for link in self._links(ahead)], True)

    def _links(self, ahead: bool) -> list[Link]:
        return [self._link(shard, self._operators, number, ahead) for number, shard in enumerate(self._actors)]


def refused(on: str, error: Exception) -> TypeError:
    """Returns the error for a shard or a function that cannot be sent to another process."""
    return TypeError(
        f"on={on!r} sends shards and functions to other processes, but they cannot be pickled: {error}; use functions that a module "
        "defines at its top level, no lambdas or generators"
    )


class _Source:
    """The items of a shard as an iterable: one by one, or in lists of items that were sent together. The shard ends when
    its iterator is dropped."""

    def __init__(self, link: Link, together: bool) -> None:
        self._link, self._together = link, together

    def __iter__(self) -> Iterator[Any]:
        lists = _Lists(self._link)
        items: Iterator[Any] = lists if self._together else _Items(lists)
        return map(lambda _: next(items), _Owner(lists))


class _Owner:
    """Ends a shard when it is dropped. The shard's iterator owns this object, but the frames of an exception, which may
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

    def __init__(self, link: Link) -> None:
        self._link = link
        self._is_open, self._is_over = False, False
        # The items of the latest message that have not been returned yet, and the error that follows the returned
        # items.
        self._arrived: Iterator[bytes] = iter(())
        self._error: Exception | None = None
        # The number of items received since the last request.
        self._received = 0

    def __iter__(self) -> _Lists:
        return self

    def __next__(self) -> Any:
        while True:
            items = self._unpickled()
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

    def _unpickled(self) -> list[Any]:
        """Returns the items before the next error."""
        items: list[Any] = []
        if self._error is None:
            try:
                for item in self._arrived:
                    items.append(pickle.loads(item))
            except Exception as error:
                text = f"items are unpickled in the process that pulls them, which failed: {type(error).__name__}: {error}"
                self._error = TypeError(text)
                self._error.__cause__ = error
        return items

    def _receive(self) -> bool:
        """Takes the shard's next message. Returns whether there is one."""
        try:
            if not self._is_open:
                self._is_open = True
                self._link.begin()
            elif self._received:
                self._link.ask(self._received)
            self._received = 0
            message = self._link.receive()
        except Exception:
            self.end()
            raise
        if message is None:
            return False
        if message[0] == "items":
            self._arrived, self._received = iter(message[1]), len(message[1])
        elif message[0] == "error":
            self._error, self._received = self._exception(*message[1]), 1
        else:
            self.end()
        return True

    def _exception(self, pickled: bytes, text: str) -> Exception:
        try:
            error = pickle.loads(pickled)
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
