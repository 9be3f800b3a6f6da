"""What other packages call specs, recognised by what it looks like, so that none of them is imported."""

from __future__ import annotations

from typing import Any

import numpy as np

from relive import specs

_SPACES = ("gymnasium.spaces", "gym.spaces")


def convert(leaf: Any) -> Any:
    """The `ArraySpec` of a foreign spec, or a nest of them for a space with parts.

    Raises:
      TypeError: it is nothing known.
      ValueError: it is known, but no column can be like that.
    """
    if _module_is(leaf, *_SPACES):
        return _from_space(leaf)
    if _module_is(leaf, "tensorflow") and hasattr(leaf, "value_type") and not specs.is_tensorflow_spec(leaf):
        raise ValueError("of TensorFlow's specs only TensorSpec can be a column")
    if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
        raise TypeError("expected an ArraySpec, an array, or a spec with a shape and a dtype")
    name = getattr(leaf, "name", None) if _is_spec(leaf) else None
    if hasattr(leaf, "minimum") and hasattr(leaf, "maximum"):
        return specs.BoundedArraySpec(leaf.shape, leaf.dtype, leaf.minimum, leaf.maximum, name)
    return specs.ArraySpec(leaf.shape, leaf.dtype, name)


def _is_spec(leaf: Any) -> bool:
    """Whether `name` says what the value is called; arrays of some packages use the attribute otherwise."""
    return specs.is_tensorflow_spec(leaf) or _module_is(leaf, "dm_env")


def _from_space(space: Any) -> Any:
    kind = type(space).__name__
    if _is_a(space, "Dict"):
        return specs.as_spec(dict(space.spaces))
    if _is_a(space, "Tuple"):
        return specs.as_spec(tuple(space.spaces))
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
    raise ValueError(f"a space of kind {kind} has no fixed shape and data type")


def _is_a(value: Any, name: str) -> bool:
    return any(base.__name__ == name and _in(base.__module__, _SPACES) for base in type(value).__mro__)


def _module_is(value: Any, *modules: str) -> bool:
    return any(_in(base.__module__, modules) for base in type(value).__mro__)


def _in(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)
