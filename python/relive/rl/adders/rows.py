"""The rows of an episode, and what the adders that write them have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from relive import nest
from relive.client import Client
from relive.rl.adders.base import DEFAULT_PRIORITY_TABLE, PriorityFn, PriorityFnInput, Step, Transition


class EpisodeWriter:
    """Writes the rows of an episode, and creates items from them.

    The row of the newest observation is open until its action follows.
    """

    def __init__(
        self,
        client: Client,
        rows_kept: int,
        priority_fns: Mapping[str, PriorityFn | None] | None,
        max_in_flight_items: int | None,
    ) -> None:
        if max_in_flight_items is not None and max_in_flight_items < 1:
            raise ValueError(f"max_in_flight_items must be at least 1, or None for no limit, got {max_in_flight_items}")
        self._writer = client.trajectory_writer(rows_kept + 1)
        self._priority_fns: dict[str, PriorityFn | None] = dict(priority_fns or {DEFAULT_PRIORITY_TABLE: None})
        self._max_in_flight_items = max_in_flight_items
        # The newest complete row; its values may have changed since.
        self._newest_row: dict[str, Any] | None = None
        self.rows = 0
        """The number of complete rows since the last reset."""
        self.is_open = False

    def add_table(self, table: str, function: PriorityFn | None) -> None:
        """Creates later items in another table, too."""
        if table in self._priority_fns:
            raise ValueError(f"the adder already writes to the table {table!r}; its tables are {', '.join(self._priority_fns)}")
        self._priority_fns[table] = function

    def begin(self, timestep: Any) -> None:
        """Starts an episode by opening its first row."""
        if not timestep.first():
            raise ValueError(f"an episode must start with FIRST, got step type {timestep.step_type!r}")
        self._open(timestep.observation, is_first=True)

    def add(self, action: Any, timestep: Any, extras: Any) -> None:
        """Completes the open row and opens the next one."""
        if not self.is_open:
            raise ValueError("call add_first() before add()")
        row: dict[str, Any] = {
            "action": action,
            "reward": nest.map_structure(_single, timestep.reward),
            "discount": nest.map_structure(_single, timestep.discount),
        }
        if nest.flatten(extras):
            row["extras"] = extras
        self.append(row)
        self._newest_row = row
        self._open(timestep.observation, is_first=False)

    def finish(self) -> None:
        """Completes the row of the last observation with zeros."""
        assert self._newest_row is not None
        self.append(nest.map_structure(np.zeros_like, self._newest_row))
        self.is_open = False

    def append(self, row: dict[str, Any]) -> None:
        """Completes a row with the given values."""
        self._writer.append(row)
        self.rows += 1

    def append_partial(self, row: dict[str, Any]) -> None:
        """Appends part of the newest row."""
        self._writer.append(row, partial_step=True)

    @property
    def history(self) -> Any:
        """The history of all rows."""
        return self._writer.history

    def zeros(self) -> dict[str, Any]:
        """Returns a row of zeros with the structure of the newest complete row."""
        newest = slice(-2, -1) if self.is_open else slice(-1, None)
        return {name: nest.map_structure(lambda part: _zeros(part[newest]), part) for name, part in self.history.items()}

    def create_sequence(self, length: int) -> None:
        """Creates an item of the newest complete rows."""
        rows = slice(-length - 1, -1) if self.is_open else slice(-length, None)
        columns = {name: nest.map_structure(lambda part: part[rows], part) for name, part in self.history.items()}
        self.create(Step(**columns))

    def create(self, trajectory: Step | Transition) -> None:
        """Creates an item in each table."""
        arrays: PriorityFnInput | None = None
        for table, function in self._priority_fns.items():
            priority = 1.0
            if function is not None:
                if arrays is None:
                    arrays = nest.map_structure(lambda column: column.numpy(), trajectory)
                priority = float(function(arrays))
            self._writer.create_item(table, priority, trajectory)
            if self._max_in_flight_items is not None:
                self._writer.flush(self._max_in_flight_items)

    def flush(self) -> None:
        """Waits until all items are in their tables."""
        self._writer.flush()

    def end(self, timeout_ms: int | None) -> None:
        """Waits until all items are in their tables, and drops all rows."""
        self._writer.end_episode(timeout_ms=timeout_ms)
        self.rows, self.is_open = 0, False

    def _open(self, observation: Any, *, is_first: bool) -> None:
        self.append_partial({"observation": observation, "start_of_episode": np.bool_(is_first)})
        self.is_open = True


class RowAdder:
    """The methods of all adders that write rows with an :class:`EpisodeWriter`."""

    def __init__(self, rows: EpisodeWriter) -> None:
        self._rows = rows

    def add_priority_table(self, table_name: str, priority_fn: PriorityFn | None) -> None:
        """Creates all later items in another table, too, with priorities from ``priority_fn`` or, if it is ``None``,
        with priority 1.

        Raises:
          ValueError: the adder already writes to this table.
        """
        self._rows.add_table(table_name, priority_fn)

    def reset(self, timeout_ms: int | None = None) -> None:
        """Drops the current episode, except for items that already exist; waits until the server has confirmed them.

        Args:
          timeout_ms: the longest time to wait, in milliseconds; 0 does not wait, and with ``None`` or a negative
            number, there is no limit.

        Raises:
          DeadlineExceededError: not all items are confirmed after ``timeout_ms``; the episode continues.
        """
        if self._rows.rows or self._rows.is_open:
            self._rows.end(timeout_ms)

    def flush(self) -> None:
        """Waits until all created items are in their tables."""
        self._rows.flush()


def _single(value: Any) -> Any:
    return np.asarray(value, np.float32)


def _zeros(column: Any) -> Any:
    return np.zeros(column.shape[1:], column.dtype)
