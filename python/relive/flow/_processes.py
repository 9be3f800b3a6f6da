"""Shards that are processes."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any, Literal, cast

from relive import _native
from relive._remote import end_with_parent, raised, told
from relive.flow._local import LocalIterator
from relive.flow._operators import Operator
from relive.flow._parallel import ParallelIterator

# Items that a shard which may work ahead makes before they are taken, and those that travel together at most.
_AHEAD, _TOGETHER = 1024, 256
# How long items wait for others to travel with.
_TOGETHER_SECONDS = 0.001
# Time for a process to end by itself.
_GRACE_SECONDS = 2.0


def in_processes(shards: list[Any], name: str) -> ParallelIterator[Any]:
    """A process for each of these shards, in which the operators run that follow."""
    return _InProcesses(shards, [], name)


class _InProcesses(ParallelIterator[Any]):
    """Shards that are processes, and what is done there: until they are united or shared out anew, which this process does."""

    def __init__(self, shards: list[Any], operators: list[Operator], name: str) -> None:
        super().__init__(self._made, name, shards)
        self._operators = operators

    def _then(self, operator: Operator, name: str) -> ParallelIterator[Any]:
        return _InProcesses(self._actors, [*self._operators, operator], self.name + name)

    def gather_async(self, batch_ms: int = 0, num_async: int = 1, resubmit: Literal["before", "after"] = "before") -> LocalIterator[Any]:
        """As :meth:`ParallelIterator.gather_async`; items stay together on their way here as they came through the pipe."""
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
        for what in (*self._actors, *self._operators):
            try:
                pickle.dumps(what)
            except Exception as error:
                raise TypeError(
                    f"on='processes' sends shards and functions to other processes, which is not possible: {error}; use functions that a module "
                    "defines at its top, and no lambdas or generators"
                ) from error
        return [_Remote(shard, self._operators, number, ahead) for number, shard in enumerate(self._actors)]


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
    """The items of a shard that is a process, which begins when they are asked for: lists of those that have travelled together."""

    def __init__(self, shard: Any, operators: list[Operator], number: int, ahead: bool) -> None:
        self._work = shard, operators
        self._number = number
        self._credit = _AHEAD if ahead else 1
        self._process: Any = None
        # Items that were given and not asked for anew.
        self._owed = 0

    def __iter__(self) -> _Remote:
        return self

    def __next__(self) -> list[Any]:
        if self._process is None:
            self._begin()
        elif self._owed:
            self._pipe.send(self._owed)
        kind, content = self._received()
        if kind == "end":
            self._end()
            raise StopIteration
        if kind == "error":
            self._owed = 0
            raise raised(content, f"in the process of shard {self._number}")
        self._owed = len(content)
        return cast("list[Any]", content)

    def _begin(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        arguments = (*self._work, theirs)
        self._process = context.Process(target=_serve, args=arguments, name=f"relive shard {self._number}", daemon=True)
        self._process.start()
        theirs.close()
        self._pipe.send(self._credit)

    def _received(self) -> Any:
        try:
            return self._pipe.recv()
        except (EOFError, OSError):
            self._process.join(_GRACE_SECONDS)
            code = self._process.exitcode
            how = "" if code is None else f" by signal {-code}" if code < 0 else f" by exit code {code}"
            raise RuntimeError(f"the process of shard {self._number} has ended{how}") from None

    def __del__(self) -> None:
        if self._process is not None:
            self._end()

    def _end(self) -> None:
        self._pipe.close()
        self._process.join(_GRACE_SECONDS)
        if self._process.is_alive():
            self._process.kill()


def _serve(shard: Any, operators: list[Operator], pipe: Connection) -> None:
    """What the process of a shard does: it makes as many items as it was asked for."""
    # Ctrl-C is for the process that pulls, whose end ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    stream: LocalIterator[Any] = LocalIterator.of(shard)
    for operator in operators:
        stream = stream._then(operator, "")
    try:
        _send_items(stream, pipe)
    except (EOFError, OSError):
        # Nobody pulls any more.
        return


def _send_items(stream: LocalIterator[Any], pipe: Connection) -> None:
    credit, items, since = 0, [], 0.0
    while True:
        while not credit or pipe.poll():
            credit += pipe.recv()
        message: Any = None
        try:
            items.append(next(stream))
            credit -= 1
        except StopIteration:
            message = ("end", None)
        except BaseException as error:
            message = ("error", told(error))
        if len(items) == 1:
            since = time.perf_counter()
        is_full = not credit or len(items) >= _TOGETHER or time.perf_counter() - since > _TOGETHER_SECONDS
        if items and (is_full or message):
            _send(pipe, items)
            items = []
        if message:
            pipe.send(message)
            if message[0] == "end":
                pipe.recv()


def _send(pipe: Connection, items: list[Any]) -> None:
    try:
        pipe.send(("items", items))
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        pipe.send(("error", told(TypeError(f"items travel from the process of their shard by pickle, which is not possible: {error}"))))
