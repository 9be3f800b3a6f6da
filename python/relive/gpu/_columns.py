"""Columns: the named values of a step of a trajectory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from relive._frameworks import as_column
from relive.errors import InvalidArgumentError, NotFoundError
from relive.gpu._given import text
from relive.specs import ArraySpec, as_dtype

Native = tuple[str, "np.dtype[Any]", list[int]]

# The kinds of numpy's data types that are not numbers.
_NOT_NUMBERS = "OSUMm"
_OF_ML_DTYPES = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4")


def columns_of(columns: Mapping[str, Any]) -> dict[str, ArraySpec]:
    """Returns the specs of columns by name. Each column is given as a data type, a pair of data type and shape of a
    step, or an ``ArraySpec``."""
    if not isinstance(columns, Mapping):
        raise InvalidArgumentError(f"columns is a {type(columns).__name__}; give a mapping from names to data types")
    return {text("the name of a column", name): _column(name, column) for name, column in columns.items()}


def paths_of(files: Mapping[str, str | os.PathLike[str]] | None) -> dict[str, str]:
    """Returns the absolute paths of columns that are kept in files."""
    if files is None:
        return {}
    if not isinstance(files, Mapping):
        raise InvalidArgumentError(f"files is a {type(files).__name__}; give a mapping from names of columns to paths")
    paths = {}
    for name, path in files.items():
        given = os.fspath(path) if isinstance(path, os.PathLike) else path
        if not isinstance(given, str) or given in ("", ".") or "\0" in given:
            raise InvalidArgumentError(f"files[{name!r}] is {path!r}; give the path of a file")
        paths[text("the name of a column in files", name)] = os.path.abspath(given)
    return paths


def _column(name: str, column: Any) -> ArraySpec:
    if isinstance(column, ArraySpec):
        spec = column
    else:
        dtype, shape = column if isinstance(column, tuple) else (column, ())
        try:
            spec = ArraySpec(shape, dtype_of(dtype))
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"column {name!r} is {column!r}; give a data type, (data type, shape of a step) or an ArraySpec: {error}"
            ) from error
    if spec.shape is None or None in spec.shape:
        raise InvalidArgumentError(f"column {name!r} has shape {spec.shape}, but all steps of a column must have one fixed shape")
    return spec.with_name(name)


def dtype_of(given: Any) -> np.dtype[Any]:
    """Returns a data type of numpy, of PyTorch, or of the package ml_dtypes, such as ``"bfloat16"``.

    Raises:
      InvalidArgumentError: the data type is one of ml_dtypes, which is not installed.
      TypeError, ValueError: as for :func:`relive.specs.as_dtype`.
    """
    name = str(given).removeprefix("torch.")
    if name in _OF_ML_DTYPES:
        try:
            # The import registers the name with numpy.
            import ml_dtypes  # noqa: F401
        except ImportError as error:
            raise InvalidArgumentError(f"the data type {name} requires ml_dtypes, which is not installed: pip install ml_dtypes") from error
    return as_dtype(given)


def as_native(columns: Mapping[str, ArraySpec]) -> list[Native]:
    """Returns the columns in the extension's form."""
    return [(name, spec.dtype, [size for size in spec.shape or () if size is not None]) for name, spec in columns.items()]


def from_native(columns: Iterable[Native]) -> dict[str, ArraySpec]:
    """Returns the columns from the extension's form."""
    return {name: ArraySpec(tuple(shape), dtype, name) for name, dtype, shape in columns}


def expected(columns: Mapping[str, Any] | None, max_steps: int | None) -> tuple[list[Native], int] | None:
    """Returns the expected columns of a store in another process, in the extension's form."""
    if columns is None and max_steps is None:
        return None
    if columns is None or max_steps is None:
        raise InvalidArgumentError("give both columns and max_steps, or neither")
    return as_native(columns_of(columns)), max_steps


def position(positions: Mapping[str, int], name: str) -> int:
    """Returns the position of a column.

    Raises:
      NotFoundError: no column has this name.
    """
    if name not in positions:
        raise NotFoundError(f"there is no column {name!r}; the columns are {list(positions)}")
    return positions[name]


