"""The trajectory writer over the compiled one."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from relive import _native
from relive.trajectory_writer import TrajectoryWriter

# Called for each step or item, where one more Python call is measurable.
_FREQUENT = ("append", "append_item", "append_sequence", "create_item", "create_items", "create_window_items")


class NativeWriter(TrajectoryWriter):
    """Forwards every call; see ``TrajectoryWriter`` for their meaning."""

    def __init__(self, internal_writer: _native.TrajectoryWriter) -> None:
        self._writer = internal_writer
        # Attributes of the object take precedence over methods of its class, and have their signatures.
        vars(self).update({name: getattr(internal_writer, name) for name in _FREQUENT})

    @property
    def history(self) -> Any:
        return self._writer.history

    @property
    def episode_steps(self) -> int:
        return self._writer.episode_steps

    @property
    def step_is_open(self) -> bool:
        return self._writer.step_is_open

    @property
    def pending_items(self) -> int:
        """Items that the server has not confirmed yet."""
        return self._writer.pending_items

    def append(self, data: Any, *, partial_step: bool = False) -> None:
        self._writer.append(data, partial_step=partial_step)

    def append_item(self, table: str, priority: float, data: Any) -> int:
        return self._writer.append_item(table, priority, data)

    def append_sequence(self, data: Any) -> None:
        self._writer.append_sequence(data)

    def create_item(self, table: str, priority: float, trajectory: Any) -> int:
        return self._writer.create_item(table, priority, trajectory)

    def create_items(
        self, table: str, priorities: npt.ArrayLike, trajectories: Iterable[Any]
    ) -> npt.NDArray[np.uint64]:
        return self._writer.create_items(table, priorities, trajectories)

    def create_window_items(
        self, table: str, priorities: npt.ArrayLike, ends: Sequence[int], *, length: int = 1, squeeze: bool = False
    ) -> npt.NDArray[np.uint64]:
        return self._writer.create_window_items(table, priorities, ends, length=length, squeeze=squeeze)

    def flush(self, block_until_num_items: int = 0, timeout_ms: int | None = None) -> None:
        self._writer.flush(block_until_num_items, timeout_ms)

    def end_episode(self, clear_buffers: bool = True, timeout_ms: int | None = None) -> None:
        self._writer.end_episode(bool(clear_buffers), timeout_ms)

    def configure(
        self, path: tuple[int | str, ...], *, num_keep_alive_refs: int, max_chunk_length: int | None
    ) -> None:
        self._writer.configure(path, num_keep_alive_refs=num_keep_alive_refs, max_chunk_length=max_chunk_length)

    def close(self) -> None:
        # An exception in progress is more useful than its consequence, which is logged.
        is_failing = sys.exc_info()[0] is not None
        self._writer.close(tell=self._tells_of_loss and not is_failing)
