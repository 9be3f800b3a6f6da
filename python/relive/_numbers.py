"""Checks of arguments that are numbers."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np


# The longest timeout in seconds, about 30 years, which stands for no limit.
_FOREVER_S = 1e9


def whole(name: str, value: Any, or_else: str = "") -> int:
    """Returns a whole number. ``True`` is not accepted as 1. ``or_else`` completes the error's text."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}, but it must be a whole number{or_else}") from None


def count(name: str, value: Any, least: int = 0) -> int:
    """Returns a whole number that is at least ``least``."""
    found = whole(name, value)
    if not least <= found < 2**63:
        raise ValueError(f"{name} is {found}, but it must be at least {least}, and below 2**63")
    return found


def any_number(name: str, value: Any) -> float:
    """Returns a number, which may be infinite or NaN. Strings are not accepted, even if they contain a number."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} must be a number, not {value!r}")
    return float(value)


def milliseconds(timeout: Any) -> int | None:
    """Converts a number of seconds to wait, which may be infinite, to milliseconds, at least 1. Returns ``None`` for
    ``None``."""
    if timeout is None:
        return None
    seconds = any_number("timeout", timeout)
    if not seconds >= 0:
        raise ValueError(f"timeout must be a number of seconds, at least 0, or None to wait forever, got {seconds}")
    return max(1, round(min(seconds, _FOREVER_S) * 1000))


def number(name: str, value: Any, least: float = -math.inf) -> float:
    """Returns a finite number that is at least ``least``. Strings are not accepted, even if they contain a number."""
    try:
        if isinstance(value, (bool, np.bool_, str, bytes)):
            raise TypeError
        found = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {value!r}, but it must be a number") from None
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise ValueError(f"{name} is {found}, but it must be a finite number")
    if found < least:
        raise ValueError(f"{name} must be at least {least:g}, got {found}")
    return found
