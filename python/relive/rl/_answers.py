"""The results of environments, as arrays with one row for each environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from relive import nest
from relive.rl import _faults
from relive.rl.specs import EnvironmentSpec, converted
from relive.specs import ArraySpec

FIRST, MID, LAST = range(3)


class Answers:
    """Step types, rewards, discounts and observation leaves for some rows; :meth:`part` is a view of some of these
    rows.

    Args:
      spec: the spec of each environment.
      rows: the number of rows.
    """

    def __init__(self, spec: EnvironmentSpec, rows: int) -> None:
        self._leaves = nest.flatten_with_path(spec.observations)
        self._is_one = len(self._leaves) == 1 and not self._leaves[0][0]
        self.step_types = np.zeros(rows, np.uint8)
        self.rewards, self.discounts = np.zeros(rows), np.ones(rows)
        self.observations = [np.zeros((rows, *(leaf.shape or ())), leaf.dtype) for _, leaf in self._leaves]

    def part(self, rows: slice) -> Answers:
        """Returns a view of these rows."""
        part: Answers = object.__new__(Answers)
        part._leaves, part._is_one = self._leaves, self._is_one
        part.step_types, part.rewards, part.discounts = self.step_types[rows], self.rewards[rows], self.discounts[rows]
        part.observations = [leaf[rows] for leaf in self.observations]
        return part

    def put(self, row: int, step_type: int, reward: Any, discount: Any) -> None:
        """Writes a result, except for the observation, into a row. The reward and the discount of a FIRST are
        ignored."""
        self.step_types[row] = step_type
        self.rewards[row] = 0.0 if step_type == FIRST else _faults.reward(reward)
        self.discounts[row] = 1.0 if step_type == FIRST else _faults.reward(discount, "discount")

    def see(self, row: int, observation: Any) -> None:
        """Writes an observation into a row.

        Raises:
          TypeError: the numbers' kind differs from the spec's, or a whole number is out of the range of the spec's data
            type.
          ValueError: an array has the wrong shape.
        """
        self._write(row, observation)

    def see_all(self, observations: Any) -> None:
        """Writes the observations of all rows, passed as arrays with one row per environment; see :meth:`see`."""
        self._write(slice(None), observations)

    def _write(self, where: int | slice, observation: Any) -> None:
        for (path, spec), place, leaf in zip(self._leaves, self.observations, self._parts(observation)):
            array, shape = np.asarray(leaf), place[where].shape
            if array.shape != shape or array.dtype != spec.dtype:
                array = _fitted(path, spec, array, shape)
            place[where] = array

    def _parts(self, observation: Any) -> list[Any]:
        return [observation] if self._is_one else [_part(observation, path) for path, _ in self._leaves]


def _fitted(path: nest.Path, spec: ArraySpec, array: Any, shape: Any) -> Any:
    """Returns an array in the spec's data type, after a check of its data type and shape."""
    are_whole = array.dtype.kind in "iub" and spec.dtype.kind in "iub"
    is_kind = array.dtype.kind in "fiub" and (are_whole or np.can_cast(array.dtype, spec.dtype, "same_kind"))
    place = f" at {nest.path_text(path)!r}" if path else ""
    if not is_kind or array.shape != shape:
        text = f"observation{place}: expected {spec.dtype} {shape}, got {array.dtype} {array.shape}"
        raise (ValueError if is_kind else TypeError)(text)
    try:
        return converted(array, spec.dtype)
    except TypeError as error:
        raise TypeError(f"observation{place}: {error}") from None


def _part(value: Any, path: nest.Path) -> Any:
    for element in path:
        by_name = isinstance(element, str) and not isinstance(value, Mapping)
        value = getattr(value, element) if by_name else value[element]
    return value
