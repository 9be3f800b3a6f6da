"""Checks of arguments."""

from __future__ import annotations

import math
import operator
from typing import Any

from relive.errors import InvalidArgumentError


def whole(name: str, value: Any, least: int, limit: int) -> int:
    """Checks that a value is an integer that is at least ``least`` and below ``limit``.

    Raises:
      InvalidArgumentError: the value is not such an integer.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidArgumentError(f"{name} is {value!r}; it must be a whole number") from None
    if not least <= number < limit:
        raise InvalidArgumentError(f"{name} is {number}; it must be {least} to {limit - 1}")
    return number


def real(name: str, value: Any, least: float = 0.0, most: float = math.inf) -> float:
    """Checks that a value is a finite number between two bounds.

    Raises:
      InvalidArgumentError: the value is not such a number.
    """
    try:
        number = float(value) if not isinstance(value, str) else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if math.isfinite(number) and least <= number <= most:
        return number
    bounds = f"of at least {least:g}" if most == math.inf else f"between {least:g} and {most:g}"
    raise InvalidArgumentError(f"{name} is {value!r}; it must be a finite number {bounds}")
