"""A minimal gRPC client, without retries or batching."""

from __future__ import annotations

import queue
import threading

import grpc

from . import protocol
from .wait import PATIENCE_S

_END = object()


class Stream:
    """One open stream: requests are sent at once, and a thread collects responses."""

    def __init__(self, method) -> None:
        self._requests: queue.Queue = queue.Queue()
        self._responses: queue.Queue = queue.Queue()
        self._call = method(iter(self._requests.get, _END))
        self._ended = threading.Event()
        self._status: grpc.RpcError | None = None
        threading.Thread(target=self._collect, daemon=True).start()

    def _collect(self) -> None:
        try:
            for response in self._call:
                self._responses.put(response)
        except grpc.RpcError as error:
            self._status = error
        self._ended.set()

    def send(self, request) -> "Stream":
        self._requests.put(request)
        return self

    def half_close(self) -> "Stream":
        self._requests.put(_END)
        return self

    def cancel(self) -> None:
        """Cancels the stream, like a client that dies."""
        self._call.cancel()
        self._requests.put(_END)

    def response(self, patience_s: float = PATIENCE_S):
        """Returns the next response. Raises AssertionError with the status if the stream is silent."""
        try:
            return self._responses.get(timeout=patience_s)
        except queue.Empty:
            state = f"ended with {self._status}" if self._ended.is_set() else "is open"
            raise AssertionError(f"no response within {patience_s} s; the stream {state}") from None

    def is_silent(self, quiet_s: float) -> bool:
        """Returns whether neither a response nor an end arrives for a while."""
        return not self._ended.wait(quiet_s) and self._responses.empty()

    def response_count(self) -> int:
        """Returns the number of unread responses."""
        return self._responses.qsize()

    def status(self, patience_s: float = PATIENCE_S) -> tuple[grpc.StatusCode, str]:
        """Returns (code, text) after the end of the stream."""
        assert self._ended.wait(patience_s), f"the stream did not end within {patience_s} s"
        if self._status is None:
            return grpc.StatusCode.OK, ""
        return self._status.code(), self._status.details()


class InsertStream(Stream):
    """A stream of inserts and the keys that were confirmed on it."""

    def insert(self, chunks=(), items=(), keep=()) -> "InsertStream":
        request = protocol.InsertStreamRequest(chunks=chunks, items=items, keep_chunk_keys=keep)
        self.send(request)
        return self

    def confirmed(self, count: int) -> list[int]:
        """Returns the next `count` keys in ascending order; keys can arrive merged, and in any order."""
        keys: list[int] = []
        while len(keys) < count:
            keys.extend(self.response().keys)
        assert len(keys) == count, f"more keys than expected: {keys}"
        return sorted(keys)


class SampleStream(Stream):
    """A stream of samples."""

    def ask(self, table: str, count: int, timeout_ms: int | None = None) -> "SampleStream":
        request = protocol.SampleStreamRequest(table=table, num_samples=count)
        if timeout_ms is not None:
            request.rate_limiter_timeout.milliseconds = timeout_ms
        self.send(request)
        return self

    def samples(self, count: int) -> list[list]:
        """Returns the next `count` samples. Each sample is the list of its entries, which may come from several
        messages."""
        return split_samples(self.entries(count))

    def entries(self, count: int) -> list:
        entries: list = []
        while sum(entry.end_of_sequence for entry in entries) < count:
            entries.extend(self.response().entries)
        return entries


def split_samples(entries) -> list[list]:
    samples: list[list] = [[]]
    for entry in entries:
        samples[-1].append(entry)
        if entry.end_of_sequence:
            samples.append([])
    assert not samples[-1], "the last sample is not complete"
    return samples[:-1]


class Client:
    """A client with a separate connection, and with every method of the service."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address, options=protocol.CHANNEL_OPTIONS)
        self._stub = protocol.Stub(self._channel)

    def insert_stream(self) -> InsertStream:
        return InsertStream(self._stub.InsertStream)

    def sample_stream(self) -> SampleStream:
        return SampleStream(self._stub.SampleStream)

    def initialize_stream(self) -> Stream:
        return Stream(self._stub.InitializeConnection)

    def insert(self, *items, chunks=()) -> list[int]:
        """Inserts on a separate stream, and waits until everything is confirmed."""
        stream = self.insert_stream().insert(chunks=chunks, items=items)
        keys = stream.confirmed(len(items))
        assert stream.half_close().status() == (grpc.StatusCode.OK, "")
        return keys

    def sample(self, table: str, count: int = 1, timeout_ms: int = 10_000) -> list[list]:
        """Samples on a separate stream."""
        stream = self.sample_stream().ask(table, count, timeout_ms)
        samples = stream.samples(count)
        stream.half_close().status()
        return samples

    def sampled_keys(self, table: str, count: int = 1) -> list[int]:
        return [entries[0].info.item.key for entries in self.sample(table, count)]

    def call(self, method: str, **fields):
        """Makes a unary call with a deadline."""
        request = protocol.MESSAGES[f"{method}Request"](**fields)
        return getattr(self._stub, method)(request, timeout=PATIENCE_S)

    def tables(self) -> dict:
        return {info.name: info for info in self.call("ServerInfo").table_info}

    def size(self, table: str) -> int:
        return self.tables()[table].current_size

    def close(self) -> None:
        self._channel.close()


def refusal(call) -> tuple[grpc.StatusCode, str]:
    """Returns (code, text) of a unary call that must fail."""
    try:
        call()
    except grpc.RpcError as error:
        return error.code(), error.details()
    raise AssertionError("the call was accepted")
