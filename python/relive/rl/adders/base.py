"""The values and specs of items, and what all adders have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from relive import nest
from relive.rl.specs import EnvironmentSpec
from relive.specs import ArraySpec

DEFAULT_PRIORITY_TABLE = "priority_table"


class Step(NamedTuple):
    """A row: an observation, the action taken for it, and the result; or a sequence of rows.

    The first four fields also have the names that priority functions used in earlier versions of Acme:
    ``observations``, ``actions``, ``rewards`` and ``discounts``.
    """

    observation: Any
    action: Any
    reward: Any
    discount: Any
    start_of_episode: Any
    extras: Any = ()

    @property
    def observations(self) -> Any:
        """Same as ``observation``."""
        return self.observation

    @property
    def actions(self) -> Any:
        """Same as ``action``."""
        return self.action

    @property
    def rewards(self) -> Any:
        """Same as ``reward``."""
        return self.reward

    @property
    def discounts(self) -> Any:
        """Same as ``discount``."""
        return self.discount


class Transition(NamedTuple):
    """A transition over several consecutive steps: its start, its reward and its end.

    The first four fields also have other names, as those of :class:`Step`.
    """

    observation: Any
    action: Any
    reward: Any
    discount: Any
    next_observation: Any
    extras: Any = ()

    @property
    def observations(self) -> Any:
        """Same as ``observation``."""
        return self.observation

    @property
    def actions(self) -> Any:
        """Same as ``action``."""
        return self.action

    @property
    def rewards(self) -> Any:
        """Same as ``reward``."""
        return self.reward

    @property
    def discounts(self) -> Any:
        """Same as ``discount``."""
        return self.discount


PriorityFnInput = Step | Transition
"""The values of an item, as arrays."""

PriorityFn = Callable[[Any], float]
"""A function from a :data:`PriorityFnInput` to the priority of the item."""


@runtime_checkable
class Adder(Protocol):
    """Writes an actor's steps."""

    def add_first(self, timestep: Any) -> None:
        """Starts an episode; ``timestep`` is a FIRST."""

    def add(self, action: Any, next_timestep: Any, extras: Any = ()) -> None:
        """Adds an action and the resulting step; a LAST ends the episode."""

    def reset(self) -> None:
        """Drops the current episode, except for items that already exist."""


def as_extras_spec(extras_spec: Any) -> Any:
    """Returns the specs of extras."""
    return nest.map_structure(lambda leaf: ArraySpec(leaf.shape, leaf.dtype, getattr(leaf, "name", None)), extras_spec)


def single_precision(spec: EnvironmentSpec) -> tuple[Any, Any]:
    """Returns the specs of rewards and discounts as stored."""
    rewards, discounts = (
        nest.map_structure(lambda leaf: ArraySpec(leaf.shape, np.float32, leaf.name), part) for part in spec[2:]
    )
    return rewards, discounts
