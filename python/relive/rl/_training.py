"""What a run comes to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from relive.rl.policy import Policy

Progress = Callable[[dict[str, Any]], object]
"""Gets an episode: ``episode``, ``episode_return``, ``episode_length``, ``env_steps``, ``learner_steps``, ``actor``, ``seconds``."""


@dataclasses.dataclass(frozen=True, repr=False)
class EpisodeLog:
    """Episodes in the order of their ends, one number of each array for each.

    ``env_steps`` and ``learner_steps`` are those of the whole run at the episode's end, ``seconds`` those since its
    beginning.
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


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """What a run came to.

    ``samples_per_insert`` is measured from when learning may begin. ``is_complete`` is false if the time ran out before all
    steps were made.
    """

    policy: Policy
    episodes: EpisodeLog
    evaluation: EpisodeLog
    mean_return_last_100: float
    env_steps: int
    learner_steps: int
    env_steps_per_s: float
    samples_per_insert: float
    is_complete: bool

    @classmethod
    def of(cls, policy: Policy, result: dict[str, Any]) -> TrainingResult:
        """What the extension gives of a run."""
        episodes, evaluation = EpisodeLog(**result["train"]), EpisodeLog(**result["evaluation"])
        names = [field.name for field in dataclasses.fields(cls)][3:]
        return cls(policy, episodes, evaluation, **{name: result[name] for name in names})
