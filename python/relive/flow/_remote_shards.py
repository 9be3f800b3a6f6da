"""Shards in other processes: what is done there, and how their items come here. How a process is started and spoken to is a :class:`Link`."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal, Protocol, cast

from relive import _native
from relive._remote import raised, told
from relive.flow._local import LocalIterator
from relive.flow._operators import Operator
from relive.flow._parallel import ParallelIterator

# Items that a shard which may work ahead makes before they are taken, and those that travel together at most.
AHEAD, TOGETHER = 1024, 256
# How long items wait for others to travel with.
_TOGETHER_SECONDS = 0.001

Message = tuple[Literal["items", "error", "end"], Any]


class Link(Protocol):
    """The way to a shard, in the process that pulls."""

    where: str
    """Where the shard is, for errors."""

    def begin(self) -> None:
        """Starts the shard."""
        ...

    def ask(self, items: int) -> None:
        """Lets the shard make so many items more."""
        ...

    def receive(self) -> Message:
        """What the shard tells next. Raises RuntimeError if it has ended."""
        ...

    def end(self) -> None:
        """Ends the shard."""
        ...


class Output(Protocol):
    """The way back, in the process of the shard."""

    def room(self) -> int:
        """Waits until items may be made; how many. Raises EOFError if nobody wants more."""
        ...

    def send(self, message: Message) -> None:
        """Sends a message. Raises EOFError if nobody wants it."""
        ...


LinkOf = Callable[[Any, list[Operator], int, bool], Link]
"""Makes the way to a shard: the shard, what is done there, its number, and whether it may work ahead."""


class RemoteShards(ParallelIterator[Any]):
    """Shards in other processes, and what is done there: until they are united or shared out anew, which this process does."""

    def __init__(self, shards: list[Any], operators: list[Operator], name: str, on: str, link: LinkOf) -> None:
        super().__init__(self._made, name, shards)
        self._operators, self._on, self._link = operators, on, link

    def _then(self, operator: Operator, name: str) -> ParallelIterator[Any]:
        return RemoteShards(self._actors, [*self._operators, operator], self.name + name, self._on, self._link)

    def gather_async(self, batch_ms: int = 0, num_async: int = 1, resubmit: Literal["before", "after"] = "before") -> LocalIterator[Any]:
        """As :meth:`ParallelIterator.gather_async`; items stay together on their way here as they have travelled."""
        together: ParallelIterator[list[Any]] = ParallelIterator(self._messages, self.name, self._actors)
        items = together.gather_async(batch_ms, num_async, resubmit).flatten()
        items.name = f"{self}.gather_async()"
        return items

    def _made(self, ahead: bool) -> Any:
        return _native.FlowShards.of("items", list(map(_Items, self._remote(ahead))), True)

    def _messages(self, ahead: bool) -> Any:
        """The shards as lists of items."""
        return _native.FlowShards.of("messages", self._remote(ahead), True)

    def _remote(self, ahead: bool) -> list[_Remote]:
        return [_Remote(self._link(shard, self._operators, number, ahead)) for number, shard in enumerate(self._actors)]


def refused(on: str, error: Exception) -> TypeError:
    """What is raised where a shard or a function cannot go to another process."""
    return TypeError(
        f"on={on!r} sends shards and functions to other processes, which is not possible: {error}; use functions that a module "
        "defines at its top, and no lambdas or generators"
    )


class _Items:
    """The items of a shard, one by one; it goes on behind an error."""

    def __init__(self, remote: _Remote) -> None:
        self._remote = remote
        self._items: Iterator[Any] = iter(())

    def __iter__(self) -> _Items:
        return self

    def __next__(self) -> Any:
        for item in self._items:
            return item
        self._items = iter(next(self._remote))
        return next(self._items)


class _Remote:
    """The items of a shard, which begins when they are asked for: lists of those that have travelled together."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._has_begun = False
        # Items that were given and not asked for anew.
        self._owed = 0

    def __iter__(self) -> _Remote:
        return self

    def __next__(self) -> list[Any]:
        if not self._has_begun:
            self._has_begun = True
            self._link.begin()
        elif self._owed:
            self._link.ask(self._owed)
        kind, content = self._link.receive()
        if kind == "end":
            self._has_begun = False
            self._link.end()
            raise StopIteration
        if kind == "error":
            self._owed = 0
            raise raised(content, f"in {self._link.where}")
        self._owed = len(content)
        return cast("list[Any]", content)

    def __del__(self) -> None:
        if self._has_begun:
            self._link.end()


def serve(shard: Any, operators: list[Operator], output: Output) -> None:
    """What the process of a shard does: it makes as many items as it was asked for, to the end of the shard."""
    stream: LocalIterator[Any] = LocalIterator.of(shard)
    for operator in operators:
        stream = stream._then(operator, "")
    items: list[Any] = []
    room, since = 0, 0.0
    while True:
        if not items:
            room = output.room()
        message: Message | None = None
        try:
            items.append(next(stream))
        except StopIteration:
            message = ("end", None)
        except BaseException as error:
            message = ("error", told(error))
        if len(items) == 1:
            since = time.perf_counter()
        is_full = len(items) >= min(room, TOGETHER) or time.perf_counter() - since > _TOGETHER_SECONDS
        if items and (is_full or message):
            _send(output, items)
            items = []
        if message:
            output.send(message)
            if message[0] == "end":
                return


def _send(output: Output, items: list[Any]) -> None:
    try:
        output.send(("items", items))
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        text = f"items travel from the process of their shard by pickle, which is not possible: {error}"
        output.send(("error", told(TypeError(text))))
