"""Workers of a run as processes of Python."""

from __future__ import annotations

import faulthandler
import multiprocessing
import pickle
import signal
import sys
import time
from multiprocessing.connection import Connection
from typing import Any

from relive import _native
from relive._remote import end_with_parent, raised, told
from relive.rl._own import AgentBridge
from relive.rl._sources import source_of

# A worker that ends more often than this, each time so soon after it has begun to work, will not go well the next time, either.
_MOST_ENDS, _SOON_SECONDS = 5, 10.0
# Time for workers to end by themselves when the run is over, and to tell why they have failed.
_GRACE_SECONDS, _TELL_SECONDS = 4.0, 2.0


class Supervisor:
    """Starts the workers of a run, and starts those anew that end before the run does.

    Raises:
      TypeError: the agent or the environment cannot be sent to another process.
    """

    def __init__(self, agent: Any, environment: Any, actors: int) -> None:
        for what, value in (("agent", agent), ("environment", environment)):
            try:
                pickle.dumps(value)
            except Exception as error:
                raise TypeError(
                    f"on='processes' sends the {what} to other processes, which is not possible: {error}; use classes and functions "
                    "that a module defines at its top, and no lambdas"
                ) from error
        self._work = agent, environment
        self._actors = actors
        self._workers: list[_Worker] = []
        # How often each worker has ended soon, the last times.
        self._ends = [0] * actors

    def start(self, address: str) -> None:
        """Starts all workers of the run at an address, unless they are there."""
        if not self._workers:
            self._workers = [_Worker(self._work, address, number) for number in range(self._actors)]

    def check(self) -> None:
        """Starts those anew that have ended.

        Raises:
          Exception: what a worker has raised.
          RuntimeError: workers end again and again.
        """
        for place, worker in enumerate(self._workers):
            worker.raise_failure()
            code = worker.process.exitcode
            if code is None:
                continue
            if code != 0:
                self._note_end(worker, code)
            self._workers[place] = _Worker(self._work, worker.address, worker.number)

    def _note_end(self, worker: _Worker, code: int) -> None:
        number, how = worker.number, f"signal {-code}" if code < 0 else f"exit code {code}"
        self._ends[number] = 0 if worker.has_worked() else self._ends[number] + 1
        if self._ends[number] > _MOST_ENDS:
            raise RuntimeError(
                f"worker {number} has ended {self._ends[number]} times in a row within {_SOON_SECONDS:.0f} s of its work, at last by {how}: its policy or "
                "its environment ends the process, which on='serial' shows in this one"
            )
        print(f"relive: worker {number} has ended by {how}: starting it anew", file=sys.stderr)

    def raise_failure(self) -> None:
        """Raises what a worker has failed by, if one has; it may be about to tell."""
        for worker in self._workers:
            worker.raise_failure(_TELL_SECONDS)

    def close(self) -> None:
        """Ends the workers, when the run is over."""
        until = time.monotonic() + _GRACE_SECONDS
        for worker in self._workers:
            worker.end(max(0.0, until - time.monotonic()))


class _Worker:
    """The process of a worker, which ends with this process: also if this is killed."""

    def __init__(self, work: tuple[Any, Any], address: str, number: int) -> None:
        self.address, self.number = address, number
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        # When it has begun to work: how long that takes before says nothing about how the work goes.
        self._begun = context.RawValue("d", 0.0)
        self.process = context.Process(
            target=_work, args=(*work, address, number, theirs, self._begun), name=f"relive worker {number}", daemon=True
        )
        self.process.start()
        theirs.close()

    def has_worked(self) -> bool:
        """Whether it has worked for a while."""
        begun: float = self._begun.value
        return 0.0 < begun < time.monotonic() - _SOON_SECONDS

    def raise_failure(self, seconds: float = 0.0) -> None:
        """Raises what it has failed by, with its traceback as the cause."""
        try:
            if not self._pipe.poll(seconds):
                return
            failure = self._pipe.recv()
        except (EOFError, OSError):
            return
        raise raised(failure, f"in worker {self.number}")

    def end(self, seconds: float) -> None:
        """Ends it, after it had so much time to end by itself."""
        self.process.join(seconds)
        self._pipe.close()
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()


def _work(agent: Any, environment: Any, address: str, number: int, pipe: Connection, begun: Any) -> None:
    """What the process of a worker does."""
    # Ctrl-C is for the process that learns, which ends the workers when the run is saved.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    # A crash leaves a traceback on stderr.
    faulthandler.enable()
    try:
        begun.value = time.monotonic()
        native = agent._for_extension(1)[0] if hasattr(agent, "_for_extension") else AgentBridge(agent)
        _native.work_for_run(native, source_of(environment), address, number)
    except BaseException as error:
        pipe.send(told(error))
        sys.exit(1)
