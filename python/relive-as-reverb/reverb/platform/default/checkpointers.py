"""The checkpointers."""

from relive.checkpointers import CheckpointerBase as CheckpointerBase
from relive.checkpointers import DefaultCheckpointer as DefaultCheckpointer
from relive.checkpointers import TempDirCheckpointer as TempDirCheckpointer
from relive.checkpointers import default_checkpointer as default_checkpointer
