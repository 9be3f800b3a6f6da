"""The selectors."""

from relive.item_selectors import Fifo as Fifo
from relive.item_selectors import Lifo as Lifo
from relive.item_selectors import MaxHeap as MaxHeap
from relive.item_selectors import MinHeap as MinHeap
from relive.item_selectors import Prioritized as Prioritized
from relive.item_selectors import Uniform as Uniform

from reverb import _borrowed

__getattr__, __dir__ = _borrowed.lend(
    globals(),
    functools="functools",
    pybind="reverb.pybind",
)
