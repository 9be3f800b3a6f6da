"""What calls of a store tell."""

from __future__ import annotations

import dataclasses
from typing import Literal, NamedTuple


@dataclasses.dataclass(frozen=True)
class Inserted:
    """Where a trajectory is."""

    index: int
    generation: int
    """Which of the trajectories that were there one after another."""


class Changed(NamedTuple):
    """What came of a change."""

    applied: int
    """Trajectories that were changed."""
    skipped: int
    """Trajectories that are there no more; where they were to be removed, also those that somebody reads."""


class Saved(NamedTuple):
    """What a save has written."""

    number: int
    """Of the checkpoint; the next one in its folder has the next number."""
    trajectories: int
    written_trajectories: int
    """Those that were written now, and not by an earlier save."""
    written_bytes: int
    removed_files: int
    """Files that nothing needed any more."""


class Status(NamedTuple):
    """What there is to know of an index."""

    state: Literal["free", "writing", "selectable", "pinned", "evicting"]
    """``"selectable"`` has a trajectory, ``"pinned"`` one that somebody reads."""
    generation: int
    length: int
    """Number of steps."""
    weight: float
    """0 if it is not selectable."""
    inserted: int
    """Number of trajectories that were inserted before."""
    sampled: int
    """How often it was in a batch."""
    pins: int
    """How many times it is being read."""
