"""Whole episodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from relive import nest
from relive.client import Client
from relive.rl.adders.base import PriorityFn
from relive.rl.adders.rows import EpisodeWriter, RowAdder
from relive.rl.adders.sequence import row_signature
from relive.rl.specs import EnvironmentSpec


class EpisodeAdder(RowAdder):
    """Writes one item with all rows for each episode, in the layout of :class:`relive.rl.adders.SequenceAdder`.

    Args:
      client: the client for the server.
      max_sequence_length: the largest number of rows; an episode of T steps has T + 1 rows.
      delta_encoded, chunk_length: accepted for programs written for Acme, without effect.
      priority_fns: as for :class:`relive.rl.adders.NStepTransitionAdder`.
      max_in_flight_items: as for :class:`relive.rl.adders.NStepTransitionAdder`, by default 1.
      padding_fn: fills episodes up to ``max_sequence_length`` rows; it takes the shape and data type of an array and
        returns the array. ``start_of_episode`` of these rows is always false.
    """

    def __init__(
        self,
        client: Client,
        max_sequence_length: int,
        delta_encoded: bool = False,
        priority_fns: Mapping[str, PriorityFn | None] | None = None,
        max_in_flight_items: int | None = 1,
        padding_fn: Callable[[tuple[int, ...], Any], Any] | None = None,
        chunk_length: int | None = None,
    ) -> None:
        if max_sequence_length < 2:
            raise ValueError(f"max_sequence_length must be at least 2, got {max_sequence_length}")
        del delta_encoded, chunk_length
        super().__init__(EpisodeWriter(client, max_sequence_length, priority_fns, max_in_flight_items))
        self._max_length = max_sequence_length
        self._padding_fn = padding_fn

    def add_first(self, timestep: Any) -> None:
        """Starts an episode."""
        self.reset()
        self._rows.begin(timestep)

    def add(self, action: Any, next_timestep: Any, extras: Any = ()) -> None:
        """Adds an action and the resulting step.

        Raises:
          ValueError: the episode becomes longer than ``max_sequence_length``.
        """
        # The completed row is followed by the row of the next observation.
        if self._rows.rows + 2 > self._max_length:
            raise ValueError(f"an episode has more than max_sequence_length = {self._max_length} observations")
        self._rows.add(action, next_timestep, extras)
        if not next_timestep.last():
            return
        self._rows.finish()
        if self._padding_fn is not None:
            fill = self._padding_fn
            zeros = self._rows.zeros()
            del zeros["start_of_episode"]
            row = nest.map_structure(lambda part: fill(part.shape, part.dtype), zeros)
            row["start_of_episode"] = np.bool_(False)
            while self._rows.rows < self._max_length:
                self._rows.append(row)
        self._rows.create_sequence(self._rows.rows)
        self.reset()

    @classmethod
    def signature(
        cls, environment_spec: EnvironmentSpec, extras_spec: Any = (), sequence_length: int | None = None
    ) -> Any:
        """Returns the signature of a table for these items, a :class:`Step`. By default, episodes have any length."""
        return row_signature(environment_spec, extras_spec, sequence_length)
