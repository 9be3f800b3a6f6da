"""The descriptions of tables that servers send."""

from relive.item_selectors import HeapSelector as Heap
from relive.reverb_types import *  # noqa: F403
from relive.reverb_types import TableInfo as TableInfo

from reverb import _borrowed
from reverb.item_selectors import Fifo as Fifo
from reverb.item_selectors import Lifo as Lifo
from reverb.item_selectors import Prioritized as Prioritized
from reverb.item_selectors import Uniform as Uniform

__getattr__, __dir__ = _borrowed.lend(
    globals(),
    "Iterable Mapping Optional Union",
    dataclasses="dataclasses",
    nested_structure_coder="tensorflow.python.saved_model.nested_structure_coder",
    pybind="reverb.pybind",
    schema_pb2="reverb.cc.schema_pb2",
    tf="tensorflow.compat.v1",
)
