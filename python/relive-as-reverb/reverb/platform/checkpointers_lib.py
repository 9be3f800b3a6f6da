"""The checkpointers."""

from reverb import _borrowed
from reverb.platform.default.checkpointers import CheckpointerBase as CheckpointerBase
from reverb.platform.default.checkpointers import DefaultCheckpointer as DefaultCheckpointer
from reverb.platform.default.checkpointers import TempDirCheckpointer as TempDirCheckpointer

__getattr__, __dir__ = _borrowed.lend(
    globals(),
    "Optional",
    abc="abc",
    numpy="numpy",
    pybind="reverb.pybind",
    tempfile="tempfile",
)
