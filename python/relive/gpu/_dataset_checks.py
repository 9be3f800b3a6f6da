"""Checks of what is given as a data set."""

from __future__ import annotations

import contextlib
import logging
import os
import pathlib
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from relive.errors import InvalidArgumentError
from relive.gpu._reading import Readable

_log = logging.getLogger("relive")

_READ = "observations, actions, rewards, next_observations, terminals and timeouts"
# Arrays of D4RL's files that are known to be ignored.
_UNUSED = {"infos", "metadata"}


@contextlib.contextmanager
def naming_file(data: Any) -> Iterator[None]:
    """Adds the path of the data set, if it is a file, to errors that do not contain it, and reports damage as an
    error of this package."""
    try:
        yield
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        if not isinstance(data, (str, os.PathLike)):
            raise
        if os.fsdecode(data) in str(error):
            if type(error) is ValueError:
                raise InvalidArgumentError(str(error)) from error
            raise
        if isinstance(error, OSError) and error.errno is not None:
            # The exception's class and errno already identify the error.
            raise
        kind = OSError if isinstance(error, OSError) else InvalidArgumentError
        raise kind(f"{os.fsdecode(data)}: {error}") from error


def expect_dataset(data: Any) -> None:
    """Checks the type of a data set. The caller has already handled folders and lists of episodes."""
    from relive.rl import _dataset_tables, datasets

    is_known = (
        isinstance(data, (str, os.PathLike, Mapping, Readable)) or hasattr(data, "iterate_episodes")
        or _dataset_tables.is_table(data)
    )
    if not is_known:
        raise TypeError(
            f"{datasets.called(data)}a mapping of arrays, a list of relive.rl.recorded.Episode, a folder of recorded "
            "episodes, a file of numpy's savez, of HDF5, Parquet, Arrow or safetensors, a data set of Minari, a pyarrow.Table, a store, or a "
            "relive.Client or relive.Server together with table="
        )


def names_of(data: Any) -> set[str]:
    """Returns the names of the arrays in a data set, without the names of their parts."""
    from relive.rl import _dataset_files, _dataset_tables

    names: set[str] = set()

    def note(name: str) -> bool:
        names.add(name)
        # Only the name is needed.
        return False

    if isinstance(data, (str, os.PathLike)):
        with _dataset_files.reading(pathlib.Path(data), note):
            pass
    elif isinstance(data, Readable):
        names.update(data.columns)
    elif isinstance(data, Mapping):
        names.update(str(name) for name, value in data.items() if value is not None)
    elif _dataset_tables.is_table(data):
        names.update(data.schema.names)
    return {name.split("/")[0] for name in names}


def expect_content(given: set[str], read: set[str]) -> None:
    """Reports arrays with unknown names, which may be misspelt."""
    if not read & {"observations", "actions"}:
        raise InvalidArgumentError(
            f"the data set has {sorted(given | read)}, but neither observations nor actions; rename the arrays: only {_READ} are read"
        )
    if ignored := given - read - _UNUSED:
        _log.warning("the arrays %s of the data set are ignored: only %s are read", sorted(ignored), _READ)
