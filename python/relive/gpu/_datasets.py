"""Episodes of data sets."""

from __future__ import annotations

import contextlib
import logging
import os
import pathlib
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from relive import nest
from relive.errors import InvalidArgumentError
from relive.gpu import _columns, _tables
from relive.gpu._given import real
from relive.gpu._reading import Readable
from relive.gpu._sampling import LARGEST
from relive.specs import ArraySpec

Arrays = dict[str, npt.NDArray[Any]]

_log = logging.getLogger("relive")

_READ = "observations, actions, rewards, next_observations, terminals and timeouts"
# Arrays of D4RL's files that are known to be ignored.
_UNUSED = {"infos", "metadata"}


def episodes_of(data: Any, table: str | None, *, is_whole: bool = False) -> list[Arrays]:
    """Returns the episodes of a data set, or of the table with this name, each with its arrays by name. If the arrays
    become the columns of a store (``is_whole``), there must be observations or actions, and ignored arrays are
    logged."""
    if table is not None:
        return _tables.trajectories_of(data, table)
    from relive import rl
    from relive.rl import recorded

    with _naming_file(data):
        if isinstance(data, (str, os.PathLike)):
            path = pathlib.Path(data)
            if path.is_dir():
                data = recorded.load(path)
            elif path.suffix == ".npz":
                # Numpy does not close a damaged file that it opened itself.
                with open(path, "rb") as file, np.load(file) as arrays:
                    data = dict(arrays)
        if isinstance(data, (list, tuple)) and all(isinstance(episode, recorded.Episode) for episode in data):
            episodes = [_of_recorded(episode) for episode in data]
        else:
            _expect_dataset(data)
            # The store's columns determine which other arrays are required.
            arrays = rl.arrays_of(data, required=())
            if is_whole:
                _expect_content(_names(data), {name.split("/")[0] for name in arrays})
            episodes = _cut(arrays)
    if not episodes:
        raise InvalidArgumentError("the data set has no episodes")
    return episodes


@contextlib.contextmanager
def _naming_file(data: Any) -> Iterator[None]:
    """Adds the path of the data set, if it is a file, to errors that do not contain it."""
    try:
        yield
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        if not isinstance(data, (str, os.PathLike)) or os.fsdecode(data) in str(error):
            raise
        if isinstance(error, OSError) and error.errno is not None:
            # The exception's class and errno already identify the error.
            raise
        kind = OSError if isinstance(error, OSError) else InvalidArgumentError
        raise kind(f"{os.fsdecode(data)}: {error}") from error


def _expect_dataset(data: Any) -> None:
    is_known = (
        isinstance(data, (str, os.PathLike, Mapping, Readable)) or hasattr(data, "iterate_episodes")
        or hasattr(data, "column_names") and hasattr(data, "column")
    )
    if not is_known:
        raise TypeError(
            f"{type(data).__name__} is not a data set; give a mapping of arrays, a list of relive.rl.recorded.Episode, a folder of recorded "
            "episodes, a file of numpy's savez, of HDF5, Parquet, Arrow or safetensors, a data set of Minari, a pyarrow.Table, a store, or a "
            "relive.Client or relive.Server together with table="
        )


def _names(data: Any) -> set[str]:
    """Returns the names of the arrays in a data set, without the names of their parts."""
    from relive.rl import _dataset_files

    names: set[str] = set()

    def note(name: str) -> bool:
        names.add(name)
        # Only the name is needed.
        return False

    if isinstance(data, (str, os.PathLike)):
        _dataset_files.read(pathlib.Path(data), note)
    elif isinstance(data, Readable):
        names.update(data.columns)
    elif isinstance(data, Mapping):
        names.update(str(name) for name, value in data.items() if value is not None)
    elif hasattr(data, "column_names"):
        names.update(data.column_names)
    return {name.split("/")[0] for name in names}


def _expect_content(given: set[str], read: set[str]) -> None:
    """Reports arrays with unknown names, which may be misspelt."""
    if not read & {"observations", "actions"}:
        raise InvalidArgumentError(
            f"the data set has {sorted(given | read)}, but neither observations nor actions; rename the arrays: only {_READ} are read"
        )
    if ignored := given - read - _UNUSED:
        _log.warning("the arrays %s of the data set are ignored: only %s are read", sorted(ignored), _READ)


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
