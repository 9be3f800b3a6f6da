"""The experience of a learner."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from relive._numbers import count, number
from relive.rl._setting_names import names_checked


@names_checked
@dataclasses.dataclass(frozen=True, kw_only=True)
class Rollouts:
    """Fresh experience: ``steps`` steps in each environment, all with the same weights. The learner receives a
    :class:`relive.rl.Rollout` of all environments; the next rollout starts when the learner has learned from it.

    Args:
      steps: the number of steps in each environment.
      environments: the number of environments, divided among the actors.
    """

    steps: int
    environments: int = 1

    def __post_init__(self) -> None:
        _check_counts(self, "steps", "environments")


@names_checked
@dataclasses.dataclass(frozen=True, kw_only=True)
class Transitions:
    """Transitions in a replay table. The learner receives a :class:`relive.Batch`; its ``data`` has ``observation``,
    ``action``, ``reward``, ``discount`` and ``next_observation``, each ``[batch_size, …]``, and ``extras`` if the
    policy has extras.

    ``reward + discount * value(next_observation)`` is the target. For a transition of ``n_step`` steps, ``reward`` is
    the discounted sum of their rewards; ``discount`` is 0 if the episode terminated.

    Args:
      batch_size: the number of transitions in a batch.
      samples_per_insert: the average number of times that each transition is sampled; the default, ``batch_size``,
        yields one batch per step.
      min_size: the number of transitions before learning starts.
      max_size: the number of transitions that are kept; the oldest are evicted. A run that learns from ``data`` keeps
        all of it.
      n_step: the number of steps that a transition covers.
      discount: γ.
      priority_exponent: α of prioritized replay (Schaul et al., 2016); the learner returns new priorities. ``None``:
        uniform sampling.
      environments: the number of environments, divided among the actors. The policy acts in all environments of an
        actor at once.
    """

    batch_size: int = 256
    samples_per_insert: float | None = None
    min_size: int = 1000
    max_size: int = 1_000_000
    n_step: int = 1
    discount: float = 0.99
    priority_exponent: float | None = None
    environments: int = 1

    def __post_init__(self) -> None:
        _check_counts(self, "batch_size", "min_size", "max_size", "n_step", "environments")
        _check_replay(self)


@names_checked
@dataclasses.dataclass(frozen=True, kw_only=True)
class Sequences:
    """Sequences of steps in a replay table, for recurrent agents. The learner receives a :class:`relive.Batch`; its
    ``data`` has ``observation``, ``action``, ``reward``, ``discount``, ``start_of_episode`` and ``extras``, each
    ``[batch_size, length, …]``.

    Row ``t`` contains the observation, the action taken for it, and the resulting reward and discount; in the row of an
    episode's last observation, these three values and the extras are zeros. Sequences that end with their episode are
    shorter: ``lengths``, which has the same structure as ``data``, contains the number of rows of each sequence, such
    as ``lengths["reward"]``, and missing rows are filled with zeros. All batches have the same shapes. If the policy's
    recurrent state is among its ``extras``, each row contains this state.

    Args:
      length: the number of rows in a sequence.
      period: the number of rows from the start of one sequence to the start of the next; by default ``length``.
      batch_size, samples_per_insert, min_size, max_size, discount, priority_exponent, environments: as in
        :class:`Transitions`, counting sequences. ``discount`` is not applied to the stored values.
    """

    length: int
    period: int | None = None
    batch_size: int = 32
    samples_per_insert: float | None = None
    min_size: int = 100
    max_size: int = 100_000
    discount: float = 0.99
    priority_exponent: float | None = None
    environments: int = 1

    def __post_init__(self) -> None:
        if self.period is None:
            object.__setattr__(self, "period", self.length)
        _check_counts(self, "length", "period", "batch_size", "min_size", "max_size", "environments")
        _check_replay(self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Given:
    """The batches of a run's ``data``, which the learner receives unchanged."""

    is_given: bool = True
    environments: int = 1


Experience = Rollouts | Transitions | Sequences

_MISSING: dict[str, Any] = {"steps": None, "length": None, "period": None, "n_step": 1, "is_given": False}


def for_extension(experience: Experience | Given) -> dict[str, Any]:
    """Returns all settings by name, with ``None`` for settings that this kind of experience lacks."""
    return _MISSING | dataclasses.asdict(experience)


def _check_counts(experience: Any, *names: str) -> None:
    for name in names:
        object.__setattr__(experience, name, count(name, getattr(experience, name), 1))


def _check_replay(experience: Any) -> None:
    if experience.samples_per_insert is None:
        object.__setattr__(experience, "samples_per_insert", float(experience.batch_size))
    if experience.max_size < experience.min_size:
        raise ValueError(f"max_size is {experience.max_size}, but it must be at least min_size, {experience.min_size}")
    ranges = {
        "samples_per_insert": (0.0, math.inf), "discount": (-math.inf, 1.0), "priority_exponent": (-math.inf, math.inf),
    }
    for name, (above, most) in ranges.items():
        value = getattr(experience, name)
        if value is None:
            continue
        found = number(name, value)
        if not (above < found <= most and found >= 0):
            expected = "above 0" if above == 0 else "from 0 to 1" if most == 1 else "at least 0"
            raise ValueError(f"{name} is {value}, but it must be {expected}")
        object.__setattr__(experience, name, found)
