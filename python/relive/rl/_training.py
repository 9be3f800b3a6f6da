"""What a run comes to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from relive.rl._curve import Curve
from relive.rl._episodes import EpisodeLog
from relive.rl.policy import Policy

Progress = Callable[[dict[str, Any]], object]
"""Gets an episode: ``episode``, ``episode_return``, ``episode_length``, ``env_steps``, ``learner_steps``, ``actor``, ``seconds``."""


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """What a run came to.

    ``samples_per_insert`` is measured from when learning may begin. ``is_complete`` is false if the time ran out before all
    steps were made.

    ``time_by_part`` says how many seconds each part of the work took, in all threads and processes together: ``act`` and ``step`` (the policy, and the
    environments), ``add`` and ``sample`` (into the replay table and out of it, waiting included), ``learn``, ``priorities``, ``weights``, ``evaluate`` and
    ``save``. Parts that took no time are not there.
    """

    policy: Policy
    episodes: EpisodeLog
    evaluation: EpisodeLog
    mean_return_last_100: float
    env_steps: int
    learner_steps: int
    env_steps_per_s: float
    samples_per_insert: float
    time_by_part: Mapping[str, float]
    is_complete: bool
    _again: Callable[..., TrainingResult] | None = dataclasses.field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, policy: Policy, result: dict[str, Any], again: Callable[..., TrainingResult] | None) -> TrainingResult:
        """What the extension gives of a run, which ``again`` goes on with if it was saved."""
        episodes, evaluation = EpisodeLog(**result["train"]), EpisodeLog(**result["evaluation"])
        names = [field.name for field in dataclasses.fields(cls)][3:-1]
        return cls(policy, episodes, evaluation, **{name: result[name] for name in names}, _again=again)

    def plot(self) -> Curve:
        """The returns of episodes over steps in the environment, as a picture that notebooks show: their mean over a hundred episodes, and the
        means of evaluations. Those of a run that learns from data are over steps of the learner."""
        return Curve.of(self.episodes, self.evaluation)

    def resume(self, steps: int, **options: Any) -> TrainingResult:
        """Goes on with the run until it has made so many steps in all. The options are those that it had, but for loggers, which it has closed, and for
        those that are given here.

        Raises:
          ValueError: it had no ``checkpoint_dir``.
        """
        if self._again is None:
            raise ValueError("the run was not saved: give it a checkpoint_dir, from which it is resumed")
        return self._again(steps=steps, **options)

    def __getstate__(self) -> dict[str, Any]:
        # What a run is made of cannot be pickled, as a rule.
        return {**vars(self), "_again": None}


Runs = TrainingResult | Sequence[TrainingResult]


def plot(runs: Runs | Mapping[str, Runs], *, of: Literal["training", "evaluation"] = "training") -> Curve:
    """The returns of several runs in one picture, which notebooks show.

    Args:
      runs: results by name, to compare agents or settings. Several results of one name, a list, are the seeds of one line: it is their mean, in a band from the
        lowest to the highest. Without names all are one line.
      of: which returns: of the episodes while training, a mean over a hundred, or of the evaluations.

    Raises:
      ValueError: there are no runs, or one without such episodes.
    """
    named = runs if isinstance(runs, Mapping) else {of: runs}
    logs: dict[str, list[EpisodeLog]] = {}
    for name, results in named.items():
        several = [results] if isinstance(results, TrainingResult) else list(results)
        logs[name] = [result.episodes if of == "training" else result.evaluation for result in several]
        if not logs[name] or not all(map(len, logs[name])):
            raise ValueError(f"plot: the runs of {name!r} have no episodes of {of}" if logs[name] else f"plot: there are no runs of {name!r}")
    if not logs:
        raise ValueError("plot: there are no runs")
    return Curve.of_runs(logs, evaluations=of == "evaluation")
