"""Columns: what a step of a trajectory has under a name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from relive.errors import InvalidArgumentError
from relive.specs import ArraySpec

Native = tuple[str, "np.dtype[Any]", list[int]]


def columns_of(columns: Mapping[str, Any]) -> dict[str, ArraySpec]:
    """Columns by name: each a data type, a pair of data type and shape of a step, or an ``ArraySpec``."""
    if not isinstance(columns, Mapping):
        raise InvalidArgumentError(f"columns is a {type(columns).__name__}; give a mapping from names to data types")
    return {name: _column(name, column) for name, column in columns.items()}


def _column(name: str, column: Any) -> ArraySpec:
    if isinstance(column, ArraySpec):
        spec = column
    else:
        dtype, shape = column if isinstance(column, tuple) else (column, ())
        try:
            spec = ArraySpec(shape, dtype)
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"column {name!r} is {column!r}; give a data type, (data type, shape of a step) or an ArraySpec: {error}"
            ) from error
    if spec.shape is None or None in spec.shape:
        raise InvalidArgumentError(f"column {name!r} has shape {spec.shape}; all steps of a column have one fixed shape")
    return spec.with_name(name)


def as_native(columns: Mapping[str, ArraySpec]) -> list[Native]:
    """Columns as the extension takes them."""
    return [(name, spec.dtype, [size for size in spec.shape or () if size is not None]) for name, spec in columns.items()]


def from_native(columns: Iterable[Native]) -> dict[str, ArraySpec]:
    """Columns as the extension gives them."""
    return {name: ArraySpec(tuple(shape), dtype, name) for name, dtype, shape in columns}
