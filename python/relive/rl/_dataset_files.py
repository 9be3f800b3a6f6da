"""Files of data sets, as nested mappings of arrays, whose rows are read on request."""

from __future__ import annotations

import contextlib
import json
import math
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from relive.rl._dataset_columns import Rows
from relive.rl._dataset_npz import npz
from relive.rl._dataset_tables import Copied, IsWanted, arrow, naming_damage, parquet

# A longer header means that the file is damaged; this is the format's own limit.
_MAX_HEADER_BYTES = 100_000_000
_TYPES = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "F16": "<f2", "U32": "<u4", "I32": "<i4", "F32": "<f4", "U64": "<u8",
    "I64": "<i8", "F64": "<f8",
}
_HDF5 = "an HDF5 file"


@contextlib.contextmanager
def reading(path: pathlib.Path, is_wanted: IsWanted) -> Iterator[dict[str, Any]]:
    """Provides the wanted arrays of a file, by its extension, as a nested mapping of :class:`Rows`, which can be read
    within the context.

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
    with contextlib.ExitStack() as opened:
        yield reader(path, is_wanted, opened)


def expect_recording(folder: pathlib.Path) -> None:
    """Refuses a folder of other files, such as the parts of a Parquet data set.

    Raises:
      ValueError: the folder has such files, and no checkpoint.
    """
    found = sorted(file for file in folder.iterdir() if file.suffix in _READERS)
    if found and not any(folder.glob("*.relive")):
        several = ", or pyarrow.dataset.dataset(folder) for all Parquet files in it" if found[0].suffix == ".parquet" else ""
        raise ValueError(f"{folder}: a folder as a data set must have recorded episodes, but this one has other files; give the path of one file, "
                         f"such as {found[0]}{several}")


def _hdf5(path: pathlib.Path, is_wanted: IsWanted, opened: contextlib.ExitStack) -> dict[str, Any]:
    try:
        import h5py
    except ImportError as error:
        raise ImportError(f"{path}: HDF5 files require h5py, which is not installed: pip install h5py") from error
    with naming_damage(path, _HDF5):
        file = opened.enter_context(h5py.File(path, "r"))
        root = file["/"]
        names = list(filter(is_wanted, root))
    seen = {root.id}
    return {name: _part_of_hdf5(path, root, name, seen) for name in names}


def _part_of_hdf5(path: pathlib.Path, group: Any, name: str, seen: set[Any]) -> Any:
    """Returns an HDF5 data set, whose rows are read on request, and converts a group to a mapping. A file could have
    parts in any file that this user can read; such parts are refused."""
    full_name, remedy = f"{group.name}/{name}".lstrip("/"), "copy its values into this file"
    where = f"{path}: the array {full_name}"
    with naming_damage(path, _HDF5):
        part = None if type(group.get(name, getlink=True)).__name__ == "ExternalLink" else group[name]
    # The way of a soft link may lead through an external link.
    if part is None or part.file.filename != group.file.filename:
        raise ValueError(f"{where} is a link to another file; {remedy}")
    if hasattr(part, "keys"):
        if part.id in seen:
            raise ValueError(f"{where} is a link to a group that is also elsewhere in the file, such as around itself; {remedy}")
        seen.add(part.id)
        with naming_damage(path, _HDF5):
            names = list(part)
        return {inner: _part_of_hdf5(path, part, inner, seen) for inner in names}
    if part.external or part.is_virtual:
        raise ValueError(f"{where} has its values in other files, as external storage or a virtual data set; {remedy}")
    if part.shape:
        return _Hdf5Array(path, part)
    with naming_damage(path, _HDF5):
        return np.atleast_1d(part[()])


class _Hdf5Array:
    """An array in an HDF5 file."""

    def __init__(self, path: pathlib.Path, part: Any) -> None:
        self._path, self._part = path, part

    def __len__(self) -> int:
        return len(self._part)

    def __getitem__(self, rows: slice) -> npt.NDArray[Any]:
        with naming_damage(self._path, _HDF5):
            found: npt.NDArray[Any] = self._part[rows]
        return found


def _safetensors(path: pathlib.Path, is_wanted: IsWanted, _: contextlib.ExitStack) -> dict[str, Any]:
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


def _tensor(where: str, entry: Any, values: npt.NDArray[np.uint8]) -> Rows:
    try:
        dtype, shape = _dtype_of(entry["dtype"]), [int(size) for size in entry["shape"]]
        begin, end = (int(place) for place in entry["data_offsets"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{where}: the header describes it in an unexpected form: {error}") from error
    if min(shape, default=1) < 0 or not 0 <= begin <= end <= len(values) or end - begin != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{where}: {dtype} of shape {shape} in the bytes from {begin} to {end} of {len(values)}")
    return Copied(values[begin:end].view(dtype).reshape(shape or [1]))


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


_READERS: dict[str, Callable[[pathlib.Path, IsWanted, contextlib.ExitStack], dict[str, Any]]] = {
    ".hdf5": _hdf5, ".h5": _hdf5, ".parquet": parquet, ".arrow": arrow, ".feather": arrow, ".safetensors": _safetensors,
    ".npz": npz,
}
# Formats that the extension does not read itself.
ENDINGS = tuple(ending for ending in _READERS if ending != ".npz")
