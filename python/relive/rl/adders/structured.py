"""Items that the writer creates automatically from patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from relive import nest
from relive.client import Client
from relive.rl.adders.base import Step, Transition
from relive.rl.adders.n_step import n_step_return
from relive.rl.adders.sequence import EndBehavior, row_spec
from relive.rl.specs import EnvironmentSpec
from relive.structured_writer import Condition, create_config, create_reference_step


class StructuredAdder:
    """Writes rows, and creates items from them according to patterns. The priority of all items is 1.

    Args:
      client: the client for the server.
      configs: configurations from :func:`create_sequence_config` or :func:`create_n_step_transition_config`, or your
        own configurations, based on the :class:`Step` of :func:`create_step_spec`.
      max_in_flight_items: the number of items that may be unconfirmed; ``None``: no bound.
    """

    def __init__(self, client: Client, configs: Sequence[Any], *, max_in_flight_items: int | None = None) -> None:
        if max_in_flight_items is not None and max_in_flight_items < 1:
            raise ValueError(f"max_in_flight_items must be at least 1, or None for no limit, got {max_in_flight_items}")
        self._client = client
        self._configs = list(configs)
        self._writer = client.structured_writer(self._configs)
        self._max_in_flight_items = max_in_flight_items
        self._open: dict[str, Any] | None = None

    def add_first(self, timestep: Any) -> None:
        """Starts an episode."""
        self.reset()
        if not timestep.first():
            raise ValueError(f"an episode must start with FIRST, got step type {timestep.step_type!r}")
        self._open = {"observation": timestep.observation, "start_of_episode": np.bool_(True)}

    def add(self, action: Any, next_timestep: Any, extras: Any = ()) -> None:
        """Adds an action and the resulting step."""
        if self._open is None:
            raise ValueError("call add_first() before add()")
        rest = {
            "action": action,
            "reward": nest.map_structure(np.float32, next_timestep.reward),
            "discount": nest.map_structure(np.float32, next_timestep.discount),
        }
        if nest.flatten(extras):
            rest["extras"] = extras
        self._append(Step(**self._open, **rest))
        self._open = {"observation": next_timestep.observation, "start_of_episode": np.bool_(False)}
        if next_timestep.last():
            self._append(Step(**self._open, **nest.map_structure(np.zeros_like, rest)))
            self._open = None
            self._writer.end_episode()

    def reset(self) -> None:
        """Drops the current episode, except for items that already exist; waits until the server has confirmed them."""
        if self._open is None:
            return
        # The end of an episode creates items; an abandoned episode creates none. If the flush fails, the next episode
        # nevertheless begins with a new writer.
        abandoned, self._open = self._writer, None
        self._writer = self._client.structured_writer(self._configs)
        try:
            abandoned.flush()
        finally:
            abandoned.close()

    def _append(self, row: Step) -> None:
        self._writer.append(row)
        if self._max_in_flight_items is not None:
            self._writer.flush(self._max_in_flight_items)


def create_step_spec(environment_spec: EnvironmentSpec, extras_spec: Any = ()) -> Step:
    """Returns the spec of a row."""
    return row_spec(environment_spec, extras_spec)


def create_sequence_config(
    step_spec: Any,
    sequence_length: int,
    period: int,
    table: str,
    end_of_episode_behavior: EndBehavior = EndBehavior.TRUNCATE,
) -> list[Any]:
    """Returns the patterns for the items of :class:`relive.rl.adders.SequenceAdder`.

    Raises:
      ValueError: a length or period below 1.
      NotImplementedError: an end-of-episode behavior that patterns cannot express: zero padding, and sequences that
        continue into the next episode.
    """
    if sequence_length < 1 or period < 1:
        raise ValueError(f"sequence_length and period must be at least 1, got {sequence_length} and {period}")
    reference = create_reference_step(step_spec)

    def last(rows: int, *conditions: Any) -> Any:
        pattern = nest.map_structure(lambda column: column[-rows:], reference)
        return create_config(pattern=pattern, table=table, conditions=conditions)

    index, length = Condition.step_index, sequence_length
    at_end, long_enough = Condition.is_end_episode(), index() >= length - 1
    due = (length - 1) % period
    configs = [last(length, long_enough, index() % period == due)]
    if end_of_episode_behavior is EndBehavior.WRITE:
        others = [place for place in range(period) if place != due]
        return configs + [last(length, at_end, long_enough, index() % period == place) for place in others]
    if end_of_episode_behavior is EndBehavior.TRUNCATE:
        configs += [last(rows, at_end, index() == rows - 1) for rows in range(1, length)]
        return configs + [
            last(length - missing, at_end, long_enough, index() % period == (length - 1 - missing) % period)
            for missing in range(1, min(period, length))
        ]
    raise NotImplementedError(f"patterns support only EndBehavior.WRITE and TRUNCATE, not {end_of_episode_behavior}")


def create_n_step_transition_config(step_spec: Any, n_step: int, table: str) -> list[Any]:
    """Returns the patterns for the items of :class:`relive.rl.adders.NStepTransitionAdder`, except that each item is a
    :class:`Step` with the rewards and discounts of all its steps, and with its first and its last observation.

    Readers convert the items with :func:`n_step_from_trajectory`.

    Raises:
      ValueError: ``n_step`` is below 1.
    """
    if n_step < 1:
        raise ValueError(f"n_step must be at least 1, got {n_step}")
    reference = create_reference_step(step_spec)

    def transition(steps: int, *conditions: Any) -> Any:
        def cut(name: str) -> Any:
            def of(column: Any) -> Any:
                if name == "observation":
                    return column[-(steps + 1) :: steps]
                return column[-(steps + 1) : -1] if name in ("reward", "discount") else column[-(steps + 1) : -steps]

            return of

        pattern = Step(**{name: nest.map_structure(cut(name), part) for name, part in reference._asdict().items()})
        return create_config(pattern=pattern, table=table, conditions=conditions)

    index, at_end = Condition.step_index, Condition.is_end_episode()
    configs = [transition(steps, index() == steps) for steps in range(1, n_step)]
    configs.append(transition(n_step, index() >= n_step))
    # The pattern for the start of an episode has already created an item with all its steps.
    return configs + [transition(steps, at_end, index() >= steps + 1) for steps in range(n_step - 1, 0, -1)]


def n_step_from_trajectory(trajectory: Any, additional_discount: float) -> Transition:
    """Returns the transition of an item of :func:`create_n_step_transition_config`; ``trajectory`` contains the item's
    arrays, in the fields of a :class:`Step` or in a mapping with their names."""
    fields = trajectory if isinstance(trajectory, Mapping) else trajectory._asdict()

    def at(name: str, position: int) -> Any:
        return nest.map_structure(lambda column: column[position], fields[name])

    steps = range(len(nest.flatten(fields["reward"])[0]))
    rewards, discounts = ([at(name, step) for step in steps] for name in ("reward", "discount"))
    reward, discount = n_step_return(rewards, discounts, additional_discount)
    return Transition(
        observation=at("observation", 0),
        action=at("action", 0),
        reward=reward,
        discount=discount,
        next_observation=at("observation", -1),
        extras=at("extras", 0) if "extras" in fields else (),
    )
