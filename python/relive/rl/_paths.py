"""Paths of a run's files."""

from __future__ import annotations

import os
import pathlib


def absolute(path: str | os.PathLike[str]) -> str:
    """Returns a path that stays the same if the process, such as an environment, changes its working directory. URLs are
    returned unchanged."""
    given = os.fspath(path)
    return given if "://" in given else str(pathlib.Path(given).absolute())
