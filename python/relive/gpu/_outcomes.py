"""The results of calls on a store."""

from __future__ import annotations

import dataclasses
from typing import Literal, NamedTuple


@dataclasses.dataclass(frozen=True)
class Inserted:
    """The index of the trajectory."""

    index: int
    generation: int
    """The generation: the number of earlier trajectories at the index."""


class Changed(NamedTuple):
    """The outcome of a change."""

    applied: int
    """The number of trajectories that were changed."""
    skipped: int
    """The number of trajectories that no longer exist; for removals, this includes trajectories that are being read."""


class Saved(NamedTuple):
    """The outcome of a save."""

    number: int
    """The number of the checkpoint; the checkpoints in a folder are numbered consecutively."""
    trajectories: int
    written_trajectories: int
    """The number of trajectories that this save wrote, excluding earlier saves."""
    written_bytes: int
    removed_files: int
    """Files that were removed because no checkpoint needs them."""


class Status(NamedTuple):
    """The state of an index."""

    state: Literal["free", "writing", "selectable", "pinned", "evicting"]
    """``"selectable"``: the index has a trajectory; ``"pinned"``: the trajectory is being read."""
    generation: int
    length: int
    """The number of steps."""
    weight: float
    """The weight, or 0 if the trajectory is not selectable."""
    inserted: int
    """The number of trajectories that were inserted before this one."""
    sampled: int
    """The number of times that the trajectory was in a batch."""
    pins: int
    """The number of current readers."""
