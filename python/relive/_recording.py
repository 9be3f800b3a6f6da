"""Conversion of an episode's steps to items, with a writer."""

from __future__ import annotations

import abc
import collections
import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from relive import nest
from relive._numbers import milliseconds
from relive._recording_kinds import Sequences, Transitions
from relive.trajectory_writer import TrajectoryWriter

Priority = float | Callable[[Any], float]
"""The priority of every item, or a function of an item's data."""


@dataclasses.dataclass(frozen=True)
class Step:
    """An action, stored in its own memory, and the result of the action."""

    action: Any
    reward: float
    terminated: bool
    truncated: bool
    state: Any = None
    """The agent's state before the action, or ``None`` if it is not recorded."""

    @property
    def is_last(self) -> bool:
        return self.terminated or self.truncated


class Items:
    """A writer, and the options for the items that it creates."""

    def __init__(self, writer: TrajectoryWriter, table: str, priority: Priority, timeout: float | None) -> None:
        self._writer = writer
        self._table = table
        self._priority = priority
        self._timeout = timeout

    def append(self, row: dict[str, Any], *, partial: bool = False) -> None:
        self._writer.append(row, partial_step=partial)

    def history(self, column: str) -> Any:
        return self._writer.history[column]

    def create(self, trajectory: dict[str, Any]) -> None:
        if callable(self._priority):
            priority = float(self._priority(nest.map_structure(lambda column: column.numpy(), trajectory)))
        else:
            priority = self._priority
        self._writer.create_item(self._table, priority, trajectory)

    def end_episode(self) -> None:
        self._writer.end_episode(timeout_ms=milliseconds(self._timeout))

    def flush(self, timeout: float | None) -> None:
        self._writer.flush(timeout_ms=milliseconds(self._timeout if timeout is None else timeout))

    def close(self) -> None:
        try:
            self.flush(None)
        finally:
            self._writer.close()


class Rows(abc.ABC):
    """Converts an episode to rows of the writer's history, and creates items from these rows.

    A row starts when its observation arrives, before the environment may overwrite the observation; the action
    completes the row.
    """

    @abc.abstractmethod
    def begin(self, observation: Any) -> None:
        """Adds the first observation of an episode."""

    @abc.abstractmethod
    def step(self, step: Step, observation: Any) -> None:
        """Adds a step, and the observation after it."""


class TransitionRows(Rows):
    """Row t contains o_t and a_t, and the results of the window that step t completes. At the end of an episode,
    several windows are completed, and the following rows contain their results."""

    def __init__(self, items: Items, kind: Transitions) -> None:
        self._items = items
        self._discount = kind.discount
        self._rewards: collections.deque[float] = collections.deque(maxlen=kind.n_steps)
        self._num_steps = 0

    def begin(self, observation: Any) -> None:
        self._rewards.clear()
        self._num_steps = 0
        self._items.append({"observation": observation}, partial=True)

    def step(self, step: Step, observation: Any) -> None:
        self._rewards.append(step.reward)
        now = self._num_steps
        self._num_steps += 1
        lengths = self._complete_windows(step.is_last)
        outcomes = [self._outcome(length, step.terminated) for length in lengths]
        before, later = outcomes[:1], outcomes[1:]
        self._items.append({"action": step.action, **_only(before)})
        self._items.append({"observation": observation, **_only(later[:1])}, partial=not step.is_last)
        for outcome in later[1:]:
            self._items.append(outcome)
        for index, length in enumerate(lengths):
            self._create(start=now + 1 - length, end=now + 1, outcome=now + index)

    def _complete_windows(self, is_last: bool) -> list[int]:
        """Returns the lengths of the windows that end now: the full length, and at the end of an episode also all
        shorter lengths."""
        if is_last:
            return list(range(len(self._rewards), 0, -1))
        return [len(self._rewards)] if len(self._rewards) == self._rewards.maxlen else []

    def _outcome(self, length: int, terminated: bool) -> dict[str, Any]:
        reward = 0.0
        for earlier in list(self._rewards)[: -length - 1 : -1]:
            reward = earlier + self._discount * reward
        discount = 0.0 if terminated else self._discount**length
        return {"reward": np.float32(reward), "discount": np.float32(discount)}

    def _create(self, *, start: int, end: int, outcome: int) -> None:
        at = {"observation": start, "action": start, "reward": outcome, "discount": outcome}
        trajectory = {column: _cells(self._items.history(column), row) for column, row in at.items()}
        trajectory["next_observation"] = _cells(self._items.history("observation"), end)
        self._items.create(trajectory)


