"""Data sets in tables of Apache Arrow, whose rows are read on request."""

from __future__ import annotations

import contextlib
import pathlib
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from relive.rl._dataset_columns import Rows, columns

# Returns whether the array with the given name is wanted.
IsWanted = Callable[[str], bool]

# The beginning of the file format; files in the stream format begin differently.
_FILE_FORMAT = b"ARROW1"
# The errors of the packages that read files, for files that are damaged.
DAMAGE = (ValueError, TypeError, LookupError, EOFError, RuntimeError, OSError, zipfile.BadZipFile, zlib.error)


@contextlib.contextmanager
def naming_damage(path: pathlib.Path, kind: str) -> Iterator[None]:
    """Reports errors of the package that reads a file of this kind as a ``ValueError`` with its path."""
    try:
        yield
    except DAMAGE as error:
        if isinstance(error, OSError) and error.errno is not None:
            # The system refuses to read the file.
            raise
        raise ValueError(f"{path}: not {kind}, or damaged: {error}") from error


def is_table(data: Any) -> bool:
    """Returns whether the value is a table, batch, reader of batches or data set of pyarrow."""
    pyarrow, dataset = sys.modules.get("pyarrow"), sys.modules.get("pyarrow.dataset")
    return (
        pyarrow is not None and isinstance(data, (pyarrow.Table, pyarrow.RecordBatch, pyarrow.RecordBatchReader))
        or dataset is not None and isinstance(data, dataset.Dataset)
    )


def of_table(data: Any, place: str, is_wanted: IsWanted) -> dict[str, Rows]:
    """Returns the wanted columns of a ``pyarrow.Table``, ``RecordBatch``, ``RecordBatchReader`` or ``dataset.Dataset``;
    see :func:`relive.rl._dataset_columns.columns`. A reader is read completely, and of a data set the wanted columns.

    Raises:
      ValueError: as for :func:`relive.rl._dataset_columns.columns`.
    """
    import pyarrow

    names = list(filter(is_wanted, data.schema.names))
    if isinstance(data, pyarrow.RecordBatch):
        table = pyarrow.Table.from_batches([data])
    elif isinstance(data, pyarrow.RecordBatchReader):
        table = data.read_all()
    else:
        # Two columns with the same name are reported below.
        table = data if isinstance(data, pyarrow.Table) else data.to_table(columns=list(dict.fromkeys(names)))

    def fetch(name: str, begin: int, end: int) -> Any:
        return table.column(name).slice(begin, end - begin)

    return columns(names, table.num_rows, fetch, place)


def parquet(path: pathlib.Path, is_wanted: IsWanted, opened: contextlib.ExitStack) -> dict[str, Rows]:
    """Returns the wanted columns of a Parquet file, which stays open. Rows are read by row group."""
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(f"{path}: Parquet files require pyarrow, which is not installed: pip install pyarrow") from error
    with naming_damage(path, "a Parquet file"):
        file = opened.enter_context(parquet.ParquetFile(path))
        schema = file.schema_arrow
        names = list(filter(is_wanted, schema.names))
        groups = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
    bounds = np.cumsum([0, *groups])

    def fetch(name: str, begin: int, end: int) -> Any:
        if begin == end:
            return schema.empty_table().column(name)
        first, last = np.searchsorted(bounds, begin, "right") - 1, np.searchsorted(bounds, end, "left")
        with naming_damage(path, "a Parquet file"):
            column = file.read_row_groups(list(range(first, last)), columns=[name]).column(name)
        return column.slice(begin - int(bounds[first]), end - begin)

    return columns(names, int(bounds[-1]), fetch, str(path))


def arrow(path: pathlib.Path, is_wanted: IsWanted, opened: contextlib.ExitStack) -> dict[str, Rows]:
    """Returns the wanted columns of an Arrow file, which stays open. Rows are read in place or, if the file is
    compressed, by batch of the column."""
    try:
        import pyarrow
        from pyarrow import ipc
    except ImportError as error:
        raise ImportError(f"{path}: Arrow files require pyarrow, which is not installed: pip install pyarrow") from error

    def batches(column: int) -> Iterator[Any]:
        found = reader([column])
        return map(found.get_batch, range(found.num_record_batches)) if is_file_format else iter(found)

    def reader(columns: list[int]) -> Any:
        source.seek(0)
        return (ipc.open_file if is_file_format else ipc.open_stream)(source, options=ipc.IpcReadOptions(included_fields=columns))

    def fetch(name: str, begin: int, end: int) -> Any:
        parts, at = [], 0
        with naming_damage(path, "an Arrow file"):
            for batch in batches(schema.get_field_index(name)):
                first, last = max(begin - at, 0), min(end - at, batch.num_rows)
                if first < last:
                    parts.append(batch.column(0).slice(first, last - first))
                    # The lists of a damaged file could lead outside of the file.
                    parts[-1].validate(full=True)
                at += batch.num_rows
                if at >= end:
                    break
        return pyarrow.chunked_array(parts, type=schema.field(name).type)

    with naming_damage(path, "an Arrow file"):
        source = opened.enter_context(pyarrow.memory_map(str(path)))
        is_file_format = source.read(len(_FILE_FORMAT)) == _FILE_FORMAT
        schema = reader([]).schema
        names = list(filter(is_wanted, schema.names))
        rows = sum(batch.num_rows for batch in batches(0)) if len(schema) else 0
    return {name: Copied(column) for name, column in columns(names, rows, fetch, str(path)).items()}


class Copied:
    """Copies of the rows of an array, for arrays in the memory of a mapped file."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, rows: slice) -> npt.NDArray[Any]:
        return np.array(self._rows[rows], subok=False)
