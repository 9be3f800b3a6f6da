"""Loggers for the progress of a run: ``relive.rl.run(…, loggers=[loggers.JSONL("runs/log.jsonl")])``.

A run calls ``write(label, values)`` for each episode of an actor (``"actor"``) and of an evaluation (``"evaluator"``),
and for the learner's report every hundred steps (``"learner"``); it calls ``close()`` at the end. Any object with these
two methods is a logger.

Each run needs files of its own, and its own logger, because its loggers are closed at its end. A run that is resumed
appends to its earlier files, with a new logger for the same path.

:class:`JSONL` and :class:`CSV` flush their files when they write, but at most once per second.

A logger that keeps its files consistent with a run's checkpoints has two more methods, like :class:`JSONL` and
:class:`CSV`: ``mark()`` flushes the files and returns their sizes by name, and ``truncate(sizes)`` truncates the files
to these sizes when a run is resumed. The run then logs the steps after its last checkpoint again. If a logger also has
``expect_own_rows(sizes)``, this is called before any logger truncates its files: :class:`JSONL` and :class:`CSV` raise
``ValueError`` if rows of another run would be removed. :class:`TensorBoard` also has ``mark`` and ``truncate``, and
hides entries that are newer than the checkpoint. Weights & Biases and MLflow cannot remove entries; see their classes.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import logging
import math
import os
import pathlib
import re
import time
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from relive.rl._log_rows import csv_rows, expect_own, json_rows, shorten
from relive.rl._paths import absolute

_log = logging.getLogger("relive")


@runtime_checkable
class Logger(Protocol):
    """Receives a run's numbers."""

    def write(self, label: str, values: Mapping[str, float]) -> None:
        """Logs values by name; ``env_steps`` and ``learner_steps`` are always among them. ``label`` is their source:
        ``actor``, ``evaluator`` or ``learner``."""
        ...

    def close(self) -> None:
        """Called at the end of the run."""
        ...


class JSONL:
    """Appends each entry to a file as a line of JSON; numbers that are not finite become ``null``. Each run needs a
    file of its own."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = pathlib.Path(absolute(path))
        self._file = _File(self._path)

    def write(self, label: str, values: Mapping[str, float]) -> None:
        """Writes a line."""
        # JSON does not support NaN.
        finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
        self._file.write(json.dumps({"label": label, **finite}) + "\n")
        self._file.flush_now_and_then()

    def mark(self) -> dict[str, int]:
        """Returns the size of the file."""
        return {self._path.name: self._file.synced()}

    def expect_own_rows(self, sizes: Mapping[str, int]) -> None:
        """Checks that :meth:`truncate` removes only rows of the run that is resumed.

        Raises:
          ValueError: it would remove rows of another run; or the logger is closed.
        """
        self._file.expect_open()
        if self._path.name in sizes:
            expect_own({self._path: sizes[self._path.name]}, json_rows)

    def truncate(self, sizes: Mapping[str, int]) -> None:
        """Truncates the file."""
        shorten(self._path, sizes.get(self._path.name))

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


@dataclasses.dataclass
class _Table:
    """A file of rows, and the names of its columns."""

    file: _File
    columns: list[str]
    # Names without a column, about which the user has been warned.
    left_out: set[str] = dataclasses.field(default_factory=set)


class CSV:
    """Tables in a folder, one for each label: ``actor.csv``, ``evaluator.csv`` and ``learner.csv``.

    Each run needs a folder of its own. The first row of a table determines its columns. Rows are appended to tables
    that exist. Values without a column are not written, and the logger ``relive`` warns about each name once. If a file has
    rows but no header, because another program has removed its beginning, the next run appends a header for its own
    rows, with a warning.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = pathlib.Path(absolute(folder))
        self._tables: dict[str, _Table] = {}
        self._is_closed = False

    def write(self, label: str, values: Mapping[str, float]) -> None:
        """Writes a row."""
        if self._is_closed:
            raise _closed(self._folder)
        if label not in self._tables:
            self._tables[label] = self._begun(label, list(values))
        table = self._tables[label]
        csv.writer(table.file).writerow([values.get(name, "") for name in table.columns])
        table.file.flush_now_and_then()
        unknown = values.keys() - table.columns - table.left_out
        if unknown:
            table.left_out |= unknown
            _log.warning("%s has no columns %s, so their values are not logged: its first row determined the columns; to log them, use "
                         "another folder", table.file.path, sorted(unknown))

    def _begun(self, label: str, names: list[str]) -> _Table:
        file = _File(self._folder / f"{label}.csv")
        header = _header_of(file.path)
        if header is None:
            csv.writer(file).writerow(names)
        return _Table(file, names if header is None else header)

    def mark(self) -> dict[str, int]:
        """Returns the sizes of the files, including those that do not exist yet."""
        for table in self._tables.values():
            table.file.synced()
        paths = [self._folder / f"{label}.csv" for label in ("actor", "evaluator", "learner")]
        return {path.name: path.stat().st_size if path.exists() else 0 for path in paths}

    def expect_own_rows(self, sizes: Mapping[str, int]) -> None:
        """Checks that :meth:`truncate` removes only rows of the run that is resumed.

        Raises:
          ValueError: it would remove rows of another run; or the logger is closed.
        """
        if self._is_closed:
            raise _closed(self._folder)
        expect_own({self._folder / name: size for name, size in sizes.items()}, csv_rows)

    def truncate(self, sizes: Mapping[str, int]) -> None:
        """Truncates the files."""
        for name, size in sizes.items():
            shorten(self._folder / name, size)

    def close(self) -> None:
        """Closes the files."""
        self._is_closed = True
        for table in self._tables.values():
            table.file.close()


