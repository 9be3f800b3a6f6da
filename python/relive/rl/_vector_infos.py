"""The infos of a vector's environments: a worker sends its environments' numbers in a few arrays, since pickling and
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

    numbers: list[tuple[type, list[str], list[int], npt.NDArray[Any]]]
    """Entries of the same type that the same environments have: the type, their names, the environments, and the values
    as an array ``[names, environments]``."""
    others: dict[int, dict[str, Any]]
    """By environment: all other entries."""

    def add_others(self, names: list[str], entries: dict[str, dict[int, Any]]) -> None:
        """Adds the values of these names."""
        for name in names:
            for number, value in entries[name].items():
                self.others.setdefault(number, {})[name] = value


def infos_of(found: dict[int, dict[str, Any]]) -> Infos | None:
    """Returns the infos of a worker's environments, given by number, in the form that is sent; ``None`` if all are
    empty."""
    entries: dict[str, dict[int, Any]] = {}
    for number, info in found.items():
        for name, value in info.items():
            entries.setdefault(name, {})[number] = value
    # A name with a leading `_` may be that of another entry's mask.
    may_group = not any(isinstance(name, str) and name.startswith("_") for name in entries)
    infos, groups = Infos([], {}), dict[Any, list[str]]()
    for name, values in entries.items():
        kinds = set(map(type, values.values()))
        if may_group and len(kinds) == 1 and name != "final_obs" and _is_number(kind := kinds.pop()):
            groups.setdefault((kind, *values), []).append(name)
        else:
            infos.add_others([name], entries)
    for (kind, *environments), names in groups.items():
        try:
            rows = np.array([list(entries[name].values()) for name in names], kind)
        except OverflowError:
            infos.add_others(names, entries)
        else:
            infos.numbers.append((kind, names, environments, rows))
    return infos if entries else None


def _is_number(kind: type) -> bool:
    return kind in (int, float, bool) or (issubclass(kind, np.number) and not issubclass(kind, np.timedelta64))


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
        for kind, names, environments, rows in part.numbers:
            places: Any = slice(environments[0], environments[-1] + 1)
            if len(environments) != places.stop - places.start:
                places = environments
            for name, row in zip(names, rows, strict=True):
                if name not in result and f"_{name}" not in result:
                    result[name], result[f"_{name}"] = np.zeros(count, row.dtype), np.zeros(count, np.bool_)
                known = result.get(name)
                if isinstance(known, np.ndarray) and known.ndim == 1 and known.dtype == row.dtype:
                    known[places], result[f"_{name}"][places] = row, True
                    continue
                # The entry has another type in another worker's environments.
                for number, value in zip(environments, row, strict=True):
                    result = add(result, {name: kind(value)}, number)
    return result
