"""Checks of arguments that are numbers, strings or bools."""

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


def count(name: str, value: Any, least: int = 0, *, bits: int = 63) -> int:
    """Returns a whole number that is at least ``least``, and below ``2**bits``."""
    found = whole(name, value)
    if not least <= found < 2**bits:
        raise ValueError(f"{name} is {found}, but it must be at least {least}, and below 2**{bits}")
    return found


def any_number(name: str, value: Any) -> float:
    """Returns a number, which may be infinite or NaN. Strings are not accepted, even if they contain a number."""
    if type(value) is float:
        return value
    try:
        if isinstance(value, (str, bytes)) or has_other_dtype(value) or not hasattr(value, "__float__"):
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number, not {value!r}") from None
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def fitted_number(value: Any, dtype: np.dtype[Any]) -> Any:
    """Returns a value of a step as a number of its column's type ``dtype`` if the value is a Python bool or int and the
    type can represent it, as in numpy's ``np.float64(1) + 1``. Returns all other values unchanged. Writers, too, call
    this function."""
    if type(value) not in (bool, int) or not -(2**63) <= value < 2**64:
        return value
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            number = np.array(value, dtype)
        return number if np.isfinite(number) else value
    if dtype.kind not in "iu":
        return value
    limits = np.iinfo(dtype)
    return np.array(value, dtype) if limits.min <= value <= limits.max else value


def has_other_dtype(value: Any) -> bool:
    """Returns whether a value is an array or a scalar of complex numbers, dates or durations. numpy and PyTorch convert
    these to floats, which changes their meaning."""
    dtype = getattr(value, "dtype", None)
    return getattr(dtype, "kind", "f") in "cmM" or getattr(dtype, "is_complex", False) is True


def flag(name: str, value: Any) -> bool:
    """Returns a bool. Other values are not accepted, since the text ``"no"`` would count as true."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def string(name: str, value: Any, or_else: str = "") -> str:
    """Returns a string. ``or_else`` completes the error's text."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string{or_else}, got {value!r}")
    return value


def seconds(timeout: Any, name: str = "timeout") -> float | None:
    """Returns a number of seconds to wait, which may be infinite, or ``None``."""
    if timeout is None:
        return None
    found = any_number(name, timeout)
    if not found >= 0:
        raise ValueError(f"{name} must be a number of seconds, at least 0, or None to wait forever, got {found}")
    return found


def milliseconds(timeout: Any) -> int | None:
    """Converts a number of seconds to wait, which may be infinite, to milliseconds, at least 1. Returns ``None`` for
    ``None``."""
    found = seconds(timeout)
    return None if found is None else max(1, round(min(found, _FOREVER_S) * 1000))


def number(name: str, value: Any, least: float = -math.inf) -> float:
    """Returns a finite number that is at least ``least``. Strings are not accepted, even if they contain a number."""
    try:
        if isinstance(value, (bool, np.bool_, str, bytes)) or has_other_dtype(value):
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
