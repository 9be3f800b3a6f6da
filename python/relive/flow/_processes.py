"""Shards that are processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import signal
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, cast

from relive._remote import end_with_parent
from relive.flow._operators import Operator
from relive.flow._parallel import ParallelIterator
from relive.flow._remote_shards import AHEAD, LOOK_SECONDS, RemoteShards, refused
from relive.flow._shard_process import Message, serve

# How long a process may take to end by itself.
_GRACE_SECONDS = 2.0


def in_processes(shards: list[Any], name: str) -> ParallelIterator[Any]:
    """Creates a process for each of these shards; the operators that follow run in these processes."""
    return RemoteShards(shards, [], name, "processes", _Pipe)


class _Pipe:
    """A process, and the pipe to it."""

    def __init__(self, shard: Any, operators: list[Operator], number: int, ahead: bool) -> None:
        try:
            pickle.dumps((shard, operators))
        except Exception as error:
            raise refused("processes", error) from error
        self.where = f"the process of shard {number}"
        self._number = number
        self._work = shard, operators
        self._credit = AHEAD if ahead else 1
        self._process: SpawnProcess | None = None

    def begin(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        with theirs:
            arguments = (*self._work, theirs)
            process = context.Process(target=_serve, args=arguments, name=f"relive shard {self._number}", daemon=True)
            process.start()
            self._process = process
        self.ask(self._credit)

    def ask(self, items: int) -> None:
        # A process that has ended is reported by receive(), after the messages that it has sent.
        with contextlib.suppress(OSError):
            self._pipe.send(items)

    def receive(self) -> Message | None:
        try:
            return cast("Message", self._pipe.recv()) if self._pipe.poll(LOOK_SECONDS) else None
        except (EOFError, OSError):
            assert self._process is not None, "the shard has begun"
            self._process.join(_GRACE_SECONDS)
            code = self._process.exitcode
            how = "" if code is None else f" with signal {-code}" if code < 0 else f" with exit code {code}"
            raise RuntimeError(f"{self.where} ended{how}") from None

    def end(self) -> None:
        if self._process is None:
            # The process was not started; a pipe to it closes with this object.
            return
        self._pipe.close()
        self._process.join(_GRACE_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


class _PipeOutput:
    """The shard's end of the pipe."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe, self._credit = pipe, 0

    def room(self) -> int:
        while not self._credit or self._pipe.poll():
            self._credit += self._pipe.recv()
        return self._credit

    def send(self, message: Message) -> None:
        self._pipe.send(message)
        self._credit -= len(message[1]) if message[0] == "items" else 1


def _serve(shard: Any, operators: list[Operator], pipe: Connection) -> None:
    """The main function of a shard's process."""
    # Only the pulling process handles Ctrl-C; when it ends, this process also ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    try:
        serve(shard, operators, _PipeOutput(pipe))
        # The end message is read before the pipe closes.
        pipe.recv()
    except (EOFError, OSError):
        # The consumer is gone.
        return
