"""The results that an environment returns: dm_env's time steps."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple


class StepType(enum.IntEnum):
    """The position of a step in its episode."""

    FIRST = 0
    MID = 1
    LAST = 2


class TimeStep(NamedTuple):
    """The result of one ``reset`` or ``step`` of an environment.

    The ``reward`` and ``discount`` of a FIRST are ``None``. A LAST with discount 0 terminates its episode; a LAST with
    another discount truncates it.
    """

    step_type: StepType
    reward: Any
    discount: Any
    observation: Any

    def first(self) -> bool:
        """Returns whether the step starts an episode."""
        return self.step_type == StepType.FIRST

    def mid(self) -> bool:
        """Returns whether the step is inside an episode."""
        return self.step_type == StepType.MID

    def last(self) -> bool:
        """Returns whether the step ends an episode."""
        return self.step_type == StepType.LAST


def restart(observation: Any) -> TimeStep:
    """Returns the first step of an episode."""
    return TimeStep(StepType.FIRST, None, None, observation)


def transition(reward: Any, observation: Any, discount: Any = 1.0) -> TimeStep:
    """Returns a step that does not end its episode."""
    return TimeStep(StepType.MID, reward, discount, observation)


def termination(reward: Any, observation: Any) -> TimeStep:
    """Returns the last step of an episode that terminated, after which there is no further reward."""
    return TimeStep(StepType.LAST, reward, 0.0, observation)


def truncation(reward: Any, observation: Any, discount: Any = 1.0) -> TimeStep:
    """Returns the last step of an episode that was truncated, for example by a time limit."""
    return TimeStep(StepType.LAST, reward, discount, observation)
