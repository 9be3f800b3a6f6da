"""Passes the reports of a run to loggers, and manages the loggers' files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from relive.rl.loggers import Logger


class Reports:
    """Calls all loggers. A checkpoint contains the sizes of their files, and a resumed run truncates the files to these
    sizes."""

    def __init__(self, loggers: list[Logger]) -> None:
        self._loggers = loggers

    def __call__(self, label: str, values: dict[str, float]) -> None:
        """Passes on a report."""
        for logger in self._loggers:
            logger.write(label, values)

    def mark(self) -> dict[str, int]:
        """Returns the sizes of all files, by position and name."""
        return {f"{place}/{name}": size for place, logger in self._with_files() for name, size in logger.mark().items()}

    def truncate(self, sizes: Mapping[str, int]) -> None:
        """Truncates files to the sizes from :meth:`mark`, after a check that no file loses rows of another run.

        Raises:
          ValueError: a file has rows of another run; no file is changed.
        """
        found = []
        for place, logger in self._with_files():
            begin = f"{place}/"
            found.append((logger, {name.removeprefix(begin): size for name, size in sizes.items() if name.startswith(begin)}))
        for logger, own in found:
            if hasattr(logger, "expect_own_rows"):
                logger.expect_own_rows(own)
        for logger, own in found:
            logger.truncate(own)

    def _with_files(self) -> Iterator[tuple[str, Any]]:
        """Returns the loggers with files that can be truncated, by class and index."""
        numbers: dict[str, int] = {}
        for logger in self._loggers:
            if hasattr(logger, "mark"):
                name = type(logger).__name__
                numbers[name] = numbers.get(name, -1) + 1
                yield f"{name}{numbers[name]}", logger
