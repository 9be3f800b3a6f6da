"""Vectors of Gymnasium environments as rows of a run."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from relive import nest
from relive.rl import _faults
from relive.rl._answers import FIRST, LAST, MID, Answers
from relive.rl.gymnasium_adapters import expect_supported, first_actions
from relive.rl.specs import DISCOUNTS, REWARDS, EnvironmentSpec, as_arrays, normalized

_NEXT_STEP, _SAME_STEP, _DISABLED = "NextStep", "SameStep", "Disabled"


def is_vector(value: Any) -> bool:
    """Returns whether the value is a vector of environments rather than a class."""
    return not isinstance(value, type) and hasattr(value, "single_observation_space") and hasattr(value, "num_envs")


class Vector:
    """A ``gymnasium.vector.VectorEnv``, with one policy call and one step for all its rows.

    The vector's metadata contains its reset mode. With ``NEXT_STEP``, rows behave like single environments. With
    ``SAME_STEP`` and ``DISABLED``, all rows step together, including rows with a finished episode. The first step of an
    episode is skipped while other rows continue, because its action was chosen for the previous episode's last
    observation; this is logged as a warning.

    Args:
      environment: the vector.
      seeds: the seeds of the first reset: one for each row, or a single seed, from which Gymnasium counts up. A vector
        that has a single random generator for all rows is reset with the first seed.

    Raises:
      TypeError: a space is not supported, or the reset mode is missing.
    """

    agents = 1

    def __init__(self, environment: Any, seeds: Sequence[int]) -> None:
        self._environment = environment
        self.environment, self.rows = environment, int(environment.num_envs)
        self.who = self.called = type(environment).__qualname__
        self._spaces = _faults.Spaces(environment, "single_observation_space", "single_action_space")
        observations = normalized(environment.single_observation_space, "observation")
        self.spec = EnvironmentSpec(observations, normalized(environment.single_action_space, "action"), REWARDS, DISCOUNTS)
        self._first_actions = nest.flatten(first_actions(environment.single_action_space))
        _, self._fill_actions = nest.filler(self.spec.actions)
        self._seeds: list[Any] = [list(seeds), seeds[0]] if len(seeds) == self.rows else [seeds[0]]
        self._mode = _mode(environment)
        if self._mode != _NEXT_STEP and self.rows > 1:
            logging.getLogger("relive").warning(
                "%s does not reset in the next step (its autoreset_mode is %s): the agent does not learn from the first step of an episode "
                "while other rows continue; create the vector with AutoresetMode.NEXT_STEP",
                self.who, self._mode,
            )
        self._ended = np.zeros(self.rows, np.bool_)
        self._begun: Any = None

    def reset(self, answers: Answers) -> None:
        """Starts an episode in each row."""
        seeds, self._seeds = self._seeds, [None]
        answer = _reset(self._environment, seeds)
        try:
            observations, _ = _faults.beginning(answer)
            self._begin_all(observations, answers)
        except _faults.WRONG as error:
            raise _faults.wrong(self.who, "reset", error) from error

    def step(self, actions: list[Any], answers: Answers) -> None:
        """Takes one step in each row."""
        ended = self._ended
        if self._mode != _NEXT_STEP and ended.all():
            self._begin_all(self._begun if self._mode == _SAME_STEP else self._environment.reset()[0], answers)
            return
        if self._mode == _DISABLED and ended.any():
            self._reset(ended)
        answer = self._environment.step(self._acted(actions))
        try:
            observations, infos, over = self._process_answer(answer, answers)
        except _faults.WRONG as error:
            raise _faults.wrong(self.who, "step", error) from error
        if ended.any():
            # Rows have begun an episode.
            self._spaces.expect_same(self.who)
        last = over & ~ended
        if self._mode == _DISABLED and (over & ended).any():
            # The skipped step has also ended an episode.
            begun = self._reset(over & ended)
            observations = nest.map_structure(lambda new, old: np.where(_broadcast_rows(over & ended, new), new, old), begun, observations)
        try:
            answers.see_all(as_arrays(self.spec.observations, observations))
            if self._mode == _SAME_STEP and last.any():
                self._see_last(last, infos, answers)
                self._begun = nest.map_structure(np.array, observations) if last.all() else None
        except _faults.WRONG as error:
            raise _faults.wrong(self.who, "step", error) from error
        self._ended = last

    def _process_answer(self, answer: Any, answers: Answers) -> tuple[Any, Any, Any]:
        """Writes a step's results except the observations, and returns the observations, the infos, and the rows with
        finished episodes."""
        ended = self._ended
        observations, rewards, terminated, truncated, infos = _faults.transition(answer)
        terminated = _faults.flags(terminated, self.rows, "terminated")
        over = terminated | _faults.flags(truncated, self.rows, "truncated")
        last = over & ~ended
        answers.step_types[:] = np.where(ended, FIRST, np.where(last, LAST, MID))
        answers.rewards[:] = np.where(ended, 0.0, _faults.rewards(rewards, self.rows))
        answers.discounts[:] = np.where(ended | ~terminated, 1.0, 0.0)
        return observations, infos, over

    def _begin_all(self, observations: Any, answers: Answers) -> None:
        answers.step_types[:], answers.rewards[:], answers.discounts[:] = FIRST, 0.0, 1.0
        answers.see_all(as_arrays(self.spec.observations, observations))
        self._ended = np.zeros(self.rows, np.bool_)
        self._spaces.expect_same(self.who)

    def _reset(self, rows: Any) -> Any:
        return self._environment.reset(options={"reset_mask": rows.copy()})[0]

    def _see_last(self, last: Any, infos: Mapping[str, Any], answers: Answers) -> None:
        """Writes the last observations of episodes; the vector returned the first observations of the next episodes."""
        found = infos.get("final_obs")
        for row in np.flatnonzero(last):
            seen = nest.map_structure(lambda leaf, row=row: leaf[row], found) if isinstance(found, Mapping) else None if found is None else found[row]
            if seen is None:
                raise ValueError(
                    f"{self.who} resets in the step that ends an episode, but its infos have no 'final_obs' of environment "
                    f"{row}, so its last observation is unknown"
                )
            answers.see(int(row), as_arrays(self.spec.observations, seen))

    def _acted(self, actions: list[Any]) -> Any:
        return self._fill_actions([leaf + first if first else leaf for leaf, first in zip(actions, self._first_actions)])


def _reset(environment: Any, seeds: list[Any]) -> Any:
    """Resets a vector with the first of these seeds, or if the vector refuses it, with the next one."""
    first, *others = seeds
    try:
        return environment.reset(seed=first)
    except Exception:
        # Vectors with one random generator for all rows, such as Gymnasium's CartPoleVectorEnv, raise errors of any kind.
        if not others:
            raise
    return _reset(environment, others)


def _broadcast_rows(rows: Any, leaf: Any) -> Any:
    return rows.reshape(-1, *[1] * (np.ndim(leaf) - 1))


def _mode(environment: Any) -> str:
    given = getattr(environment, "metadata", {}).get("autoreset_mode")
    mode = getattr(given, "value", given)
    if mode not in (_NEXT_STEP, _SAME_STEP, _DISABLED):
        # Old versions of Gymnasium have no such modes.
        expect_supported()
        raise TypeError(
            f"{type(environment).__qualname__} does not declare how it resets: its metadata['autoreset_mode'] is {given!r}, but it must be "
            "one of gymnasium.vector.AutoresetMode"
        )
    return str(mode)
