"""Stores for agents' steps with several columns, behind one interface; each store is used as its documentation
recommends.

Every module has contenders and a text `SETTINGS` that describes their configuration.
"""

from __future__ import annotations

import abc
import importlib
from typing import Any

import numpy as np

from agents.shape import Columns, Pool, Shape

KINDS = {
    "numpy": ("rings", "Ring"),
    "numpy, out=": ("rings", "OutRing"),
    "memcpy": ("rings", "Rows"),
    "cpprb": ("with_cpprb", "Store"),
    "torchrl": ("with_torchrl", "Store"),
    "torchrl, plain tensors": ("with_torchrl", "PlainStore"),
    "flashbax": ("with_flashbax", "Store"),
    "relive": ("with_relive", "InProcess"),
    "relive, shm": ("with_relive", "SharedMemory"),
    "relive, tcp": ("with_relive", "Tcp"),
    "relive.ReplayBuffer": ("with_replay_buffer", "Store"),
}
"""Module and class by name."""


class NotApplicable(Exception):
    """The contender does not support items with this shape; the text states the reason."""


class Base(abc.ABC):
    """Stores the newest items of a shape. Steps are added in order, one at a time or as a block in one call."""

    def __init__(self, shape: Shape, pool: Pool) -> None:
        self.shape, self.pool = shape, pool

    @abc.abstractmethod
    def add_one(self, number: int, is_last: bool) -> None:
        """Adds step `number`, which may be the last of an episode, and the item that ends with this step, if any."""

    @abc.abstractmethod
    def add_many(self, number: int, count: int) -> None:
        """Adds a block of `count` steps, and the items that end with them."""

    def settle(self) -> None:
        """Returns once all added data is stored."""

    @abc.abstractmethod
    def sample(self) -> Any:
        """Returns a complete batch in this process's memory."""

    def arrays(self, batch: Any) -> tuple[Columns, np.ndarray | None]:
        """Returns a batch as arrays by column, and the lengths of its episodes, for checks; this call is not timed."""
        return batch, None

    @abc.abstractmethod
    def items(self) -> int:
        """The number of items that can be sampled."""

    def close(self) -> None:
        pass


class ByItem(Base):
    """Collects the steps of a sequence before it is added, for contenders that store each item as one row."""

    def __init__(self, shape: Shape, pool: Pool) -> None:
        super().__init__(shape, pool)
        if shape.has_episodes:
            raise NotApplicable("has no items of different lengths")
        self._is_collected = shape.length > 1
        # Twice as long as an item, so that the newest steps are always contiguous.
        self._newest = {name: np.zeros((2 * shape.length, *of_step), dtype) for name, (of_step, dtype) in shape.columns.items()}

    def add_one(self, number: int, is_last: bool) -> None:
        step = self.pool.step(number)
        if not self._is_collected:
            return self.add_item(step)
        length = self.shape.length
        place = number % length
        for name, value in step.items():
            self._newest[name][place] = self._newest[name][place + length] = value
        if number + 1 >= length and (number + 1) % self.shape.period == 0:
            self.add_item({name: column[place + 1:place + 1 + length] for name, column in self._newest.items()})

    def add_many(self, number: int, count: int) -> None:
        if self._is_collected:
            # Steps that are later collected one at a time continue from these.
            self.add_items(self.pool.windows(number, count))
            for name, column in self.pool.steps(number + count - self.shape.length, self.shape.length).items():
                self._newest[name][:self.shape.length] = self._newest[name][self.shape.length:] = column
        else:
            self.add_items(self.pool.steps(number, count))

    @abc.abstractmethod
    def add_item(self, item: Columns) -> None: ...

    @abc.abstractmethod
    def add_items(self, items: Columns) -> None: ...


def make(name: str, shape: Shape, pool: Pool) -> tuple[Base, str]:
    """Returns the contender, and its configuration."""
    module_name, kind = KINDS[name]
    module = importlib.import_module(f"agents.{module_name}")
    return getattr(module, kind)(shape, pool), module.SETTINGS
