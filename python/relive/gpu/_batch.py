"""Batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class Batch(NamedTuple):
    """Windows of ``B`` trajectories.

    The caller owns the arrays and may write to them. Their memory is reused for later batches once the last reference
    is gone.
    """

    data: dict[str, Any]
    """The data by window name: ``[B, length, …]``."""
    valid: dict[str, Any]
    """The number of steps in each window that are not padding, by window name: int64, ``[B]``."""
    lengths: Any
    """The number of steps of each trajectory: int64, ``[B]``."""
    steps: Any
    """The current step of each trajectory: int64, ``[B]``."""
    weights: Any
    """Importance weights: float32, ``[B]``. All weights are 1 unless the sampling is prioritized."""
    probabilities: Any
    """The probability of each trajectory in one draw: float32, ``[B]``."""
    indices: npt.NDArray[np.int64]
    """The trajectories' indices, ``[B]``: a numpy array in all frameworks. Pass them back to the store together with
    the generations."""
    generations: npt.NDArray[np.int64]
    """The generations, ``[B]``: the number of earlier trajectories at the index."""


def from_native(names: Sequence[str], parts: Any, convert: Callable[[Any], Any] | None) -> Batch:
    """Builds a batch from the extension's values."""
    arrays, valid, (indices, generations, *others) = parts
    leaves = [*arrays, *valid, *others]
    if convert is not None:
        leaves = convert(leaves)
    windows = len(names)
    data, valid = dict(zip(names, leaves[:windows], strict=True)), dict(zip(names, leaves[windows : 2 * windows], strict=True))
    lengths, steps, weights, probabilities = leaves[2 * windows :]
    return Batch(data, valid, lengths, steps, weights, probabilities, indices, generations)
