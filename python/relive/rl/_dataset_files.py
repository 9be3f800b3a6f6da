"""Files of data sets, as nested mappings of arrays."""

from __future__ import annotations

import json
import math
import pathlib
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

# A longer header means that the file is damaged; this is the format's own limit.
_MAX_HEADER_BYTES = 100_000_000
_TYPES = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "F16": "<f2", "U32": "<u4", "I32": "<i4", "F32": "<f4", "U64": "<u8",
    "I64": "<i8", "F64": "<f8",
}


# Returns whether the array with the given name is wanted.
IsWanted = Callable[[str], bool]


def read(path: pathlib.Path, is_wanted: IsWanted) -> dict[str, Any]:
    """Returns the wanted arrays of a file, by its extension.

    Raises:
      ValueError: the file is damaged, or has an unknown extension.
      ImportError: the package that reads it is not installed.
      OSError: the file cannot be read.
    """
    reader = _READERS.get(path.suffix)
    if reader is None:
        if not path.exists():
            raise FileNotFoundError(f"there is no file or folder {path}")
        raise ValueError(f"{path}: the extension of a data set must be one of {', '.join(_READERS)}")
    return reader(path, is_wanted)


def of_table(table: Any, place: str, is_wanted: IsWanted) -> dict[str, npt.NDArray[Any]]:
    """Returns the wanted columns of a ``pyarrow.Table``: one row per step or, where rewards are lists, per episode.

    Raises:
      ValueError: lists of different lengths in a column of fixed shape, or missing values.
    """
    columns = {name: table.column(name).combine_chunks() for name in table.column_names if is_wanted(name)}
    rewards = columns.get("rewards")
    if rewards is None or not _is_list(rewards):
        return {name: _array(column, f"{place}, column {name!r}") for name, column in columns.items()}
    lengths = np.asarray(rewards.value_lengths())
    arrays = {}
    for name, column in columns.items():
        where = f"{place}, column {name!r}"
        if not _is_list(column) or not np.array_equal(np.asarray(column.value_lengths()), lengths):
            raise ValueError(f"{where}: rewards must be lists with a value for each step of an episode, but this column has a different "
                             "number")
        arrays[name] = _array(column.flatten(), where)
    return _with_timeouts(arrays, lengths)


