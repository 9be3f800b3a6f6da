"""Episodes of data sets."""

from __future__ import annotations

import json
import os
import pathlib
import types
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from relive import nest
from relive.errors import InvalidArgumentError
from relive.gpu import _columns, _dataset_checks, _ranks, _tables
from relive.gpu._given import real
from relive.gpu._group import Group
from relive.gpu._sampling import LARGEST
from relive.specs import ArraySpec

Arrays = dict[str, npt.NDArray[Any]]


class Episodes(NamedTuple):
    """One rank's part of a data set."""

    start: int
    """The number of the part's first episode in the data set."""
    part: list[Arrays]
    sample: Arrays
    """Steps of the data set, which have the shapes and data types of its arrays even if the part is empty."""


def episodes_of(data: Any, table: str | None, group: Group | None, *, is_whole: bool = False) -> Episodes:
    """Reads this rank's part of the episodes of a data set, or of the items of the table with this name. If the arrays
    become the columns of a store (``is_whole``), there must be observations or actions, and ignored arrays are
    logged."""
    if table is not None:
        return Episodes(*_tables.trajectories_of(data, table, group))
    from relive.rl import _dataset_files, datasets, recorded

    with _dataset_checks.naming_file(data):
        if isinstance(data, (str, os.PathLike)) and pathlib.Path(data).is_dir():
            _dataset_files.expect_recording(pathlib.Path(data))
            data = recorded.load(data)
        if isinstance(data, (list, tuple)) and all(isinstance(episode, recorded.Episode) for episode in data):
            if not data:
                raise InvalidArgumentError("the data set has no episodes")
            part = _ranks.part_of(group, len(data))
            return Episodes(part.start, [_of_recorded(episode) for episode in data[part]], _of_recorded(data[0]))
        if hasattr(data, "episode_indices") and hasattr(data, "iterate_episodes"):
            return _of_minari(data, group)
        _dataset_checks.expect_dataset(data)
        # The store's columns determine which other arrays are required.
        with datasets.opened(data, required=()) as arrays:
            if is_whole:
                _dataset_checks.expect_content(_dataset_checks.names_of(data), {name.split("/")[0] for name in arrays})
            return _cut(arrays, group)


def sized_episodes_of(data: Any, table: str | None, group: Group | None) -> tuple[Episodes, int, int]:
    """Reads this rank's part of the episodes for a new store, and returns it with the largest number of episodes of a
    rank, and of steps of an episode."""
    found: list[Episodes] = []

    def read() -> bytes:
        found.append(episodes_of(data, table, group, is_whole=True))
        return json.dumps([len(found[0].part), max(map(_length, found[0].part), default=0)]).encode()

    sizes = [json.loads(answer) for answer in _ranks.gathered(group, read, "Store.of_dataset()")]
    episodes, steps = map(max, zip(*sizes))
    return found[0], episodes, steps


def _length(episode: Arrays) -> int:
    return len(next(iter(episode.values())))


def weight_of(given: Any) -> float | Literal["length"]:
    """Returns the weight of each episode, or ``"length"``.

    Raises:
      InvalidArgumentError: a value is not a valid weight.
    """
    if isinstance(given, str) and given == "length":
        return "length"
    if isinstance(given, str):
        raise InvalidArgumentError(f"weight is {given!r}; give a number, or 'length' for the number of steps of each episode")
    return real("weight", given, most=LARGEST)


def _of_minari(data: Any, group: Group | None) -> Episodes:
    """Reads this rank's part of the episodes of a data set of Minari."""
    from relive.rl import datasets

    part = _ranks.part_of(group, len(data.episode_indices))
    # Without a part, an episode is needed for its shapes.
    numbers = data.episode_indices[part] if part.start < part.stop else data.episode_indices[:1]
    chosen = types.SimpleNamespace(iterate_episodes=lambda: data.iterate_episodes(numbers), action_space=getattr(data, "action_space", None))
    with datasets.opened(chosen, required=()) as arrays:
        found = _cut(arrays, None)
    return Episodes(part.start, found.part if part.start < part.stop else [], found.sample)


def _of_recorded(episode: Any) -> Arrays:
    """Returns the arrays of a recorded episode in D4RL's layout."""
    from relive.rl import datasets

    ended = datasets.unmasked("a recorded episode", "discounts", episode.discounts) == 0
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
    named = [("/".join(map(str, path)), leaf) for path, leaf in nest.flatten_with_path(parts)]
    return {name: datasets.unmasked("a recorded episode", name, leaf) for name, leaf in named}


def _cut(arrays: Mapping[str, Any], group: Group | None) -> Episodes:
    """Splits consecutive rows into episodes, and reads the rows of this rank's part. Each episode ends with a row that
    is marked as terminal or as a timeout; the last episode may lack such a row."""
    found = [arrays[name] for name in ("terminals", "timeouts") if name in arrays]
    if not found:
        raise InvalidArgumentError(
            f"the data set has {sorted(arrays)}, but no ends of episodes; add an array terminals or timeouts with a 1 in the last row of "
            "each episode, or zeros for a single episode. In a table with one row per episode, rewards, terminals or timeouts must be lists"
        )
    rows = len(found[0])
    if wrong := {name: len(array) for name, array in arrays.items() if len(array) != rows}:
        raise InvalidArgumentError(f"the data set marks the ends of episodes for {rows} rows, but has a different number of rows in {wrong}")
    ends = np.any([array.astype(np.bool_).reshape(rows) for array in found], axis=0)
    bounds = np.unique([0, *(np.flatnonzero(ends) + 1), rows]).tolist()
    if rows == 0:
        raise InvalidArgumentError("the data set has no episodes")
    part = _ranks.part_of(group, len(bounds) - 1)
    bounds = bounds[part.start : part.stop + 1]
    if len(bounds) < 2:
        return Episodes(part.start, [], _rows(arrays, 0, 1))
    read = _rows(arrays, bounds[0], bounds[-1])
    episodes = [
        {name: array[start - bounds[0] : stop - bounds[0]] for name, array in read.items()} for start, stop in zip(bounds, bounds[1:])
    ]
    return Episodes(part.start, episodes, episodes[0])


def _rows(arrays: Mapping[str, Any], start: int, stop: int) -> Arrays:
    return {name: np.ascontiguousarray(array[start:stop]) for name, array in arrays.items()}


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
    length = _length(episode)
    if length > max_steps:
        raise InvalidArgumentError(f"episode {number} has {length} steps, but a trajectory can have at most {max_steps}; create the store with a larger max_steps")
    return {name: _fitted(name, episode[name], spec, number) for name, spec in columns.items()}


def _fitted(name: str, array: npt.NDArray[Any], spec: ArraySpec, number: int) -> npt.NDArray[Any]:
    if array.shape[1:] != spec.shape:
        raise InvalidArgumentError(f"episode {number}: steps of {name!r} have shape {array.shape[1:]}, but the column has {spec.shape}")
    return _columns.converted(array, spec, f"episode {number}")
