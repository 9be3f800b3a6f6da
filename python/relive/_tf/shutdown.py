"""Ends the iterators of datasets before the program ends.

TensorFlow's threads call the Python part of a dataset until the iterator is destroyed. Once the interpreter is being
finalized, a thread that needs its lock never runs again, and the iterator's destructor would wait for that thread
forever. The iterators are therefore ended before the finalization begins.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Iterator
from typing import TypeVar

_Element = TypeVar("_Element")

# Between two calls, TensorFlow's threads need less time than this.
_QUIET_SECONDS = 0.1

# Longer than the longest call, which waits for the signature of a table.
_LONGEST_WAIT_SECONDS = 40

_POLL_SECONDS = 0.005


class _Calls:
    """The calls from TensorFlow's threads to Python. Each call is a ``with`` block of this object."""

    def __init__(self) -> None:
        self.are_ending = False
        self._lock = threading.Lock()
        self._active = 0
        self._last_end: float | None = None

    def __enter__(self) -> None:
        with self._lock:
            self._active += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._active -= 1
            self._last_end = time.monotonic()

    def end(self) -> None:
        """Ends all datasets, and waits until TensorFlow's threads no longer call Python."""
        self.are_ending = True
        deadline = time.monotonic() + _LONGEST_WAIT_SECONDS
        while not self._are_over() and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)

    def _are_over(self) -> bool:
        with self._lock:
            if self._active:
                return False
            return self._last_end is None or time.monotonic() - self._last_end > _QUIET_SECONDS


calls = _Calls()
atexit.register(calls.end)


class Elements(Iterator[_Element]):
    """The elements of another iterator until the program ends."""

    def __init__(self, elements: Iterator[_Element]) -> None:
        self._elements = elements

    def __next__(self) -> _Element:
        with calls:
            if calls.are_ending:
                raise StopIteration
            return next(self._elements)
