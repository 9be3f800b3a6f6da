"""How the processes of a :class:`relive.gpu.LocalGroup` find each other by the group's name."""

from __future__ import annotations

import os
import selectors
import socket
import struct
import time
import weakref
from collections.abc import Callable
from typing import NamedTuple

from relive.errors import InvalidArgumentError, UnavailableError

# A rank's greeting: a magic number, its rank, and the number of ranks.
_HELLO = struct.Struct("<8sQQ")
_MARK = b"RLVRANKS"
# Process, user and group of the peer.
_PEER = struct.Struct("3i")
_BETWEEN_TRIES_S = 0.01

_sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()


def _close_copies() -> None:
    """Closes a forked child's copies of the sockets, which would hide the end of its parent from the other ranks."""
    for copy in list(_sockets):
        copy.close()


os.register_at_fork(after_in_child=_close_copies)


class Rendezvous(NamedTuple):
    """Connects rank 0, which listens, to each of the other ranks."""

    name: str
    rank: int
    ranks: int
    left: Callable[[str], float]
    """Returns the number of seconds that an operation may wait; raises an error if none are left."""

    def claim(self) -> socket.socket:
        """Returns a socket that no other process can have as long as this one is open.

        Raises:
          UnavailableError: another process has this rank in the group, or the name is too long.
        """
        return self._bound(f"/{self.rank}/{self.name}")

    def meet(self, peers: dict[int, socket.socket]) -> None:
        """Adds the connections of rank 0 to the other ranks, by rank, or of another rank to rank 0. After an error,
        ``peers`` has those ranks that must be informed.

        Raises:
          InvalidArgumentError: a process is a rank of a group of a different size.
          UnavailableError: as for :meth:`claim`, or another user's process has the name.
        """
        if self.rank > 0:
            peers[0] = self._connect()
            return
        with self._bound(f"-{self.name}") as listener, selectors.DefaultSelector() as ready:
            listener.listen(self.ranks)
            listener.setblocking(False)
            ready.register(listener, selectors.EVENT_READ)
            try:
                self._listen(listener, ready, peers)
            finally:
                # Connections that have not identified themselves.
                for key in list(ready.get_map().values()):
                    if isinstance(key.fileobj, socket.socket):
                        key.fileobj.close()

    def _bound(self, end: str) -> socket.socket:
        """Returns a socket with an address in the abstract namespace, which vanishes with the process and leaves no
        file."""
        bound = _unconnected()
        try:
            bound.bind(f"\0relive-gpu{end}")
        except OSError as error:
            bound.close()
            raise UnavailableError(
                f"a process already is rank {self.rank} of the group {self.name!r}, or the name is too long: {error}"
            ) from error
        return bound

    def _listen(self, listener: socket.socket, ready: selectors.BaseSelector, peers: dict[int, socket.socket]) -> None:
        while missing := sorted(set(range(1, self.ranks)) - peers.keys()):
            for key, _ in ready.select(self.left(f"ranks {missing} have not connected")):
                if key.fileobj is listener:
                    _accept(listener, ready)
                elif (rank := self._welcome(key, ready)) is not None:
                    assert isinstance(key.fileobj, socket.socket), "as it was registered"
                    peers[rank] = key.fileobj

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
            raise InvalidArgumentError(f"a process connected as rank {rank} of {ranks} to the group {self.name!r} of {self.ranks}")
        return int(rank)

    def _connect(self) -> socket.socket:
        while True:
            root = _unconnected()
            try:
                root.connect(f"\0relive-gpu-{self.name}")
                if not _is_own(root):
                    root.close()
                    raise UnavailableError(f"rank 0 of the group {self.name!r} belongs to another user; choose another name")
                # The greeting fits into the buffer of a new connection.
                root.sendall(_HELLO.pack(_MARK, self.rank, self.ranks))
            except OSError:
                root.close()
                self.left("rank 0 has not connected")
                time.sleep(_BETWEEN_TRIES_S)
                continue
            return root


def _unconnected() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    _sockets.add(made)
    return made


def _is_own(peer: socket.socket) -> bool:
    """Returns whether the process at the other end belongs to this user."""
    _, user, _ = _PEER.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return bool(user == os.getuid())


def _accept(listener: socket.socket, ready: selectors.BaseSelector) -> None:
    """Accepts a connection from any rank if it belongs to this user."""
    try:
        peer, _ = listener.accept()
    except OSError:
        return
    _sockets.add(peer)
    if not _is_own(peer):
        peer.close()
        return
    peer.setblocking(False)
    ready.register(peer, selectors.EVENT_READ, bytearray())
