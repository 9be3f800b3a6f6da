"""The kinds of items that a recorder creates."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Transitions:
    """One item per step: observation, action, and the result over ``n_steps`` steps.

    For step t, let γ be the discount and m be ``n_steps``, or the number of steps to the end of the episode if that is
    less:

    ==================  =========================  =====================================================
    column              shape, type                content
    ==================  =========================  =====================================================
    observation         the space's                o_t
    action              the space's                a_t
    reward              (), float32                sum of γ^k r_{t+k} for k from 0 to m - 1
    discount            (), float32                γ^m; 0 if the episode terminated within these steps
    next_observation    the observation space's    o_{t+m}
    ==================  =========================  =====================================================

    ``reward + discount * value(next_observation)`` is therefore the n-step target (Sutton and Barto, Reinforcement
    Learning, 2nd ed., equation 7.1). A truncated episode still bootstraps.

    Args:
      n_steps: the number of steps, at least 1.
      discount: γ, from 0 to 1.
    """

    n_steps: int = 1
    discount: float = 0.99

    def __post_init__(self) -> None:
        if self.n_steps < 1:
            raise ValueError(f"n_steps must be at least 1, got {self.n_steps}")
        if not 0 <= self.discount <= 1:
            raise ValueError(f"discount must be from 0 to 1, got {self.discount}")


@dataclasses.dataclass(frozen=True)
class Sequences:
    """One item per ``period`` steps, which consists of ``length`` rows, one for each step.

    ==================  =========================  ===============================================================
    column              shape, type                content of row t
    ==================  =========================  ===============================================================
    observation         the space's                o_t
    action              the space's                a_t
    reward              (), float32                r_t, the reward for a_t
    terminated          (), bool                   whether a_t ended the episode
    truncated           (), bool                   whether the episode was cut off after a_t
    mask                (), bool                   whether there was an a_t
    state               as ``state`` says          the recorder's ``agent_state`` at a_t; only with ``state``
    ==================  =========================  ===============================================================

    The last step is followed by one more row, with the last observation, zeros, and a mask that is false; it counts as
    one of the rows. Sequences do not extend beyond the end of an episode.

    Args:
      length: the number of rows in a sequence, at least 1.
      period: the number of rows from the start of a sequence to the start of the next, from 1 to ``length``, the
        default.
      pad: whether the remaining steps at the end of an episode are written as a sequence that is padded with rows of
        zeros. If false, these steps are dropped.
      state: a nest of array specs of the state that the agent carries from step to step, such as the state of its LSTM
        before it saw o_t. Set the state before each step: ``recorder.agent_state = …``; a learner starts with the state
        of the first row.
    """

    length: int
    period: int | None = None
    pad: bool = True
    state: Any = None

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError(f"length must be at least 1, got {self.length}")
        if self.period is not None and not 1 <= self.period <= self.length:
            raise ValueError(f"period must be from 1 to length ({self.length}), got {self.period}")


@dataclasses.dataclass(frozen=True)
class Episodes:
    """One item per episode, with the columns of :class:`Sequences` and one more row than the episode has steps.

    Args:
      max_length: the largest number of steps in an episode; by default the length in the environment's specification.
      state: as for :class:`Sequences`.
    """

    max_length: int | None = None
    state: Any = None

    def __post_init__(self) -> None:
        if self.max_length is not None and self.max_length < 1:
            raise ValueError(f"max_length must be at least 1, got {self.max_length}")


Kind = Transitions | Sequences | Episodes
