"""Whole trajectories in shared memory, for training sequence models.

>>> import numpy as np
>>> from relive import gpu
>>> store = gpu.Store({"observation": ("float32", (3,)), "action": "int64"}, capacity=100, max_steps=50)
>>> for length in (10, 20, 30):
...     inserted = store.insert({"observation": np.ones((length, 3), "float32"), "action": np.arange(length)})
>>> loader = store.loader(4, {"observation": gpu.Window(-7, 8), "action": gpu.Window(-7, 8)})
>>> batch = next(loader)
>>> batch.data["observation"].shape, batch.data["action"].shape
((4, 8, 3), (4, 8))

A :class:`Store` has room for a fixed number of trajectories of up to ``max_steps`` steps. They are stored in columns of
memory that all processes on a machine can share: other processes :func:`attach` and read the trajectories in place. A
:class:`Loader` draws trajectories by weight and copies a :class:`Window` of steps of each column into a batch, without
using the Python interpreter. docs/gpu.md explains when to use a store instead of tables, and the differences from GEAR.
"""

from __future__ import annotations

from relive.gpu._batch import Batch
from relive.gpu._device import unavailable
from relive.gpu._group import Group
from relive.gpu._loader import Loader
from relive.gpu._local_group import LocalGroup
from relive.gpu._network import Network
from relive.gpu._outcomes import Changed, Inserted, Saved, Status
from relive.gpu._reading import Readable, Reader, attach
from relive.gpu._removal import Candidates
from relive.gpu._sampling import (
    Fifo,
    Lifo,
    Prioritized,
    Sampling,
    Stratified,
    TopK,
    Uniform,
    Weighted,
    WithoutReplacement,
)
from relive.gpu._store import Store
from relive.gpu._window import Window
from relive.gpu._writing import Request, Scan, Writer, attach_writer

__all__ = [
    "Batch",
    "Candidates",
    "Changed",
    "Fifo",
    "Group",
    "Inserted",
    "Lifo",
    "Loader",
    "LocalGroup",
    "Network",
    "Prioritized",
    "Readable",
    "Reader",
    "Request",
    "Sampling",
    "Saved",
    "Scan",
    "Status",
    "Store",
    "Stratified",
    "TopK",
    "Uniform",
    "Weighted",
    "Window",
    "WithoutReplacement",
    "Writer",
    "attach",
    "attach_writer",
    "unavailable",
]
