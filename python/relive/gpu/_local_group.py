"""A group of processes on one machine, without dependencies on other packages."""

from __future__ import annotations

import contextlib
import functools
import selectors
import socket
import struct
import time
from collections.abc import Sequence

from relive.errors import DeadlineExceededError, UnavailableError
from relive.gpu._given import text, timeout_of
from relive.gpu._group import Group
from relive.gpu._rendezvous import Rendezvous
from relive.gpu._waits import log_long_wait

# The size of a message precedes it. `_END` in place of a size precedes the last message, which gives the reason why the
# group ends.
_SIZE = struct.Struct("<Q")
_END = (1 << 64) - 1
_MAX_BYTES = 1 << 34
# The system's waits have limits of about 2,147,483 seconds. Longer waits consist of several.
_LONGEST_S = 2_000_000.0


class LocalGroup(Group):
    """Processes of one user on one machine, which find each other by a name. Rank 0 listens, and all messages pass
    through it. If a rank is interrupted in an exchange, or does not arrive in time, the group ends: all ranks then get
    an error with the reason.

    Args:
      name: the name of the group, unique among the groups that exist at the same time.
      rank, ranks, replica, replicas: as in :class:`Group`.
      timeout: the number of seconds that an exchange waits for the other ranks, below 1e9. After 5 seconds, the
        missing ranks are logged to the logger ``relive``.

    Raises:
      InvalidArgumentError: an invalid name, rank, replica or timeout.
      UnavailableError: another process has this rank in a group with this name, or the name is too long.
      DeadlineExceededError: the other ranks do not arrive in time.
    """

    def __init__(
        self, name: str, rank: int, ranks: int, *, replica: int | None = None, replicas: int | None = None, timeout: float = 60.0
    ) -> None:
        super().__init__(rank, ranks, replica=replica, replicas=replicas)
        self.timeout = timeout_of(timeout)
        self._name = text("name", name)
        self._missing = "the other ranks have not connected"
        self._peers: dict[int, socket.socket] = {}
        # The ranks that have received a part of a message.
        self._torn: set[int] = set()
        self._claim: socket.socket | None = None
        if ranks > 1:
            try:
                deadline = time.monotonic() + timeout
                meeting = Rendezvous(name, rank, ranks, functools.partial(self._left, deadline))
                self._claim = meeting.claim()
                with log_long_wait(f"group {name!r}, rank {rank}", self._awaited):
                    meeting.meet(self._peers)
            except BaseException as error:
                self._end(f"rank {rank} has not created the group {name!r}: {str(error) or type(error).__name__}")
                raise

    def all_gather(self, message: bytes) -> Sequence[bytes]:
        if self.ranks == 1:
            return [message]
        self._check()
        deadline = time.monotonic() + self.timeout
        try:
            if self.rank == 0:
                return self._gather(message, deadline)
            self._write(0, _framed(message), deadline)
            return [self._receive(0, deadline) for _ in range(self.ranks)]
        except BaseException as error:
            # A message may be half sent, or half read.
            self._fail(error)
            raise

    def close(self) -> None:
        self._ended = self._ended or f"the group {self._name!r} was closed"
        for opened in self._peers.values():
            opened.close()
        self._peers = {}
        if self._claim is not None:
            self._claim.close()

    def _end(self, why: str) -> None:
        super()._end(why)
        told = _SIZE.pack(_END) + _framed(str(self._ended).encode())
        for rank in self._peers.keys() - self._torn:
            # A rank that does not receive this message learns of the end from the closed connection.
            with contextlib.suppress(OSError):
                self._peers[rank].setblocking(False)
                self._peers[rank].send(told)
        self.close()

    def _awaited(self) -> str:
        return f"{self._missing}; waiting up to {self.timeout} s"

    def _gather(self, message: bytes, deadline: float) -> list[bytes]:
        arrived = {0: message, **self._arrived(deadline)}
        answers = [arrived[rank] for rank in range(self.ranks)]
        whole = b"".join(map(_framed, answers))
        for rank in self._peers:
            self._write(rank, whole, deadline)
        return answers

    def _arrived(self, deadline: float) -> dict[int, bytes]:
        """Returns the messages of the other ranks. If a rank's socket becomes readable again after its message, the
        rank has left."""
        arrived: dict[int, bytes] = {}
        # `poll`, unlike the default `epoll`, needs no system calls to begin and to end.
        with selectors.PollSelector() as ready:
            for rank, peer in self._peers.items():
                ready.register(peer, selectors.EVENT_READ, rank)
            while True:
                missing = sorted(self._peers.keys() - arrived.keys())
                found = ready.select(self._left(deadline, _silent(missing)) if missing else 0)
                if not missing and not found:
                    return arrived
                for key, _ in found:
                    arrived[key.data] = self._receive(key.data, deadline)

    def _left(self, deadline: float, what: str) -> float:
        """Returns the number of seconds of the next wait."""
        self._missing = what
        left = deadline - time.monotonic()
        if left <= 0:
            raise DeadlineExceededError(f"group {self._name!r}, rank {self.rank}: {what} within {self.timeout} s")
        return min(left, _LONGEST_S)

    def _write(self, rank: int, whole: bytes, deadline: float) -> None:
        peer = self._peers[rank]
        peer.settimeout(self._left(deadline, f"rank {rank} does not read"))
        self._torn.add(rank)
        try:
            peer.sendall(whole)
        except TimeoutError as error:
            raise DeadlineExceededError(f"group {self._name!r}: rank {rank} does not read within {self.timeout} s") from error
        except OSError as error:
            # The rank has left, and may have sent the reason.
            self._receive(rank, deadline)
            raise UnavailableError(f"group {self._name!r}: rank {rank} has ended: {error}") from error
        self._torn.discard(rank)

    def _receive(self, rank: int, deadline: float) -> bytes:
        (size,) = _SIZE.unpack(self._read(rank, _SIZE.size, deadline))
        if size == _END:
            self._end(self._receive(rank, deadline).decode(errors="replace"))
            self._check()
        if size > _MAX_BYTES:
            raise UnavailableError(f"group {self._name!r}: rank {rank} announces {size} bytes; the limit is {_MAX_BYTES}")
        return self._read(rank, size, deadline)

    def _read(self, rank: int, size: int, deadline: float) -> bytes:
        found, peer = bytearray(), self._peers[rank]
        while len(found) < size:
            peer.settimeout(self._left(deadline, _silent([rank])))
            try:
                part = peer.recv(min(size - len(found), 1 << 20))
            except TimeoutError:
                continue
            except OSError as error:
                raise UnavailableError(f"group {self._name!r}: rank {rank} has ended: {error}") from error
            if not part:
                raise UnavailableError(f"group {self._name!r}: rank {rank} has ended")
            found += part
        return bytes(found)


def _framed(message: bytes) -> bytes:
    return _SIZE.pack(len(message)) + message


def _silent(ranks: list[int]) -> str:
    return f"rank {ranks[0]} sends nothing" if len(ranks) == 1 else f"ranks {ranks} send nothing"
