"""In-process replay buffers behind one interface; each buffer is used as its documentation recommends.

A step is one float32 array; a batch is one array of 256 steps. Every module has a class `Buffer` and a text `SETTINGS`
that describes the configuration.
"""

from __future__ import annotations

import abc
import importlib

import numpy as np

BATCH = 256
"""The number of items in a sampled batch."""
BLOCK = 1_000
"""The number of steps in a call that adds many steps; smaller if the steps are large."""
BLOCK_BYTES = 16 << 20

PRIORITY_EXPONENT = 0.6
IMPORTANCE_EXPONENT = 0.4

KINDS = {
    "numpy": ("ring", "Buffer"),
    "cpprb": ("with_cpprb", "Buffer"),
    "torchrl": ("with_torchrl", "Buffer"),
    "torchrl, memory-mapped": ("with_torchrl", "MemmapBuffer"),
    "flashbax": ("with_flashbax", "Buffer"),
    "dm-reverb": ("with_reverb", "Buffer"),
    "relive": ("with_relive", "Buffer"),
    "relive, out=": ("with_relive", "OutBuffer"),
}
"""Module and class by name."""


class Base(abc.ABC):
    """A buffer of `capacity` steps of `nbytes` bytes, sampled uniformly or by priority."""

    @abc.abstractmethod
    def __init__(self, nbytes: int, capacity: int, is_prioritized: bool) -> None: ...

    @abc.abstractmethod
    def add_many(self, steps: np.ndarray) -> None:
        """Adds `block(nbytes)` steps, each an item with priority 1."""

    @abc.abstractmethod
    def add_one(self, step: np.ndarray) -> None:
        """Adds one step and its item."""

    def settle(self) -> None:
        """Returns once all added data is stored."""

    @abc.abstractmethod
    def sample(self) -> np.ndarray:
        """Returns a complete batch in this process's memory."""

    def sample_and_update(self, priorities: np.ndarray) -> None:
        """Samples a batch, and sets the priorities of its items."""
        raise Unsupported("has no priorities")

    def close(self) -> None:
        pass


class Unsupported(Exception):
    """The peer lacks an operation; the text states which."""


def block(nbytes: int) -> int:
    """Returns the steps in one call to `add_many`."""
    return max(1, min(BLOCK, BLOCK_BYTES // nbytes))


def make(name: str, nbytes: int, capacity: int, is_prioritized: bool) -> tuple[Base, str]:
    """Returns the buffer, and its configuration."""
    module_name, kind = KINDS[name]
    module = importlib.import_module(f"buffers.{module_name}")
    return getattr(module, kind)(nbytes, capacity, is_prioritized), module.SETTINGS
