"""Third-party data sets as files for agents to learn from: ``train(..., data=...)``."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import sys
import tempfile
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from relive import _native, nest
from relive.rl import _dataset_files, _dataset_npz, _dataset_tables, recorded
from relive.rl._dataset_columns import Rows
from relive.rl.gymnasium_adapters import from_zero

Arrays = dict[str, npt.NDArray[Any]]

# The arrays that are read, and whether they are required.
_NAMES = ("observations", "actions", "rewards", "terminals", "timeouts", "next_observations")
_REQUIRED = ("observations", "actions", "rewards", "terminals")
# Arrays with one number per transition.
_NUMBERS = ("rewards", "terminals", "timeouts")
_ENDS = ("terminals", "timeouts")
# Gymnasium's names for some of these arrays.
_OTHER_NAMES = {"terminations": "terminals", "truncations": "timeouts"}


def arrays_of(data: Any, *, required: Iterable[str] = _REQUIRED) -> Arrays:
    """Returns the transitions of a data set as arrays in D4RL's layout, one row per transition: ``observations``,
    ``actions``, ``rewards`` and ``terminals``, and if present ``timeouts`` and ``next_observations``. Parts of nests
    are named like ``observations/camera``. The discrete actions of a Minari data set are counted from 0, regardless of
    the ``start`` of its action space.

    Args:
      data: a Minari data set (``minari.load_dataset``); a mapping of arrays, or of lists of numbers; a ``pyarrow.Table``,
        ``RecordBatch``, ``RecordBatchReader`` or ``dataset.Dataset``, whose columns are read into memory; a
        :class:`relive.gpu.Store` or :class:`relive.gpu.Reader` with columns of these names (trajectories with a weight
        of 0 are omitted); a folder of recorded episodes; or the path of a file: numpy's ``savez`` or HDF5 (needs h5py) in
        D4RL's layout, Parquet or Arrow (need pyarrow), or safetensors. Tables have one row per step or, where rewards
        (or, without rewards, terminals or timeouts) are lists, per episode. The end of such a row always ends the
        episode, which counts as truncated unless it has terminated. Arrays with other names, such as D4RL's ``infos``,
        are ignored.
      required: the required arrays: ``observations``, ``actions``, ``rewards`` and ``terminals`` for agents that learn
        from the data.

    Raises:
      TypeError: the data has the wrong type.
      ValueError: arrays are missing or have masked values, a row of ``terminals`` or ``timeouts`` is neither 0 nor 1, or
        the file is damaged; the error names the arrays and the file.
      ImportError: h5py or pyarrow is not installed.
      OSError: the file cannot be read.
    """
    with opened(data, required=required) as arrays:
        return {name: np.ascontiguousarray(rows[:]) for name, rows in arrays.items()}


@contextlib.contextmanager
def opened(data: Any, *, required: Iterable[str]) -> Iterator[dict[str, Rows]]:
    """Provides the arrays of a data set like :func:`arrays_of`. If the data set is a file or a table, only
    ``terminals`` and ``timeouts`` are read at once. The rows of other arrays are read when a slice of them is taken,
    which is only possible within the context."""
    place = _place_of(data)
    if hasattr(data, "iterate_episodes"):
        arrays = _of_episodes(place, data.iterate_episodes(), getattr(data, "action_space", None))
        yield _known(place, arrays, required)
    # The value can be a store only if the module of stores has been imported.
    elif "relive.gpu" in sys.modules and isinstance(data, sys.modules["relive.gpu"].Readable):
        yield _known(place, data.all_steps(), required)
    elif isinstance(data, Mapping):
        yield _known(place, _flattened(place, _native.with_lists_joined(dict(data))), required)
    elif isinstance(data, (str, os.PathLike)) and (folder := pathlib.Path(data)).is_dir():
        yield _known(place, _of_recording(folder), required)
    else:
        left_out: set[str] = set()

        def is_wanted(name: str) -> bool:
            if not _is_known(name):
                left_out.add(name)
            return _is_known(name)

        with _reading(data, is_wanted) as arrays:
            leaves = {"/".join(map(str, path)): rows for path, rows in nest.flatten_with_path(arrays)}
            read = {name: np.ascontiguousarray(leaves[name][:]) for name in _ENDS if name in leaves}
            yield _known(place, {**leaves, **read}, required, left_out)


@contextlib.contextmanager
def _reading(data: Any, is_wanted: Callable[[str], bool]) -> Iterator[dict[str, Any]]:
    """Provides the wanted arrays of a file or table."""
    if isinstance(data, (str, os.PathLike)):
        with _dataset_files.reading(pathlib.Path(data), is_wanted) as arrays:
            yield arrays
    elif _dataset_tables.is_table(data):
        yield _dataset_tables.of_table(data, _place_of(data), is_wanted)
    else:
        raise TypeError(
            f"{called(data)}a data set of Minari, a mapping of arrays, a pyarrow.Table, a relive.gpu.Store, a folder of recorded "
            "episodes, or a file of numpy's savez, of HDF5, Parquet, Arrow or safetensors"
        )


def called(data: Any) -> str:
    """Returns the beginning of the error for a value that is not a data set, which continues with the kinds of data
    sets."""
    package = type(data).__module__.partition(".")[0]
    instead = {"pandas": "the table pyarrow.Table.from_pandas(data)", "polars": "the table data.to_arrow()"}.get(package)
    if isinstance(data, (list, tuple)) and data and all(isinstance(path, (str, os.PathLike)) for path in data):
        instead = "pyarrow.dataset.dataset(paths), if these are Parquet or Arrow files"
    return f"{type(data).__name__} is not a data set; give " + (f"{instead}, or " if instead else "")


def save_dataset(path: str | os.PathLike[str], data: Any) -> None:
    """Writes a data set as a file for ``train(..., data=path)`` and ``relive rl train --data``; its name must end with
    ``.npz``. An existing file is replaced only by a complete new one.

    Args:
      path: the file.
      data: as in :func:`arrays_of`.

    Raises:
      TypeError, ImportError: in the same cases as :func:`arrays_of`.
      ValueError: in the same cases as :func:`arrays_of`; or an array has values that are not numbers, or the name of the
        file does not end with ``.npz``.
      OSError: the file cannot be written.
    """
    path = pathlib.Path(path)
    if path.suffix != ".npz":
        raise ValueError(f"{path} must end with .npz, because data sets are written as numpy's savez")
    arrays = arrays_of(data)
    # The file behind a link, which keeps its permissions.
    path = path.resolve()
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".saving-") as folder:
        partial = os.path.join(folder, "data.npz")
        with open(partial, "wb") as file:
            _dataset_npz.write(file, arrays, str(path))
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, partial)
        os.replace(partial, path)


@contextlib.contextmanager
def path_of(data: Any) -> Iterator[str | None]:
    """Provides the files that the extension reads: folders, and numpy files whose arrays need no conversion, are used in
    place; other data is written to a temporary file for the duration of the context. A run identifies its data by its
    content, so a resumed run may use another file."""
    if data is None:
        yield None
        return
    if isinstance(data, (str, os.PathLike)) and _is_native(pathlib.Path(data)):
        yield os.fspath(data)
        return
    with tempfile.TemporaryDirectory(prefix="relive-data-") as folder:
        path = os.path.join(folder, "data.npz")
        with open(path, "wb") as file:
            _dataset_npz.write(file, arrays_of(data), _place_of(data))
        try:
            yield path
        except Exception as error:
            if error.args and isinstance(error.args[0], str):
                error.args = (error.args[0].replace(path, _place_of(data)), *error.args[1:])
            raise


def _place_of(data: Any) -> str:
    """Returns the name of a data set in errors."""
    if isinstance(data, (str, os.PathLike)):
        return str(pathlib.Path(data))
    if hasattr(data, "iterate_episodes"):
        return "the data set of Minari"
    return "the data" if isinstance(data, Mapping) else "the table" if _dataset_tables.is_table(data) else "the store"


def _is_native(path: pathlib.Path) -> bool:
    """Returns whether the extension reads the folder or file itself.

    Raises:
      ValueError: a folder of other files.
    """
    if path.is_dir():
        _dataset_files.expect_recording(path)
    return path.suffix not in _dataset_files.ENDINGS and (path.suffix != ".npz" or _dataset_npz.is_native(path, _is_known))


def _of_recording(folder: pathlib.Path) -> Arrays:
    _dataset_files.expect_recording(folder)

    def episodes() -> Iterator[Any]:
        for episode in recorded.load(folder):
            has_terminated = episode.discounts == 0
            yield types.SimpleNamespace(**vars(episode), terminations=has_terminated, truncations=np.zeros_like(has_terminated))

    return _of_episodes(str(folder), episodes(), None)


def _of_episodes(place: str, episodes: Iterable[Any], space: Any) -> Arrays:
    """Returns the transitions of episodes in Minari's format. ``space`` is their action space, or ``None`` if unknown."""
    parts: dict[str, list[Any]] = {}
    for episode in episodes:
        steps = len(episode.rewards)
        for name, rows in (
            ("observations", slice(0, steps)),
            ("next_observations", slice(1, steps + 1)),
        ):
            for key, leaf in _flattened(place, {name: episode.observations}).items():
                parts.setdefault(key, []).append(leaf[rows])
        actions = episode.actions if space is None else from_zero(episode.actions, space)
        for key, leaf in _flattened(place, {"actions": actions}).items():
            parts.setdefault(key, []).append(leaf)
        parts.setdefault("rewards", []).append(np.asarray(episode.rewards))
        parts.setdefault("terminals", []).append(np.asarray(episode.terminations))
        # An episode that was incomplete at the end of the recording counts as truncated at that point.
        timeouts = np.array(episode.truncations, np.bool_)
        timeouts[-1:] |= ~np.asarray(episode.terminations[-1:], np.bool_)
        parts.setdefault("timeouts", []).append(timeouts)
    if not parts:
        raise ValueError(f"{place} has no episodes")
    return {key: np.concatenate(leaves) for key, leaves in parts.items()}


