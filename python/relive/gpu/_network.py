"""Connections between ranks on several machines."""

from __future__ import annotations

import dataclasses
from typing import Any

from relive.errors import InvalidArgumentError
from relive.gpu._given import flag, text, timeout_of, whole
from relive.security import ClientTls, ServerTls


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network:
    """Settings for ranks on several machines. Each process listens, and connects to the processes on other machines.

    Args:
      host: the name or address at which the other ranks reach this machine; this process listens on it.
      port: the port to listen on; 0 selects any free port, which the group announces to the other ranks.
      listen: the address to listen on, if it differs from ``host``: ``"0.0.0.0"`` for all addresses of a container.
      shared_memory: whether ranks on one machine read each other's memory. Use ``False`` for containers that do not
        share ``/dev/shm``.
      timeout: the number of seconds that a call waits for a response from another rank. If the store has created its
        group from ``rank`` and ``ranks``, ``timeout`` also applies to exchanges.
      tls, client_tls: certificates; traffic is then encrypted. Pass both or neither.

    Ranks authenticate with a token that rank 0 generates and the group distributes. Without TLS, the token is readable
    in transit.

    Raises:
      InvalidArgumentError: an invalid host, port, flag or timeout, or only one of the TLS settings.
    """

    host: str
    port: int = 0
    listen: str | None = None
    shared_memory: bool = True
    timeout: float = 60.0
    tls: ServerTls | None = None
    client_tls: ClientTls | None = None

    def __post_init__(self) -> None:
        text("host", self.host)
        whole("port", self.port, 0, 1 << 16)
        if self.listen is not None:
            text("listen", self.listen)
        flag("shared_memory", self.shared_memory)
        timeout_of(self.timeout)
        for what, given, kind in (("tls", self.tls, ServerTls), ("client_tls", self.client_tls, ClientTls)):
            if given is not None and not isinstance(given, kind):
                raise InvalidArgumentError(f"{what} is a {type(given).__name__}; give a relive.{kind.__name__}")
        if (self.tls is None) != (self.client_tls is None):
            raise InvalidArgumentError("give both tls and client_tls, or neither: each rank both serves and connects")

    def address(self, port: int) -> str:
        """Returns the address at which other ranks reach this process, if it listens on this port."""
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"

    def as_native(self, token: str) -> dict[str, Any]:
        """Returns the settings in the extension's form."""
        return {
            "listen": self.host if self.listen is None else self.listen,
            "port": self.port,
            "token": token,
            "timeout": self.timeout,
            "tls": self.tls,
            "client_tls": self.client_tls,
        }
