"""Relive: an experience-replay server and its clients.

The API uses dm-reverb's names: ``import relive as reverb`` runs programs written for dm-reverb, without TensorFlow.
Relive adds :meth:`Client.batches` (stacked arrays), :meth:`Client.update_priorities` (arrays of keys),
:meth:`TrajectoryWriter.append_sequence`, :class:`ReplayBuffer` (for one process), :mod:`relive.torch`,
:mod:`relive.jax` and :mod:`relive.gymnasium`.
"""

from __future__ import annotations

import atexit
import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from relive import _at_exit, _native
from relive import checkpointers
from relive import item_selectors
from relive import item_selectors as selectors
from relive import rate_limiters
from relive._native import __version__
from relive.batches import Batch, BatchIterator
from relive.changes import Changed, LoggedChange
from relive.checkpoints import CheckpointStatus
from relive.client import Client
from relive.errors import DeadlineExceededError, ReverbError
from relive.replay_sample import ItemInfo, ReplaySample, SampleInfo
from relive.security import ClientTls, ServerTls
from relive.server import Server
from relive.servers import ServerChange, ServerState
from relive.specs import ArraySpec, BoundedArraySpec
from relive.tables import Table
from relive.trajectory_writer import TrajectoryColumn, TrajectoryWriter
from relive.writer import Writer

if TYPE_CHECKING:
    from relive import structured_writer as structured
    from relive.pattern_dataset import PatternDataset
    from relive.replay_buffer import ReplayBuffer
    from relive.structured_writer import StructuredWriter
    from relive.tf_client import TFClient as TFClient
    from relive.timestep_dataset import TimestepDataset
    from relive.trajectory_dataset import TrajectoryDataset

# `TFClient` is missing, since `from relive import *` must work without TensorFlow.
__all__ = [
    "ArraySpec",
    "Batch",
    "BatchIterator",
    "BoundedArraySpec",
    "Changed",
    "CheckpointStatus",
    "Client",
    "ClientTls",
    "DeadlineExceededError",
    "ItemInfo",
    "LoggedChange",
    "PatternDataset",
    "ReplayBuffer",
    "ReplaySample",
    "ReverbError",
    "SampleInfo",
    "Server",
    "ServerChange",
    "ServerState",
    "ServerTls",
    "StructuredWriter",
    "Table",
    "TimestepDataset",
    "TrajectoryColumn",
    "TrajectoryDataset",
    "TrajectoryWriter",
    "Writer",
    "__version__",
    "checkpointers",
    "item_selectors",
    "rate_limiters",
    "selectors",
    "structured",
]

# Names that most programs do not need; their modules are imported at first use.
_LAZY = {
    "PatternDataset": ("relive.pattern_dataset", "PatternDataset"),
    "ReplayBuffer": ("relive.replay_buffer", "ReplayBuffer"),
    "StructuredWriter": ("relive.structured_writer", "StructuredWriter"),
    "TFClient": ("relive.tf_client", "TFClient"),
    "TimestepDataset": ("relive.timestep_dataset", "TimestepDataset"),
    "TrajectoryDataset": ("relive.trajectory_dataset", "TrajectoryDataset"),
    "structured": ("relive.structured_writer", None),
}
_LAZY_MODULES = frozenset({
    "errors", "extensions", "flow", "gpu", "gymnasium", "jax", "nest", "pattern_dataset", "platform", "pybind", "ray", "replay_buffer", "reverb_types",
    "rl", "sb3", "server_executable", "structured_writer", "tf_client", "timestep_dataset", "torch", "torchrl", "trajectory_dataset",
})

# The packages without which names cannot be imported; `dir(relive)` omits these names if the package is missing, since
# `help` and `inspect` access each name.
_REQUIRED = {
    "TFClient": ("tensorflow",),
    "gymnasium": ("gymnasium",),
    "jax": ("jax",),
    "sb3": ("stable_baselines3", "torch"),
    "tf_client": ("tensorflow",),
    "torch": ("torch",),
    "torchrl": ("torchrl", "torch"),
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        module_name, attribute = _LAZY[name]
        module = importlib.import_module(module_name)
        value = module if attribute is None else getattr(module, attribute)
        globals()[name] = value
        return value
    if name in _LAZY_MODULES:
        return importlib.import_module(f"relive.{name}")
    raise AttributeError(f"module 'relive' has no attribute {name!r}")


def __dir__() -> list[str]:
    absent = {name for name, packages in _REQUIRED.items() if not all(map(_is_installed, packages))}
    return sorted({*globals(), *__all__, *_LAZY, *_LAZY_MODULES} - absent)


def _is_installed(package: str) -> bool:
    import importlib.util

    try:
        return package in sys.modules or importlib.util.find_spec(package) is not None
    except ImportError:
        return False


_native.install_logging()
# At exit, these handlers end runs, send the remaining items of writers, and stop servers. The handler registered last
# runs first.
atexit.register(_native.flush_logs)
atexit.register(_at_exit.close_all)
atexit.register(_native.end_writers)
atexit.register(_native.end_runs)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_native.before_fork, after_in_child=_native.after_fork)
