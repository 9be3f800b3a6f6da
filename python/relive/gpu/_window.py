"""The steps of a trajectory that a batch contains."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from relive.errors import InvalidArgumentError
from relive.gpu import _columns
from relive.gpu._given import text, whole
from relive.specs import ArraySpec


@dataclasses.dataclass(frozen=True)
class Window:
    """Consecutive steps, relative to the current step.

    A batch has the steps from ``step + offset`` to ``step + offset + length``, exclusive. Steps outside the trajectory
    are padding.

    Args:
      offset: the first step, relative to the current step.
      length: the number of steps, at least 1.
      pad: the position of padding: ``"head"`` before the steps, ``"tail"`` after them.
      value: the value of padding, in the data type of the batch.
      dtype: a data type other than the column's: float16, bfloat16 (which needs the package ml_dtypes), float32 or
        float64. Columns of bool, integers and floats can be converted. Values are computed as float32, so that integers
        beyond 2^24 are rounded; for this reason, integers of 32 and 64 bits cannot be converted to float64.
      scale: with ``dtype``: the finite factor by which values are multiplied, by default 1. It does not apply to
        padding.
      column: the name of the column, if it differs from the window's name, as for two windows of one column.

    Raises:
      InvalidArgumentError: no steps, an unknown ``pad``, a ``value`` or ``scale`` that is not a number or that a 64-bit
        float cannot represent, an unsupported ``dtype``, ``scale`` without ``dtype``, or a ``column`` that is not a
        string.
    """

    offset: int = 0
    length: int = 1
    pad: Literal["head", "tail"] = "head"
    value: float = 0
    dtype: Any = None
    scale: float | None = None
    column: str | None = None

    def __post_init__(self) -> None:
        whole("length", self.length, 1, 1 << 32)
        whole("offset", self.offset, -(1 << 32), 1 << 32)
        if self.pad not in ("head", "tail"):
            raise InvalidArgumentError(f"pad is {self.pad!r}; it must be 'head' or 'tail'")
        _expect_number("value", self.value)
        if self.column is not None:
            text("column", self.column)
        if self.scale is not None:
            _expect_number("scale", self.scale)
            if not math.isfinite(self.scale):
                raise InvalidArgumentError(f"scale is {self.scale!r}; it must be finite")
        if self.scale is not None and self.dtype is None:
            raise InvalidArgumentError(f"scale is {self.scale} without a dtype; give the type of the scaled values")
        if self.dtype is not None:
            object.__setattr__(self, "dtype", _dtype_of(self.dtype))


def _expect_number(name: str, given: Any) -> None:
    # Unlike other arguments, padding may be NaN.
    try:
        is_valid = not isinstance(given, str) and _is_kept(given)
    except (TypeError, ValueError, OverflowError):
        is_valid = False
    if not is_valid:
        raise InvalidArgumentError(f"{name} is {given!r}; it must be a number that a 64-bit float can represent")


def _is_kept(given: Any) -> bool:
    """Returns whether a 64-bit float represents the number; other floats may be rounded."""
    number = float(given)
    return not isinstance(given, numbers.Integral) or int(number) == int(given)


def _dtype_of(given: Any) -> np.dtype[Any]:
    try:
        return _columns.dtype_of(given)
    except InvalidArgumentError:
        raise
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"dtype is {given!r}; it must be 'float16', 'bfloat16', 'float32' or 'float64'") from error


Native = tuple[str, int, int, bool, float, "tuple[np.dtype[Any], float] | None"]


def as_native(windows: Mapping[str, Window], columns: Mapping[str, ArraySpec]) -> list[Native]:
    """Returns the windows by name, in the extension's form. The extension reports unknown columns."""
    if not isinstance(windows, Mapping) or not windows:
        raise InvalidArgumentError(f"windows is {windows!r}; give a Window for each name, at least one")
    return [_native(text("the name of a window", name), window, columns) for name, window in windows.items()]


def _native(name: str, window: Window, columns: Mapping[str, ArraySpec]) -> Native:
    if not isinstance(window, Window):
        raise InvalidArgumentError(f"window {name!r} is a {type(window).__name__}; give a relive.gpu.Window")
    column = window.column or name
    dtype = window.dtype if window.dtype is not None or column not in columns else columns[column].dtype
    if dtype is not None and _overflows(window.value, dtype):
        raise InvalidArgumentError(f"the padding value {window.value!r} of window {name!r} is too large for {dtype}; give a smaller value")
    cast = None if window.dtype is None else (window.dtype, 1.0 if window.scale is None else window.scale)
    return (column, window.offset, window.length, window.pad == "tail", window.value, cast)


def _overflows(value: float, dtype: np.dtype[Any]) -> bool:
    """Returns whether a number would become infinite. The extension checks integers."""
    if value == 0 or dtype.kind in "biu" or not math.isfinite(value):
        return False
    with np.errstate(over="ignore"):
        return not np.isfinite(np.array([value], np.float64).astype(dtype)).all()
