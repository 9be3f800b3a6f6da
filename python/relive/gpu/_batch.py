"""Batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class Batch(NamedTuple):
    """Windows of ``B`` trajectories.

    The arrays belong to the caller, who may write to them. Their memory is used again for later batches once the last
    reference is gone.
    """

    data: dict[str, Any]
    """By the name of its window: ``[B, length, …]``."""
    valid: dict[str, Any]
    """By the name of its window: how many of its steps the trajectory has; the others are padding. int64, ``[B]``."""
    lengths: Any
    """Number of steps of each trajectory: int64, ``[B]``."""
    steps: Any
    """The current step of each: int64, ``[B]``."""
    weights: Any
    """Importance weights: float32, ``[B]``; all 1 unless the sampling is prioritized."""
    probabilities: Any
    """The chance of each in one draw: float32, ``[B]``."""
    indices: npt.NDArray[np.int64]
    """Where the trajectories are, ``[B]``: an array of numpy in all frameworks, to go back to the store with the generations."""
    generations: npt.NDArray[np.int64]
    """Which of the trajectories that were there one after another, ``[B]``."""


def from_native(names: Sequence[str], parts: Any, convert: Callable[[Any], Any] | None) -> Batch:
    """A batch of what the extension gives."""
    arrays, valid, (indices, generations, lengths, steps, weights, probabilities) = parts
    given: Any = (
        dict(zip(names, arrays, strict=True)), dict(zip(names, valid, strict=True)), lengths, steps, weights, probabilities,
    )
    data, valid, lengths, steps, weights, probabilities = given if convert is None else convert(given)
    return Batch(data, valid, lengths, steps, weights, probabilities, indices, generations)
