"""Evaluating policies."""

from __future__ import annotations

import dataclasses
import logging
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from relive import _native
from relive._numbers import any_number, count, seconds
from relive.rl import _faults
from relive.rl._episodes import WithArrays
from relive.rl._sources import is_environment, with_dm_env_interface
from relive.rl.policy import Policy
from relive.rl.specs import normalized
from relive.rl.wrappers import innermost

_SEED = 1_000
_PATIENCE = 20.0


@dataclasses.dataclass(frozen=True, eq=False)
class Evaluation(WithArrays):
    """The result of an evaluation.

    ``normalized_score`` is 0 for a random policy's return and 100 for an expert's, as in D4RL (Fu et al. 2020);
    ``None`` if these returns are unknown.
    """

    returns: npt.NDArray[np.float64]
    lengths: npt.NDArray[np.int64]
    mean_return: float
    normalized_score: float | None
    env_steps: int | None = None
    """The environment steps of the run that evaluated, or ``None`` outside of runs."""
    learner_steps: int | None = None
    """The learner steps of the run that evaluated, or ``None`` outside of runs."""

    @property
    def standard_error(self) -> float:
        """The standard error of :attr:`mean_return`: the sample standard deviation of the returns, divided by the root of
        their number; NaN for a single episode."""
        number = len(self.returns)
        return math.nan if number < 2 else float(self.returns.std(ddof=1)) / math.sqrt(number)


def evaluate(
    policy: Callable[[Any], Any],
    environment: Any,
    *,
    episodes: int = 10,
    seed: int = _SEED,
    timeout: float | None = None,
    reference_scores: Any = None,
) -> Evaluation:
    """Evaluates a policy in an environment.

    Args:
      policy: the policy of a trained agent, or any function from observations to actions. A method ``reset``, if
        present, is called before each episode.
      environment: as in ``train``, but with one agent, and not a vector; a function of a seed is called with ``seed``.
        A ready-made environment is not closed.
      episodes: the number of episodes.
      seed: the seed of all randomness in the environment. The default differs from that of ``train``, because the same
        seed repeats the first episodes of the training.
      timeout: the number of seconds after which an evaluation that has not ended fails; ``None``: no limit. It is
        checked before each step. An episode that takes longer than 20 seconds is logged as a warning.
      reference_scores: the mean returns of a random policy and of an expert, as a pair; or a Minari data set that
        contains them. For native environments except bsuite's, the scores are built in.

    Raises:
      TypeError: the policy is not callable, the value is not an environment, or the scores are not a pair.
      ValueError: a number that is out of range; scores that are equal or not finite; a data set without scores; a
        trained policy, and an environment with other shapes or another number of actions than that of its training.
      TimeoutError: the evaluation has not ended within the timeout.
      Exception: the policy or the environment raised an exception.
    """
    if not callable(policy):
        has_predict = callable(getattr(policy, "predict", None))
        hint = "; for a model of Stable-Baselines3, give lambda observation: model.predict(observation)[0]" if has_predict else ""
        raise TypeError(
            f"policy is {policy!r}, but it must be a function from observations to actions, such as the policy of a trained agent{hint}"
        )
    episodes, seed = count("episodes", episodes, 1), count("seed", seed)
    watch = _Watch(episodes, timeout)
    scores = _scores(reference_scores, environment)
    made = with_dm_env_interface(environment, seed)
    try:
        if isinstance(policy, Policy):
            called = environment if isinstance(environment, str) else _faults.name_of(innermost(made))
            _expect_like_training(policy, made, called)
        played = [_play(policy, made, watch) for _ in range(episodes)]
    finally:
        if not is_environment(environment):
            _faults.close(made, _faults.name_of(made))
    returns, lengths = np.array([total for total, _ in played]), np.array([length for _, length in played], np.int64)
    mean = float(np.mean(returns))
    score = None if scores is None else 100 * (mean - scores[0]) / (scores[1] - scores[0])
    return Evaluation(returns, lengths, mean, score)


def _expect_like_training(policy: Policy, environment: Any, called: str) -> None:
    """Checks that an environment fits a policy, if it has specs of a supported kind: an episode needs none."""
    if not all(hasattr(environment, name) for name in ("observation_spec", "action_spec")):
        return
    try:
        observations = normalized(environment.observation_spec(), "observation")
        actions = normalized(environment.action_spec(), "action")
    except TypeError:
        return
    policy._expect_like_training(called, observations, actions)


class _Watch:
    """Reports episodes that do not end, as evaluations within a run do."""

    def __init__(self, episodes: int, timeout: float | None) -> None:
        self._left, self._timeout = episodes, seconds(timeout)
        self._begin = self._since = time.monotonic()
        self._patience = _PATIENCE

    def note_step(self, length: int) -> None:
        """Notes that the current episode has this number of steps."""
        now = time.monotonic()
        if self._timeout is not None and now - self._begin > self._timeout:
            raise TimeoutError(f"the evaluation has not ended within {self._timeout} s: {self._state(length)}")
        if now - self._since > self._patience:
            self._patience *= 2
            logging.getLogger("relive").warning("%s, or give the evaluation a timeout", self._state(length))

    def note_end(self) -> None:
        """Notes the end of an episode."""
        self._left, self._since, self._patience = self._left - 1, time.monotonic(), _PATIENCE

    def _state(self, length: int) -> str:
        return (
            f"an episode of the evaluation has {length} steps so far (episodes left: {self._left}): if episodes may never end, "
            "limit their length, for example with Gymnasium's TimeLimit"
        )


def _play(policy: Callable[[Any], Any], environment: Any, watch: _Watch) -> tuple[float, int]:
    """Plays an episode, and returns its return and its length."""
    getattr(policy, "reset", lambda: None)()
    step = environment.reset()
    total, length = 0.0, 0
    while int(step.step_type) != 2:
        watch.note_step(length)
        action = policy(step.observation)
        if action is None:
            raise TypeError("the policy returned None, but it must return an action for each observation")
        step = environment.step(action)
        total, length = total + float(step.reward), length + 1
    watch.note_end()
    return total, length


def _scores(given: Any, environment: Any) -> tuple[float, float] | None:
    if given is None:
        return _native.reference_scores(environment) if isinstance(environment, str) else None
    if hasattr(given, "iterate_episodes"):
        metadata = given.storage.metadata
        if metadata.get("ref_min_score") is None or metadata.get("ref_max_score") is None:
            raise ValueError("this data set of Minari has no reference scores; give them as a pair, random and expert")
        given = metadata["ref_min_score"], metadata["ref_max_score"]
    pair: Any = () if isinstance(given, (str, bytes)) else given
    try:
        random, expert = pair
    except (TypeError, ValueError):
        raise TypeError(f"reference_scores is {given!r}, but it must be a pair of returns, of a random policy and of an expert") from None
    random, expert = any_number("reference_scores", random), any_number("reference_scores", expert)
    if not math.isfinite(random) or not math.isfinite(expert) or random == expert:
        raise ValueError(f"reference_scores is ({random}, {expert}), but they must be two different finite returns, of a random policy "
                         "and of an expert")
    return random, expert
