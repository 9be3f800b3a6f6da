"""Errors from environments, with messages that name the environments."""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np

from relive._numbers import has_other_dtype
from relive.rl.specs import normalized

WRONG = (TypeError, ValueError, KeyError, IndexError, AttributeError)
"""The exceptions that invalid results cause."""


def name_of(environment: Any) -> str:
    """Returns the id of an environment, or its class."""
    identifier = getattr(getattr(environment, "spec", None), "id", None)
    return identifier if isinstance(identifier, str) else type(environment).__qualname__


def number(part: Any, place: int) -> None:
    """Adds the position of an environment among the run's environments to its later errors."""
    part.who = f"{part.called} (environment {place})"
    inner = getattr(part, "adapter", None)
    if inner is not None:
        inner.called = part.who


def wrong(called: str, method: str, error: Exception) -> Exception:
    """Returns the error for an invalid result; the error names the environment, and the method that returned the
    result."""
    kind = ValueError if isinstance(error, ValueError) else TypeError
    reason = str(error) if isinstance(error, (TypeError, ValueError)) else f"{type(error).__name__}: {error}"
    return kind(f"{called}.{method}() returned an invalid result: {reason}")


def transition(answer: Any) -> Any:
    """Checks the result of a Gymnasium step.

    Raises:
      TypeError: the result does not consist of five values.
    """
    return _values(answer, 5, "observation, reward, terminated, truncated and info")


def beginning(answer: Any) -> Any:
    """Checks the result of a Gymnasium reset.

    Raises:
      TypeError: the result is not a pair.
    """
    return _values(answer, 2, "observation and info")


def reward(value: Any, name: str = "reward") -> float:
    """Checks a reward, or another value of a step: a number, or an array with a single number.

    Raises:
      TypeError: the value is not a number. numpy would also convert text, dates and complex numbers.
      ValueError: an array with several numbers.
    """
    if isinstance(value, (int, float)):
        return value
    shape, single = np.shape(value), value
    if math.prod(shape) != 1:
        raise ValueError(f"the environment's {name} has the shape {shape}, but only a single number is supported")
    for _ in shape:
        single = single[0]
    try:
        if isinstance(single, (str, bytes)) or has_other_dtype(single):
            raise TypeError
        return float(single)
    except (TypeError, ValueError) as error:
        raise TypeError(f"the {name} is {value!r}, but it must be a number") from error


def expect_discount(discount: float) -> None:
    """Checks the range of a discount. NaN is reported with its position, where all values are checked.

    Raises:
      ValueError: the discount is not between 0 and 1.
    """
    if discount < 0 or discount > 1:
        raise ValueError(f"the discount is {discount}, but it must be between 0 and 1")


def info(value: Any) -> dict[str, Any]:
    """Checks the info of a step or a reset; ``None`` is an empty one.

    Raises:
      TypeError: the info is not a dict.
    """
    if value is not None and not isinstance(value, dict):
        raise TypeError(f"the info is {value!r}, but it must be a dict")
    return value or {}


def flag(value: Any, name: str) -> bool:
    """Returns whether an episode has ended. ``bool()`` would accept almost any value, even ``"False"`` and NaN.

    Raises:
      TypeError: the value is not a bool, 0 or 1.
    """
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    array = np.asarray(value)
    if array.shape == () and _are_flags(array):
        return bool(array)
    raise TypeError(f"{name} is {value!r}, but it must be a bool")


def flags(values: Any, rows: int, name: str) -> Any:
    """Returns which rows' episodes have ended; see :func:`flag`.

    Raises:
      TypeError: the values are not an array of bools, or of 0 and 1.
      ValueError: the number of values is wrong.
    """
    array = _of_rows(values, rows, name)
    if not _are_flags(array):
        raise TypeError(f"{name} is an array of {array.dtype}, but it must be an array of bools")
    return array.astype(np.bool_, copy=False)


def rewards(values: Any, rows: int) -> Any:
    """Checks the rewards of rows.

    Raises:
      TypeError: the values are not numbers.
      ValueError: the number of values is wrong.
    """
    array = _of_rows(values, rows, "the rewards")
    if array.dtype.kind not in "fiub":
        raise TypeError(f"the rewards are an array of {array.dtype}, but they must be numbers")
    return array


def _are_flags(array: Any) -> bool:
    return array.dtype.kind == "b" or (array.dtype.kind in "iu" and bool(((array == 0) | (array == 1)).all()))


def _of_rows(values: Any, rows: int, name: str) -> Any:
    array = np.asarray(values)
    # numpy would broadcast a single number to all rows.
    if array.shape != (rows,):
        raise ValueError(f"{name}: expected the shape ({rows},), got {array.shape}")
    return array


def _values(answer: Any, count: int, which: str) -> Any:
    if not isinstance(answer, (tuple, list)):
        raise TypeError(f"expected {count} values ({which}), got {type(answer).__name__}")
    if len(answer) != count:
        raise TypeError(f"expected {count} values ({which}), got {len(answer)}")
    return answer


class Spaces:
    """The initial spaces of an environment, which must not change.

    Args:
      environment: the environment.
      names: the names of the attributes with its spaces, or of the methods that return its specs.
    """

    def __init__(self, environment: Any, *names: str) -> None:
        self._environment, self._names = environment, names
        self._first = [self._now(name) for name in names]

    def expect_same(self, called: str) -> None:
        """Checks that the spaces are unchanged.

        Raises:
          ValueError: a space has changed.
        """
        for name, first in zip(self._names, self._first):
            now = self._now(name)
            if now is not first and now != first and normalized(now, name) != normalized(first, name):
                raise ValueError(f"{called}: its {name} was {first} and is {now} now, but it must not change during a run")

    def _now(self, name: str) -> Any:
        found = getattr(self._environment, name)
        return found() if callable(found) and name.endswith("_spec") else found


def close(environment: Any, called: str) -> None:
    """Closes an environment if possible. Errors are only logged, since the run is over and has its result."""
    try:
        getattr(environment, "close", lambda: None)()
    except Exception as error:
        logging.getLogger("relive").warning("%s.close() failed: %s: %s", called, type(error).__name__, error, exc_info=error)
