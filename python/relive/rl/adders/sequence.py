"""Sequences of steps."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import numpy as np

from relive import nest
from relive.client import Client
from relive.rl.adders.base import PriorityFn, Step, as_extras_spec, single_precision
from relive.rl.adders.rows import EpisodeWriter, RowAdder
from relive.rl.specs import EnvironmentSpec
from relive.specs import ArraySpec


class EndBehavior(enum.Enum):
    """The treatment of rows at the end of an episode that do not complete a sequence.

    The first sequence is complete when the number of rows equals its length; after that, a sequence is complete every
    period. The row of an episode's last observation counts.
    """

    ZERO_PAD = enum.auto()
    """Adds rows of zeros until a sequence is complete; that sequence is the episode's last one. If it would contain
    only zeros, which is possible if the period is longer than a sequence, it is not written."""
    TRUNCATE = enum.auto()
    """Writes a shorter sequence with the rows of the incomplete sequence."""
    WRITE = enum.auto()
    """Writes a full sequence of the last rows. Shorter episodes write nothing."""
    CONTINUE = enum.auto()
    """Writes nothing: sequences continue into the next episode."""


class SequenceAdder(RowAdder):
    """Writes a sequence of ``sequence_length`` rows every ``period`` rows.

    Row t contains the observation, the action taken for it, the resulting reward and discount (float32), and whether
    the observation starts an episode. In the row of an episode's last observation, all later values are zeros.

    Args:
      client: the client for the server.
      sequence_length: the number of rows in a sequence.
      period: the number of rows from the end of one sequence to the end of the next.
      delta_encoded, chunk_length, get_signature_timeout_ms: accepted for programs written for Acme, without effect.
      priority_fns: as for :class:`relive.rl.adders.NStepTransitionAdder`.
      max_in_flight_items: as for :class:`relive.rl.adders.NStepTransitionAdder`, by default 2.
      end_of_episode_behavior: the treatment of an episode's last rows, by default ``ZERO_PAD``.
      pad_end_of_episode, break_end_of_episode: Acme's older arguments for the same. Without ``break_end_of_episode``,
        the behavior is ``CONTINUE``, otherwise ``ZERO_PAD`` or, without ``pad_end_of_episode``, ``TRUNCATE``.

    Raises:
      ValueError: a number below 1, both kinds of arguments for the end of an episode, or ``pad_end_of_episode=True``
        with ``break_end_of_episode=False``.
    """

    def __init__(
        self,
        client: Client,
        sequence_length: int,
        period: int,
        *,
        delta_encoded: bool = False,
        priority_fns: Mapping[str, PriorityFn | None] | None = None,
        max_in_flight_items: int | None = 2,
        end_of_episode_behavior: EndBehavior | None = None,
        chunk_length: int | None = None,
        pad_end_of_episode: bool | None = None,
        break_end_of_episode: bool | None = None,
        get_signature_timeout_ms: int | None = None,
    ) -> None:
        if sequence_length < 1 or period < 1:
            raise ValueError(f"sequence_length and period must be at least 1, got {sequence_length} and {period}")
        del delta_encoded, chunk_length, get_signature_timeout_ms
        super().__init__(EpisodeWriter(client, sequence_length, priority_fns, max_in_flight_items))
        self._length = sequence_length
        self._period = period
        self._end = _behavior(end_of_episode_behavior, pad_end_of_episode, break_end_of_episode)

    def add_first(self, timestep: Any) -> None:
        """Starts an episode."""
        if self._rows.is_open or self._end is not EndBehavior.CONTINUE:
            self.reset()
        self._rows.begin(timestep)

    def add(self, action: Any, next_timestep: Any, extras: Any = ()) -> None:
        """Adds an action and the resulting step."""
        self._rows.add(action, next_timestep, extras)
        if self._rows_missing() == 0:
            self._rows.create_sequence(self._length)
        if next_timestep.last():
            self._rows.finish()
            self._write_last()
            if self._end is not EndBehavior.CONTINUE:
                self.reset()

    def _rows_missing(self) -> int:
        """Returns the number of rows until a sequence is complete."""
        missing = self._length - self._rows.rows
        return missing if missing >= 0 else missing % self._period

    def _write_last(self) -> None:
        missing, length = self._rows_missing(), self._length
        if self._end is EndBehavior.CONTINUE:
            rows = length if missing == 0 else 0
        elif self._end is EndBehavior.WRITE:
            rows = length if self._rows.rows >= length else 0
        # If the period is longer than a sequence, the next sequence may not contain any row of the episode.
        elif self._end is EndBehavior.TRUNCATE:
            rows = max(0, length - missing)
        else:
            rows = length if missing < length else 0
            zeros = self._rows.zeros()
            for _ in range(missing if rows else 0):
                self._rows.append(zeros)
        if rows:
            self._rows.create_sequence(rows)

    @classmethod
    def signature(
        cls, environment_spec: EnvironmentSpec, extras_spec: Any = (), sequence_length: int | None = None
    ) -> Any:
        """Returns the signature of a table for these items, a :class:`Step`. By default, sequences have any length."""
        return row_signature(environment_spec, extras_spec, sequence_length)


def _behavior(end: EndBehavior | None, pads: bool | None, breaks: bool | None) -> EndBehavior:
    if end is not None:
        if pads is not None or breaks is not None:
            raise ValueError("end_of_episode_behavior replaces pad_end_of_episode and break_end_of_episode; omit them")
        return EndBehavior(end)
    if breaks is not None and not breaks:
        if pads:
            raise ValueError("pad_end_of_episode=True and break_end_of_episode=False contradict each other: only sequences that end with "
                             "their episode are padded; omit one of them")
        return EndBehavior.CONTINUE
    return EndBehavior.TRUNCATE if pads is not None and not pads else EndBehavior.ZERO_PAD


def row_signature(environment_spec: EnvironmentSpec, extras_spec: Any, rows: int | None) -> Any:
    """Returns the signature of a table for sequences of rows."""
    step = row_spec(environment_spec, extras_spec)
    return nest.map_structure(lambda leaf: ArraySpec((rows, *leaf.shape), leaf.dtype, leaf.name), step)


def row_spec(environment_spec: EnvironmentSpec, extras_spec: Any) -> Step:
    """Returns the spec of a row."""
    rewards, discounts = single_precision(environment_spec)
    return Step(
        environment_spec.observations,
        environment_spec.actions,
        rewards,
        discounts,
        ArraySpec((), np.bool_, "start_of_episode"),
        as_extras_spec(extras_spec),
    )
