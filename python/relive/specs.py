"""Array specs: descriptions of columns that need no framework.

A signature is a nest (``relive.nest``) of ``ArraySpec``. Wherever this package takes one, it also takes the specs of
other packages; ``as_spec`` lists and converts them.

>>> as_spec({"obs": ArraySpec((84, 84), "uint8"), "reward": np.float32(0)})["reward"]
ArraySpec(shape=(), dtype=float32, name=None)
"""

from __future__ import annotations

import dataclasses
import operator
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from relive import nest

Shape = tuple["int | None", ...]
"""Sizes of the dimensions; ``None`` for a size that may differ between arrays."""

# Types of numpy's extension package ml_dtypes that columns can have; numpy itself knows them only as "void".
_EXTENSION_DTYPES = frozenset({"bfloat16", "float8_e5m2", "float8_e4m3fn", "int4", "uint4"})

# TensorFlow's names of types, where they differ from numpy's. Error messages use them, like dm-reverb's.
_DTYPE_TEXTS = {"float32": "float", "float64": "double", "float16": "half", "object": "string"}

_TEXT_KINDS = "OSU"


@dataclasses.dataclass(frozen=True)
class ArraySpec:
    """Shape, data type and name of an array.

    Args:
      shape: the sizes, with ``None`` for one that is not fixed; ``None`` instead of a shape if the number of dimensions
        is not fixed, either.
      dtype: anything that numpy accepts as a data type. Strings, of bytes or of text, are ``object``.
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
        """Whether arrays of that shape and data type match. A size of ``None`` matches any size, on either side."""
        return as_dtype(dtype) == self.dtype and shapes_agree(self.shape, as_shape(shape))

    def with_name(self, name: str | None) -> ArraySpec:
        """Returns the same spec with another name."""
        return ArraySpec(self.shape, self.dtype, name)


@dataclasses.dataclass(frozen=True, eq=False)
class BoundedArraySpec(ArraySpec):
    """An array whose elements are between two bounds, both inclusive.

    Args:
      minimum: the smallest value: a number, or an array that can be broadcast to the shape.
      maximum: the largest value, likewise.

    The bounds are stored and passed to readers; data is not checked against them.
    """

    minimum: npt.NDArray[Any] = dataclasses.field(default_factory=lambda: np.zeros(()))
    maximum: npt.NDArray[Any] = dataclasses.field(default_factory=lambda: np.zeros(()))

    def __init__(
        self, shape: Any, dtype: Any, minimum: npt.ArrayLike, maximum: npt.ArrayLike, name: str | None = None
    ) -> None:
        super().__init__(shape, dtype, name)
        object.__setattr__(self, "minimum", _frozen(minimum, self.dtype))
        object.__setattr__(self, "maximum", _frozen(maximum, self.dtype))

    def __repr__(self) -> str:
        return (
            f"BoundedArraySpec(shape={self.shape}, dtype={self.dtype}, minimum={self.minimum}, "
            f"maximum={self.maximum}, name={self.name!r})"
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
        """Returns the same spec with another name."""
        return BoundedArraySpec(self.shape, self.dtype, self.minimum, self.maximum, name)


def as_spec(structure: Any) -> Any:
    """Returns a nest of ``ArraySpec`` with the structure of ``structure``, whose leaves may be

    * ``ArraySpec``, ``BoundedArraySpec``;
    * ``tf.TensorSpec`` and TensorFlow's bounded one;
    * ``dm_env.specs.Array``, ``BoundedArray``, ``DiscreteArray``, ``StringArray``;
    * ``gymnasium.spaces.Box``, ``Discrete``, ``MultiDiscrete``, ``MultiBinary``, and ``Dict`` and ``Tuple`` of them,
      which become mappings and tuples;
    * ``jax.ShapeDtypeStruct``;
    * arrays and tensors of numpy, JAX, TensorFlow and PyTorch, PyTorch's ``meta`` device included.

    It imports none of these packages.

    Raises:
      ValueError: a leaf that is none of these; the error names its path.
    """
    from relive import _foreign_specs

    return nest.map_structure_with_path(_leaf_as_spec, _foreign_specs.without_spaces(structure))


def as_signature(structure: Any) -> Any:
    """Returns the signature of a table: like ``as_spec``, or ``None`` for a structure without leaves, including
    ``None``."""
    if structure is None:
        return None
    signature = as_spec(structure)
    return signature if nest.flatten(signature) else None


def as_shape(shape: Any) -> Shape | None:
    """Converts a shape of any package to a tuple; ``None`` means that the number of dimensions is unknown."""
    if shape is None or getattr(shape, "rank", 0) is None:
        return None
    try:
        sizes = [shape] if hasattr(shape, "__index__") else list(shape)
        return tuple(_as_size(size) for size in sizes)
    except TypeError as error:
        raise TypeError(f"{shape!r} is no shape: {error}") from error


def as_dtype(dtype: Any) -> np.dtype[Any]:
    """Converts a data type of any package to numpy's; strings of every kind become ``object``.

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
    """Whether some shape matches both; unknown sizes and ranks match everything."""
    if first is None or second is None:
        return True
    return len(first) == len(second) and all(
        one is None or other is None or one == other for one, other in zip(first, second, strict=True)
    )


