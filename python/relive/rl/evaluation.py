"""Evaluating policies."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from relive import _native
from relive._numbers import count
from relive.rl import _faults
from relive.rl._sources import is_environment, with_dm_env_interface


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The result of an evaluation.

    ``normalized_score`` is 0 for a random policy's return and 100 for an expert's, as in D4RL (Fu et al. 2020);
    ``None`` if these returns are unknown.
    """

    returns: npt.NDArray[np.float64]
    lengths: npt.NDArray[np.int64]
    mean_return: float
    normalized_score: float | None


def evaluate(
    policy: Callable[[Any], Any],
    environment: Any,
    *,
    episodes: int = 10,
    seed: int = 1,
    reference_scores: Any = None,
) -> Evaluation:
    """Evaluates a policy in an environment.

    Args:
      policy: the policy of a trained agent, or any function from observations to actions. A method ``reset``, if
        present, is called before each episode.
      environment: as in ``train``, but a single environment, not a vector; a function of a seed is called with ``seed``.
        A ready-made environment is not closed.
      episodes: the number of episodes.
      seed: the seed of all randomness in the environment.
      reference_scores: the mean returns of a random policy and of an expert, as a pair; or a Minari data set that
        contains them. For native environments except bsuite's, the scores are built in.

    Raises:
      TypeError: the value is not an environment.
      ValueError: a number that is out of range; scores that are equal or not finite; a data set without scores.
      Exception: the policy or the environment raised an exception.
    """
    episodes, seed = count("episodes", episodes, 1), count("seed", seed)
    scores = _scores(reference_scores, environment)
    made = with_dm_env_interface(environment, seed)
    try:
        played = [_play(policy, made) for _ in range(episodes)]
    finally:
        if not is_environment(environment):
            _faults.close(made, _faults.name_of(made))
    returns, lengths = np.array([total for total, _ in played]), np.array([length for _, length in played], np.int64)
    mean = float(np.mean(returns))
    score = None if scores is None else 100 * (mean - scores[0]) / (scores[1] - scores[0])
    return Evaluation(returns, lengths, mean, score)


def _play(policy: Callable[[Any], Any], environment: Any) -> tuple[float, int]:
    """Plays an episode, and returns its return and its length."""
    getattr(policy, "reset", lambda: None)()
    step = environment.reset()
    total, length = 0.0, 0
    while int(step.step_type) != 2:
        step = environment.step(policy(step.observation))
        total, length = total + float(step.reward), length + 1
    return total, length


def _scores(given: Any, environment: Any) -> tuple[float, float] | None:
    if given is None:
        return _native.reference_scores(environment) if isinstance(environment, str) else None
    if hasattr(given, "iterate_episodes"):
        metadata = given.storage.metadata
        if metadata.get("ref_min_score") is None or metadata.get("ref_max_score") is None:
            raise ValueError("this data set of Minari has no reference scores; give them as a pair, random and expert")
        given = metadata["ref_min_score"], metadata["ref_max_score"]
    random, expert = (float(score) for score in given)
    if not math.isfinite(random) or not math.isfinite(expert) or random == expert:
        raise ValueError(f"reference_scores is ({random}, {expert}), but they must be two different finite returns, of a random policy "
                         "and of an expert")
    return random, expert
