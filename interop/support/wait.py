"""Waiting for something to become true, always with a deadline."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

# What is long for a machine that builds something else at the same time, and short for a person who waits.
PATIENCE_S = 20.0

# How long something must not happen for us to say that it does not.
QUIET_S = 0.25


def until(condition: Callable[[], object], what: str, patience_s: float = PATIENCE_S):
    """The first truthy value of `condition`, asked again and again; AssertionError names `what` never came."""
    deadline = time.monotonic() + patience_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience_s} s: {what}")
        time.sleep(0.005)


class Background:
    """A call in a thread of its own, whose result or error is collected later."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._outcome: queue.Queue = queue.Queue()
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()

    def _run(self, call: Callable[[], object]) -> None:
        try:
            self._outcome.put((call(), None))
        except BaseException as error:  # Whatever it is, the test wants it.
            self._outcome.put((None, error))

    def is_blocked(self, quiet_s: float = QUIET_S) -> bool:
        """Whether the call is still running after a while."""
        self._thread.join(quiet_s)
        return self._thread.is_alive()

    def result(self, patience_s: float = PATIENCE_S):
        """What the call returned, or raises what it raised."""
        try:
            value, error = self._outcome.get(timeout=patience_s)
        except queue.Empty:
            raise AssertionError(f"still blocked after {patience_s} s") from None
        if error is not None:
            raise error
        return value
