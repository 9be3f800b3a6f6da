"""The names of dm-reverb's compiled module, for programs that use that module directly."""

from __future__ import annotations

from relive._chunker_options import AutoTunedChunkerOptions, ChunkerOptions, ConstantChunkerOptions
from relive._native import CellRef as WeakCellRef
from relive._native import Sampler, StructuredWriter
from relive.checkpointers import Checkpointer
from relive.client import Client
from relive.item_selectors import (
    FifoSelector,
    HeapSelector,
    ItemSelector,
    LifoSelector,
    PrioritizedSelector,
    UniformSelector,
)
from relive.rate_limiters import RateLimiter
from relive.server import Server, Table
from relive.server import TableExtensionBase as TableExtension
from relive.trajectory_writer import TrajectoryWriter
from relive.writer import Writer

__all__ = [
    "AutoTunedChunkerOptions",
    "Checkpointer",
    "ChunkerOptions",
    "Client",
    "ConstantChunkerOptions",
    "FifoSelector",
    "HeapSelector",
    "ItemSelector",
    "LifoSelector",
    "PrioritizedSelector",
    "RateLimiter",
    "Sampler",
    "Server",
    "StructuredWriter",
    "Table",
    "TableExtension",
    "TrajectoryWriter",
    "UniformSelector",
    "WeakCellRef",
    "Writer",
    "create_default_checkpointer",
    "selector_from_proto",
]


def create_default_checkpointer(
    name: str, group: str = "", fallback_checkpoint_path: str | None = None
) -> Checkpointer:
    """Returns the server's options for ``relive.checkpointers.DefaultCheckpointer``."""
    return Checkpointer(name, group, fallback_checkpoint_path)


def selector_from_proto(options: bytes) -> ItemSelector:
    """Returns the selector that a serialized ``KeyDistributionOptions`` message describes.

    Raises:
      ValueError: the message names a selector that is switched off.
      NotImplementedError: the message names no selector.
    """
    from relive import _protos, reverb_types

    message = _protos.message(_protos.SCHEMA, "KeyDistributionOptions").FromString(options)
    return reverb_types.selector_from_options(message)
