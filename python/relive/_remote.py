"""Exceptions from other processes."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
import time
import traceback

# The interval at which a process checks that its parent is alive.
_LOOK_SECONDS = 1.0

RemoteError = tuple[Exception, str]
"""An exception, and its traceback as text."""


class RemoteTraceback(Exception):
    """The location of an error in another process; it is the cause of the exception that this process raises."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n\n{self.text}"


def describe_error(error: BaseException) -> RemoteError:
    """Prepares an exception for another process. If the exception cannot be sent, or would end the other process, the
    result is a RuntimeError with the exception's text."""
    text = "".join(traceback.format_exception(error))
    if not isinstance(error, Exception):
        return RuntimeError(f"{type(error).__name__}: {error}"), text
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}"), text
    return error, text


def raised(of: RemoteError, where: str) -> Exception:
    """Returns the exception to raise in this process, with its original location as the cause."""
    error, text = of
    error.__cause__ = RemoteTraceback(f"{where}:\n{text}")
    return error


def end_with_parent() -> None:
    """Ends this process when its parent has exited, even while this process is busy."""
    # The parent of a process that multiprocessing started may have exited before this call.
    started_by = multiprocessing.parent_process()
    parent = os.getppid() if started_by is None else started_by.pid

    def watch_parent() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_SECONDS)
        os._exit(0)

    threading.Thread(target=watch_parent, name="relive parent", daemon=True).start()
