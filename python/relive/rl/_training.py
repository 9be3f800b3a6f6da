"""The result of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from relive.rl._curve import Curve
from relive.rl._episodes import EpisodeLog
from relive.rl.policy import Policy

Progress = Callable[[dict[str, Any]], object]
"""Receives an episode: ``episode``, ``episode_return``, ``episode_length``, ``env_steps``, ``learner_steps``,
``actor``, ``seconds``, ``duration_s``, ``steps_per_second``."""


@dataclasses.dataclass(frozen=True, eq=False)
class TrainingResult:
    """The result of a run.

    ``mean_return_last_100`` is NaN if no episode has ended. ``samples_per_insert`` is measured from the start of
    learning. ``is_complete`` is false if the timeout ended the run before its last step.

    ``time_by_part`` contains the seconds of each part of the work, over all threads and processes: ``act`` and ``step``
    (the policy and the environments), ``add`` and ``sample`` (writing to and reading from the replay table, including
    waits), ``learn``, ``priorities``, ``weights``, ``evaluate`` and ``save``. Parts that took no time are omitted.
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
    _again: Callable[..., TrainingResult] | None = dataclasses.field(default=None, repr=False)

    @classmethod
    def of(cls, policy: Policy, result: dict[str, Any], again: Callable[..., TrainingResult] | None) -> TrainingResult:
        """Builds the result of a run. ``again`` continues the run; it is ``None`` if the run was not saved."""
        episodes, evaluation = EpisodeLog(**result["train"]), EpisodeLog(**result["evaluation"])
        names = [field.name for field in dataclasses.fields(cls)][3:-1]
        return cls(policy, episodes, evaluation, **{name: result[name] for name in names}, _again=again)

    def plot(self) -> Curve:
        """Returns a plot of episode returns over environment steps, which notebooks display: the mean over a hundred
        episodes, and the mean of each evaluation. For a run that learns from data, the x-axis shows learner steps."""
        return Curve.of(self.episodes, self.evaluation)

    def resume(self, steps: int | None = None, **options: Any) -> TrainingResult:
        """Continues the run until it has completed ``steps`` steps in total or, if it learns from data,
        ``learner_steps`` learner steps. The options stay the same, except for the loggers, which were closed, and for
        the given options. If a new ``on`` does not support the previous number of actors, as with ``on="serial"`` after
        a run in threads, the default number is used.

        Raises:
          TypeError: neither ``steps`` nor ``learner_steps`` is given.
          ValueError: the run had no ``checkpoint_dir``.
        """
        if self._again is None:
            raise ValueError("the run was not saved; give it a checkpoint_dir, from which it can resume")
        if steps is None and options.get("learner_steps") is None:
            raise TypeError("give the steps in total after which the resumed run ends: steps or, if the run learns from data, learner_steps")
        return self._again(steps=steps, **options)

    def __getstate__(self) -> dict[str, Any]:
        # The inputs of a run usually cannot be pickled.
        return {**vars(self), "_again": None}


Runs = TrainingResult | Sequence[TrainingResult]


def plot(runs: Runs | Mapping[str, Runs], *, of: Literal["training", "evaluation"] = "training") -> Curve:
    """Draws the returns of several runs in one plot, which notebooks display.

    Args:
      runs: results by name, to compare agents or settings. A list of results under one name, such as runs with
        different seeds, is drawn as one line: the mean, with a band from the lowest to the highest result. Without
        names, all results form one line.
      of: the returns to draw: the returns of episodes during training, averaged over a hundred, or the returns of
        evaluations.

    Raises:
      TypeError: the values are not results of runs.
      ValueError: there are no runs, a run lacks such episodes, the runs under one name have no steps in common (a run,
        and its continuation by :meth:`TrainingResult.resume`), or ``of`` is not one of these names.
    """
    if of not in ("training", "evaluation"):
        raise ValueError(f'plot: of must be "training" or "evaluation", not {of!r}')
    named = runs if isinstance(runs, Mapping) else {of: runs}
    logs: dict[str, list[EpisodeLog]] = {}
    for name, results in named.items():
        several = list(results) if isinstance(results, Iterable) else [results]
        if not all(isinstance(result, TrainingResult) for result in several):
            raise TypeError(f"plot: {results!r} is not the result of a run; give a TrainingResult, a list of them, or a mapping from names to lists")
        logs[name] = [result.episodes if of == "training" else result.evaluation for result in several]
        if not logs[name] or not all(map(len, logs[name])):
            raise ValueError(f"plot: the runs of {name!r} have no episodes of {of}" if logs[name] else f"plot: there are no runs of {name!r}")
    if not logs:
        raise ValueError("plot: there are no runs")
    return Curve.of_runs(logs, evaluations=of == "evaluation")
