"""The choice of the trajectory to evict when a new trajectory needs room."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from relive.errors import InvalidArgumentError

_NAMES = ("fifo", "lifo", "lowest_weight", "random")


class Candidates(NamedTuple):
    """The trajectories that can be evicted, because no reader uses them, as arrays ``[candidates]``."""

    indices: npt.NDArray[np.int64]
    generations: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    """The number of steps."""
    weights: npt.NDArray[np.float32]
    inserted: npt.NDArray[np.int64]
    """The number of trajectories that were inserted before this one."""
    sampled: npt.NDArray[np.int64]
    """The number of times that the trajectory was in a batch."""


Removal = str | tuple[str, int] | Callable[[Candidates], "int | None"]


class Choice:
    """A removal function for the extension. The store owns this object, and the extension only refers to it. Otherwise,
    a store that is reachable from the function, for example through a global name of the program, would keep itself
    alive, and its memory would remain after the end of the process."""

    def __init__(self, function: Callable[[Candidates], int | None]) -> None:
        self._function = function

    def as_native(self) -> Callable[..., int | None]:
        """Called by the extension."""
        found = weakref.ref(self)

        def choose(*arrays: Any) -> int | None:
            choice = found()
            return None if choice is None else _position(choice._function(Candidates(*arrays)))

        return choose


def _position(given: Any) -> int | None:
    try:
        position = None if given is None else operator.index(given)
    except TypeError as error:
        raise InvalidArgumentError(
            f"the removal function returned {given!r}; it must return the position of a candidate, or None"
        ) from error
    if position is not None and position < 0:
        raise IndexError(f"the removal function returned position {position}; positions start at 0")
    return position


def given(removal: Any) -> Any:
    """Wraps a removal if it is a function, so that the store can own it."""
    return Choice(removal) if callable(removal) else removal


def as_native(removal: Any) -> tuple[str, Any]:
    """Returns the removal in the extension's form: a name and an argument."""
    if isinstance(removal, Choice):
        return ("callback", removal.as_native())
    if isinstance(removal, str) and removal in _NAMES:
        return (removal, None)
    if isinstance(removal, tuple) and len(removal) == 2 and removal[0] == "max_times_sampled":
        times = removal[1]
        if isinstance(times, int) and not isinstance(times, bool) and 1 <= times < 1 << 63:
            return ("max_times_sampled", times)
    raise InvalidArgumentError(
        f"removal is {removal!r}; it must be one of {', '.join(map(repr, _NAMES))}, ('max_times_sampled', n) with n of at least 1, or a "
        "function of Candidates"
    )