class _StepRows(Rows):
    """Row t contains all columns of step t; the last row contains only the last observation."""

    def __init__(self, items: Items, columns: dict[str, Any]) -> None:
        self._items = items
        self._columns = columns
        self._blank = nest.map_structure(lambda spec: np.zeros(spec.shape, spec.dtype), columns)
        self._num_rows = 0

    def begin(self, observation: Any) -> None:
        self._num_rows = 0
        self._items.append({"observation": observation}, partial=True)

    def step(self, step: Step, observation: Any) -> None:
        self._end_row({
            "action": step.action,
            "reward": np.float32(step.reward),
            "terminated": np.bool_(step.terminated),
            "truncated": np.bool_(step.truncated),
            "mask": np.bool_(True),
            **({} if step.state is None else {"state": step.state}),
        })
        if step.is_last:
            self._end_row({**self._blank, "observation": observation})
            self._at_end()
        else:
            self._items.append({"observation": observation}, partial=True)

    def _end_row(self, row: dict[str, Any]) -> None:
        self._items.append(row)
        self._num_rows += 1
        self._after_row()

    def _create(self, start: int, stop: int) -> None:
        rows = slice(start, stop)
        self._items.create({column: _cells(self._items.history(column), rows) for column in self._columns})

    @abc.abstractmethod
    def _after_row(self) -> None:
        """Creates the items that a new row completes."""

    @abc.abstractmethod
    def _at_end(self) -> None:
        """Creates the items that the end of an episode completes."""


class SequenceRows(_StepRows):
    """Creates one item for every complete window of rows; at the end of an episode, padding completes one more item."""

    def __init__(self, items: Items, columns: dict[str, Any], kind: Sequences) -> None:
        super().__init__(items, columns)
        self._length = kind.length
        self._period = kind.length if kind.period is None else kind.period
        self._pad = kind.pad
        self._next_start = 0

    def begin(self, observation: Any) -> None:
        self._next_start = 0
        super().begin(observation)

    def _after_row(self) -> None:
        if self._num_rows == self._next_start + self._length:
            self._create(self._next_start, self._num_rows)
            self._next_start += self._period

    def _at_end(self) -> None:
        num_steps = self._num_rows - 1
        covered = self._next_start - self._period + self._length if self._next_start else 0
        if self._pad and covered < num_steps:
            # For the last of these rows, `_after_row` completes a window.
            for _ in range(self._next_start + self._length - self._num_rows):
                self._end_row(self._blank)


class EpisodeRows(_StepRows):
    """Creates one item with all rows at the end of an episode."""

    def __init__(self, items: Items, columns: dict[str, Any], max_length: int) -> None:
        super().__init__(items, columns)
        self._max_length = max_length

    def step(self, step: Step, observation: Any) -> None:
        if self._num_rows == self._max_length:
            raise ValueError(
                f"the episode has more steps than Episodes(max_length={self._max_length}) permits; gymnasium.wrappers.TimeLimit can "
                "truncate it"
            )
        super().step(step, observation)

    def _after_row(self) -> None:
        pass

    def _at_end(self) -> None:
        self._create(0, self._num_rows)


T = TypeVar("T")


def _only(outcomes: list[dict[str, T]]) -> dict[str, T]:
    """Returns the only element, or an empty dict."""
    return outcomes[0] if outcomes else {}


def _cells(history: Any, rows: int | slice) -> Any:
    """Returns the steps `rows` of a column, or of each column of a nest."""
    if not nest.is_nested(history):
        return history[rows]
    return nest.map_structure(lambda column: column[rows], history)
