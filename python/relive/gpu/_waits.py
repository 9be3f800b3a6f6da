"""Logs long waits."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator

_log = logging.getLogger("relive")

# The time until a wait is first logged; after that, the interval doubles each time.
_FIRST_S = 5.0
REMOTE = "other ranks have not sent their rows of a batch; check their processes and the network"
"""The description of waits in calls that read other machines' memory."""


class _Wait:
    def __init__(self, what: str, reason: Callable[[], str]) -> None:
        self.what, self.reason = what, reason
        self.interval_s = _FIRST_S
        self.due = time.monotonic() + _FIRST_S


class _Watch:
    """A thread that monitors waits. It starts with the first wait, and is woken only if it has been idle for a long
    time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waits: set[_Wait] = set()
        self._has_begun = self._is_idle = False

    def add(self, wait: _Wait) -> None:
        with self._changed:
            self._waits.add(wait)
            if not self._has_begun:
                self._has_begun = True
                threading.Thread(target=self._work, name="relive-gpu-waits", daemon=True).start()
            elif self._is_idle:
                self._changed.notify()

    def remove(self, wait: _Wait) -> None:
        with self._changed:
            self._waits.discard(wait)

    def _work(self) -> None:
        while True:
            # The description is obtained and logged without the lock, since every wait needs the lock.
            for wait in self._take_long():
                _log.warning("%s has been waiting for %g s: %s", wait.what, wait.interval_s / 2, wait.reason())

    def _take_long(self) -> list[_Wait]:
        with self._changed:
            now = time.monotonic()
            while not (long := [wait for wait in self._waits if wait.due <= now]):
                self._is_idle = not self._waits
                # A wait that starts in the meantime cannot be due before this sleep ends.
                self._changed.wait(None if self._is_idle else min(wait.due for wait in self._waits) - now)
                now = time.monotonic()
            for wait in long:
                wait.due += wait.interval_s
                wait.interval_s *= 2
            return long


_watch = _Watch()


def _begin_anew() -> None:
    """Resets the state in a forked child, which does not have its parent's threads."""
    global _watch
    _watch = _Watch()


os.register_at_fork(after_in_child=_begin_anew)


@contextlib.contextmanager
def log_long_wait(what: str, reason: Callable[[], str]) -> Iterator[None]:
    """Wraps a call that may wait: after 5, 10, 20, … seconds, it logs that ``what`` is waiting, with the reason."""
    wait, watch = _Wait(what, reason), _watch
    watch.add(wait)
    try:
        yield
    finally:
        watch.remove(wait)