def stored(value: Any, spec: ArraySpec) -> Any:
    """Converts a trajectory's value for a column: an array of numbers is unchanged, a list becomes an array of the
    column's data type.

    Raises:
      InvalidArgumentError: the value is missing, does not consist of numbers, or is a list of other values.
    """
    if value is None:
        raise InvalidArgumentError(f"the trajectory has None for {spec.name!r}; give an array [steps, …] of {spec.dtype}")
    if isinstance(value, (str, bytes)) or isinstance(value, np.ndarray) and value.dtype.kind in _NOT_NUMBERS:
        return converted(np.asarray(value), spec, "the trajectory")
    if not isinstance(value, (list, tuple)):
        return _array(value, spec, "the trajectory")
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:
        raise InvalidArgumentError(f"the trajectory: the list for {spec.name!r} is not an array: {error}") from error
    return converted(array, spec, "the trajectory")


def fitted(value: npt.ArrayLike, spec: ArraySpec, what: str, *, rows: int | None = None) -> npt.NDArray[Any]:
    """Converts a value to the data type of its column. Floats may be rounded; other numbers must keep their values.

    Raises:
      InvalidArgumentError: the number would change, or the shape differs.
    """
    array = np.asarray(_array(value, spec, what))
    shape = () if spec.shape is None else spec.shape
    if array.shape != (shape if rows is None else (rows, *shape)):
        of = "" if rows is None else f" for {rows} rows"
        raise InvalidArgumentError(f"{what} has {spec.name!r} of shape {array.shape}{of}; a step of the column has {shape}")
    return converted(array, spec, what)


def converted(array: npt.NDArray[Any], spec: ArraySpec, what: str) -> npt.NDArray[Any]:
    """Converts an array to the data type of its column.

    Raises:
      InvalidArgumentError: numbers would change by more than the rounding of floats.
    """
    if array.dtype == spec.dtype:
        return array
    if array.dtype.kind in _NOT_NUMBERS:
        raise InvalidArgumentError(f"{what}: {spec.name!r} has values of {array.dtype}, which are not numbers; the column has the data type {spec.dtype}")
    if array.dtype.kind == "c" and spec.dtype.kind != "c" or not _is_same(array, changed := _cast(array, spec.dtype)):
        raise InvalidArgumentError(
            f"{what}: values of {spec.name!r} of {array.dtype} do not fit {spec.dtype}, the column's data type"
        )
    return changed


def _array(value: Any, spec: ArraySpec, what: str) -> Any:
    """Converts a tensor, which may have a gradient or be on a device, to an array."""
    try:
        return as_column(value)
    except (TypeError, ImportError) as error:
        raise InvalidArgumentError(f"{what}: the tensor for {spec.name!r} cannot be converted to {spec.dtype}: {error}") from error


def _cast(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    # Numpy's warnings are off, because the caller reports values that do not fit as errors.
    with np.errstate(invalid="ignore", over="ignore"):
        return array.astype(dtype)


def _is_same(array: npt.NDArray[Any], changed: npt.NDArray[Any]) -> bool:
    """Returns whether an array keeps its numbers in a different data type; floats may lose precision but not
    overflow."""
    if changed.dtype.name in ("int4", "uint4"):
        # To numpy, these are not integers.
        changed = changed.astype(np.int8)
    if array.dtype.kind in "iu" and changed.dtype.kind not in "biu":
        return _equals(changed.real, array)
    if changed.dtype.kind in "iu" and array.dtype.kind not in "biuc":
        return _equals(array, changed)
    if array.dtype.kind in "biuc" or changed.dtype.kind in "biuc":
        return np.array_equal(changed, array)
    return bool((np.isfinite(changed) == np.isfinite(array)).all())


def _equals(floats: npt.NDArray[Any], integers: npt.NDArray[Any]) -> bool:
    """Compares floats with integers exactly; numpy would first round the integers to floats."""
    wide, limits = floats.astype(np.float64), np.iinfo(integers.dtype)
    # Only floats within the limits can be converted. `max + 1` is a power of 2, and thus a float.
    if not ((wide >= limits.min) & (wide < float(limits.max + 1)) & (wide == np.trunc(wide))).all():
        return False
    return np.array_equal(wide.astype(integers.dtype), integers)
