"""torchrl, with TensorDicts and with plain tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, RandomSampler, ReplayBuffer

from agents import ByItem
from agents.shape import Columns, Pool, Shape

SETTINGS = ("ReplayBuffer, LazyTensorStorage, TensorDicts or dicts of plain tensors, add() of one and extend() for many; a sequence is one item, "
            "whose steps are collected in numpy arrays; batches below 1 MB by one thread, which is faster, larger ones by as many as there "
            "are cores")
_ONE_THREAD_BYTES = 1 << 20


class Store(ByItem):
    def __init__(self, shape: Shape, pool: Pool) -> None:
        super().__init__(shape, pool)
        if shape.batch * shape.length * shape.step_bytes < _ONE_THREAD_BYTES:
            torch.set_num_threads(1)
        self._buffer = ReplayBuffer(storage=LazyTensorStorage(shape.items), sampler=RandomSampler(), batch_size=shape.batch)

    def add_item(self, item: Columns) -> None:
        self._buffer.add(self._packed(item, []))

    def add_items(self, items: Columns) -> None:
        self._buffer.extend(self._packed(items, [len(items["reward"])]))

    def _packed(self, columns: Columns, leading: list[int]) -> Any:
        return TensorDict({name: torch.as_tensor(column) for name, column in columns.items()}, leading)

    def sample(self) -> Any:
        return self._buffer.sample()

    def arrays(self, batch: Any) -> tuple[Columns, np.ndarray | None]:
        return {name: batch[name].numpy() for name in self.shape.columns}, None

    def items(self) -> int:
        return len(self._buffer)


class PlainStore(Store):
    def _packed(self, columns: Columns, leading: list[int]) -> Any:
        return {name: torch.as_tensor(column) for name, column in columns.items()}