def _flattened(place: str, data: Mapping[str, Any]) -> Arrays:
    # A list of numbers is not a nest.
    data = {name: np.asarray(value) if name in _NUMBERS and isinstance(value, list) else value for name, value in data.items()}
    leaves = nest.flatten_with_path({name: value for name, value in data.items() if value is not None})
    return {name: unmasked(place, name, leaf) for path, leaf in leaves for name in ["/".join(map(str, path))]}


def unmasked(place: str, name: str, leaf: Any) -> npt.NDArray[Any]:
    """Returns a value as an array with consecutive numbers.

    Raises:
      ValueError: elements are masked.
    """
    if isinstance(leaf, np.ma.MaskedArray) and (count := int(np.ma.getmaskarray(leaf).sum())):
        raise ValueError(f"{place}: array `{name}`: {count} values are masked; remove these rows, or fill them, for example with filled(0)")
    return np.ascontiguousarray(leaf)


def _is_known(name: str) -> bool:
    """Returns whether the name belongs to an array of a data set, or to a part of a nest of arrays."""
    return name.split("/")[0] in _NAMES


def _known(place: str, arrays: Mapping[str, Any], required: Iterable[str], left_out: Iterable[str] = ()) -> dict[str, Rows]:
    there = {*left_out, *(key.split("/")[0] for key in arrays)}
    for other, name in _OTHER_NAMES.items():
        if other in there and name not in there:
            raise ValueError(f"{place}: there is an array {other}, which must be called {name}; rename it")
    if missing := [name for name in required if name not in there]:
        hint = "; for agents that learn without rewards, such as rl.BC, use zeros" if missing == ["rewards"] else ""
        raise ValueError(f"{place}: these arrays are missing: {', '.join(missing)}; there are {', '.join(sorted(there)) or 'none'}{hint}")
    for name in _ENDS:
        if name in arrays:
            _expect_ends(place, name, arrays[name])
    known = {key: array for key, array in arrays.items() if _is_known(key)}
    first = "rewards" if "rewards" in known else next(iter(known), "")
    for key, array in known.items():
        if len(array) != len(known[first]):
            hint = ". Arrays in a list are parts of a row; give numpy.stack of a list of rows" if key.rpartition("/")[2].isdigit() else ""
            raise ValueError(f"{place}: array `{key}`: it has {len(array)} rows, but `{first}` has {len(known[first])}; give one row for each "
                             f"transition{hint}")
    return known


def _expect_ends(place: str, name: str, array: npt.NDArray[Any]) -> None:
    if array.size != len(array):
        raise ValueError(f"{place}: array `{name}`: its shape is {list(array.shape)}, but it must have one number for each transition")
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{place}: array `{name}`: its values have the data type {array.dtype}, but must be booleans, or the numbers 0 and 1")
    if array.dtype.kind != "b" and len(odd := np.flatnonzero((array != 0) & (array != 1))):
        value = array.reshape(-1)[odd[0]]
        raise ValueError(f"{place}: array `{name}`: row {odd[0]} has {value}, but it must be 1 (the episode ends there) or 0")
