"""Checkpointers: where a server writes its state, and reads it from when it starts."""

from __future__ import annotations

import abc
import dataclasses
import os


@dataclasses.dataclass(frozen=True, repr=False)
class Checkpointer:
    """Where checkpoints are, as the server is told."""

    path: str
    """The folder in which every checkpoint is a folder of its own."""
    group: str = ""
    """A name that dm-reverb's interface has and no checkpointer supports."""
    fallback_checkpoint_path: str | None = None
    """One checkpoint, read when ``path`` has none."""

    def __repr__(self) -> str:
        return f"TFRecordCheckpointer(root_dir={self.path}, group={self.group})"


class CheckpointerBase(abc.ABC):
    """Base class of the checkpointers."""

    @abc.abstractmethod
    def internal_checkpointer(self) -> Checkpointer:
        """What the server is told."""


class DefaultCheckpointer(CheckpointerBase):
    """Checkpoints in a folder.

    Args:
      path: the folder; made with the first checkpoint if it does not exist. The newest complete checkpoint in it is
        loaded when a server starts.
      group: must stay empty.
      fallback_checkpoint_path: a checkpoint that is loaded when ``path`` has none.

    Raises:
      TypeError: a path that is no path.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        group: str = "",
        fallback_checkpoint_path: str | os.PathLike[str] | None = None,
    ) -> None:
        self.path = os.fspath(path)
        self.group = group
        self.fallback_checkpoint_path = (
            None if fallback_checkpoint_path is None else os.fspath(fallback_checkpoint_path)
        )

    def internal_checkpointer(self) -> Checkpointer:
        """What the server is told."""
        return Checkpointer(self.path, self.group, self.fallback_checkpoint_path)


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
