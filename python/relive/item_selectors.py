"""Selectors: rules that choose which item of a table to sample or remove next.

A selector object is only a description: several tables may share it, and a table may use it as both sampler and
remover.
"""

from __future__ import annotations

import abc
import dataclasses

from relive._numbers import any_number

Spec = tuple[str] | tuple[str, float]
"""The name of a selector and its parameter, if any."""


class ItemSelector(abc.ABC):
    """Base class of the selectors.

    >>> import relive
    >>> relive.selectors.Prioritized(0.6) == PrioritizedSelector(0.6)
    True
    """

    @property
    @abc.abstractmethod
    def _spec(self) -> Spec:
        """The selector as plain values."""


@dataclasses.dataclass(frozen=True, repr=False)
class FifoSelector(ItemSelector):
    """Selects the oldest item, with probability 1."""

    @property
    def _spec(self) -> Spec:
        return ("fifo",)

    def __repr__(self) -> str:
        return "FifoSelector"


@dataclasses.dataclass(frozen=True, repr=False)
class LifoSelector(ItemSelector):
    """Selects the newest item, with probability 1."""

    @property
    def _spec(self) -> Spec:
        return ("lifo",)

    def __repr__(self) -> str:
        return "LifoSelector"


@dataclasses.dataclass(frozen=True, repr=False)
class UniformSelector(ItemSelector):
    """Selects any item, each with probability 1/size."""

    @property
    def _spec(self) -> Spec:
        return ("uniform",)

    def __repr__(self) -> str:
        return "UniformSelector"


@dataclasses.dataclass(frozen=True, repr=False)
class WithoutReplacementSelector(ItemSelector):
    """Selects any item that has not been drawn in this epoch; a new epoch begins when all items have been drawn.

    The probability of an item is 1/(items not yet drawn in the epoch). dm-reverb's clients see the uniform selector.
    """

    @property
    def _spec(self) -> Spec:
        return ("without_replacement",)

    def __repr__(self) -> str:
        return "WithoutReplacementSelector"


@dataclasses.dataclass(frozen=True, repr=False)
class PrioritizedSelector(ItemSelector):
    """Selects item i with probability p_i^e / sum_k p_k^e, where p are the priorities and e is the exponent.

    This is equation 1 of Schaul et al., "Prioritized Experience Replay" (2016), whose alpha is the exponent. Items of
    priority 0 are drawn only if all items have priority 0. Priorities must be finite and nonnegative.

    Args:
      priority_exponent: with 0, all positive priorities have equal weight; with 1, the weight is proportional to the
          priority.

    Raises:
      TypeError: the exponent is not a number.
    """

    priority_exponent: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "priority_exponent", any_number("priority_exponent", self.priority_exponent))

    @property
    def _spec(self) -> Spec:
        return ("prioritized", self.priority_exponent)

    def __repr__(self) -> str:
        return f"PrioritizedSelector(priority_exponent={self.priority_exponent:g})"


@dataclasses.dataclass(frozen=True, repr=False)
class HeapSelector(ItemSelector):
    """Selects the item with the lowest or the highest priority, with probability 1.

    Among items with the same priority, it selects the item that was inserted or updated longest ago.

    Args:
      min_heap: whether to choose the lowest priority.
    """

    min_heap: bool = True

    @property
    def _spec(self) -> Spec:
        return ("min_heap",) if self.min_heap else ("max_heap",)

    def __repr__(self) -> str:
        return f"HeapSelector(sign={1 if self.min_heap else -1})"

    # Instances of different subclasses can also be equal, since the subclasses only name the two values of
    # ``min_heap``.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, HeapSelector) and self.min_heap == other.min_heap

    def __hash__(self) -> int:
        return hash(self._spec)


class MinHeap(HeapSelector):
    """Selects the item with the lowest priority."""

    def __init__(self) -> None:
        super().__init__(True)


class MaxHeap(HeapSelector):
    """Selects the item with the highest priority."""

    def __init__(self) -> None:
        super().__init__(False)


Fifo = FifoSelector
Lifo = LifoSelector
Uniform = UniformSelector
Prioritized = PrioritizedSelector
WithoutReplacement = WithoutReplacementSelector

_PLAIN: dict[str, type[ItemSelector]] = {
    "fifo": FifoSelector,
    "lifo": LifoSelector,
    "uniform": UniformSelector,
    "without_replacement": WithoutReplacementSelector,
    "min_heap": MinHeap,
    "max_heap": MaxHeap,
}


def from_spec(spec: Spec) -> ItemSelector:
    """Returns the selector that plain values describe; the inverse of ``_spec``.

    Raises ``ValueError`` for an unknown name.
    """
    name, *parameters = spec
    if name == "prioritized":
        return PrioritizedSelector(*parameters)
    if name not in _PLAIN:
        raise ValueError(f"unknown selector {name!r}; the selectors are {sorted([*_PLAIN, 'prioritized'])}")
    return _PLAIN[name]()
