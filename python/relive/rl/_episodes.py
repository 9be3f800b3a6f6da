"""Episodes of a run."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt


class WithArrays:
    """The base class of dataclasses with one number per episode, which are equal if all their numbers are equal."""

    returns: npt.NDArray[np.float64]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        mine, theirs = vars(self), vars(other)
        return all(_are_equal(mine[name], theirs[name]) for name in mine)

    def __hash__(self) -> int:
        return hash(len(self.returns))


def _are_equal(one: Any, other: Any) -> bool:
    """Returns whether values are equal, where NaN equals itself."""
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    return bool(one == other or (one != one and other != other))


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class EpisodeLog(WithArrays):
    """Episodes in the order in which they ended, as arrays with one number per episode.

    ``env_steps`` and ``learner_steps`` are the whole run's counts at the episode's end; ``seconds`` is the time since
    the run's start.
    """

    returns: npt.NDArray[np.float64]
    lengths: npt.NDArray[np.int64]
    actors: npt.NDArray[np.int64]
    env_steps: npt.NDArray[np.int64]
    learner_steps: npt.NDArray[np.int64]
    seconds: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.returns)

    def __repr__(self) -> str:
        return f"EpisodeLog({len(self)} episodes)"
