"""Specs of arrays: shape, data type and name."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

Shape = tuple["int | None", ...]
"""The sizes of the dimensions, with ``None`` for variable sizes."""

# Types from numpy's extension package ml_dtypes that columns can have; numpy itself treats them only as "void".
_EXTENSION_DTYPES = frozenset({"bfloat16", "float8_e5m2", "float8_e4m3fn", "int4", "uint4"})

_TEXT_KINDS = "OSU"


@dataclasses.dataclass(frozen=True)
class ArraySpec:
    """Shape, data type and name of an array.

    Args:
      shape: the sizes, with ``None`` for a variable size; or ``None`` instead of a shape if the number of dimensions
        varies.
      dtype: a value that numpy accepts as a data type. Byte strings and text strings are ``object``.
      name: the name of the array, if any.

    Raises:
      ValueError: a negative size, or a data type that no column can have.
      TypeError: a value that is not a shape or not a data type.
    """

    shape: Shape | None
    dtype: np.dtype[Any]
    name: str | None = None

    def __init__(self, shape: Any, dtype: Any, name: str | None = None) -> None:
        object.__setattr__(self, "shape", as_shape(shape))
        object.__setattr__(self, "dtype", as_dtype(dtype))
        object.__setattr__(self, "name", name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape}, dtype={self.dtype}, name={self.name!r})"

    def accepts(self, shape: Iterable[int | None] | None, dtype: Any) -> bool:
        """Returns whether arrays with this shape and data type match the spec. A size of ``None``, in the spec or in
        the argument, matches any size."""
        return as_dtype(dtype) == self.dtype and shapes_agree(self.shape, as_shape(shape))

    def with_name(self, name: str | None) -> ArraySpec:
        """Returns a copy of the spec with the given name."""
        return ArraySpec(self.shape, self.dtype, name)


@dataclasses.dataclass(frozen=True, eq=False)
class BoundedArraySpec(ArraySpec):
    """The spec of an array with elements between two inclusive bounds.

    Args:
      minimum: the smallest value: a number, or an array that can be broadcast to the shape.
      maximum: the largest value, in the same form.

    The bounds are stored and passed to readers; data is not checked against them.

    Raises, in addition to the exceptions of :class:`ArraySpec`:
      ValueError: a minimum above the maximum, or a bound that the shape or the data type cannot have.
      TypeError: a bound is ``None``.
    """

    minimum: npt.NDArray[Any] = dataclasses.field(default_factory=lambda: np.zeros(()))
    maximum: npt.NDArray[Any] = dataclasses.field(default_factory=lambda: np.zeros(()))

    def __init__(
        self, shape: Any, dtype: Any, minimum: npt.ArrayLike, maximum: npt.ArrayLike, name: str | None = None
    ) -> None:
        self._set(shape, dtype, minimum, maximum, name)
        for bound, array in (("minimum", self.minimum), ("maximum", self.maximum)):
            if not _fits(array.shape, self.shape):
                raise ValueError(f"{bound} has the shape {array.shape}, but it must be one that can be broadcast to {self.shape}")
        if self.dtype.kind in "biuf" and not _are_ordered(self.minimum, self.maximum):
            raise ValueError(f"minimum must not be above maximum, got {minimum!r} and {maximum!r}")

    @classmethod
    def _received(
        cls, shape: Any, dtype: Any, minimum: npt.ArrayLike, maximum: npt.ArrayLike, name: str | None = None
    ) -> BoundedArraySpec:
        """Returns a spec of another program, without a comparison of its bounds: reading a table must not fail because of
        them."""
        spec = cls.__new__(cls)
        spec._set(shape, dtype, minimum, maximum, name)
        return spec

    def _set(self, shape: Any, dtype: Any, minimum: npt.ArrayLike, maximum: npt.ArrayLike, name: str | None) -> None:
        super().__init__(shape, dtype, name)
        object.__setattr__(self, "minimum", _frozen("minimum", minimum, self.dtype))
        object.__setattr__(self, "maximum", _frozen("maximum", maximum, self.dtype))

    def __repr__(self) -> str:
        return (
            f"BoundedArraySpec(shape={self.shape}, dtype={self.dtype}, minimum={_shortened(self.minimum)}, "
            f"maximum={_shortened(self.maximum)}, name={self.name!r})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BoundedArraySpec):
            return NotImplemented
        return (
            (self.shape, self.dtype, self.name) == (other.shape, other.dtype, other.name)
            and np.array_equal(self.minimum, other.minimum)
            and np.array_equal(self.maximum, other.maximum)
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.name))

    def with_name(self, name: str | None) -> BoundedArraySpec:
        """Returns a copy of the spec with the given name."""
        return BoundedArraySpec._received(self.shape, self.dtype, self.minimum, self.maximum, name)


def as_shape(shape: Any) -> Shape | None:
    """Converts a shape from any package to a tuple; ``None`` means that the number of dimensions is unknown."""
    if shape is None or getattr(shape, "rank", 0) is None:
        return None
    try:
        sizes = [shape] if hasattr(shape, "__index__") else list(shape)
        return tuple(_as_size(size) for size in sizes)
    except TypeError as error:
        raise TypeError(f"{shape!r} is not a shape: {error}") from error


def as_dtype(dtype: Any) -> np.dtype[Any]:
    """Converts a data type from any package to numpy's; strings of every kind become ``object``.

    Raises:
      ValueError: a type that no column can have, such as dates.
      TypeError: a value that is not a data type.
    """
    found: np.dtype[Any] = np.dtype(_numpy_name(dtype))
    if found.kind in _TEXT_KINDS:
        return np.dtype(object)
    if found.kind in "biu" or found.name in _EXTENSION_DTYPES:
        return found
    if found.kind in "fc" and found.name in ("float16", "float32", "float64", "complex64", "complex128"):
        return found
    raise ValueError(f"a column cannot have the data type {found}")


def shapes_agree(first: Shape | None, second: Shape | None) -> bool:
    """Returns whether the two shapes are compatible; unknown sizes and ranks match everything."""
    if first is None or second is None:
        return True
    return len(first) == len(second) and all(
        one is None or other is None or one == other for one, other in zip(first, second, strict=True)
    )


def is_tensorflow_spec(value: object) -> bool:
    """Returns whether ``value`` is a ``tf.TensorSpec``, bounded or not."""
    return any(
        base.__name__ == "TensorSpec" and base.__module__.startswith("tensorflow.") for base in type(value).__mro__
    )


def _as_size(size: Any) -> int | None:
    # TensorFlow 1 wraps sizes in ``Dimension`` objects.
    size = getattr(size, "value", size)
    if size is None:
        return None
    number = operator.index(size)
    if number < 0:
        raise ValueError(f"sizes must not be negative, got {number}; use None for any size")
    return number


def _numpy_name(dtype: Any) -> Any:
    """Returns a value that ``np.dtype`` accepts for a data type of TensorFlow or PyTorch."""
    if dtype is None:
        raise TypeError("None is not a data type")
    as_numpy = getattr(dtype, "as_numpy_dtype", None)
    if as_numpy is not None:
        return as_numpy
    if type(dtype).__module__ == "torch":
        return str(dtype).removeprefix("torch.")
    return dtype


def _frozen(name: str, bound: npt.ArrayLike, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if bound is None:
        raise TypeError(f"{name} is None, but it must be a number or an array; ArraySpec has no bounds")
    try:
        array = np.array(bound, dtype=dtype)
    except OverflowError as error:
        raise ValueError(f"{name} is {bound!r}, which {dtype} cannot represent: {error}") from None
    array.flags.writeable = False
    return array


def _shortened(bound: npt.NDArray[Any]) -> str:
    """Returns a bound in one line: one number if all are equal, and only the first and last ones of many numbers."""
    if bound.size and (bound == bound.flat[0]).all():
        return str(bound.flat[0])
    return " ".join(np.array2string(bound, threshold=8, edgeitems=2 if bound.ndim < 2 else 1).split())


def _fits(bounds: tuple[int, ...], shape: Shape | None) -> bool:
    """Returns whether bounds can be broadcast to a shape."""
    if shape is None:
        return True
    pairs = zip(reversed(bounds), reversed(shape))
    return len(bounds) <= len(shape) and all(size == 1 or whole is None or size == whole for size, whole in pairs)


def _are_ordered(minimum: npt.NDArray[Any], maximum: npt.NDArray[Any]) -> bool:
    # Bounds for an unknown size may differ in length; NaN is no bound.
    try:
        return not (minimum > maximum).any()
    except ValueError:
        return True
