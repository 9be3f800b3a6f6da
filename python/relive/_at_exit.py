"""Closes servers and stores that are still in use when the process ends normally: a daemon thread of the program can keep
them alive, so that their destructors do not run."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable
from typing import Any

_log = logging.getLogger("relive")

# How to close each object, and its process, because a forked child does not own the objects of its parent.
_open: weakref.WeakKeyDictionary[Any, tuple[int, Callable[[Any], None]]] = weakref.WeakKeyDictionary()


def close_at_exit(thing: Any, close: Callable[[Any], None]) -> None:
    """Makes sure that ``close(thing)`` is called before the process ends, unless the object is gone by then."""
    _open[thing] = (os.getpid(), close)


def close_all() -> None:
    """Closes the objects of this process. Called at exit."""
    for thing, (process, close) in list(_open.items()):
        if process != os.getpid():
            continue
        try:
            close(thing)
        except Exception as error:
            _log.error("%r could not be closed at exit: %s", thing, error)
