"""The state of many servers, as reported by their client."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class ServerState(NamedTuple):
    """The state of one of many servers, from its client's point of view."""

    address: str
    standing: str
    """``"up"``: in use. ``"away"``: left out until it responds again. ``"unknown"``: not contacted yet."""
    since_s: float
    """The number of seconds in this state."""
    reason: str
    """The reason why the server is left out; empty otherwise."""
    writers: int
    """The number of streams of this client's writers to this server."""
    times_left: int
    """The number of times that the server was left out."""
    lost_updates: int
    """The number of priority updates and deletions that were dropped because the keys' server did not respond."""


class ServerChange(NamedTuple):
    """A server that was left out, or that rejoined."""

    number: int
    """The position in the sequence of all changes of this client, from 0."""
    at: float
    """Seconds since the epoch, by the clock of this machine."""
    address: str
    event: str
    """``"joined"``, ``"left"``, or ``"removed"``: the name no longer resolves to the address."""
    reason: str


def joined(addresses: str | Sequence[str]) -> str:
    """Returns the addresses of all servers as one comma-separated string."""
    if isinstance(addresses, str):
        return addresses
    if not isinstance(addresses, Iterable):
        raise TypeError(f"server_address is {addresses!r}, but it must be a string such as 'localhost:8000', or a list of strings")
    addresses = list(addresses)
    for address in addresses:
        if not isinstance(address, str):
            raise TypeError(f"server_address must be a string or a list of strings, but the list has {address!r}")
    if not addresses:
        raise ValueError("there is no server address; give at least one, as host:port")
    return ",".join(addresses)
