"""Loggers for the progress of a run: ``relive.rl.run(…, loggers=[loggers.JSONL("runs/log.jsonl")])``.

A run calls ``write(label, values)`` for each episode of an actor (``"actor"``) and of an evaluation (``"evaluator"``),
and for the learner's report every hundred steps (``"learner"``); it calls ``close()`` at the end. Any object with these
two methods is a logger.

A logger that keeps its files consistent with a run's checkpoints has two more methods, like :class:`JSONL` and
:class:`CSV`: ``mark()`` flushes the files and returns their sizes by name, and ``cut_back(sizes)`` truncates the files
to these sizes when a run is resumed. The run then logs the steps after its last checkpoint again. :class:`TensorBoard`
also has these methods, and hides entries that are newer than the checkpoint. Weights & Biases and MLflow cannot remove
entries; see their classes.
"""

from __future__ import annotations

import csv
import json
import math
import os
import pathlib
from collections.abc import Mapping
from typing import Any, Protocol, TextIO


class Logger(Protocol):
    """Receives a run's numbers."""

    def write(self, label: str, values: Mapping[str, float]) -> None:
        """Logs values by name; ``env_steps`` is always among them. ``label`` is their source: ``actor``, ``evaluator``
        or ``learner``."""
        ...

    def close(self) -> None:
        """Called at the end of the run."""
        ...


class JSONL:
    """Appends each entry to a file as a line of JSON; numbers that are not finite become ``null``."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = pathlib.Path(path)
        self._file = _opened(self._path)

    def write(self, label: str, values: Mapping[str, float]) -> None:
        """Writes a line."""
        # JSON does not support NaN.
        finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
        self._file.write(json.dumps({"label": label, **finite}) + "\n")

    def mark(self) -> dict[str, int]:
        """Returns the size of the file."""
        return {self._path.name: _flushed(self._file)}

    def cut_back(self, sizes: Mapping[str, int]) -> None:
        """Truncates the file."""
        _shorten(self._path, sizes.get(self._path.name))

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class CSV:
    """Tables in a folder, one for each label: ``actor.csv``, ``evaluator.csv`` and ``learner.csv``. The first row
    determines the columns."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = pathlib.Path(folder)
        self._files: dict[str, tuple[TextIO, csv.DictWriter[str]]] = {}

    def write(self, label: str, values: Mapping[str, float]) -> None:
        """Writes a row."""
        if label not in self._files:
            self._files[label] = self._begun(label, list(values))
        self._files[label][1].writerow(values)

    def _begun(self, label: str, names: list[str]) -> tuple[TextIO, csv.DictWriter[str]]:
        path = self._folder / f"{label}.csv"
        if path.exists() and path.stat().st_size:
            # The columns of a file that a resumed run continues.
            with path.open(newline="") as begun:
                names = next(csv.reader(begun))
        file = _opened(path)
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        if file.tell() == 0:
            writer.writeheader()
        return file, writer

    def mark(self) -> dict[str, int]:
        """Returns the sizes of the files, including those that do not exist yet."""
        for file, _ in self._files.values():
            _flushed(file)
        paths = [self._folder / f"{label}.csv" for label in ("actor", "evaluator", "learner")]
        return {path.name: path.stat().st_size if path.exists() else 0 for path in paths}

    def cut_back(self, sizes: Mapping[str, int]) -> None:
        """Truncates the files."""
        for name, size in sizes.items():
            _shorten(self._folder / name, size)

    def close(self) -> None:
        """Closes the files."""
        for file, _ in self._files.values():
            file.close()


class TensorBoard:
    """Scalars for TensorBoard, named ``label/name``, with PyTorch's writer. Needs the package ``tensorboard``.

    A resumed run hides its entries for steps after the last checkpoint (``purge_step``), so TensorBoard shows each step
    once.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._folder, self._make = os.fspath(folder), SummaryWriter
        # Created at the first write or when a run is resumed.
        self._writer: Any = None
        self._last = 0

    def _begin(self, purge_step: int | None = None) -> Any:
        if self._writer is None:
            self._writer = self._make(self._folder, purge_step=purge_step)
        return self._writer

    def write(self, label: str, values: Mapping[str, float]) -> None:
        """Writes scalars at the current number of environment steps."""
        step = int(values["env_steps"])
        self._last = max(self._last, step)
        for name, value in values.items():
            self._begin().add_scalar(f"{label}/{name}", value, step)

    def mark(self) -> dict[str, int]:
        """Returns the last step that was logged."""
        self._begin().flush()
        return {"env_steps": self._last}

    def cut_back(self, sizes: Mapping[str, int]) -> None:
        """Hides entries of later steps."""
        if "env_steps" in sizes:
            self._last = sizes["env_steps"]
            self._begin(self._last + 1)

    def close(self) -> None:
        """Closes the writer."""
        if self._writer is not None:
            self._writer.close()


class WandB:
    """A run of Weights & Biases, with the arguments of ``wandb.init``. Needs the package ``wandb``.

    With ``id="…", resume="allow"``, a resumed run continues the same run on the service. It logs the steps after its
    last checkpoint again. Both entries remain, since the service cannot remove entries. ``label/env_steps`` identifies
    duplicates; use it as the x-axis.
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
        """Logs the numbers as ``label/name`` at the current number of environment steps."""
        self._mlflow.log_metrics({f"{label}/{name}": value for name, value in values.items()}, step=int(values["env_steps"]))

    def close(self) -> None:
        """Leaves the run open for its owner."""


def _opened(path: pathlib.Path) -> TextIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("a", newline="", encoding="utf-8")


def _flushed(file: TextIO) -> int:
    """Returns the size of a file after a sync to disk."""
    file.flush()
    os.fsync(file.fileno())
    return os.fstat(file.fileno()).st_size


def _shorten(path: pathlib.Path, size: int | None) -> None:
    """Truncates a file to this size. A shorter file is left unchanged, as is any file if ``size`` is ``None``."""
    if size is not None and path.exists() and path.stat().st_size > size:
        os.truncate(path, size)
