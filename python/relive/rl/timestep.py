"""What an environment answers: dm_env's time steps."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple


class StepType(enum.IntEnum):
    """Where in its episode a step is."""

    FIRST = 0
    MID = 1
    LAST = 2


class TimeStep(NamedTuple):
    """One answer of an environment.

    ``reward`` and ``discount`` of a FIRST are ``None``. A LAST with discount 0 is an episode that came to its end
    (termination), one with another discount was cut short (truncation).
    """

    step_type: StepType
    reward: Any
    discount: Any
    observation: Any

    def first(self) -> bool:
        """Whether an episode begins here."""
        return self.step_type == StepType.FIRST

    def mid(self) -> bool:
        """Whether the episode goes on before and after this."""
        return self.step_type == StepType.MID

    def last(self) -> bool:
        """Whether an episode ends here."""
        return self.step_type == StepType.LAST


def restart(observation: Any) -> TimeStep:
    """The first step of an episode."""
    return TimeStep(StepType.FIRST, None, None, observation)


def transition(reward: Any, observation: Any, discount: Any = 1.0) -> TimeStep:
    """A step with more to come."""
    return TimeStep(StepType.MID, reward, discount, observation)


def termination(reward: Any, observation: Any) -> TimeStep:
    """The end of an episode, after which nothing can be earned."""
    return TimeStep(StepType.LAST, reward, 0.0, observation)


def truncation(reward: Any, observation: Any, discount: Any = 1.0) -> TimeStep:
    """An episode that is cut short, by a time limit for instance."""
    return TimeStep(StepType.LAST, reward, discount, observation)
