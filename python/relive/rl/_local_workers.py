"""Python processes on this machine that work for a run."""

from __future__ import annotations

import faulthandler
import multiprocessing
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing import util
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from relive._by_value import sendable
from relive._remote import end_with_parent, raised, describe_error
from relive.rl._workers import work


# The exit code of a process whose run is over. The code is not 0, because a policy or an environment may end the
# process with 0.
_RUN_IS_OVER = 64


class Processes:
    """Starts workers as processes, in the same way as :mod:`multiprocessing`.

    Raises:
      TypeError: the agent or the environment cannot be sent to another process.
    """

    other_machines = None
    by_nodes = False

    def __init__(self, agent: Any, environment: Any, token: str | None = None) -> None:
        self._work, self._token = sendable_parts("on='processes'", agent, environment), token
        # The node that provides weights, if these workers belong to one.
        self.weights_from: str | None = None

    def start(self, address: str, number: int) -> Process:
        """Starts a process."""
        return Process(f"worker {number}", work, (*self._work, address, number, self._token, self.weights_from))

    def close(self) -> None:
        """Does nothing: no resources are held."""


def sendable_parts(option: str, agent: Any, environment: Any) -> tuple[Any, Any]:
    """Returns the agent and the environment as arguments for other processes.

    Raises:
      TypeError: one of them cannot be sent.
    """
    parts = []
    for what, value in (("agent", agent), ("environment", environment)):
        try:
            parts.append(sendable(value))
        except Exception as error:
            raise TypeError(
                f"{option} sends the {what} to other processes, but it cannot be pickled: {error}; use classes and functions that a "
                "module defines at its top level, no lambdas"
            ) from error
    return parts[0], parts[1]


class Process:
    """A process that works for a run, and ends with this process, even if this process is killed."""

    def __init__(self, name: str, target: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        self._name = name
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._begun = context.RawValue("d", 0.0)
        # Not a daemon, since those may not start processes, as vectors of environments and loaders of data do.
        self._process = context.Process(
            target=_work, args=(target, arguments, theirs, self._begun), name=f"relive {name}", daemon=False
        )
        self._process.start()
        theirs.close()
        # At the exit of this process, multiprocessing waits for processes that are not daemons, after it has called the
        # finalizers.
        self._kill_at_exit = util.Finalize(self, _kill, (self._process,), exitpriority=0)
        if util.is_exiting():
            # Another thread is exiting, and may have called the finalizers before.
            self._kill_at_exit()

    @property
    def begun(self) -> float:
        begun: float = self._begun.value
        return begun

    @property
    def id(self) -> int | None:
        """The process id."""
        return self._process.pid

    def ended(self) -> str | None:
        code = self._process.exitcode
        if code is None or code == _RUN_IS_OVER:
            return None if code is None else ""
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def raise_failure(self, seconds: float = 0.0) -> None:
        """Raises the process's error, with its traceback as the cause."""
        try:
            if not self._pipe.poll(seconds):
                return
            failure = self._pipe.recv()
        except (EOFError, OSError):
            return
        raise raised(failure, f"in {self._name}")

    def end(self, seconds: float) -> None:
        self._process.join(seconds)
        self._pipe.close()
        self._kill_at_exit()
        self._process.join()
        self._process.close()


def _kill(process: BaseProcess) -> None:
    if process.is_alive():
        process.kill()


def _work(target: Callable[..., None], arguments: tuple[Any, ...], pipe: Connection, begun: Any) -> None:
    """The main function of the process."""
    # Only the run's process handles Ctrl-C; it ends the other processes after it has saved the run.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    # A crash leaves a traceback on stderr, unless stderr is closed.
    if sys.stderr is not None:
        faulthandler.enable()
    try:
        begun.value = time.monotonic()
        target(*arguments)
    except BaseException as error:
        pipe.send(describe_error(error))
        sys.exit(1)
    sys.exit(_RUN_IS_OVER)
