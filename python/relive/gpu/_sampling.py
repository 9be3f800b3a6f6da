"""Rules for drawing trajectories."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from relive.errors import InvalidArgumentError
from relive.gpu._given import real

LARGEST = float(np.finfo(np.float32).max)
"""The largest possible weight."""
MAX_EXPONENT = 16.0
"""The largest exponent for which the extension computes powers."""


@dataclasses.dataclass(frozen=True)
class Sampling:
    """Base class of the sampling rules. A trajectory with weight 0 is never drawn."""

    name: ClassVar[str]

    def exponent(self) -> float:
        """Returns the exponent of the weights; probabilities are proportional to this power."""
        return 1.0

    def exponent_of_importance(self) -> float:
        """Returns β, the exponent of the importance weights."""
        return 0.0

    def largest(self, max_weight: float) -> float:
        """Returns the largest weight that a trajectory may have, given the loader's ``max_weight``."""
        return max_weight


class _Unweighted(Sampling):
    """A rule that only checks whether a weight is above 0."""

    def exponent(self) -> float:
        return 0.0

    def largest(self, max_weight: float) -> float:
        return LARGEST


@dataclasses.dataclass(frozen=True)
class Uniform(_Unweighted):
    """Draws uniformly, with replacement."""

    name: ClassVar[str] = "uniform"


@dataclasses.dataclass(frozen=True)
class Weighted(Sampling):
    """Draws in proportion to weight^alpha, with replacement."""

    alpha: float = 1.0
    name: ClassVar[str] = "weighted"

    def __post_init__(self) -> None:
        real(f"alpha of {type(self).__name__}", self.alpha, most=MAX_EXPONENT)

    def exponent(self) -> float:
        return self.alpha


@dataclasses.dataclass(frozen=True)
class Stratified(Weighted):
    """Like :class:`Weighted`, with draw j in the j-th of ``batch_size`` equal strata, which gives fewer repetitions
    with the same probabilities."""

    name: ClassVar[str] = "stratified"


@dataclasses.dataclass(frozen=True)
class Prioritized(Weighted):
    """Prioritized replay (Schaul et al., 2016, sections 3.3 and 3.4): stratified draws proportional to weight^alpha.
    The importance weights (N · p)^-beta, divided by the largest weight in the batch, are in ``batch.weights``."""

    alpha: float = 0.6
    beta: float = 0.4
    name: ClassVar[str] = "prioritized"

    def __post_init__(self) -> None:
        super().__post_init__()
        real("beta of Prioritized", self.beta, most=MAX_EXPONENT)

    def exponent_of_importance(self) -> float:
        return self.beta


@dataclasses.dataclass(frozen=True)
class TopK(Sampling):
    """Draws the trajectories with the largest weights, each once; among equal weights, lower indices first."""

    name: ClassVar[str] = "top_k"


@dataclasses.dataclass(frozen=True)
class Fifo(_Unweighted):
    """Draws the oldest trajectories, each once."""

    name: ClassVar[str] = "fifo"


@dataclasses.dataclass(frozen=True)
class Lifo(_Unweighted):
    """Draws the newest trajectories, each once."""

    name: ClassVar[str] = "lifo"


@dataclasses.dataclass(frozen=True)
class WithoutReplacement(Weighted):
    """Draws in proportion to weight^alpha, without replacement: each trajectory at most once."""

    name: ClassVar[str] = "without_replacement"


_KINDS: dict[str, type[Sampling]] = {
    kind.name: kind for kind in (Uniform, Weighted, Stratified, Prioritized, TopK, Fifo, Lifo, WithoutReplacement)
}


def sampling_of(given: Sampling | str) -> Sampling:
    """Returns the given rule, or the rule with the given name with its defaults."""
    if isinstance(given, Sampling):
        return given
    if isinstance(given, str) and given in _KINDS:
        return _KINDS[given]()
    raise InvalidArgumentError(f"sampling is {given!r}; it must be a relive.gpu.Sampling or one of {', '.join(_KINDS)}")
