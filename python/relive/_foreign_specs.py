"""Specs of other packages, recognized by their attributes, so that none of the packages is imported."""

from __future__ import annotations

from typing import Any

import numpy as np

from relive import _array_specs as specs
from relive import nest

_SPACES = ("gymnasium.spaces", "gym.spaces")


def without_spaces(structure: Any, depth: int = 0) -> Any:
    """Converts composite spaces to dicts and tuples. ``Dict`` spaces are mappings, but can only contain spaces."""
    if _is_a(structure, "Dict"):
        return {key: without_spaces(part, nest.deeper(depth)) for key, part in structure.spaces.items()}
    if _is_a(structure, "Tuple"):
        return tuple(without_spaces(part, nest.deeper(depth)) for part in structure.spaces)
    if not nest.is_nested(structure):
        return structure
    depth = nest.deeper(depth)
    return nest.rebuild(structure, [without_spaces(part, depth) for _, part in nest.children(structure)])


def convert(leaf: Any) -> specs.ArraySpec:
    """Converts a foreign spec to an ``ArraySpec``.

    Raises:
      TypeError: an unknown kind of spec.
      ValueError: a known kind that no column can represent.
    """
    if _module_is(leaf, *_SPACES):
        return _from_space(leaf)
    if _module_is(leaf, "tensorflow") and hasattr(leaf, "value_type") and not specs.is_tensorflow_spec(leaf):
        raise ValueError("TensorSpec is the only TensorFlow spec that can be a column")
    if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
        raise TypeError("expected an ArraySpec, an array, or a spec with a shape and a dtype")
    if not _has_names_and_bounds(leaf):
        return specs.ArraySpec(leaf.shape, leaf.dtype)
    name = getattr(leaf, "name", None)
    if hasattr(leaf, "minimum") and hasattr(leaf, "maximum"):
        return specs.BoundedArraySpec(leaf.shape, leaf.dtype, leaf.minimum, leaf.maximum, name)
    return specs.ArraySpec(leaf.shape, leaf.dtype, name)


def _has_names_and_bounds(leaf: Any) -> bool:
    """Returns whether ``name``, ``minimum`` and ``maximum`` are attributes of the value; tensors can have methods with
    these names."""
    return specs.is_tensorflow_spec(leaf) or _module_is(leaf, "dm_env")


def _from_space(space: Any) -> specs.ArraySpec:
    if _is_a(space, "Box"):
        return specs.BoundedArraySpec(space.shape, space.dtype, space.low, space.high)
    if _is_a(space, "Discrete"):
        first = int(getattr(space, "start", 0))
        return specs.BoundedArraySpec((), space.dtype, first, first + int(space.n) - 1)
    if _is_a(space, "MultiDiscrete"):
        start = np.asarray(getattr(space, "start", 0))
        return specs.BoundedArraySpec(space.shape, space.dtype, start, start + space.nvec - 1)
    if _is_a(space, "MultiBinary"):
        return specs.BoundedArraySpec(space.shape, space.dtype, 0, 1)
    raise ValueError(f"a space of type {type(space).__name__} has no fixed shape and data type")


def _is_a(value: Any, name: str) -> bool:
    return any(base.__name__ == name and _in(base.__module__, _SPACES) for base in type(value).__mro__)


def _module_is(value: Any, *modules: str) -> bool:
    return any(_in(base.__module__, modules) for base in type(value).__mro__)


def _in(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)
