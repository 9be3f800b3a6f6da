"""Workers of a run, which act in other processes: they are started, watched, and started anew."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import Any, Protocol

from relive import _native
from relive.rl._own import AgentBridge
from relive.rl._sources import source_of

# A worker that ends more often than this, each time so soon after it has begun to work, will not go well the next time, either.
_MOST_ENDS, _SOON_SECONDS = 5, 10.0
# Time for workers to end by themselves when the run is over, and to tell why they have failed.
_GRACE_SECONDS, _TELL_SECONDS = 4.0, 2.0
# The same of nodes, all of them together: each ends its workers before.
_NODES_TELL_SECONDS = 10.0
# Time from one look at the workers to the next.
_LOOK_SECONDS = 0.1


class Worker(Protocol):
    """A worker that was started."""

    @property
    def begun(self) -> float:
        """When it has begun to work, by ``time.monotonic()``; 0 before. How long that takes says nothing about how the work goes."""

    def ended(self) -> str | None:
        """How it has ended, such as ``"exit code 1"``; empty if its run was over, ``None`` while it works."""

    def raise_failure(self, seconds: float = 0.0) -> None:
        """Raises what it has failed by, if it tells that within so much time."""

    def end(self, seconds: float) -> None:
        """Ends it, after it had so much time to end by itself."""


class Launcher(Protocol):
    """Starts workers somewhere."""

    @property
    def other_machines(self) -> dict[str, Any] | None:
        """``{"host": …, "token": …}`` where workers may be on other machines: the address by which they know this one, and the token
        that they show."""

    @property
    def by_nodes(self) -> bool:
        """Whether what it starts are nodes, to which the run gives the numbers of its workers."""

    def start(self, address: str, number: int) -> Worker:
        """Starts the worker, or the node, of a number for the run at an address."""

    def close(self) -> None:
        """Gives back what it holds, when all workers have ended."""


class Supervisor:
    """Starts the workers of a run, and starts those anew that end before the run does."""

    has_workers = True
    """Whether the workers of the run are processes."""

    def __init__(self, launcher: Launcher, actors: int = 0) -> None:
        self._launcher, self._actors = launcher, actors
        self._address = ""
        self._workers: dict[int, Worker] = {}
        # How often each worker has ended soon, the last times.
        self._ends: dict[int, int] = {}
        self.restarts = 0

    @property
    def other_machines(self) -> dict[str, Any] | None:
        """How workers on other machines reach the run, if there may be some."""
        return self._launcher.other_machines

    @property
    def by_nodes(self) -> bool:
        """Whether the workers are those of nodes."""
        return self._launcher.by_nodes

    @property
    def running(self) -> int:
        """How many of the workers have not ended."""
        return sum(worker.ended() is None for worker in self._workers.values())

    def start(self, address: str) -> None:
        """Starts all workers of the run at an address, unless they are there."""
        self.hold(address, range(self._actors))

    def hold(self, address: str, numbers: Iterable[int]) -> None:
        """Has the workers of these numbers, and no others: it ends the others at once."""
        self._address = address
        wanted = set(numbers)
        for number in self._workers.keys() - wanted:
            self._workers.pop(number).end(0.0)
        for number in sorted(wanted - self._workers.keys()):
            self._workers[number] = self._launcher.start(address, number)

    def check(self) -> None:
        """Starts those anew that have ended.

        Raises:
          Exception: what a worker has raised.
          RuntimeError: workers end again and again.
        """
        for number, worker in list(self._workers.items()):
            worker.raise_failure()
            how = worker.ended()
            if how is None:
                continue
            if how:
                self._note_end(number, worker, how)
                self.restarts += 1
            self._workers[number] = self._launcher.start(self._address, number)

    def wait(self) -> None:
        """Watches the workers, as :meth:`check` does, until one has seen that the run is over."""
        while not any(worker.ended() == "" for worker in self._workers.values()):
            self.check()
            time.sleep(_LOOK_SECONDS)

    def _note_end(self, number: int, worker: Worker, how: str) -> None:
        has_worked = 0.0 < worker.begun < time.monotonic() - _SOON_SECONDS
        self._ends[number] = 0 if has_worked else self._ends.get(number, 0) + 1
        if self._ends[number] > _MOST_ENDS:
            raise RuntimeError(
                f"worker {number} has ended {self._ends[number]} times in a row within {_SOON_SECONDS:.0f} s of its work, at last by {how}: its policy or "
                "its environment ends the process, which on='serial' shows in this one"
            )
        what = "node" if self._launcher.by_nodes else "worker"
        print(f"relive: {what} {number} has ended by {how}: starting it anew", file=sys.stderr)

    def raise_failure(self) -> None:
        """Raises what a worker has failed by, if one has; it may be about to tell."""
        until = time.monotonic() + _NODES_TELL_SECONDS
        for worker in self._workers.values():
            worker.raise_failure(max(0.0, until - time.monotonic()) if self._launcher.by_nodes else _TELL_SECONDS)

    def close(self) -> None:
        """Ends the workers, when the run is over."""
        until = time.monotonic() + _GRACE_SECONDS
        for worker in self._workers.values():
            worker.end(max(0.0, until - time.monotonic()))
        self._launcher.close()


def work(agent: Any, environment: Any, address: str, number: int, token: str | None = None, weights_from: str | None = None) -> None:
    """Works for the run at an address until it is over, by weights of the node at ``weights_from``. ``None`` is what the run names itself."""
    native = agent._for_extension(1)[0] if hasattr(agent, "_for_extension") else None if agent is None else AgentBridge(agent)
    source = None if environment is None else source_of(environment)
    _native.work_for_run(native, source, address, number, token, weights_from)
