"""The module `reverb` of dm-reverb, on Relive.

The parts that need TensorFlow (the datasets and `TFClient`) are imported at their first use, so that other programs run
without TensorFlow.
"""

import importlib
from typing import TYPE_CHECKING, Any

from relive import _protos
from reverb import (
    client,
    errors,
    item_selectors,
    rate_limiters,
    replay_sample,
    reverb_types,
    server,
    structured_writer,
    trajectory_writer,
)
from reverb import item_selectors as selectors
from reverb import structured_writer as structured
from reverb.client import Client, Writer
from reverb.errors import DeadlineExceededError, ReverbError
from reverb.platform.default import checkpointers
from reverb.replay_sample import ReplaySample, SampleInfo
from reverb.server import Server, Table
from reverb.trajectory_writer import TrajectoryColumn, TrajectoryWriter

if TYPE_CHECKING:
    from reverb.pattern_dataset import PatternDataset
    from reverb.tf_client import TFClient
    from reverb.timestep_dataset import TimestepDataset
    from reverb.trajectory_dataset import TrajectoryDataset

__all__ = [
    "Client",
    "DeadlineExceededError",
    "PatternDataset",
    "ReplaySample",
    "ReverbError",
    "SampleInfo",
    "Server",
    "TFClient",
    "Table",
    "TimestepDataset",
    "TrajectoryColumn",
    "TrajectoryDataset",
    "TrajectoryWriter",
    "Writer",
    "checkpointers",
    "client",
    "errors",
    "item_selectors",
    "pybind",
    "rate_limiters",
    "replay_sample",
    "reverb_types",
    "selectors",
    "server",
    "structured",
    "structured_writer",
    "trajectory_writer",
]

_LATE_NAMES = {
    "PatternDataset": "pattern_dataset",
    "TFClient": "tf_client",
    "TimestepDataset": "timestep_dataset",
    "TrajectoryDataset": "trajectory_dataset",
}
_LATE_MODULES = {*_LATE_NAMES.values(), "cc", "libpybind", "pip_package", "platform", "pybind", "server_executable"}

# Programs use TensorFlow's messages inside dm-reverb's, so all messages must come from the same pool.
_protos.share_with_tensorflow_if_imported()


def __getattr__(name: str) -> Any:
    if name in _LATE_MODULES:
        return importlib.import_module(f"reverb.{name}")
    if name in _LATE_NAMES:
        return getattr(importlib.import_module(f"reverb.{_LATE_NAMES[name]}"), name)
    raise AttributeError(f"module 'reverb' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_LATE_MODULES})
