"""The Ray cluster of a program, and the placement of actors there."""

from __future__ import annotations

import logging
import os
import socket
import time
from concurrent.futures import Future
from typing import Any

# The interval at which a worker that has not been placed is reported.
_PLACE_SECONDS = 10.0
# The timeout of the first connection to a cluster.
_CONNECT_SECONDS = 10.0


def imported() -> Any:
    """Returns the package ``ray``."""
    try:
        import ray
    except ImportError as error:
        raise ImportError("on='ray' requires Ray: pip install ray") from error
    return ray


def connected() -> Any:
    """Returns the package ``ray``, connected to a cluster: calls :func:`ray.init` if the program has not done so.

    Raises:
      ConnectionError: no cluster responds at ``RAY_ADDRESS``. Ray itself would retry for minutes.
    """
    ray = imported()
    if not ray.is_initialized():
        _expect_answer(os.environ.get("RAY_ADDRESS", ""))
        ray.init()
    return ray


def _expect_answer(address: str) -> None:
    """Checks that an address of the form ``host:port`` accepts connections; other forms do not name a host."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ConnectionError(
            f"RAY_ADDRESS is {address!r}, where no Ray cluster answers ({error}): start the cluster, or unset RAY_ADDRESS to start one on this machine"
        ) from error


class Placed:
    """The base class of Ray actors."""

    def node(self) -> str:
        """Returns the address of the actor's machine, as soon as Ray has placed the actor."""
        return str(imported().util.get_node_ip_address())


class Placement:
    """Reports at intervals that Ray has not placed an actor yet.

    Args:
      ray: the package ``ray``.
      name, needs: the actor, and what Ray is to schedule, in messages.
      placed: the result of the actor's method :meth:`Placed.node`.
    """

    def __init__(self, ray: Any, name: str, needs: Any, placed: Future[str]) -> None:
        self._ray, self._name, self._needs, self._placed = ray, name, needs, placed
        self._next_log_at = time.monotonic() + _PLACE_SECONDS

    def log_wait(self) -> None:
        """Logs that the actor is waiting, if it is time."""
        if self._placed.done() or time.monotonic() < self._next_log_at:
            return
        self._next_log_at = time.monotonic() + _PLACE_SECONDS
        logging.getLogger("relive").warning(
            "%s is waiting for Ray to schedule %s; free in the cluster: %s", self._name, self._needs, free_in(self._ray)
        )


def free_in(ray: Any) -> dict[str, float]:
    """Returns the free resources of a cluster."""
    return {name: amount for name, amount in ray.available_resources().items() if "node:" not in name and "memory" not in name}


def first_line(error: BaseException) -> str:
    """Returns the first line of an error."""
    return (str(error).strip().splitlines() or [""])[0]
