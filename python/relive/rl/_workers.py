"""Starting, watching and restarting the workers of a run, which act in other processes."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from multiprocessing import util
from typing import Any, Protocol

from relive import _native
from relive.rl._own import in_extension_form
from relive.rl._sources import source_of
from relive.rl._torch_threads import TorchThreads

# A worker may end this many times in a row, each time within this many seconds of starting to work, before it is no
# longer restarted.
_MAX_ENDS, _SOON_SECONDS = 5, 10.0
# How long workers may take to end by themselves when the run is over, and to report errors: all of them together.
_GRACE_SECONDS, _REPORT_SECONDS = 4.0, 2.0
# How long nodes may take to report errors: longer, since a node first ends its workers.
_NODES_REPORT_SECONDS = 10.0
# How long workers may take to end by themselves after the run has failed, since they cannot always detect that.
_FAILED_GRACE_SECONDS = 1.0
# The interval between checks of the workers.
_LOOK_SECONDS = 0.1


class Worker(Protocol):
    """A worker that was started."""

    @property
    def begun(self) -> float:
        """The time at which the worker started to work, by ``time.monotonic()``; 0 before that. The time that the process
        took to start is not included, since it is unrelated to the work."""

    def ended(self) -> str | None:
        """The reason why the worker ended, such as ``"exit code 1"``; empty if its run was over, ``None`` while it
        works."""

    def raise_failure(self, seconds: float = 0.0) -> None:
        """Raises the worker's error, if the worker reports one within the given time."""

    def end(self, seconds: float) -> None:
        """Ends the worker, unless it ends by itself within the given time."""


class Launcher(Protocol):
    """Starts workers of one kind, such as processes or actors of a cluster."""

    @property
    def other_machines(self) -> dict[str, Any] | None:
        """``{"host": …, "token": …}`` if workers may be on other machines: the address at which they reach this
        machine, and their token."""

    @property
    def by_nodes(self) -> bool:
        """Whether the launcher starts nodes, to which the run assigns the numbers of its workers."""

    def start(self, address: str, number: int) -> Worker:
        """Starts the worker, or the node, with this number for the run at an address."""

    def close(self) -> None:
        """Releases the launcher's resources when all workers have ended."""


class Supervisor:
    """Starts the workers of a run, and restarts workers that end before the run."""

    has_workers = True
    """Whether the workers of the run are processes."""

    def __init__(self, launcher: Launcher, actors: int = 0) -> None:
        self._launcher, self._actors = launcher, actors
        self._address = ""
        self._workers: dict[int, Worker] = {}
        # For each worker, the number of times in a row that it has ended soon after its start.
        self._ends: dict[int, int] = {}
        self.restarts = 0
        self._grace_seconds = _GRACE_SECONDS

    @property
    def other_machines(self) -> dict[str, Any] | None:
        """The address of the run for workers on other machines, if possible."""
        return self._launcher.other_machines

    @property
    def by_nodes(self) -> bool:
        """Whether nodes run the workers."""
        return self._launcher.by_nodes

    @property
    def running(self) -> int:
        """The number of workers that have not ended."""
        return sum(worker.ended() is None for worker in self._workers.values())

    def start(self, address: str) -> None:
        """Starts all workers of the run at an address, unless they are running."""
        self.hold(address, range(self._actors))

    def hold(self, address: str, numbers: Iterable[int]) -> None:
        """Runs exactly the workers with the given numbers, and ends all other workers immediately."""
        self._address = address
        wanted = set(numbers)
        for number in self._workers.keys() - wanted:
            self._workers.pop(number).end(0.0)
        for number in sorted(wanted - self._workers.keys()):
            self._workers[number] = self._launcher.start(address, number)

    def check(self) -> None:
        """Restarts workers that have ended before the run, unless this process is exiting. A worker that ended because
        it saw the end of the run is not replaced.

        Raises:
          Exception: a worker raised an exception.
          RuntimeError: workers end repeatedly.
        """
        for number, worker in list(self._workers.items()):
            # A worker that has ended has reported its error before.
            how = worker.ended()
            worker.raise_failure()
            # A worker that has detected the end of the run, which may still be evaluating or saving, is not replaced.
            if not how or util.is_exiting():
                continue
            self._note_end(number, worker, how)
            self.restarts += 1
            self._workers[number] = self._launcher.start(self._address, number)

    def wait(self) -> None:
        """Monitors the workers, like :meth:`check`, until a worker has detected the end of the run."""
        while not any(worker.ended() == "" for worker in self._workers.values()):
            self.check()
            time.sleep(_LOOK_SECONDS)

    def _note_end(self, number: int, worker: Worker, how: str) -> None:
        has_worked = 0.0 < worker.begun < time.monotonic() - _SOON_SECONDS
        self._ends[number] = 0 if has_worked else self._ends.get(number, 0) + 1
        if self._ends[number] > _MAX_ENDS:
            raise RuntimeError(
                f"worker {number} ended {self._ends[number]} times in a row within {_SOON_SECONDS:.0f} s of its start, the last time with {how}. "
                "If its policy or its environment ends the process, on='serial' shows the error in this process. If the process cannot import "
                "them, move classes and functions to the top level of a module, and the run below `if __name__ == \"__main__\":`"
            )
        what = "node" if self._launcher.by_nodes else "worker"
        logging.getLogger("relive").warning("%s %d ended with %s: restarting it", what, number, how)

    def raise_failure(self, after: BaseException | None = None) -> None:
        """Raises a worker's error, if any. Waits for an error that is about to be reported, unless ``after``, the run's
        exception, comes from Python code of this process: such an exception is not a consequence of a worker's error."""
        if after is not None and not self._launcher.by_nodes:
            self._grace_seconds = _FAILED_GRACE_SECONDS
        seconds = _NODES_REPORT_SECONDS if self._launcher.by_nodes else _REPORT_SECONDS
        until = time.monotonic() + (0.0 if is_of_python(after) else seconds)
        for worker in self._workers.values():
            worker.raise_failure(max(0.0, until - time.monotonic()))

    def close(self) -> None:
        """Ends the workers, when the run is over."""
        until = time.monotonic() + self._grace_seconds
        try:
            for worker in self._workers.values():
                worker.end(max(0.0, until - time.monotonic()))
        finally:
            self._launcher.close()


def is_of_python(error: BaseException | None) -> bool:
    """Returns whether an exception that the caller has just caught from the extension was raised by Python code that the
    extension called. The extension itself has no frames in a traceback."""
    return error is not None and error.__traceback__ is not None and error.__traceback__.tb_next is not None


def work(agent: Any, environment: Any, address: str, number: int, token: str | None = None, weights_from: str | None = None) -> None:
    """Works for the run at ``address`` until the run ends, and fetches weights from the node at ``weights_from``.
    For arguments that are ``None``, the run's values are used."""
    native = None if agent is None else in_extension_form(agent, torch_threads=TorchThreads(has_actors=True))[0]
    source = None if environment is None else source_of(environment)
    _native.work_for_run(native, source, address, number, token, weights_from)
