"""Weights of custom agents: arrays in nested mappings, and as a list for transfer."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from relive._frameworks import as_numpy

_log = logging.getLogger("relive")


def called(value: Any) -> str:
    """Returns the name of an object in messages."""
    return type(value).__qualname__


def as_array(value: Any) -> Any:
    """Converts any framework's array to numpy.

    Raises:
      TypeError: numbers of a type that numpy lacks, such as PyTorch's bfloat16.
    """
    try:
        return np.asarray(as_numpy(value))
    except TypeError as error:
        dtype = getattr(value, "dtype", type(value).__name__)
        raise TypeError(f"numpy has no {dtype}; convert the tensor first, for instance to float32 ({error})") from error


def flattened(weights: Any, learner: str) -> list[tuple[str, Any]]:
    """Returns all arrays in nested mappings, by path, with slashes between the names. The path of an empty mapping ends
    with a slash; a single array without a mapping has the path ``/``.

    Raises:
      TypeError: a value that is not an array of numbers, such as a list of arrays, or a name with a slash.
      ValueError: numbers that are not finite.
    """
    found: list[tuple[str, Any]] = []
    _add(weights, "", found, learner)
    return found


def _add(value: Any, path: str, found: list[tuple[str, Any]], learner: str) -> None:
    if isinstance(value, Mapping):
        if path and not value:
            found.append((f"{path}/", np.zeros(0, np.float32)))
        for name, part in value.items():
            if not isinstance(name, str) or not name or "/" in name:
                raise TypeError(f"{learner}.weights() has the name {name!r}, but names must be non-empty strings without slashes")
            _add(part, f"{path}/{name}" if path else name, found, learner)
        return
    if isinstance(value, (list, tuple)) and not _is_numbers(value):
        raise TypeError(_refused(value, path, learner))
    try:
        array = as_array(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{learner}.weights() has {path!r}, but {error}") from error
    if array.dtype.isbuiltin == 2:
        # A type of ml_dtypes, such as bfloat16.
        raise TypeError(f"{learner}.weights() has {array.dtype} at {path!r}, which policies cannot get; convert it first, for instance with "
                        "astype(numpy.float32)")
    if array.dtype.kind not in "fiub":
        raise TypeError(_refused(value, path, learner))
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{learner}.weights() has NaN or infinite numbers in {path!r}: learning has diverged")
    found.append((path or "/", array))


def _is_numbers(value: Any) -> bool:
    """Returns whether a list, or nested lists, contain only numbers. If they contained arrays, numpy would stack these."""
    if type(value) in (list, tuple):
        return all(map(_is_numbers, value))
    return isinstance(value, (int, float, np.generic))


def _refused(value: Any, path: str, learner: str) -> str:
    return (
        f"{learner}.weights() has {value!r:.200} at {path or '/'!r}, but weights must be arrays of numbers in nested mappings, such as PyTorch's "
        "state_dict(), or the result of relive.rl.jax.weights(tree) for a list, a tuple or another tree of arrays"
    )


def nested(weights: dict[str, Any]) -> Any:
    """Rebuilds the nested mappings from the result of :func:`flattened`."""
    if weights.keys() == {"/"}:
        return weights["/"]
    nested: dict[str, Any] = {}
    for path, array in weights.items():
        *groups, name = path.split("/")
        place = nested
        for group in groups:
            place = place.setdefault(group, {})
        if name:
            place[name] = array
    return nested


class Unchanged:
    """Warns if a learner's weights stay the same while it learns."""

    # A learner may begin with steps that do not change the policy, for example of a critic.
    _STEPS = 20

    def __init__(self, learner: str) -> None:
        self._learner, self._steps = learner, 0
        # A copy of the first weights, until others differ from them.
        self._first: dict[str, Any] | None = None
        self._is_over = False

    def learn(self, steps: int) -> None:
        """Counts learner steps."""
        self._steps += steps

    def publish(self, weights: list[tuple[str, Any]]) -> None:
        """Compares weights with the first ones."""
        if self._is_over:
            return
        if self._first is None:
            self._first, self._steps = {path: array.copy() for path, array in weights}, 0
            self._is_over = not any(array.size for array in self._first.values())
        elif any(path not in self._first or not np.array_equal(self._first[path], array) for path, array in weights):
            self._first, self._is_over = None, True
        elif self._steps >= self._STEPS:
            _log.warning(
                "%s.weights() returns the same weights after %d learner steps: learn() must change the parameters that weights() returns. Does "
                "the optimizer have these parameters, and does the loss depend on them? If the policy needs no weights, return {}",
                self._learner, self._steps,
            )  # fmt: skip
            self._first, self._is_over = None, True
