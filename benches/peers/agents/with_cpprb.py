"""cpprb."""

from __future__ import annotations

from typing import Any

import cpprb

from agents import ByItem
from agents.shape import Columns, Pool, Shape

SETTINGS = "ReplayBuffer, add() of one item and of many; a sequence is one item, whose steps are collected in numpy arrays"


class Store(ByItem):
    def __init__(self, shape: Shape, pool: Pool) -> None:
        super().__init__(shape, pool)
        steps = (shape.length,) if shape.length > 1 else ()
        columns = {name: {"shape": (*steps, *of_step) or 1, "dtype": dtype} for name, (of_step, dtype) in shape.columns.items()}
        self._buffer = cpprb.ReplayBuffer(shape.items, columns)

    def add_item(self, item: Columns) -> None:
        self._buffer.add(**item)

    def add_items(self, items: Columns) -> None:
        self._buffer.add(**items)

    def sample(self) -> Any:
        return self._buffer.sample(self.shape.batch)

    def items(self) -> int:
        return self._buffer.get_stored_size()
