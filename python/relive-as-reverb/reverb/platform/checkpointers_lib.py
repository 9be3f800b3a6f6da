"""The checkpointers."""

from reverb.platform.default.checkpointers import CheckpointerBase as CheckpointerBase
from reverb.platform.default.checkpointers import DefaultCheckpointer as DefaultCheckpointer
from reverb.platform.default.checkpointers import TempDirCheckpointer as TempDirCheckpointer
