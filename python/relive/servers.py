"""What a client of many servers tells of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class ServerState(NamedTuple):
    """One of many servers, as its client sees it."""

    address: str
    standing: str
    """``"up"``: it takes part. ``"away"``: it is left out until it answers again. ``"unknown"``: it was not asked yet."""
    since_s: float
    """For how many seconds this has been so."""
    reason: str
    """Why it is left out; empty if it is not."""
    writers: int
    """Streams of this client's writers that are at this server."""
    times_left: int
    """How often it was left out."""
    lost_updates: int
    """Changes of priorities and deletions that were not made, since the server which had the keys was away."""


class ServerChange(NamedTuple):
    """A server that was left out, or taken back."""

    number: int
    """Place in the order of all changes of this client, from 0."""
    at: float
    """Seconds since the epoch, by the clock of this machine."""
    address: str
    event: str
    """``"joined"``, ``"left"``, or ``"removed"``: its name has the address no longer."""
    reason: str


def joined(addresses: str | Sequence[str]) -> str:
    """The addresses of all servers as one: with commas between."""
    if isinstance(addresses, str):
        return addresses
    for address in addresses:
        if not isinstance(address, str):
            raise TypeError(f"server_address must be a string or a list of strings, but one of it is {address!r}")
    if not addresses:
        raise ValueError("there is no server address; name at least one, as host:port")
    return ",".join(addresses)