class TensorBoard:
    """Scalars for TensorBoard, named ``label/name``, with PyTorch's writer. Needs the package ``tensorboard``.

    A resumed run hides its entries for steps after the last checkpoint (``purge_step``), so TensorBoard shows each step
    once.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._folder, self._make = absolute(folder), SummaryWriter
        # Created at the first write or when a run is resumed.
        self._writer: Any = None
        self._is_closed = False
        self._last = 0
        self._has_acted = False

    def _begin(self, purge_step: int | None = None) -> Any:
        # PyTorch's writer would begin another file.
        if self._is_closed:
            raise _closed(self._folder)
        if self._writer is None:
            self._writer = self._make(self._folder, purge_step=purge_step)
        return self._writer

    def write(self, label: str, values: Mapping[str, float]) -> None:
        """Writes scalars at the current number of environment steps or, in a run that learns from data, of learner steps."""
        step = _position(values)
        if values["env_steps"] and not self._has_acted:
            # Until now, steps were those of the learner.
            self._has_acted, self._last = True, 0
        self._last = max(self._last, step)
        for name, value in values.items():
            self._begin().add_scalar(f"{label}/{name}", value, step)

    def mark(self) -> dict[str, int]:
        """Returns the last step that was logged."""
        self._begin().flush()
        return {"step": self._last}

    def truncate(self, sizes: Mapping[str, int]) -> None:
        """Hides entries of later steps."""
        # Earlier versions wrote the number of environment steps.
        last = sizes.get("step", sizes.get("env_steps"))
        if last is not None:
            self._last = last
            self._begin(last + 1)

    def close(self) -> None:
        """Closes the writer."""
        self._is_closed = True
        if self._writer is not None:
            self._writer.close()


class WandB:
    """A run of Weights & Biases, with the arguments of ``wandb.init``. Needs the package ``wandb``.

    With ``id="…", resume="allow"``, a resumed run continues the same run on the service. It logs the steps after its
    last checkpoint again. Both entries remain, since the service cannot remove entries. ``label/env_steps`` or, in a run
    that learns from data, ``label/learner_steps`` identifies duplicates; use it as the x-axis.
    """

    def __init__(self, **arguments: Any) -> None:
        import wandb

        self._run = wandb.init(**arguments)

    def write(self, label: str, values: Mapping[str, float]) -> None:
        """Logs the numbers as ``label/name``."""
        self._run.log({f"{label}/{name}": value for name, value in values.items()})

    def close(self) -> None:
        """Finishes the run."""
        self._run.finish()


class MLflow:
    """The active run of MLflow, or a new one. Needs the package ``mlflow``.

    To continue the same MLflow run, call ``mlflow.start_run(run_id="…")`` before you resume the run. The resumed run
    logs the steps after its last checkpoint again. Both entries remain, since MLflow cannot remove entries.
    """

    def __init__(self) -> None:
        import mlflow

        self._mlflow = mlflow

    def write(self, label: str, values: Mapping[str, float]) -> None:
        """Logs the numbers as ``label/name`` at the current number of environment steps or, in a run that learns from data, of
        learner steps. Characters that MLflow refuses in names become ``_``."""
        metrics = {re.sub(r"[^\w\-. :/]", "_", f"{label}/{name}"): value for name, value in values.items()}
        self._mlflow.log_metrics(metrics, step=_position(values))

    def close(self) -> None:
        """Leaves the run open for its owner."""


def _closed(path: str | os.PathLike[str]) -> ValueError:
    return ValueError(f"the logger for {os.fspath(path)} was closed at the end of its run; each run needs a logger of its own, so make a new one")


def _position(values: Mapping[str, float]) -> int:
    """Returns the position of an entry in its run: environment steps, or learner steps if the run has not acted."""
    return int(values["env_steps"] or values.get("learner_steps", 0))


def _header_of(path: pathlib.Path) -> list[str] | None:
    """Returns the columns of the next row of a table, or ``None`` if the next line must be a header."""
    if not path.is_file() or not path.stat().st_size:
        return None
    with path.open(newline="", encoding="utf-8", errors="replace") as file:
        rows = csv.reader(line.replace("\0", "") for line in file)
        first = next(rows, [])
        if _is_header(first):
            return first if _is_header_complete(path) else None
        # An earlier run may have appended a header.
        header = None
        for row in rows:
            header = row if _is_header(row) else header
    if header is None:
        _log.warning("%s does not begin with a header: its beginning was removed, for example by logrotate's copytruncate; a new header "
                     "is appended for the rows that follow", path)
    return header


def _is_header(row: list[str]) -> bool:
    """Returns whether a row consists of names. Every other row has a number in at least one cell, or only empty cells."""
    return "env_steps" in row or (bool(row) and not any(cell == "" or _is_number(cell) for cell in row))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _is_header_complete(path: pathlib.Path) -> bool:
    """Returns whether the first line of a table, its header, is complete; otherwise empties the file."""
    with path.open("rb") as file:
        if file.readline().endswith(b"\n"):
            return True
    _log.warning("%s contained only a part of a header, because the disk was full or a run was killed; the file begins again", path)
    os.truncate(path, 0)
    return False


class _File:
    """A text file to which a logger appends."""

    def __init__(self, path: pathlib.Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file = path.open("a", newline="", encoding="utf-8")
        self._flushed_s = -math.inf
        self._has_written = False

    def expect_open(self) -> None:
        if self._file.closed:
            raise _closed(self.path)

    def write(self, text: str) -> None:
        self.expect_open()
        if not self._has_written:
            # Only now, because a resumed run may have truncated the file before.
            self._end_line()
            self._has_written = True
        self._file.write(text)

    def _end_line(self) -> None:
        """Ends the file's last line if it is incomplete, because it would otherwise continue with the next entry."""
        if not self.path.is_file() or not self.path.stat().st_size:
            return
        with self.path.open("rb") as existing:
            existing.seek(-1, os.SEEK_END)
            is_complete = existing.read() == b"\n"
        if not is_complete:
            _log.warning("the last line of %s is incomplete, because the disk was full or a run was killed; new lines are appended after "
                         "it", self.path)
            self._file.write("\n")

    def flush_now_and_then(self) -> None:
        """Flushes the file, unless it was flushed within the last second."""
        now_s = time.monotonic()
        if now_s - self._flushed_s >= 1.0:
            self._file.flush()
            self._flushed_s = now_s

    def synced(self) -> int:
        """Returns the size of the file after a sync to disk."""
        self.expect_open()
        self._file.flush()
        os.fsync(self._file.fileno())
        return os.fstat(self._file.fileno()).st_size

    def close(self) -> None:
        self._file.close()
