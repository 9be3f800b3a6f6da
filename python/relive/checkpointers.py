"""Checkpointers determine where a server writes its checkpoints, and which checkpoint it loads when it starts."""

from __future__ import annotations

import abc
import dataclasses
import datetime
import os

from relive._numbers import count, flag, string, whole

_FORMATS = ("relive", "reverb")
_CONFIGS = ("checkpoint", "code")


@dataclasses.dataclass(frozen=True, repr=False)
class Checkpointer:
    """The checkpoint options, as passed to the server."""

    path: str
    """The folder or bucket of the checkpoints."""
    group: str = ""
    """Part of dm-reverb's interface; no checkpointer supports it."""
    fallback_checkpoint_path: str | None = None
    """A checkpoint that is loaded if ``path`` has none."""
    format: str = "relive"
    """The format in which checkpoints are written."""
    keep: int = 3
    """The number of checkpoints to keep."""
    every_s: float | None = None
    """Seconds between automatic checkpoints."""
    at_shutdown: bool = False
    """Whether the server writes a checkpoint when it stops."""
    config: str = "checkpoint"
    """Whether restored tables take their rules from the checkpoint or from the code."""
    salvage: bool = False
    """Whether the intact part of a damaged checkpoint is loaded."""

    def __repr__(self) -> str:
        return f"TFRecordCheckpointer(root_dir={self.path}, group={self.group})"


class CheckpointerBase(abc.ABC):
    """Base class of the checkpointers."""

    @abc.abstractmethod
    def internal_checkpointer(self) -> Checkpointer:
        """Returns the options, as passed to the server."""


class DefaultCheckpointer(CheckpointerBase):
    """Checkpoints in a folder or a bucket.

    The server loads the newest checkpoint there, in either format. It writes a new checkpoint when a client requests
    one (:meth:`relive.Client.checkpoint`), at the interval ``every``, and with ``at_shutdown`` when it stops. Only one
    server at a time may write to a folder.

    Args:
      path: the folder, which is created if it does not exist, or the URL of a bucket (``s3://bucket/run``, ``gs://…``,
        ``az://…``). The path of a single checkpoint loads that checkpoint instead of the newest.
      group: must stay empty.
      fallback_checkpoint_path: a checkpoint of either format, or a folder of checkpoints, that is loaded if ``path``
          has no checkpoint.
      format: the format of new checkpoints: ``"relive"``, in which successive checkpoints share their data, or
        ``"reverb"``, which dm-reverb's servers can read.
      keep: the number of checkpoints to keep, at least 1.
      every: the interval between automatic checkpoints, in seconds (at least 1) or as a ``datetime.timedelta``.
      at_shutdown: whether to write a checkpoint when the server stops.
      config: the source of the rules for restored tables: ``"checkpoint"``, as with dm-reverb, or ``"code"``. The log
        lists the differences.
      salvage: whether to load the intact part of a damaged checkpoint and log the losses, instead of refusing the
        checkpoint.

    Raises:
      TypeError: an argument of the wrong type.
      ValueError: an option with an invalid value.

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
        self.path = _path("path", path)
        self.group = string("group", group)
        self.fallback_checkpoint_path = (
            None if fallback_checkpoint_path is None else _path("fallback_checkpoint_path", fallback_checkpoint_path)
        )
        self.format = _one_of("format", format, _FORMATS)
        self.keep = _keep(keep)
        self.every_s = _seconds(every)
        self.at_shutdown = flag("at_shutdown", at_shutdown)
        self.config = _one_of("config", config, _CONFIGS)
        self.salvage = flag("salvage", salvage)

    def internal_checkpointer(self) -> Checkpointer:
        """Returns the options, as passed to the server."""
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
    """Checkpoints in a new temporary folder, which is kept when the program ends."""

    def __init__(self) -> None:
        # Importing this module takes longer than importing the rest of the package, and most programs do not need it.
        import tempfile

        super().__init__(tempfile.mkdtemp())


def default_checkpointer(group: str | None = None) -> CheckpointerBase:
    """Returns the default checkpointer of a server: a ``TempDirCheckpointer``. The group is ignored."""
    del group
    return TempDirCheckpointer()


def _path(name: str, given: str | os.PathLike[str]) -> str:
    path = os.fspath(given) if isinstance(given, (str, os.PathLike)) else None
    if not isinstance(path, str):
        raise TypeError(f"{name} is {given!r}, but it must be the path of a folder, or the URL of a bucket")
    if not path:
        raise ValueError(f"{name} is '', but it must be the path of a folder; '.' is the current folder")
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} is {path!r}, which UTF-8 cannot encode: {error.reason}") from None
    return path


def _one_of(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise ValueError(f"{name} must be one of {known}, not {value!r}")
    return value


def _keep(keep: int) -> int:
    number = whole("keep", keep)
    if number < 1:
        raise ValueError(f"keep ({number}) must be at least 1: the newest checkpoint is always kept")
    return count("keep", number, 1)


def _seconds(every: float | datetime.timedelta | None) -> float | None:
    if every is None:
        return None
    if isinstance(every, datetime.timedelta):
        every = every.total_seconds()
    if isinstance(every, bool) or not isinstance(every, (int, float)):
        raise TypeError(f"every must be seconds or a datetime.timedelta, not {every!r}")
    if not 1 <= every <= 604_800:
        raise ValueError(f"every ({every} s) must be from one second to one week")
    return float(every)
