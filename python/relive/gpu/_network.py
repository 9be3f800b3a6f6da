"""How ranks of several machines reach each other."""

from __future__ import annotations

import dataclasses
from typing import Any

from relive.errors import InvalidArgumentError
from relive.security import ClientTls, ServerTls


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network:
    """How ranks of several machines reach each other's trajectories. Each process listens, and connects to those of other machines.

    Args:
      host: the name or address of this machine by which the others reach it; this process listens at it.
      port: at which it listens; 0: any free one, of which the group tells the others.
      listen: the address to listen at, where that is another than ``host``: ``"0.0.0.0"`` for all of a container.
      shared_memory: whether ranks of one machine read each other's memory. ``False`` for containers that do not share ``/dev/shm``.
      timeout: seconds that a call waits for the answer of another rank, and, where the store has made its group itself by ``rank`` and
        ``ranks``, for what the others tell.
      tls, client_tls: certificates: what passes is encrypted then. Both, or neither.

    Ranks show each other a token that rank 0 has made up and the group has passed on. Without TLS it can be read on the way.

    Raises:
      InvalidArgumentError: a port that is none, no time, or one half of TLS.
    """

    host: str
    port: int = 0
    listen: str | None = None
    shared_memory: bool = True
    timeout: float = 60.0
    tls: ServerTls | None = None
    client_tls: ClientTls | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.port < 1 << 16:
            raise InvalidArgumentError(f"port is {self.port}; it must be 0 to 65535")
        if not 0 < self.timeout < 1e9:
            raise InvalidArgumentError(f"timeout is {self.timeout}; it must be above 0 seconds, and below 1e9")
        for what, given, kind in (("tls", self.tls, ServerTls), ("client_tls", self.client_tls, ClientTls)):
            if given is not None and not isinstance(given, kind):
                raise InvalidArgumentError(f"{what} is a {type(given).__name__}; give a relive.{kind.__name__}")
        if (self.tls is None) != (self.client_tls is None):
            raise InvalidArgumentError("tls and client_tls are given together: each rank serves, and connects to others")

    def address(self, port: int) -> str:
        """Where others reach this process, if it listens at this port."""
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"

    def as_native(self, token: str) -> dict[str, Any]:
        """The settings as the extension takes them."""
        return {
            "listen": self.host if self.listen is None else self.listen,
            "port": self.port,
            "token": token,
            "timeout": self.timeout,
            "tls": self.tls,
            "client_tls": self.client_tls,
        }
