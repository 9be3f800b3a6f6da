"""Checks of arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from relive import _numbers
from relive._frameworks import as_floats, as_numpy, is_tensor
from relive.errors import InvalidArgumentError, NotFoundError

_Checked = TypeVar("_Checked")


def integer(name: str, value: Any) -> int:
    """Checks that a value is an integer.

    Raises:
      InvalidArgumentError: the value is not an integer.
    """
    return _checked(_numbers.whole, name, value)


def whole(name: str, value: Any, least: int, limit: int) -> int:
    """Checks that a value is an integer that is at least ``least`` and below ``limit``.

    Raises:
      InvalidArgumentError: the value is not such an integer.
    """
    number = integer(name, value)
    if not least <= number < limit:
        raise InvalidArgumentError(f"{name} is {number}; it must be {least} to {limit - 1}")
    return number


def real(name: str, value: Any, least: float = 0.0, most: float = math.inf) -> float:
    """Checks that a value is a finite number between two bounds.

    Raises:
      InvalidArgumentError: the value is not such a number.
    """
    try:
        number = _numbers.any_number(name, value)
    except TypeError:
        number = math.nan
    if math.isfinite(number) and least <= number <= most:
        return number
    bounds = f"of at least {least:g}" if most == math.inf else f"between {least:g} and {most:g}"
    raise InvalidArgumentError(f"{name} is {value!r}; it must be a finite number {bounds}")


def timeout_of(value: Any) -> float:
    """Checks a timeout that must be above 0 and below 1e9 seconds.

    Raises:
      InvalidArgumentError: the value is not such a number.
    """
    try:
        seconds = _numbers.any_number("timeout", value)
    except TypeError:
        seconds = math.nan
    if not 0 < seconds < 1e9:
        raise InvalidArgumentError(f"timeout is {value!r}; it must be above 0 seconds, and below 1e9")
    return seconds


def flag(name: str, value: Any) -> bool:
    """Checks that a value is a bool.

    Raises:
      InvalidArgumentError: the value is not a bool.
    """
    return _checked(_numbers.flag, name, value)


def number(name: str, value: Any) -> float:
    """Checks that a value is a number, which may be infinite or NaN.

    Raises:
      InvalidArgumentError: the value is not a number.
    """
    try:
        return _numbers.any_number(name, value)
    except TypeError:
        raise InvalidArgumentError(f"{name} is {value!r}; give a number") from None


def _checked(check: Callable[[str, Any], _Checked], name: str, value: Any) -> _Checked:
    try:
        return check(name, value)
    except TypeError as error:
        raise InvalidArgumentError(str(error)) from None


def text(name: str, value: Any) -> str:
    """Checks that a value is a string that UTF-8 can encode.

    Raises:
      InvalidArgumentError: the value is not such a string.
    """
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{name} is {value!r}; it must be a string")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"{name} is {value!r}, which UTF-8 cannot encode: {error.reason}") from None
    return value


def store_name(value: str) -> str:
    """Checks the name of a store; the extension makes further checks.

    Raises:
      InvalidArgumentError: the value is not a string, or has a slash.
    """
    if "/" in text("name", value):
        raise InvalidArgumentError(f"name is {value!r}; it must be a name without slashes: the memory is always in /dev/shm")
    return value


def place(value: Any) -> int:
    """Checks that a value is an index.

    Raises:
      NotFoundError: the value is negative.
      TypeError: the value is not a whole number.
    """
    number = _numbers.whole("index", value)
    if not 0 <= number < 1 << 64:
        raise NotFoundError(f"there is no trajectory {number}; indices start at 0")
    return number


def places(name: str, value: Any) -> npt.NDArray[np.uint64]:
    """Converts indices or generations: a list or an array ``[N]``, or a single number.

    Raises:
      NotFoundError: a number is negative.
      InvalidArgumentError: there is more than one dimension.
      TypeError: the values are not whole numbers; a mask of booleans would otherwise select the trajectories 0 and 1.
    """
    numbers = np.atleast_1d(np.asarray(as_numpy(value)))
    if numbers.ndim != 1:
        raise InvalidArgumentError(f"{name} has the shape {numbers.shape}; it must be one-dimensional")
    if numbers.dtype.kind == "b":
        raise TypeError(f"{name} has booleans; it must have whole numbers: np.flatnonzero(mask) converts a mask to indices")
    if numbers.size and numbers.dtype.kind not in "iu":
        raise TypeError(f"{name} has values of {numbers.dtype}; it must have whole numbers")
    if numbers.size and numbers.min() < 0:
        raise NotFoundError(f"there is no trajectory {numbers.min()}; {name} start at 0")
    return numbers.astype(np.uint64)


def generations_of(value: Any) -> npt.NDArray[np.uint64] | None:
    """Converts generations, if there are any, like :func:`places`."""
    return None if value is None else places("generations", value)


def floats(name: str, value: Any) -> npt.NDArray[np.float64]:
    """Converts numbers: a list, an array or a tensor ``[N]``, or a single number.

    Raises:
      InvalidArgumentError: there is more than one dimension.
      TypeError: the values are not numbers.
    """
    numbers = np.atleast_1d(as_floats(name, value) if is_tensor(value) else np.asarray(value))
    if numbers.ndim != 1:
        raise InvalidArgumentError(f"{name} has the shape {numbers.shape}; it must be one-dimensional")
    if numbers.size and not np.can_cast(numbers.dtype, np.float64, "same_kind"):
        raise TypeError(f"{name} has values of {numbers.dtype}; it must have numbers")
    return numbers.astype(np.float64)
