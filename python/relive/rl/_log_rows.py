"""The rows of log files that a resumed run removes, because they are newer than its checkpoint."""

from __future__ import annotations

import csv
import json
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple


class Row(NamedTuple):
    """The parts of a row that tell from which run it is. In the rows of one run, in order, neither number of steps ever
    decreases."""

    label: str
    end_bytes: int
    """The position in the file at which the row ends."""
    env_steps: float
    learner_steps: float


def json_rows(path: pathlib.Path) -> Iterator[Row]:
    """Returns the rows of a file of JSON lines; lines that are damaged or have no ``env_steps`` are skipped."""
    for end, line in _lines(path):
        try:
            values = json.loads(line)
        except ValueError:
            continue
        if isinstance(values, dict):
            yield from _row(str(values.get("label")), end, values)


def csv_rows(path: pathlib.Path) -> Iterator[Row]:
    """Returns the rows of a table, labelled with its name. Lines without a number of ``env_steps`` are skipped."""
    columns: list[str] = []
    for end, line in _lines(path):
        try:
            cells = next(csv.reader([line]), [])
        except csv.Error:
            continue
        if "env_steps" in cells:
            columns = cells
        else:
            yield from _row(path.name, end, dict(zip(columns, cells)))


def expect_own(sizes: Mapping[pathlib.Path, int], rows: Callable[[pathlib.Path], Iterator[Row]]) -> None:
    """Checks that the rows beyond these sizes are from the run that had written the rows before. Another run's rows
    begin again with low numbers of steps.

    Raises:
      ValueError: a row has fewer steps than the last row before the sizes, so it is from another run.
    """
    existing = {path: size for path, size in sizes.items() if path.is_file()}
    if all(path.stat().st_size <= size for path, size in existing.items()):
        return
    kept: dict[str, Row] = {}
    later: list[tuple[pathlib.Path, Row]] = []
    for path, size in existing.items():
        for row in rows(path):
            if row.end_bytes <= size:
                kept[row.label] = row
            else:
                later.append((path, row))
    # The last row of a label may be from an earlier run in the same file, if this run had not yet written one. Then,
    # the rows of other labels have the lower numbers.
    env_steps = min((row.env_steps for row in kept.values()), default=0)
    learner_steps = min((row.learner_steps for row in kept.values()), default=0)
    for path, row in later:
        if row.env_steps < env_steps or row.learner_steps < learner_steps:
            raise ValueError(
                f"{path} has rows of another run after those of this run's last checkpoint, which had at least {env_steps:.0f} "
                f"environment steps and {learner_steps:.0f} learner steps: a later row has {row.env_steps:.0f} and "
                f"{row.learner_steps:.0f}. The resumed run would remove these rows, so it has not begun, and nothing was removed. "
                "Give each run files of its own: resume this run with a logger for another file"
            )


def shorten(path: pathlib.Path, size: int | None) -> None:
    """Truncates a file to this size. A shorter file is left unchanged, as is any file if ``size`` is ``None``."""
    if size is not None and path.exists() and path.stat().st_size > size:
        os.truncate(path, size)


def _lines(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    """Returns the lines of a file, each with the position of its end."""
    end = 0
    with path.open("rb") as file:
        for line in file:
            end += len(line)
            yield end, line.decode("utf-8", errors="replace").replace("\0", "")


def _row(label: str, end: int, values: Mapping[str, Any]) -> Iterator[Row]:
    try:
        yield Row(label, end, float(values["env_steps"]), float(values.get("learner_steps") or 0))
    except (KeyError, TypeError, ValueError):
        return
