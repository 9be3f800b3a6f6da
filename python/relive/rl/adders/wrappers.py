"""Adders that pass steps on to other adders."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from relive.rl.adders.base import Adder


class ForkingAdder:
    """Writes each step with several adders.

    Args:
      adders: the adders, in the order in which they are called.
    """

    def __init__(self, adders: Iterable[Adder]) -> None:
        self._adders = list(adders)

    def add_first(self, timestep: Any) -> None:
        """Starts an episode."""
        for adder in self._adders:
            adder.add_first(timestep)

    def add(self, action: Any, next_timestep: Any, extras: Any = ()) -> None:
        """Adds an action and the resulting step."""
        for adder in self._adders:
            adder.add(action, next_timestep, extras)

    def reset(self) -> None:
        """Drops the current episode, except for items that already exist."""
        for adder in self._adders:
            adder.reset()


class IgnoreExtrasAdder:
    """Writes each step without its extras.

    Args:
      adder: the adder that writes the steps.
    """

    def __init__(self, adder: Adder) -> None:
        self._adder = adder

    def add_first(self, timestep: Any) -> None:
        """Starts an episode."""
        self._adder.add_first(timestep)

    def add(self, action: Any, next_timestep: Any, extras: Any = ()) -> None:
        """Adds an action and the resulting step; ``extras`` are dropped."""
        del extras
        self._adder.add(action, next_timestep)

    def reset(self) -> None:
        """Drops the current episode, except for items that already exist."""
        self._adder.reset()
