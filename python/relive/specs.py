"""Array specs: descriptions of columns that need no framework.

A signature is a nest (``relive.nest``) of ``ArraySpec``. In place of this package's specs, functions also accept other
packages' specs, which ``as_spec`` lists and converts.

>>> as_spec({"obs": ArraySpec((84, 84), "uint8"), "reward": np.float32(0)})["reward"]
ArraySpec(shape=(), dtype=float32, name=None)
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from relive import _foreign_specs, nest
from relive._array_specs import ArraySpec as ArraySpec
from relive._array_specs import BoundedArraySpec as BoundedArraySpec
from relive._array_specs import Shape as Shape
from relive._array_specs import as_dtype as as_dtype
from relive._array_specs import as_shape as as_shape
from relive._array_specs import is_tensorflow_spec as is_tensorflow_spec
from relive._array_specs import shapes_agree as shapes_agree

# TensorFlow's names of types, where they differ from numpy's. Error messages use TensorFlow's names, as dm-reverb's do.
_DTYPE_TEXTS = {"float32": "float", "float64": "double", "float16": "half", "object": "string"}


def as_spec(structure: Any) -> Any:
    """Returns a nest of ``ArraySpec`` with the structure of ``structure``. Its leaves can be

    * ``ArraySpec``, ``BoundedArraySpec``;
    * ``tf.TensorSpec``, and TensorFlow's bounded tensor spec;
    * ``dm_env.specs.Array``, ``BoundedArray``, ``DiscreteArray``, ``StringArray``;
    * ``gymnasium.spaces.Box``, ``Discrete``, ``MultiDiscrete``, ``MultiBinary``, and ``Dict`` and ``Tuple`` of them,
      which become mappings and tuples;
    * ``jax.ShapeDtypeStruct``;
    * arrays and tensors of numpy, JAX, TensorFlow and PyTorch, including tensors on PyTorch's ``meta`` device.

    The function imports none of these packages.

    Raises:
      ValueError: a leaf that is none of these; the error names its path.
    """
    return nest.map_structure_with_path(_leaf_as_spec, _foreign_specs.without_spaces(structure))


def as_signature(structure: Any) -> Any:
    """Returns the signature of a table: like ``as_spec``, or ``None`` for a structure without leaves, including
    ``None``."""
    if structure is None:
        return None
    signature = as_spec(structure)
    return signature if nest.flatten(signature) else None


def shape_text(shape: Shape | None) -> str:
    """Returns a shape as error messages show it: ``[?,3]``, ``[]``, and ``<unknown>`` for an unknown rank."""
    if shape is None:
        return "<unknown>"
    return "[" + ",".join("?" if size is None else str(size) for size in shape) + "]"


def dtype_text(dtype: np.dtype[Any]) -> str:
    """Returns a data type as error messages show it: ``float``, ``double``, ``int32``, ``string``."""
    return _DTYPE_TEXTS.get(dtype.name, str(dtype.name))


def in_callers_terms(signature: Any) -> Any:
    """Returns a signature in the form that the running program expects.

    Programs that use TensorFlow with dm-reverb read signatures as nests of ``tf.TensorSpec``. Programs that have
    imported TensorFlow therefore get nests of ``tf.TensorSpec``; all others get nests of ``ArraySpec``.
    """
    if signature is None or "tensorflow" not in sys.modules:
        return signature
    from relive._tf.specs import tensor_spec

    return nest.map_structure(tensor_spec, signature)


def _leaf_as_spec(path: nest.Path, leaf: Any) -> Any:
    if isinstance(leaf, ArraySpec):
        return leaf
    try:
        return _foreign_specs.convert(leaf)
    except (TypeError, ValueError) as error:
        place = f"the spec at {path}" if path else "the spec"
        raise ValueError(f"Unsupported signature spec: {leaf}; {place} cannot be understood: {error}") from error
