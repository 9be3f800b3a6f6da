"""TLS for servers and clients: who proves to whom who they are. Everything is a file in PEM; docs/security.md tells how to make
them, and what tokens are for."""

from __future__ import annotations

import os
from dataclasses import dataclass

Path = str | os.PathLike[str]


@dataclass(frozen=True, kw_only=True)
class ServerTls:
    """The certificate of a server.

    Attributes:
      cert: its certificate, and those of who signed it.
      key: the private key to it.
      client_ca: authorities of whom clients must show a certificate; ``None``: clients need none.
    """

    cert: Path
    key: Path
    client_ca: Path | None = None


@dataclass(frozen=True, kw_only=True)
class ClientTls:
    """Whom a client trusts, and how it proves who it is.

    Attributes:
      ca: the authorities to trust; ``None``: the system's.
      cert: the certificate to show to a server that asks for one.
      key: the private key to it.
      server_name: the name that the server's certificate must be for, if it is not the one in the address.
    """

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    server_name: str | None = None

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise ValueError("cert and key belong together: give both or none")
