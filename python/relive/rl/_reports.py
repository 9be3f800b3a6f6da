"""What a run tells, on its way to loggers, and the files that these write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from relive.rl.loggers import Logger


class Reports:
    """Calls all loggers. With a checkpoint goes how far their files went, and a run that is resumed cuts them back to there."""

    def __init__(self, loggers: list[Logger]) -> None:
        self._loggers = loggers

    def __call__(self, label: str, values: dict[str, float]) -> None:
        """Passes on what was told."""
        for logger in self._loggers:
            logger.write(label, values)

    def mark(self) -> dict[str, int]:
        """Bytes of all files, by place and name."""
        return {f"{place}/{name}": size for place, logger in self._with_files() for name, size in logger.mark().items()}

    def cut_back(self, sizes: Mapping[str, int]) -> None:
        """Cuts files back to what :meth:`mark` gave."""
        for place, logger in self._with_files():
            begin = f"{place}/"
            logger.cut_back({name.removeprefix(begin): size for name, size in sizes.items() if name.startswith(begin)})

    def _with_files(self) -> Iterator[tuple[str, Any]]:
        """Loggers whose files can be cut back, by their class and their number in it."""
        numbers: dict[str, int] = {}
        for logger in self._loggers:
            if hasattr(logger, "mark") and hasattr(logger, "cut_back"):
                name = type(logger).__name__
                numbers[name] = numbers.get(name, -1) + 1
                yield f"{name}{numbers[name]}", logger
