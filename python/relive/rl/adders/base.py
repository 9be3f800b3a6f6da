"""The common parts of adders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from relive import nest
from relive.client import Client
from relive.rl.specs import EnvironmentSpec
from relive.specs import ArraySpec

DEFAULT_PRIORITY_TABLE = "priority_table"


class Step(NamedTuple):
    """A row: an observation, the action taken for it, and the result; or a sequence of rows."""

    observation: Any
    action: Any
    reward: Any
    discount: Any
    start_of_episode: Any
    extras: Any = ()


class Transition(NamedTuple):
    """A transition over several consecutive steps: its start, its reward and its end."""

    observation: Any
    action: Any
    reward: Any
    discount: Any
    next_observation: Any
    extras: Any = ()


class PriorityFnInput(NamedTuple):
    """The values of an item, as arrays."""

    observations: Any
    actions: Any
    rewards: Any
    discounts: Any
    start_of_episode: Any
    extras: Any


PriorityFn = Callable[[PriorityFnInput], float]


class Adder(Protocol):
    """Writes an actor's steps."""

    def add_first(self, timestep: Any) -> None:
        """Starts an episode; ``timestep`` is a FIRST."""

    def add(self, action: Any, next_timestep: Any, extras: Any = ()) -> None:
        """Adds an action and the resulting step; a LAST ends the episode."""

    def reset(self) -> None:
        """Drops the current episode, except for items that already exist."""


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
        self._priority_fns = dict(priority_fns) if priority_fns else {DEFAULT_PRIORITY_TABLE: None}
        self._max_in_flight_items = max_in_flight_items
        self._empty_row: dict[str, Any] | None = None
        self.rows = 0
        """The number of complete rows since the last reset."""
        self.is_open = False

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
        self._empty_row = nest.map_structure(np.zeros_like, row)
        self.append(row)
        self._open(timestep.observation, is_first=False)

    def finish(self) -> None:
        """Completes the row of the last observation with zeros."""
        assert self._empty_row is not None
        self.append(self._empty_row)
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
                arrays = arrays or _input(trajectory)
                priority = float(function(arrays))
            self._writer.create_item(table, priority, _without_empty(trajectory))
        if self._max_in_flight_items is not None:
            self._writer.flush(self._max_in_flight_items)

    def flush(self) -> None:
        """Waits until all items are in their tables."""
        self._writer.flush()

    def end(self) -> None:
        """Waits until all items are in their tables, and drops all rows."""
        self._writer.end_episode()
        self.rows, self.is_open = 0, False

    def _open(self, observation: Any, *, is_first: bool) -> None:
        self.append_partial({"observation": observation, "start_of_episode": np.bool_(is_first)})
        self.is_open = True


def as_extras_spec(extras_spec: Any) -> Any:
    """Returns the specs of extras."""
    return nest.map_structure(lambda leaf: ArraySpec(leaf.shape, leaf.dtype, getattr(leaf, "name", None)), extras_spec)


def single_precision(spec: EnvironmentSpec) -> tuple[Any, Any]:
    """Returns the specs of rewards and discounts as stored."""
    rewards, discounts = (
        nest.map_structure(lambda leaf: ArraySpec(leaf.shape, np.float32, leaf.name), part) for part in spec[2:]
    )
    return rewards, discounts


def _single(value: Any) -> Any:
    return np.asarray(value, np.float32)


def _zeros(column: Any) -> Any:
    return np.zeros(column.shape[1:], column.dtype)


def _without_empty(trajectory: Step | Transition) -> Any:
    """Removes empty extras, since no column can represent them."""
    parts = trajectory._asdict()
    if not nest.flatten(parts["extras"]):
        del parts["extras"]
    return parts


def _input(trajectory: Step | Transition) -> PriorityFnInput:
    arrays = nest.map_structure(lambda column: column.numpy(), trajectory)
    start = arrays.start_of_episode if isinstance(arrays, Step) else ()
    return PriorityFnInput(arrays.observation, arrays.action, arrays.reward, arrays.discount, start, arrays.extras)
