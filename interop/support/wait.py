"""Waits for conditions, always with a deadline."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

# Long enough for a busy machine, and short enough for a waiting developer.
PATIENCE_S = 20.0

# The time without an event after which it counts as not occurring.
QUIET_S = 0.25


def until(condition: Callable[[], object], what: str, patience_s: float = PATIENCE_S):
    """Polls `condition` and returns its first truthy value; otherwise raises an AssertionError that names `what`."""
    deadline = time.monotonic() + patience_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience_s} s: {what}")
        time.sleep(0.005)


class Background:
    """A call in a separate thread; the call's result or error is collected later."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._outcome: queue.Queue = queue.Queue()
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()

    def _run(self, call: Callable[[], object]) -> None:
        try:
            self._outcome.put((call(), None))
        except BaseException as error:  # Any exception is passed to the test.
            self._outcome.put((None, error))

    def is_blocked(self, quiet_s: float = QUIET_S) -> bool:
        """Returns whether the call is still running after a while."""
        self._thread.join(quiet_s)
        return self._thread.is_alive()

    def result(self, patience_s: float = PATIENCE_S):
        """Returns the call's result, or raises its exception."""
        try:
            value, error = self._outcome.get(timeout=patience_s)
        except queue.Empty:
            raise AssertionError(f"still blocked after {patience_s} s") from None
        if error is not None:
            raise error
        return value
