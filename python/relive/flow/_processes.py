"""Shards that are processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import queue
import select
import signal
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, cast

from relive._by_value import sendable
from relive._remote import end_with_parent
from relive.flow._operators import Operator
from relive.flow._parallel import ParallelIterator
from relive.flow._parcels import Parcel, receive, send
from relive.flow._remote_shards import LOOK_SECONDS, Ahead, RemoteShards, refused
from relive.flow._shard_process import Message, serve

# The default number of items that a shard produces ahead.
_MOST_AHEAD = 1024
# How long a process may take to end by itself.
_GRACE_SECONDS = 2.0


def in_processes(shards: list[Any], name: str) -> ParallelIterator[Any]:
    """Creates a process for each of these shards; the operators that follow run in these processes."""
    return RemoteShards.of(shards, name, _Pipe)


class _Pipe:
    """A process, and the pipe to it."""

    def __init__(self, shard: Any, operators: list[Operator], number: int, ahead: Ahead) -> None:
        try:
            self._work = sendable((shard, operators))
        except Exception as error:
            raise refused("processes", error) from error
        self.where = f"the process of shard {number}"
        self._number = number
        # When the interpreter ends, modules lose their names before the last shards end.
        self._grace_seconds = _GRACE_SECONDS
        self._credit = _MOST_AHEAD if ahead == "most" else ahead
        self._process: SpawnProcess | None = None
        # Calls of methods before the process has started. Both the pulling thread and threads that call methods send.
        self._calls: list[Parcel] = []
        self._sending, self._is_over = threading.Lock(), False
        # Whether a message has been received in part.
        self._is_torn = False

    def begin(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        # The pipe's own poll() costs more than a message.
        self._poll = select.poll()
        self._poll.register(self._pipe, select.POLLIN)
        with theirs:
            process = context.Process(target=_serve, args=(self._work, theirs), name=f"relive shard {self._number}", daemon=True)
            process.start()
        with self._sending:
            self._process, self._is_over, self._is_torn = process, False, False
            for call in self._calls:
                self._send("call", 0, call)
            self._send("items", self._credit)

    def ask(self, items: int) -> None:
        with self._sending:
            self._send("items", items)

    def tell(self, call: Parcel) -> None:
        with self._sending:
            if self._process is None and not self._is_over:
                self._calls.append(call)
            else:
                self._send("call", 0, call)

    def _send(self, kind: str, items: int, *calls: Parcel) -> None:
        if self._is_over:
            return
        # A process that has ended is reported by receive(), after the messages that it has sent.
        with contextlib.suppress(OSError):
            send(self._pipe, kind, items, calls)

    def receive(self) -> Message | None:
        if self._is_torn:
            raise RuntimeError(f"Ctrl-C interrupted the transfer of an item from {self.where}; gather again to continue")
        try:
            if not self._poll.poll(LOOK_SECONDS * 1_000):
                return None
            self._is_torn = True
            message = cast("Message", receive(self._pipe))
            self._is_torn = False
            return message
        except (EOFError, OSError):
            assert self._process is not None, "the shard has begun"
            self._process.join(self._grace_seconds)
            code = self._process.exitcode
            how = "" if code is None else f" with signal {-code}" if code < 0 else f" with exit code {code}"
            raise RuntimeError(f"{self.where} ended{how}") from None

    def end(self) -> None:
        while not self._sending.acquire(timeout=self._grace_seconds):
            # Another thread sends a call, which the process does not read in time.
            if self._process is not None:
                self._process.kill()
        self._is_over = True
        self._sending.release()
        if self._process is None:
            # The process was not started; a pipe to it closes with this object.
            return
        self._pipe.close()
        self._process.join(self._grace_seconds)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


class _PipeOutput:
    """The shard's end of the pipe. A thread reads what arrives, so that the consumer never waits to send."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe, self._credit = pipe, 0
        # Granted items; `None` when the consumer is gone.
        self._grants: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._calls: queue.SimpleQueue[Parcel] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="relive shard input", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                _, items, calls = receive(self._pipe)
                for call in calls:
                    self._calls.put(call)
                if items:
                    self._grants.put(items)
        self._grants.put(None)

    def room(self) -> int:
        while not self._credit or not self._grants.empty():
            granted = self._grants.get()
            if granted is None:
                raise EOFError
            self._credit += granted
        return self._credit

    def calls(self) -> Iterator[Parcel]:
        while not self._calls.empty():
            yield self._calls.get()

    def send(self, message: Message) -> None:
        send(self._pipe, *message)
        self._credit -= len(message[2]) if message[0] == "items" else 1

    def wait_until_gone(self) -> None:
        """Waits until the consumer has closed the pipe, which it does after it has read the last message."""
        self._reader.join()


def _serve(work: tuple[Any, list[Operator]], pipe: Connection) -> None:
    """The main function of the process of a shard and its operators."""
    # Only the pulling process handles Ctrl-C; when it ends, this process also ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    output = _PipeOutput(pipe)
    try:
        serve(*work, output)
    except (EOFError, OSError):
        # The consumer is gone.
        return
    output.wait_until_gone()
