"""Checkpointers that write dm-reverb's format and keep one checkpoint, like dm-reverb's: programs read these files, and
so do dm-reverb's servers. The checkpointers read both formats."""

import os

from relive import checkpointers as _relive
from relive.checkpointers import CheckpointerBase as CheckpointerBase

from reverb import _borrowed


class DefaultCheckpointer(_relive.DefaultCheckpointer):
    """Checkpoints in a folder."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        group: str = "",
        fallback_checkpoint_path: str | os.PathLike[str] | None = None,
    ) -> None:
        # dm-reverb treats an empty path as no path.
        super().__init__(path, group, fallback_checkpoint_path or None, format="reverb", keep=1)


class TempDirCheckpointer(DefaultCheckpointer):
    """Checkpoints in a new temporary folder, which remains when the program ends."""

    def __init__(self) -> None:
        # As in `relive`, this import is delayed, because it takes long and most programs do not need it.
        import tempfile

        super().__init__(tempfile.mkdtemp())


def default_checkpointer(group: str | None = None) -> CheckpointerBase:
    """Returns the default checkpointer of a server: a ``TempDirCheckpointer``. The group is ignored."""
    del group
    return TempDirCheckpointer()


__getattr__, __dir__ = _borrowed.lend(
    globals(),
    "Optional",
    checkpointers_lib="reverb.platform.checkpointers_lib",
)
