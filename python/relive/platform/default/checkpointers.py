"""dm-reverb's name for the checkpointers of ``relive.checkpointers``."""

from relive.checkpointers import (
    CheckpointerBase,
    DefaultCheckpointer,
    TempDirCheckpointer,
    default_checkpointer,
)

__all__ = ["CheckpointerBase", "DefaultCheckpointer", "TempDirCheckpointer", "default_checkpointer"]
