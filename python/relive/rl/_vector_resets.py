"""Arguments of a vector's reset, with Gymnasium's meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def seeds_of(seed: int | Sequence[int | None] | None, count: int) -> list[int | None]:
    """Returns the seed of each environment. If ``seed`` is a number, it is the first environment's seed, and the other
    environments get the following numbers.

    Raises:
      TypeError: the seed is text.
      ValueError: the number of seeds is wrong.
    """
    if seed is None:
        return [None] * count
    if isinstance(seed, (int, np.integer)):
        return [int(seed) + number for number in range(count)]
    if isinstance(seed, (str, bytes)):
        raise TypeError(f"seed is {seed!r}, but it must be a whole number, a sequence of them, or None")
    seeds = list(seed)
    if len(seeds) != count:
        raise ValueError(f"got {len(seeds)} seeds for {count} environments; give one for each")
    return seeds


def mask_of(options: Mapping[str, Any] | None, count: int) -> tuple[npt.NDArray[np.bool_], dict[str, Any] | None]:
    """Returns which environments are reset, and the options for each of them. ``reset_mask`` is an option of the
    vector; without it, all environments are reset.

    Raises:
      TypeError: the mask is not an array of bools.
      ValueError: the mask has the wrong shape, or selects no environment.
    """
    if options is None or "reset_mask" not in options:
        return np.ones(count, np.bool_), None if options is None else dict(options)
    own = dict(options)
    mask = own.pop("reset_mask")
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
        raise TypeError(f"options['reset_mask'] is {mask!r}, but it must be an array of bools")
    if mask.shape != (count,) or not mask.any():
        raise ValueError(f"options['reset_mask'] is {mask!r}, but it must have the shape ({count},) and select an environment")
    return mask, own
