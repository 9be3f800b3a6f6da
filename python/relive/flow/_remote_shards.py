"""Shards in other processes: their work, and the transport of their items. A :class:`Link` starts a process and
connects to it."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal, Protocol, cast

from relive import _native
from relive._remote import raised, describe_error
from relive.flow._local import LocalIterator
from relive.flow._operators import Operator
from relive.flow._parallel import ParallelIterator

# The number of items that a shard may produce ahead, and the largest number of items that are sent together.
AHEAD, TOGETHER = 1024, 256
# How long items wait to be sent together with other items.
_TOGETHER_SECONDS = 0.001

Message = tuple[Literal["items", "error", "end"], Any]


class Link(Protocol):
    """The connection to a shard, in the pulling process."""

    where: str
    """The shard's location, for error messages."""

    def begin(self) -> None:
        """Starts the shard."""
        ...

    def ask(self, items: int) -> None:
        """Allows the shard to produce the given number of further items."""
        ...

    def receive(self) -> Message:
        """Returns the shard's next message. Raises RuntimeError if the shard has ended."""
        ...

    def end(self) -> None:
        """Ends the shard."""
        ...


class Output(Protocol):
    """The shard's end of the connection."""

    def room(self) -> int:
        """Waits until items are requested, and returns their number. Raises EOFError if the consumer is gone."""
        ...

    def send(self, message: Message) -> None:
        """Sends a message. Raises EOFError if the consumer is gone."""
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

    def _made(self, ahead: bool) -> Any:
        return _native.FlowShards.of("items", list(map(_Items, self._remote(ahead))), True)

    def _messages(self, ahead: bool) -> Any:
        """Returns the shards as streams of lists of items."""
        return _native.FlowShards.of("messages", self._remote(ahead), True)

    def _remote(self, ahead: bool) -> list[_Remote]:
        return [_Remote(self._link(shard, self._operators, number, ahead)) for number, shard in enumerate(self._actors)]


def refused(on: str, error: Exception) -> TypeError:
    """Returns the error for a shard or a function that cannot be sent to another process."""
    return TypeError(
        f"on={on!r} sends shards and functions to other processes, but they cannot be pickled: {error}; use functions that a module "
        "defines at its top level, no lambdas or generators"
    )


class _Items:
    """Yields the items of a shard one by one, and continues after an error."""

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
    """Yields the items of a shard, which starts at the first request: lists of items that were sent together."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._has_begun = False
        # The number of items that were returned since the last request.
        self._outstanding = 0

    def __iter__(self) -> _Remote:
        return self

    def __next__(self) -> list[Any]:
        if not self._has_begun:
            self._has_begun = True
            self._link.begin()
        elif self._outstanding:
            self._link.ask(self._outstanding)
        kind, content = self._link.receive()
        if kind == "end":
            self._has_begun = False
            self._link.end()
            raise StopIteration
        if kind == "error":
            self._outstanding = 0
            raise raised(content, f"in {self._link.where}")
        self._outstanding = len(content)
        return cast("list[Any]", content)

    def __del__(self) -> None:
        if self._has_begun:
            self._link.end()


def serve(shard: Any, operators: list[Operator], output: Output) -> None:
    """The main function of a shard's process: it produces as many items as are requested, until the shard ends."""
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
            message = ("error", describe_error(error))
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
        text = f"items are pickled in the process of their shard, which failed: {error}"
        output.send(("error", describe_error(TypeError(text))))
