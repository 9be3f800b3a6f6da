"""How trajectories are drawn."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from relive.errors import InvalidArgumentError
from relive.gpu._given import real

LARGEST = float(np.finfo(np.float32).max)
"""The largest weight that there is."""
# The extension computes powers up to this one.
_MOST_EXPONENT = 16.0


@dataclasses.dataclass(frozen=True)
class Sampling:
    """Base class of the kinds. A trajectory of weight 0 is never drawn."""

    name: ClassVar[str]

    def exponent(self) -> float:
        """The power of the weights that chances are in proportion to."""
        return 1.0

    def exponent_of_importance(self) -> float:
        """β of importance weights."""
        return 0.0

    def largest(self, max_weight: float) -> float:
        """The largest weight that a trajectory may have, if the loader was given this one."""
        return max_weight


class _Unweighted(Sampling):
    """Whether a trajectory is drawn depends on whether its weight is above 0, and on nothing else of it."""

    def exponent(self) -> float:
        return 0.0

    def largest(self, max_weight: float) -> float:
        return LARGEST


@dataclasses.dataclass(frozen=True)
class Uniform(_Unweighted):
    """All alike, with replacement."""

    name: ClassVar[str] = "uniform"


@dataclasses.dataclass(frozen=True)
class Weighted(Sampling):
    """In proportion to weight^alpha, with replacement."""

    alpha: float = 1.0
    name: ClassVar[str] = "weighted"

    def __post_init__(self) -> None:
        real(f"alpha of {type(self).__name__}", self.alpha, most=_MOST_EXPONENT)

    def exponent(self) -> float:
        return self.alpha


@dataclasses.dataclass(frozen=True)
class Stratified(Weighted):
    """As :class:`Weighted`, with draw j within the j-th of ``batch_size`` equal parts of the whole: fewer repetitions, the same chances."""

    name: ClassVar[str] = "stratified"


@dataclasses.dataclass(frozen=True)
class Prioritized(Weighted):
    """Prioritized replay (Schaul et al., 2016, sections 3.3 and 3.4): stratified draws in proportion to weight^alpha, and importance
    weights (N · p)^-beta divided by the largest of the batch, in ``batch.weights``."""

    alpha: float = 0.6
    beta: float = 0.4
    name: ClassVar[str] = "prioritized"

    def __post_init__(self) -> None:
        super().__post_init__()
        real("beta of Prioritized", self.beta, most=_MOST_EXPONENT)

    def exponent_of_importance(self) -> float:
        return self.beta


@dataclasses.dataclass(frozen=True)
class TopK(Sampling):
    """The largest weights, each trajectory once; of equal ones the lower index."""

    name: ClassVar[str] = "top_k"


@dataclasses.dataclass(frozen=True)
class Fifo(_Unweighted):
    """Those inserted first, each once."""

    name: ClassVar[str] = "fifo"


@dataclasses.dataclass(frozen=True)
class Lifo(_Unweighted):
    """Those inserted last, each once."""

    name: ClassVar[str] = "lifo"


@dataclasses.dataclass(frozen=True)
class WithoutReplacement(Weighted):
    """In proportion to weight^alpha, each trajectory once, as if one were drawn after the other and taken away."""

    name: ClassVar[str] = "without_replacement"


_KINDS: dict[str, type[Sampling]] = {
    kind.name: kind for kind in (Uniform, Weighted, Stratified, Prioritized, TopK, Fifo, Lifo, WithoutReplacement)
}


def sampling_of(given: Sampling | str) -> Sampling:
    """A kind, or the one of this name with its defaults."""
    if isinstance(given, Sampling):
        return given
    if isinstance(given, str) and given in _KINDS:
        return _KINDS[given]()
    raise InvalidArgumentError(f"sampling is {given!r}; it must be a relive.gpu.Sampling or one of {', '.join(_KINDS)}")
