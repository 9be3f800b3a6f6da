"""Episodes of a run."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt


@dataclasses.dataclass(frozen=True, repr=False)
class EpisodeLog:
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
