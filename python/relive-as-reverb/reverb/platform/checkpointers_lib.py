"""The checkpointers."""

from relive.checkpointers import CheckpointerBase as CheckpointerBase
from relive.checkpointers import DefaultCheckpointer as DefaultCheckpointer
from relive.checkpointers import TempDirCheckpointer as TempDirCheckpointer
