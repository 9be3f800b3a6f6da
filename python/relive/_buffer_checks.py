"""Comparisons of a replay buffer's steps with its first step."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Set
from typing import Any

import numpy as np
import numpy.typing as npt

from relive import _native, nest
from relive._frameworks import is_tensor
from relive._numbers import fitted_number
from relive.specs import ArraySpec

_log = logging.getLogger("relive")

_ARRAYS = {np.ndarray}

PLAIN = frozenset({np.ndarray, bool, int, float, str, bytes, *np.sctypeDict.values()})
"""The types of values that need no conversion."""


def readable(step: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a step with values that numpy accepts.

    Raises:
      TypeError: a value is ``None``, has masked elements or cannot be converted to an array; the error names its path.
    """
    joined: dict[str, Any] = _native.with_lists_joined(dict(step))
    if set(map(type, joined.values())) == _ARRAYS:
        # The usual case.
        return joined
    if any(type(leaf) not in PLAIN for leaf in nest.flatten(joined)):
        joined = nest.map_structure_with_path(_read, joined)
    return joined


def _read(path: nest.Path, value: Any) -> Any:
    if value is None:
        raise TypeError(f"column {nest.path_text(path)!r} is None, but it must be a number, a string or an array; omit the column")
    if type(value) in PLAIN:
        return value
    try:
        array = _native.as_array(value)
    except TypeError as error:
        raise TypeError(f"column {nest.path_text(path)!r}: {error}") from error.__cause__
    # The writer converts objects that numpy does not know, or refuses them.
    return value if array.dtype == object else array


def fitted(step: dict[str, Any], specs: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a readable step with Python's bools and whole numbers in the data types of ``specs``, the specs of the
    first step; see :func:`fitted_number`."""
    leaves = nest.flatten_outlined(nest.outline(specs), step)
    if leaves is None:
        return step
    dtypes = [spec.dtype for spec in nest.flatten(specs)]
    filled: dict[str, Any] = nest.unflatten_as(step, map(fitted_number, leaves, dtypes))
    return filled


def has_tensors(step: Mapping[str, Any]) -> bool:
    """Returns whether a step contains PyTorch tensors."""
    return any(map(is_tensor, nest.flatten(step)))


def specs_of(step: Mapping[str, Any]) -> Any:
    """Returns the specs of a readable step."""
    return nest.map_structure(lambda leaf: ArraySpec(np.shape(leaf), np.asarray(leaf).dtype), step)


def specs_of_rows(rows: Mapping[str, Any]) -> Any:
    """Returns the specs of one of several readable steps; the leading dimension of each column is their number."""
    return nest.map_structure(lambda leaf: ArraySpec(np.shape(leaf)[1:], np.asarray(leaf).dtype), rows)


def as_mask(skip: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Returns the argument ``skip`` as an array.

    Raises:
      ValueError: it does not consist of bools.
    """
    mask = np.asarray(skip)
    if mask.dtype != np.bool_:
        raise ValueError(f"skip must be an array with a bool for each row, but its data type is {mask.dtype}")
    return mask


def expect_mask(mask: npt.NDArray[np.bool_], count: int) -> None:
    """Raises ``ValueError`` if the argument ``skip`` has not one bool for each of ``count`` rows."""
    if mask.shape != (count,):
        raise ValueError(f"skip must have a bool for each row, shape ({count},), but its shape is {mask.shape}")


def warn_of_consecutive(rows: Mapping[str, Any]) -> None:
    """Warns if rows look like consecutive steps of one environment, although they are steps of different environments."""
    for name in rows:
        before, after = rows.get(name.removeprefix("next_")), rows[name]
        if not (name.startswith("next_") and type(before) is type(after) is np.ndarray and before.ndim and before.shape == after.shape):
            continue
        pairs = ((before[:-1], before[1:]), (after[:-1], before[1:]))
        changed, differs = (np.not_equal(*pair).any(tuple(range(1, before.ndim))) for pair in pairs)
        if 2 * np.count_nonzero(changed & ~differs) > len(before):
            _log.warning("the %d rows of add_batch look like consecutive steps, since most values of %s are those of the next row's %s; with "
                         "n_step, they are treated as steps of different environments: add consecutive steps one at a time, with add",
                         len(before), name, name.removeprefix("next_"))
            return


def warn_of_indices(keys: npt.NDArray[Any]) -> bool:
    """Warns if numbers are not the keys of transitions, which are random numbers of 64 bits. Returns whether it has warned."""
    # Of three keys, all are below 2^32 once in 10^29 times. This runs for every update, and the first key usually suffices.
    if keys.size < 3 or keys.dtype.kind not in "iu" or keys.flat[0] >= 2**32 or keys.max() >= 2**32:
        return False
    _log.warning("update: the numbers %s… are not keys of transitions, so they are ignored. The keys of a batch are batch[\"keys\"], 64-bit "
                 "numbers, not indices; JAX shortens them to 32 bits unless jax_enable_x64 is set, so pass the numpy array", keys.flat[0])
    return True


def expect_columns(names: Set[str], step: Mapping[str, Any]) -> None:
    """Raises ``ValueError`` if the step's column names differ from ``names``, the column names of earlier steps."""
    if step.keys() != names:
        raise ValueError(
            f"the steps of the buffer have the columns {sorted(names)}, but this one has {sorted(step)}; use the same column names, or "
            "another buffer"
        )


def expect_like(first: Mapping[str, Any], step: Mapping[str, Any]) -> None:
    """Compares the specs of a step with the specs of the first step.

    Raises:
      ValueError: different names, data types or shapes.
    """
    expect_columns(first.keys(), step)
    expected = dict(nest.flatten_with_path(first))
    found = dict(nest.flatten_with_path(step))
    if found.keys() != expected.keys():
        before, now = (sorted(map(nest.path_text, paths)) for paths in (expected, found))
        raise ValueError(f"the first step of the buffer has the values {before}, but this one has {now}; use the same names")
    for path, spec in found.items():
        if not expected[path].accepts(spec.shape, spec.dtype):
            raise ValueError(f"column {nest.path_text(path)!r} is {_described(spec)}, but was {_described(expected[path])} in the first "
                             f"step of the buffer; {_hint(path, expected[path], spec)}")


def _described(spec: ArraySpec) -> str:
    return f"{spec.dtype} {spec.shape}" if spec.shape else str(spec.dtype)


def _hint(path: nest.Path, first: ArraySpec, spec: ArraySpec) -> str:
    if spec.dtype == first.dtype:
        return "all steps must have the same shapes"
    # A column whose first value is an integer, such as a reward, often gets fractional values later.
    dtype = spec.dtype if spec.dtype.kind == "f" and first.dtype.kind != "f" else first.dtype
    return f"give all steps, from the first one on, one data type, for example with np.{dtype}({path[-1]})"
