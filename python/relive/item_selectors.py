"""Selectors: which item of a table is sampled, or removed, next.

A selector is a description. The same object may be used for several tables, and as sampler and remover of one.
"""

from __future__ import annotations

import abc
import dataclasses

Spec = tuple[str] | tuple[str, float]
"""The name of a selector and its parameter, if it has one."""


class ItemSelector(abc.ABC):
    """Base class of the selectors."""

    @property
    @abc.abstractmethod
    def _spec(self) -> Spec:
        """The selector as plain values."""


@dataclasses.dataclass(frozen=True, repr=False)
class FifoSelector(ItemSelector):
    """The oldest item. Probability 1."""

    @property
    def _spec(self) -> Spec:
        return ("fifo",)

    def __repr__(self) -> str:
        return "FifoSelector"


@dataclasses.dataclass(frozen=True, repr=False)
class LifoSelector(ItemSelector):
    """The newest item. Probability 1."""

    @property
    def _spec(self) -> Spec:
        return ("lifo",)

    def __repr__(self) -> str:
        return "LifoSelector"


@dataclasses.dataclass(frozen=True, repr=False)
class UniformSelector(ItemSelector):
    """Any item, all with the same probability 1/size."""

    @property
    def _spec(self) -> Spec:
        return ("uniform",)

    def __repr__(self) -> str:
        return "UniformSelector"


@dataclasses.dataclass(frozen=True, repr=False)
class WithoutReplacementSelector(ItemSelector):
    """Any item that was not drawn since all were; a new epoch begins when every item was drawn.

    The probability of an item is 1/(items not yet drawn in the epoch). Clients of dm-reverb see it as uniform.
    """

    @property
    def _spec(self) -> Spec:
        return ("without_replacement",)

    def __repr__(self) -> str:
        return "WithoutReplacementSelector"


@dataclasses.dataclass(frozen=True, repr=False)
class PrioritizedSelector(ItemSelector):
    """Item i with probability p_i^e / sum_k p_k^e, where p are the priorities and e is the exponent.

    That is equation 1 of Schaul et al., "Prioritized Experience Replay" (2016), whose alpha is the exponent. Items of
    priority 0 are drawn only when all have it. Priorities must be finite and not negative.

    Args:
      priority_exponent: 0 makes all items of positive priority alike, 1 is proportional.

    Raises:
      TypeError: the exponent is no number.
    """

    priority_exponent: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "priority_exponent", _number("priority_exponent", self.priority_exponent))

    @property
    def _spec(self) -> Spec:
        return ("prioritized", self.priority_exponent)

    def __repr__(self) -> str:
        return f"PrioritizedSelector(priority_exponent={self.priority_exponent:g})"


@dataclasses.dataclass(frozen=True, repr=False)
class HeapSelector(ItemSelector):
    """The item of the lowest or of the highest priority. Probability 1.

    Of equal priorities, the one that was inserted or updated longest ago.

    Args:
      min_heap: whether the lowest priority wins.
    """

    min_heap: bool = True

    @property
    def _spec(self) -> Spec:
        return ("min_heap",) if self.min_heap else ("max_heap",)

    def __repr__(self) -> str:
        return f"HeapSelector(sign={1 if self.min_heap else -1})"

    # Also equal across the subclasses: they are names for the two values.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, HeapSelector) and self.min_heap == other.min_heap

    def __hash__(self) -> int:
        return hash(self._spec)


class MinHeap(HeapSelector):
    """The item of the lowest priority."""

    def __init__(self) -> None:
        super().__init__(True)


class MaxHeap(HeapSelector):
    """The item of the highest priority."""

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
    """The selector that plain values describe; the inverse of ``_spec``.

    Raises ``ValueError`` for an unknown name.
    """
    name, *parameters = spec
    if name == "prioritized":
        return PrioritizedSelector(*parameters)
    if name not in _PLAIN:
        raise ValueError(f"unknown selector {name!r}; known are {sorted([*_PLAIN, 'prioritized'])}")
    return _PLAIN[name]()


def _number(name: str, value: float) -> float:
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} must be a number, not {value!r}")
    return float(value)
