"""Checkpointers: where a server writes its state, and reads it from when it starts."""

from __future__ import annotations

import abc
import dataclasses
import datetime
import os

_FORMATS = ("relive", "reverb")
_CONFIGS = ("checkpoint", "code")


@dataclasses.dataclass(frozen=True, repr=False)
class Checkpointer:
    """Where checkpoints are, as the server is told."""

    path: str
    """The folder or bucket of the checkpoints."""
    group: str = ""
    """A name that dm-reverb's interface has and no checkpointer supports."""
    fallback_checkpoint_path: str | None = None
    """One checkpoint, read when ``path`` has none."""
    format: str = "relive"
    """The format in which checkpoints are written."""
    keep: int = 3
    """How many are kept."""
    every_s: float | None = None
    """Seconds from one to the next that nobody asks for."""
    at_shutdown: bool = False
    """Whether one is written when the server stops."""
    config: str = "checkpoint"
    """Whose rules restored tables have."""
    salvage: bool = False
    """Whether a damaged checkpoint is loaded as far as it is whole."""

    def __repr__(self) -> str:
        return f"TFRecordCheckpointer(root_dir={self.path}, group={self.group})"


class CheckpointerBase(abc.ABC):
    """Base class of the checkpointers."""

    @abc.abstractmethod
    def internal_checkpointer(self) -> Checkpointer:
        """What the server is told."""


class DefaultCheckpointer(CheckpointerBase):
    """Checkpoints in a folder or a bucket.

    A server that is given one loads the newest checkpoint there, whatever its format, and writes new ones when a client asks
    (:meth:`relive.Client.checkpoint`), by the clock, and when it stops. One server at a time writes to a folder.

    Args:
      path: the folder, made if it does not exist, or the URL of a bucket (``s3://bucket/run``, ``gs://…``, ``az://…``). The path of
        one checkpoint loads that one instead of the newest.
      group: must stay empty.
      fallback_checkpoint_path: a checkpoint of either format, or a folder of them, that is loaded when ``path`` has none.
      format: in which format checkpoints are written: ``"relive"``, in which successive checkpoints share their data, or
        ``"reverb"``, which dm-reverb's servers read.
      keep: how many checkpoints to keep, at least 1.
      every: write a checkpoint every so often: seconds, at least 1, or a ``datetime.timedelta``.
      at_shutdown: write a checkpoint when the server is stopped.
      config: whose rules restored tables have: those of the ``"checkpoint"``, as with dm-reverb, or those of the ``"code"``. Where they
        differ, the log says how.
      salvage: load what is whole of a damaged checkpoint, and log what is lost, instead of refusing it.

    Raises:
      TypeError: a path that is no path.
      ValueError: an option that has no such value.

    Example:
      >>> import relive, tempfile
      >>> path = tempfile.mkdtemp()
      >>> def serve():
      ...     table = relive.Table.queue("steps", 10)
      ...     return relive.Server([table], checkpointer=relive.checkpointers.DefaultCheckpointer(path, keep=2))
      >>> with serve() as server:
      ...     server.localhost_client().insert([1.0], {"steps": 1.0})
      ...     saved = server.localhost_client().checkpoint()
      >>> with serve() as server:
      ...     server.localhost_client().server_info()["steps"].current_size
      1
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        group: str = "",
        fallback_checkpoint_path: str | os.PathLike[str] | None = None,
        *,
        format: str = "relive",
        keep: int = 3,
        every: float | datetime.timedelta | None = None,
        at_shutdown: bool = False,
        config: str = "checkpoint",
        salvage: bool = False,
    ) -> None:
        self.path = os.fspath(path)
        self.group = group
        self.fallback_checkpoint_path = (
            None if fallback_checkpoint_path is None else os.fspath(fallback_checkpoint_path)
        )
        self.format = _one_of("format", format, _FORMATS)
        self.keep = _keep(keep)
        self.every_s = _seconds(every)
        self.at_shutdown = bool(at_shutdown)
        self.config = _one_of("config", config, _CONFIGS)
        self.salvage = bool(salvage)

    def internal_checkpointer(self) -> Checkpointer:
        """What the server is told."""
        return Checkpointer(
            self.path,
            self.group,
            self.fallback_checkpoint_path,
            self.format,
            self.keep,
            self.every_s,
            self.at_shutdown,
            self.config,
            self.salvage,
        )


class TempDirCheckpointer(DefaultCheckpointer):
    """Checkpoints in a new temporary folder, which stays when the program ends."""

    def __init__(self) -> None:
        # Takes longer to import than the rest of the package, and most programs do not need it.
        import tempfile

        super().__init__(tempfile.mkdtemp())


def default_checkpointer(group: str | None = None) -> CheckpointerBase:
    """What a server uses when it is given none: a ``TempDirCheckpointer``. The group is not used."""
    del group
    return TempDirCheckpointer()


def _one_of(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise ValueError(f"{name} must be one of {known}, not {value!r}")
    return value


def _keep(keep: int) -> int:
    if isinstance(keep, bool) or not hasattr(keep, "__index__"):
        raise TypeError(f"keep must be an int, not {keep!r}")
    if keep < 1:
        raise ValueError(f"keep ({keep}) must be at least 1: the newest checkpoint always stays")
    return keep.__index__()


def _seconds(every: float | datetime.timedelta | None) -> float | None:
    if every is None:
        return None
    if isinstance(every, datetime.timedelta):
        every = every.total_seconds()
    if isinstance(every, bool) or not isinstance(every, (int, float)):
        raise TypeError(f"every must be seconds or a datetime.timedelta, not {every!r}")
    if not 1 <= every <= 604_800:
        raise ValueError(f"every ({every} s) must be from a second to a week")
    return float(every)
