"""A group of processes on one machine, without dependencies on other packages."""

from __future__ import annotations

import os
import selectors
import socket
import struct
import time
from collections.abc import Sequence

from relive.errors import DeadlineExceededError, InvalidArgumentError, UnavailableError
from relive.gpu._group import Group
from relive.gpu._waits import log_long_wait

_SIZE = struct.Struct("<Q")
# A rank's greeting: a magic number, its rank, and the number of ranks.
_HELLO = struct.Struct("<8sQQ")
_MARK = b"RLVRANKS"
# Process, user and group of the peer.
_PEER = struct.Struct("3i")
_BETWEEN_TRIES_S = 0.01
_MAX_BYTES = 1 << 34


class LocalGroup(Group):
    """Processes of one user on one machine, which find each other by a name. Rank 0 listens, and all messages pass
    through it.

    Args:
      name: the name of the group, unique among the groups that exist at the same time.
      rank, ranks, replica, replicas: as in :class:`Group`.
      timeout: the number of seconds that an exchange waits for the other ranks. After 5 seconds, the missing ranks are
        logged to the logger ``relive``.

    Raises:
      UnavailableError: a group with this name exists.
      DeadlineExceededError: the other ranks do not arrive in time.
    """

    def __init__(
        self, name: str, rank: int, ranks: int, *, replica: int | None = None, replicas: int | None = None, timeout: float = 60.0
    ) -> None:
        super().__init__(rank, ranks, replica=replica, replicas=replicas)
        if not timeout > 0:
            raise InvalidArgumentError(f"timeout is {timeout}; it must be above 0 seconds")
        self.timeout = timeout
        self._name = name
        self._missing = "the other ranks have not connected"
        # The address is in the abstract namespace, so that it vanishes with the process and leaves no file.
        address = f"\0relive-gpu-{name}"
        self._peers: dict[int, socket.socket] = {}
        if ranks > 1:
            with log_long_wait(f"group {name!r}, rank {rank}", self._awaited):
                self._peers = self._listen(address) if rank == 0 else self._connect(address)

    def all_gather(self, message: bytes) -> Sequence[bytes]:
        deadline = time.monotonic() + self.timeout
        if self.ranks == 1:
            return [message]
        if not self._peers:
            raise UnavailableError(f"the group {self._name!r} was closed")
        if self.rank == 0:
            return self._gather(message, deadline)
        root = self._peers[0]
        self._send(0, root, message, deadline)
        return [self._receive(0, root, deadline) for _ in range(self.ranks)]

    def close(self) -> None:
        for peer in self._peers.values():
            peer.close()
        self._peers = {}

    def _awaited(self) -> str:
        return f"{self._missing}; waiting up to {self.timeout} s"

    def _gather(self, message: bytes, deadline: float) -> list[bytes]:
        answers = [message, *(self._receive(rank, self._peers[rank], deadline) for rank in range(1, self.ranks))]
        whole = b"".join(_SIZE.pack(len(answer)) + answer for answer in answers)
        for rank in range(1, self.ranks):
            self._write(rank, self._peers[rank], whole, deadline)
        return answers

    def _listen(self, address: str) -> dict[int, socket.socket]:
        deadline = time.monotonic() + self.timeout
        peers: dict[int, socket.socket] = {}
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            try:
                listener.bind(address)
            except OSError as error:
                raise UnavailableError(f"another process already has the group {self._name!r}, or the name is too long: {error}") from error
            listener.listen(self.ranks)
            listener.setblocking(False)
            with selectors.DefaultSelector() as ready:
                ready.register(listener, selectors.EVENT_READ)
                try:
                    while len(peers) < self.ranks - 1:
                        missing = sorted(set(range(1, self.ranks)) - peers.keys())
                        for key, _ in ready.select(self._left(deadline, f"ranks {missing} have not connected")):
                            if key.fileobj is listener:
                                self._accept(listener, ready)
                            elif (rank := self._welcome(key, ready)) is not None:
                                assert isinstance(key.fileobj, socket.socket), "as it was registered"
                                peers[rank] = key.fileobj
                finally:
                    # Connections that have not identified themselves.
                    for key in list(ready.get_map().values()):
                        if isinstance(key.fileobj, socket.socket):
                            key.fileobj.close()
        return peers

    def _accept(self, listener: socket.socket, ready: selectors.BaseSelector) -> None:
        """Accepts a connection from any rank if it belongs to this user."""
        try:
            peer, _ = listener.accept()
        except OSError:
            return
        _, user, _ = _PEER.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
        if user != os.getuid():
            peer.close()
            return
        peer.setblocking(False)
        ready.register(peer, selectors.EVENT_READ, bytearray())

    def _welcome(self, key: selectors.SelectorKey, ready: selectors.BaseSelector) -> int | None:
        """Returns the rank of a connection once it has sent its greeting. A connection that sends other data is
        closed."""
        peer, received = key.fileobj, key.data
        assert isinstance(peer, socket.socket), "as it was registered"
        try:
            part = peer.recv(_HELLO.size - len(received))
        except OSError:
            part = b""
        received += part
        if part and len(received) < _HELLO.size:
            return None
        ready.unregister(peer)
        mark, rank, ranks = _HELLO.unpack(received) if part else (b"", 0, 0)
        if mark != _MARK:
            peer.close()
            return None
        if ranks != self.ranks or not 1 <= rank < ranks:
            peer.close()
            raise InvalidArgumentError(f"a process connected as rank {rank} of {ranks} to the group {self._name!r} of {self.ranks}")
        return int(rank)

    def _connect(self, address: str) -> dict[int, socket.socket]:
        deadline = time.monotonic() + self.timeout
        while True:
            root = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                root.connect(address)
            except OSError:
                root.close()
                self._left(deadline, "rank 0 has not connected")
                time.sleep(_BETWEEN_TRIES_S)
                continue
            self._write(0, root, _HELLO.pack(_MARK, self.rank, self.ranks), deadline)
            return {0: root}

    def _left(self, deadline: float, what: str) -> float:
        self._missing = what
        left = deadline - time.monotonic()
        if left <= 0:
            raise DeadlineExceededError(f"group {self._name!r}, rank {self.rank}: {what} within {self.timeout} s")
        return left

    def _send(self, rank: int, peer: socket.socket, message: bytes, deadline: float) -> None:
        self._write(rank, peer, _SIZE.pack(len(message)) + message, deadline)

    def _write(self, rank: int, peer: socket.socket, whole: bytes, deadline: float) -> None:
        peer.settimeout(self._left(deadline, f"rank {rank} does not read"))
        try:
            peer.sendall(whole)
        except TimeoutError as error:
            raise DeadlineExceededError(f"group {self._name!r}: rank {rank} does not read within {self.timeout} s") from error
        except OSError as error:
            raise UnavailableError(f"group {self._name!r}: rank {rank} has ended: {error}") from error

    def _receive(self, rank: int, peer: socket.socket, deadline: float) -> bytes:
        (size,) = _SIZE.unpack(self._read(rank, peer, _SIZE.size, deadline))
        if size > _MAX_BYTES:
            raise UnavailableError(f"group {self._name!r}: rank {rank} announces {size} bytes; the limit is {_MAX_BYTES}")
        return self._read(rank, peer, size, deadline)

    def _read(self, rank: int, peer: socket.socket, size: int, deadline: float) -> bytes:
        found = bytearray()
        while len(found) < size:
            peer.settimeout(self._left(deadline, f"rank {rank} sends nothing"))
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
