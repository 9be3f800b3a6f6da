"""The infos of a vector's environments: a worker sends its environments' numbers in few arrays, since pickling and
merging each number by itself can take as long as an environment's step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclasses.dataclass
class Infos:
    """The infos of one worker's environments."""

    numbers: list[tuple[list[str], list[int], npt.NDArray[Any]]]
    """Entries of the same type that the same environments have: their names, the environments, and the values as an
    array ``[names, environments]``."""
    others: dict[int, dict[str, Any]]
    """By environment: entries that are not numbers, or that have another type in another environment."""


def infos_of(found: dict[int, Any]) -> Infos | None:
    """Returns the infos of a worker's environments, given by number, in the form that is sent; ``None`` if all are
    empty."""
    entries: dict[str, dict[int, Any]] = {}
    for number, info in found.items():
        for name, value in info.items():
            entries.setdefault(name, {})[number] = value
    infos, groups = Infos([], {}), dict[Any, tuple[list[str], list[Any]]]()
    for name, values in entries.items():
        kinds = set(map(type, values.values()))
        if len(kinds) == 1 and name != "final_obs" and _is_number(kind := kinds.pop()):
            names, rows = groups.setdefault((kind, *values), ([], []))
            names.append(name)
            rows.append(list(values.values()))
        else:
            for number, value in values.items():
                infos.others.setdefault(number, {})[name] = value
    for (kind, *environments), (names, rows) in groups.items():
        infos.numbers.append((names, environments, np.array(rows, kind)))
    return infos if entries else None


def _is_number(kind: type) -> bool:
    return kind in (int, float, bool) or issubclass(kind, np.number)


def merged(parts: list[Infos], count: int, add: Callable[[dict[str, Any], dict[str, Any], int], dict[str, Any]]) -> dict[str, Any]:
    """Returns the infos of all workers as Gymnasium's vectors do: for each name, an array with a row for each environment,
    and under the name with a leading ``_``, whether the environment has the entry.

    Args:
      parts: each worker's infos, in the order of the workers.
      count: the number of environments.
      add: the method ``VectorEnv._add_info``, which merges one environment's entries.
    """
    result: dict[str, Any] = {}
    for part in parts:
        for number, info in part.others.items():
            result = add(result, info, number)
        for names, environments, values in part.numbers:
            places: Any = slice(environments[0], environments[-1] + 1)
            if len(environments) != places.stop - places.start:
                places = environments
            for name, row in zip(names, values, strict=True):
                if name not in result:
                    result[name], result[f"_{name}"] = np.zeros(count, values.dtype), np.zeros(count, np.bool_)
                result[name][places], result[f"_{name}"][places] = row, True
    return result
