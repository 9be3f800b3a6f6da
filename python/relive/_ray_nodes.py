"""What runs in Ray actors: single workers, and nodes with several workers."""

from __future__ import annotations

import os
import socket
from typing import Any

from relive import _native
from relive._by_value import ByValue
from relive._ray_cluster import Placed
from relive._remote import RemoteError, describe_error
from relive.rl._local_workers import Processes
from relive.rl._workers import Supervisor, work


class Host(Placed):
    """A worker in the process of a Ray actor."""

    def work(self, agent_and_environment: tuple[Any, Any], address: str, number: int, token: str | None) -> RemoteError | None:
        """Works until the run is over, and returns the worker's error, if any."""
        try:
            work(*agent_and_environment, address, number, token)
        except BaseException as error:
            return describe_error(error)
        return None


class Node(Placed):
    """A node in the process of a Ray actor; its workers are separate processes."""

    def work(self, agent_and_environment: tuple[Any, Any], address: str, actors: int, token: str | None) -> RemoteError | None:
        """Runs the given number of workers until the run is over, and returns a worker's error, if any."""
        try:
            workers = _NodeWorkers(agent_and_environment, address, token)
            name = f"{socket.gethostname()}-{os.getpid()}"
            try:
                _native.host_for_run(address, workers, actors=actors, name=name, host=socket.gethostname(), ip=self.node(), token=token)
                workers.supervisor.raise_failure()
            finally:
                workers.supervisor.close()
        except BaseException as error:
            return describe_error(error)
        return None


class _NodeWorkers:
    """The workers of a node, with the methods that :func:`relive._native.host_for_run` calls."""

    def __init__(self, agent_and_environment: tuple[Any, Any], address: str, token: str | None) -> None:
        agent, environment = (None if value is None else ByValue(value, "ray.cloudpickle") for value in agent_and_environment)
        self._launcher = Processes(agent, environment, token)
        self.supervisor = Supervisor(self._launcher)
        self._address = address

    def hold(self, numbers: list[int], near: str) -> None:
        """Runs the workers with the given numbers, which fetch weights from the address ``near``."""
        self._launcher.weights_from = near
        self.supervisor.hold(self._address, numbers)

    def watch(self) -> tuple[int, int]:
        """Restarts workers that have ended, and returns the number of running workers and the number of restarts."""
        self.supervisor.check()
        return self.supervisor.running, self.supervisor.restarts