def shape_text(shape: Shape | None) -> str:
    """A shape as error messages show it: ``[?,3]``, ``[]``, and ``<unknown>`` for an unknown rank."""
    if shape is None:
        return "<unknown>"
    return "[" + ",".join("?" if size is None else str(size) for size in shape) + "]"


def dtype_text(dtype: np.dtype[Any]) -> str:
    """A data type as error messages show it: ``float``, ``double``, ``int32``, ``string``."""
    return _DTYPE_TEXTS.get(dtype.name, str(dtype.name))


def is_tensorflow_spec(value: object) -> bool:
    """Whether ``value`` is a ``tf.TensorSpec``, bounded or not."""
    return any(
        base.__name__ == "TensorSpec" and base.__module__.startswith("tensorflow.") for base in type(value).__mro__
    )


def in_callers_terms(signature: Any) -> Any:
    """Returns a signature in the form that the running program expects.

    Programs that use TensorFlow with dm-reverb read signatures as nests of ``tf.TensorSpec``. Programs that have
    imported TensorFlow therefore get those; all others get nests of ``ArraySpec``.
    """
    if signature is None or "tensorflow" not in sys.modules:
        return signature
    from relive._tf.specs import tensor_spec

    return nest.map_structure(tensor_spec, signature)


def _leaf_as_spec(path: nest.Path, leaf: Any) -> Any:
    if isinstance(leaf, ArraySpec):
        return leaf
    from relive import _foreign_specs

    try:
        return _foreign_specs.convert(leaf)
    except (TypeError, ValueError) as error:
        place = f"the spec at {path}" if path else "the spec"
        raise ValueError(f"Unsupported signature spec: {leaf}; {place} cannot be understood: {error}") from error


def _as_size(size: Any) -> int | None:
    # TensorFlow 1 wraps sizes.
    size = getattr(size, "value", size)
    if size is None:
        return None
    number = operator.index(size)
    if number < 0:
        raise ValueError(f"sizes must not be negative, but one is {number}; None means any size")
    return number


def _numpy_name(dtype: Any) -> Any:
    """Returns a value that ``np.dtype`` accepts for a data type of TensorFlow or PyTorch."""
    if dtype is None:
        raise TypeError("None is no data type")
    as_numpy = getattr(dtype, "as_numpy_dtype", None)
    if as_numpy is not None:
        return as_numpy
    if type(dtype).__module__ == "torch":
        return str(dtype).removeprefix("torch.")
    return dtype


def _frozen(bound: npt.ArrayLike, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    array = np.array(bound, dtype=dtype)
    array.flags.writeable = False
    return array
