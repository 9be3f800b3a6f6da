"""Episodes of data sets."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from relive import nest
from relive.errors import InvalidArgumentError
from relive.gpu import _columns
from relive.gpu._given import real
from relive.gpu._sampling import LARGEST
from relive.specs import ArraySpec

Arrays = dict[str, npt.NDArray[Any]]


def episodes_of(data: Any) -> list[Arrays]:
    """Returns the episodes of a data set, each with its arrays by name."""
    from relive import rl
    from relive.rl import recorded

    if isinstance(data, (str, os.PathLike)):
        path = pathlib.Path(data)
        if path.is_dir():
            data = recorded.load(path)
        elif path.suffix == ".npz":
            with np.load(path) as file:
                data = dict(file)
    if isinstance(data, (list, tuple)) and all(isinstance(episode, recorded.Episode) for episode in data):
        episodes = [_of_recorded(episode) for episode in data]
    else:
        # The columns determine the other required arrays.
        episodes = _cut(rl.arrays_of(data, required=()))
    if not episodes:
        raise InvalidArgumentError("the data set has no episodes")
    return episodes


def weight_of(given: Any) -> float:
    """Returns a weight for each episode.

    Raises:
      InvalidArgumentError: a value is not a valid weight.
    """
    if isinstance(given, str):
        raise InvalidArgumentError(f"weight is {given!r}; give a number, or 'length' for the number of steps of each episode")
    return real("weight", given, most=LARGEST)


def _of_recorded(episode: Any) -> Arrays:
    """Returns the arrays of a recorded episode in D4RL's layout."""
    ended = np.asarray(episode.discounts) == 0
    timeouts = np.zeros(len(ended), np.bool_)
    timeouts[-1:] = ~ended[-1:]
    parts = {
        "observations": nest.map_structure(lambda leaf: leaf[:-1], episode.observations),
        "actions": episode.actions,
        "rewards": episode.rewards,
        "terminals": ended,
        "timeouts": timeouts,
        "next_observations": nest.map_structure(lambda leaf: leaf[1:], episode.observations),
    }
    return {"/".join(map(str, path)): np.asarray(leaf) for path, leaf in nest.flatten_with_path(parts)}


def _cut(arrays: Arrays) -> list[Arrays]:
    """Splits consecutive rows into episodes. Each episode ends with a row that has a terminal or a timeout; the last
    episode may lack such a row."""
    found = [arrays[name] for name in ("terminals", "timeouts") if name in arrays]
    if not found:
        raise InvalidArgumentError(
            f"the data set has {sorted(arrays)}, but no ends of episodes; add an array terminals or timeouts with a 1 in the last row of "
            "each episode, or zeros for a single episode"
        )
    rows = len(found[0])
    if wrong := {name: len(array) for name, array in arrays.items() if len(array) != rows}:
        raise InvalidArgumentError(f"the data set marks the ends of episodes for {rows} rows, but has a different number of rows in {wrong}")
    ends = np.any([array.astype(np.bool_).reshape(rows) for array in found], axis=0)
    stops = [*(np.flatnonzero(ends) + 1).tolist()]
    if rows and (not stops or stops[-1] < rows):
        stops.append(rows)
    starts = [0, *stops]
    return [{name: array[start:stop] for name, array in arrays.items()} for start, stop in zip(starts, stops)]


def fitted(episode: Arrays, columns: Mapping[str, ArraySpec], max_steps: int, number: int) -> Arrays:
    """Returns the part of an episode that the columns store, in the columns' data types.

    Raises:
      InvalidArgumentError: the episode does not match the columns.
    """
    if missing := [name for name in columns if name not in episode]:
        raise InvalidArgumentError(
            f"the data set has no {missing}; it has {sorted(episode)}; rename the columns, or omit them. Arrays with names other than "
            "D4RL's, such as infos, are not read; make them parts of observations"
        )
    length = len(next(iter(episode.values())))
    if length > max_steps:
        raise InvalidArgumentError(f"episode {number} has {length} steps, but a trajectory can have at most {max_steps}; create the store with a larger max_steps")
    return {name: _fitted(name, episode[name], spec, number) for name, spec in columns.items()}


def _fitted(name: str, array: npt.NDArray[Any], spec: ArraySpec, number: int) -> npt.NDArray[Any]:
    if array.shape[1:] != spec.shape:
        raise InvalidArgumentError(f"episode {number}: steps of {name!r} have shape {array.shape[1:]}, but the column has {spec.shape}")
    return _columns.converted(array, spec, f"episode {number}")
