"""Shards that are Ray actors: Ray starts the actors, and items are sent over Relive's own streams."""

from __future__ import annotations

import contextlib
import itertools
import pickle
import queue
import secrets
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, cast

from relive import _native
from relive._ray_cluster import Placed, Placement, connected, first_line, imported
from relive.flow._operators import Operator
from relive.flow._parallel import ParallelIterator
from relive.flow._parcels import Parcel
from relive.flow._remote_shards import LOOK_SECONDS, Ahead, RemoteShards
from relive.flow._shard_process import TOGETHER, Message, serve
from relive.ray import Workers

# The number of messages, of up to TOGETHER items each, that a shard may be ahead of its consumer.
_MESSAGES_AHEAD = 8
# How long a shard that has ended waits for its items to be taken.
_TAKEN_SECONDS = 3600.0


def on_ray(shards: list[Any], name: str, workers: Workers) -> ParallelIterator[Any]:
    """Creates a Ray actor for each of these shards; the operators that follow run in these actors.

    Raises:
      ValueError: the workers are grouped into nodes.
    """
    if workers.workers_per_node is not None:
        raise ValueError(f"workers_per_node is {workers.workers_per_node}, but each shard is its own Ray actor; omit workers_per_node, and "
                         "with it a placement group's strategy")
    return RemoteShards.of(shards, name, _Cluster(workers).link)


class _Cluster:
    """The placement of shards, and the port that receives their items."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._lock = threading.Lock()
        self._port: _native.StreamPort | None = None
        self._streams = itertools.count()
        self.token = secrets.token_hex(32)
        self.ray = imported()

    def link(self, shard: Any, operators: list[Operator], number: int, ahead: Ahead) -> _Stream:
        """Connects to a shard."""
        connected()
        try:
            work = self.ray.put((shard, operators))
        except Exception as error:
            raise TypeError(f"on='ray' sends shards and functions to other processes, but they cannot be pickled: {error}") from error
        return _Stream(self, work, number, ahead)

    @property
    def port(self) -> _native.StreamPort:
        with self._lock:
            if self._port is None:
                self._port = _native.StreamPort(self._workers.host or self.ray.util.get_node_ip_address(), self.token)
            return self._port

    def host(self) -> Any:
        """Creates an actor."""
        options = {**self._workers.options, "max_concurrency": 3, "max_restarts": 0}
        return self.ray.remote(**options)(_ShardHost).remote()

    def stream(self) -> int:
        """Returns a number that no other stream has."""
        return next(self._streams)


class _Stream:
    """An actor, and the stream from it."""

    def __init__(self, cluster: _Cluster, work: Any, number: int, ahead: Ahead) -> None:
        self.where = f"the actor of shard {number}"
        self._cluster, self._work = cluster, work
        # The number of messages that the actor may send ahead, and the number of items in each message.
        self._window = (_MESSAGES_AHEAD, TOGETHER) if ahead == "most" else (ahead, 1)
        self._reader: _native.StreamReader | None = None
        self._host: Any = None
        # Calls of methods before the actor exists, and calls that may not have reached it.
        self._calls: list[Parcel] = []
        self._sent: list[Any] = []
        self._told = 0
        self._telling, self._is_over = threading.Lock(), False

    def begin(self) -> None:
        port, stream = self._cluster.port, self._cluster.stream()
        messages, together = self._window
        self._reader = port.reader(stream, messages)
        host = self._cluster.host()
        with self._telling:
            self._host, self._is_over = host, False
            for call in self._calls:
                self._send(call)
        self._placement = Placement(self._cluster.ray, self.where, "it", host.node.remote().future())
        ended: Future[None] = host.serve.remote(self._work, port.address, stream, self._cluster.token, together).future()

        def resolve(ended: Future[None]) -> None:
            if not ended.cancelled() and (error := ended.exception()) is not None:
                port.fail(stream, f"{self.where} ended: {type(error).__name__}: {first_line(error)}")

        ended.add_done_callback(resolve)

    def ask(self, items: int) -> None:
        """Does nothing: the reader requests more items as items are taken."""

    def tell(self, call: Parcel) -> None:
        with self._telling:
            if self._host is None and not self._is_over:
                self._calls.append(call)
            elif not self._is_over:
                self._send(call)

    def _send(self, call: Parcel) -> None:
        # Ray would make arrays beside the pickle read-only.
        pickled = pickle.dumps(call, pickle.HIGHEST_PROTOCOL)
        # An actor that has ended is reported by receive().
        with contextlib.suppress(Exception):
            self._sent.append(self._host.call.remote(self._told, pickled))
            self._told += 1

    def _has_arrived(self) -> bool:
        """Waits briefly until the actor has received all calls. Items may be requested only afterwards."""
        with self._telling:
            sent = list(self._sent)
        if not sent:
            return True
        arrived, missing = self._cluster.ray.wait(sent, num_returns=len(sent), timeout=LOOK_SECONDS)
        with self._telling:
            self._sent = [call for call in self._sent if call not in arrived]
        return not missing

    def receive(self) -> Message | None:
        assert self._reader is not None, "the stream has begun"
        if not self._has_arrived():
            return None
        try:
            message = self._reader.next(LOOK_SECONDS)
        except TimeoutError:
            self._placement.log_wait()
            return None
        return ("end", "", []) if message is None else cast("Message", pickle.loads(message))

    def end(self) -> None:
        with self._telling:
            self._is_over = True
        if self._reader is not None:
            self._reader.close()
        if self._host is not None:
            # If the cluster no longer exists or is disconnected, there is no actor to end. When the interpreter ends,
            # modules lose their names before the last shards end.
            try:  # noqa: SIM105
                self._cluster.ray.kill(self._host)
            except Exception:
                pass


class _ShardHost(Placed):
    """A shard in the process of an actor."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Parcel] = queue.SimpleQueue()
        # Calls by number that have overtaken earlier ones, because the actor has several threads.
        self._early: dict[int, Parcel] = {}
        self._next, self._ordering = 0, threading.Lock()

    def call(self, number: int, call: bytes) -> None:
        """Receives a call of a method; the thread that produces items performs it, in the order of the numbers."""
        with self._ordering:
            self._early[number] = pickle.loads(call)
            while self._next in self._early:
                self._calls.put(self._early.pop(self._next))
                self._next += 1

    def serve(self, work: tuple[Any, list[Operator]], address: str, stream: int, token: str, together: int) -> None:
        """Produces items as they are requested, until the shard ends."""
        writer = _native.StreamWriter(address, stream, token)
        try:
            serve(*work, _StreamOutput(writer, together, self._calls))
        except EOFError:
            return
        writer.finish(_TAKEN_SECONDS)


class _StreamOutput:
    """The shard's end of the stream."""

    def __init__(self, writer: _native.StreamWriter, together: int, calls: queue.SimpleQueue[Parcel]) -> None:
        self._writer, self._together, self._calls = writer, together, calls

    def room(self) -> int:
        if not self._writer.wait_for_room():
            raise EOFError
        return self._together

    def calls(self) -> Iterator[Parcel]:
        while not self._calls.empty():
            yield self._calls.get()

    def send(self, message: Message) -> None:
        # The stream signals its end itself.
        if message[0] != "end" and not self._writer.send(pickle.dumps(message, pickle.HIGHEST_PROTOCOL)):
            raise EOFError
