"""Dataflow: streams of items, in parallel and in sequence.

>>> from relive import flow
>>> flow.from_range(10, num_shards=2).for_each(lambda x: x * 2).filter(lambda x: x % 4 == 0).gather_sync().take(5)
[0, 12, 4, 16, 8]

The module has the names and semantics of ``ray.util.iter``: a program written for that module runs with ``from relive
import flow as iter`` instead of ``from ray.util import iter``. In this module, shards are threads or processes, and an
item costs microseconds instead of half a millisecond.
"""

from __future__ import annotations

from relive.flow._local import LocalIterator, ratio
from relive.flow._metrics import MetricsContext, SharedMetrics, Timer, get_metrics
from relive.flow._metrics import NotReady as _NextValueNotReady  # noqa: F401, Ray's name
from relive.flow._parallel import ParallelIterator
from relive.flow._sources import ParallelIteratorWorker, from_actors, from_items, from_iterators, from_range

__all__ = [
    "LocalIterator",
    "MetricsContext",
    "ParallelIterator",
    "ParallelIteratorWorker",
    "SharedMetrics",
    "Timer",
    "from_actors",
    "from_items",
    "from_iterators",
    "from_range",
    "get_metrics",
    "ratio",
]
