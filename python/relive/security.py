"""TLS settings for servers and clients. They determine which side must prove its identity. All files are in PEM format;
docs/security.md explains how to create them, and the purpose of tokens."""

from __future__ import annotations

import os
from dataclasses import dataclass

Path = str | os.PathLike[str]


@dataclass(frozen=True, kw_only=True)
class ServerTls:
    """The certificate of a server.

    Attributes:
      cert: the server's certificate, and its signers' certificates.
      key: the private key of the certificate.
      client_ca: the authorities that must have signed a client's certificate; ``None``: clients need no certificate.
    """

    cert: Path
    key: Path
    client_ca: Path | None = None


@dataclass(frozen=True, kw_only=True)
class ClientTls:
    """The authorities that a client trusts, and its own certificate.

    Attributes:
      ca: the authorities to trust; ``None``: the system's.
      cert: the certificate for a server that requests a certificate.
      key: the private key of the certificate.
      server_name: the name that the server's certificate must have, if it differs from the name in the address.
    """

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    server_name: str | None = None

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise ValueError("give both cert and key, or neither")
