"""Exceptions of other processes."""

from __future__ import annotations

import pickle
import traceback

Told = tuple[Exception, str]
"""An exception, and its traceback as text."""


class RemoteTraceback(Exception):
    """Where another process has failed: the cause of what it has raised."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n\n{self.text}"


def told(error: Exception) -> Told:
    """The exception on its way to another process; a RuntimeError with its text where it cannot go there."""
    text = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}"), text
    return error, text


def raised(of: Told, where: str) -> Exception:
    """The exception as it is raised here, with where it comes from as its cause."""
    error, text = of
    error.__cause__ = RemoteTraceback(f"{where}:\n{text}")
    return error
