"""Where a run tells how it goes: ``relive.rl.run(…, loggers=[loggers.JSONL("runs/log.jsonl")])``.

A logger gets ``write(label, values)`` with each episode of an actor (``"actor"``) and of an evaluation (``"evaluator"``), and with what the
learner tells every hundred steps (``"learner"``); ``close()`` at the end. Any object with these two methods is one.

A logger whose files go with the checkpoints of a run has two more methods, as :class:`JSONL` and :class:`CSV` have: ``mark()`` flushes its files and gives the bytes of
each by its name, and ``cut_back(sizes)`` cuts them back to these when a run is resumed, which then tells again what came after its last checkpoint.
:class:`TensorBoard` has them, too: it hides what was told after the checkpoint. The services of Weights & Biases and MLflow take nothing back: see there.
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
    """What gets the numbers of a run."""

    def write(self, label: str, values: Mapping[str, float]) -> None:
        """Numbers by name; ``env_steps`` is always among them. ``label`` says whose they are: ``actor``, ``evaluator`` or ``learner``."""
        ...

    def close(self) -> None:
        """The run has ended."""
        ...


class JSONL:
    """A line of JSON for each, in a file that is appended to; ``null`` for numbers that are not finite."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = pathlib.Path(path)
        self._file = _opened(self._path)

    def write(self, label: str, values: Mapping[str, float]) -> None:
        """Writes a line."""
        # JSON has no NaN.
        finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
        self._file.write(json.dumps({"label": label, **finite}) + "\n")

    def mark(self) -> dict[str, int]:
        """The bytes of the file."""
        return {self._path.name: _flushed(self._file)}

    def cut_back(self, sizes: Mapping[str, int]) -> None:
        """Cuts the file back."""
        _shorten(self._path, sizes.get(self._path.name))

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class CSV:
    """Tables in a folder, one for each label: ``actor.csv``, ``evaluator.csv`` and ``learner.csv``. The columns are those of the first row."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = pathlib.Path(folder)
        self._files: dict[str, tuple[TextIO, csv.DictWriter[str]]] = {}

    def write(self, label: str, values: Mapping[str, float]) -> None:
        """Writes a row."""
        if label not in self._files:
            self._files[label] = self._begun(label, list(values))
        self._files[label][1].writerow(values)

    def _begun(self, label: str, names: list[str]) -> tuple[TextIO, csv.DictWriter[str]]:
        file = _opened(self._folder / f"{label}.csv")
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        if file.tell() == 0:
            writer.writeheader()
        return file, writer

    def mark(self) -> dict[str, int]:
        """The bytes of the files, also of those that are not there yet."""
        for file, _ in self._files.values():
            _flushed(file)
        paths = [self._folder / f"{label}.csv" for label in ("actor", "evaluator", "learner")]
        return {path.name: path.stat().st_size if path.exists() else 0 for path in paths}

    def cut_back(self, sizes: Mapping[str, int]) -> None:
        """Cuts the files back."""
        for name, size in sizes.items():
            _shorten(self._folder / name, size)

    def close(self) -> None:
        """Closes the files."""
        for file, _ in self._files.values():
            file.close()


class TensorBoard:
    """Scalars for TensorBoard, named ``label/name``, by PyTorch's writer. Needs the package ``tensorboard``.

    A run that is resumed hides what it has told of later steps than those of its last checkpoint (``purge_step``): TensorBoard shows each once.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._folder, self._make = os.fspath(folder), SummaryWriter
        # Begins with what is written first, or where a run is resumed.
        self._writer: Any = None
        self._last = 0

    def _begin(self, purge_step: int | None = None) -> Any:
        if self._writer is None:
            self._writer = self._make(self._folder, purge_step=purge_step)
        return self._writer

    def write(self, label: str, values: Mapping[str, float]) -> None:
        """Writes scalars at the number of steps in the environment."""
        step = int(values["env_steps"])
        self._last = max(self._last, step)
        for name, value in values.items():
            self._begin().add_scalar(f"{label}/{name}", value, step)

    def mark(self) -> dict[str, int]:
        """The last step that was told of."""
        self._begin().flush()
        return {"env_steps": self._last}

    def cut_back(self, sizes: Mapping[str, int]) -> None:
        """Hides later steps than that."""
        if "env_steps" in sizes:
            self._last = sizes["env_steps"]
            self._begin(self._last + 1)

    def close(self) -> None:
        """Closes the writer."""
        if self._writer is not None:
            self._writer.close()


class WandB:
    """A run of Weights & Biases, with the arguments of ``wandb.init``. Needs the package ``wandb``.

    With ``id="…", resume="allow"`` a run that is resumed goes on in the same run there. What it had told after its last checkpoint it tells again, and both stay: the service
    takes nothing back. ``label/env_steps`` says which belong together; take it as the x-axis.
    """

    def __init__(self, **arguments: Any) -> None:
        import wandb

        self._run = wandb.init(**arguments)

    def write(self, label: str, values: Mapping[str, float]) -> None:
        """Logs the numbers as ``label/name``."""
        self._run.log({f"{label}/{name}": value for name, value in values.items()})

    def close(self) -> None:
        """Ends the run."""
        self._run.finish()


class MLflow:
    """The active run of MLflow, or a new one. Needs the package ``mlflow``.

    A program that resumes a run begins with ``mlflow.start_run(run_id="…")`` to go on in the same run there. What it had told after its last checkpoint it tells again at the
    same steps, and both stay: MLflow takes nothing back.
    """

    def __init__(self) -> None:
        import mlflow

        self._mlflow = mlflow

    def write(self, label: str, values: Mapping[str, float]) -> None:
        """Logs the numbers as ``label/name`` at the number of steps in the environment."""
        self._mlflow.log_metrics({f"{label}/{name}": value for name, value in values.items()}, step=int(values["env_steps"]))

    def close(self) -> None:
        """Leaves the run to who began it."""


def _opened(path: pathlib.Path) -> TextIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("a", newline="", encoding="utf-8")


def _flushed(file: TextIO) -> int:
    """The bytes of a file, which are safe on disk."""
    file.flush()
    os.fsync(file.fileno())
    return os.fstat(file.fileno()).st_size


def _shorten(path: pathlib.Path, size: int | None) -> None:
    """Makes a file as short as that; one that is shorter already stays as it is, and so does one that nothing is known of."""
    if size is not None and path.exists() and path.stat().st_size > size:
        os.truncate(path, size)