def _with_timeouts(arrays: dict[str, npt.NDArray[Any]], lengths: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
    """Marks episodes that have not terminated as truncated."""
    last = np.cumsum(lengths)[lengths > 0] - 1
    if "terminals" in arrays and "timeouts" not in arrays:
        timeouts = np.zeros(len(arrays["terminals"]), np.bool_)
        timeouts[last] = ~arrays["terminals"][last].astype(np.bool_)
        arrays["timeouts"] = timeouts
    return arrays


def _is_list(column: Any) -> bool:
    return hasattr(column, "flatten") and hasattr(column, "value_lengths")


def _array(column: Any, where: str) -> npt.NDArray[Any]:
    """Converts nested lists to one array."""
    shape: list[int] = [len(column)]
    while _is_list(column):
        if column.null_count:
            raise ValueError(f"{where}: {column.null_count} values are missing")
        lengths = np.unique(np.asarray(column.value_lengths()))
        if len(lengths) > 1:
            raise ValueError(f"{where}: lists of {lengths.min()} to {lengths.max()} values, but all steps must have the same shape")
        shape.append(int(lengths[0]) if len(lengths) else 0)
        column = column.flatten()
    if column.null_count:
        raise ValueError(f"{where}: {column.null_count} values are missing")
    array: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{where}: {column.type} is not a number type")
    return array.reshape(shape)


def _parquet(path: pathlib.Path, is_wanted: IsWanted) -> dict[str, Any]:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(f"{path}: Parquet files require pyarrow, which is not installed: pip install pyarrow") from error
    names = [name for name in parquet.read_schema(path).names if is_wanted(name)]
    return of_table(parquet.read_table(path, columns=names), str(path), is_wanted)


def _arrow(path: pathlib.Path, is_wanted: IsWanted) -> dict[str, Any]:
    try:
        from pyarrow import ipc, memory_map
    except ImportError as error:
        raise ImportError(f"{path}: Arrow files require pyarrow, which is not installed: pip install pyarrow") from error
    with memory_map(str(path)) as source:
        try:
            table = ipc.open_file(source).read_all()
        except ValueError:
            # The file is in the stream format; the file format has a footer.
            source.seek(0)
            table = ipc.open_stream(source).read_all()
        return {name: array.copy() for name, array in of_table(table, str(path), is_wanted).items()}


def _npz(path: pathlib.Path, is_wanted: IsWanted) -> dict[str, Any]:
    try:
        # Numpy does not close a damaged file that it opened itself.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files if is_wanted(name)}
    except (TypeError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path}: not a file of numpy's savez, or damaged: {error}") from error


def _hdf5(path: pathlib.Path, is_wanted: IsWanted) -> dict[str, Any]:
    try:
        import h5py
    except ImportError as error:
        raise ImportError(f"{path}: HDF5 files require h5py, which is not installed: pip install h5py") from error
    with h5py.File(path, "r") as file:
        return {name: _part_of_hdf5(file[name]) for name in file if is_wanted(name)}


def _part_of_hdf5(part: Any) -> Any:
    """Converts an HDF5 data set to an array, and a group to a mapping."""
    return {name: _part_of_hdf5(part[name]) for name in part} if hasattr(part, "keys") else part[()]


def _safetensors(path: pathlib.Path, is_wanted: IsWanted) -> dict[str, Any]:
    """Tensors by name: a length in 8 bytes, a JSON header with types, shapes and positions, and the tensors' bytes."""
    whole = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.zeros(0, np.uint8)
    size = int.from_bytes(whole[:8].tobytes(), "little")
    if len(whole) < 8 or size > min(len(whole) - 8, _MAX_HEADER_BYTES):
        raise ValueError(f"{path}: not a safetensors file, or truncated: {len(whole)} bytes, and a header of {size}")
    try:
        header = json.loads(whole[8 : 8 + size].tobytes())
    except ValueError as error:
        raise ValueError(f"{path}: the header is damaged: {error}") from error
    if not isinstance(header, dict):
        raise ValueError(f"{path}: the header is not a mapping of tensors")
    values = whole[8 + size :]
    return {name: _tensor(f"{path}, tensor {name!r}", entry, values) for name, entry in header.items() if is_wanted(name)}


def _tensor(where: str, entry: Any, values: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    try:
        dtype, shape = _dtype_of(entry["dtype"]), [int(size) for size in entry["shape"]]
        begin, end = (int(place) for place in entry["data_offsets"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{where}: the header describes it in an unexpected form: {error}") from error
    if min(shape, default=1) < 0 or not 0 <= begin <= end <= len(values) or end - begin != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{where}: {dtype} of shape {shape} in the bytes from {begin} to {end} of {len(values)}")
    return np.frombuffer(values[begin:end].tobytes(), dtype).reshape(shape)


def _dtype_of(name: Any) -> np.dtype[Any]:
    """Returns numpy's data type for the name of a safetensors type.

    Raises:
      ValueError: numpy has no such type.
      ImportError: the type is bfloat16, and ml_dtypes is not installed.
    """
    if name == "BF16":
        import ml_dtypes

        bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    if name not in _TYPES:
        raise ValueError(f"{name!r} must be one of {', '.join(_TYPES)} and BF16")
    return np.dtype(_TYPES[name])


_READERS: dict[str, Callable[[pathlib.Path, IsWanted], dict[str, Any]]] = {
    ".hdf5": _hdf5, ".h5": _hdf5, ".parquet": _parquet, ".arrow": _arrow, ".feather": _arrow, ".safetensors": _safetensors,
    ".npz": _npz,
}
# Formats that the extension does not read itself.
ENDINGS = tuple(ending for ending in _READERS if ending != ".npz")
