"""Data sets in files of numpy's ``savez``, whose rows are read on request."""

from __future__ import annotations

import contextlib
import math
import pathlib
import zipfile
from collections.abc import Callable, Mapping
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from relive.rl._dataset_columns import Rows
from relive.rl._dataset_tables import DAMAGE, IsWanted, naming_damage

# The versions of numpy's format that arrays of numbers have.
_NPY_HEADERS: dict[tuple[int, int], Callable[[Any], Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0,
}
_BYTES_AT_ONCE = 1 << 24
_KIND = "a file of numpy's savez"


def npz(path: pathlib.Path, is_wanted: IsWanted, opened: contextlib.ExitStack) -> dict[str, Any]:
    """Returns the wanted arrays of a file, which stays open."""
    with naming_damage(path, _KIND):
        # Numpy does not close a damaged file that it opened itself.
        archive = np.load(opened.enter_context(path.open("rb")), allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise ValueError("it has a single array")
        opened.enter_context(archive)
        return {name: _member(path, archive, name) for name in archive.files if is_wanted(name)}


def _member(path: pathlib.Path, archive: Any, name: str) -> Rows:
    """Returns an array of numpy's savez. Its rows are read on request if they are consecutive in the file."""
    if f"{name}.npy" in archive.zip.namelist():
        with archive.zip.open(f"{name}.npy") as file:
            read_header = _NPY_HEADERS.get(np.lib.format.read_magic(file))
            if read_header is not None:
                shape, is_fortran, dtype = read_header(file)
                if shape and not is_fortran and not dtype.hasobject:
                    return _Member(path, archive.zip, f"{name}.npy", file.tell(), shape, dtype)
    return np.atleast_1d(archive[name])


class _Member:
    """An array in a file of numpy's savez. The file's checksum is only compared if all rows are read at once."""

    def __init__(
        self, path: pathlib.Path, archive: zipfile.ZipFile, name: str, start: int, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self._path, self._archive, self._name = path, archive, name
        self._start, self._shape, self._dtype = start, shape, dtype

    def __len__(self) -> int:
        return self._shape[0]

    def __getitem__(self, rows: slice) -> npt.NDArray[Any]:
        begin, end, _ = rows.indices(len(self))
        row_bytes = math.prod(self._shape[1:]) * self._dtype.itemsize
        with naming_damage(self._path, _KIND), self._archive.open(self._name) as file:
            found = np.empty((max(0, end - begin), *self._shape[1:]), self._dtype)
            left = found.reshape(-1).view(np.uint8).data
            if begin == 0:
                # Since Python 3.12, a seek turns off the comparison of the checksum.
                file.read(self._start)
            else:
                file.seek(self._start + begin * row_bytes)
            while left:
                part = file.read(min(len(left), _BYTES_AT_ONCE))
                if not part:
                    raise EOFError(f"{self._name} ends {len(left)} bytes early")
                left[: len(part)] = part
                left = left[len(part) :]
            # At the end of the file, this compares its checksum.
            file.read(1)
        return found


def is_native(path: pathlib.Path, is_wanted: IsWanted) -> bool:
    """Returns whether the extension reads the wanted arrays of a file itself, or refuses the file with its own error;
    otherwise, the arrays can be read here and written in a form that it reads."""
    try:
        with zipfile.ZipFile(path) as archive:
            return not any(_needs_conversion(archive, name) for name in archive.namelist() if is_wanted(name.removesuffix(".npy")))
    except (OSError, *DAMAGE):
        return True


def _needs_conversion(archive: zipfile.ZipFile, name: str) -> bool:
    with archive.open(name) as file:
        read_header = _NPY_HEADERS.get(np.lib.format.read_magic(file))
        if read_header is None:
            return False
        shape, is_fortran, dtype = read_header(file)
    is_other_order = is_fortran and len(shape) > 1 or dtype.newbyteorder("<") != dtype
    return dtype.kind in "biuf" and (is_other_order or dtype.kind == "f" and dtype.itemsize not in (4, 8))


def write(file: IO[bytes], arrays: Mapping[str, npt.NDArray[Any]], place: str) -> None:
    """Writes arrays in types that the extension reads. Errors refer to them as arrays of ``place``.

    Raises:
      ValueError: an array does not have numbers.
    """
    readable = {name: _readable(f"{place}: array `{name}`", array) for name, array in arrays.items()}
    # Type checkers also match the mapping's values with the parameter `allow_pickle`, which is a bool.
    np.savez(file, **readable)  # type: ignore[arg-type]


def _readable(where: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns an array of a type that the extension reads.

    Raises:
      ValueError: the values are not numbers, or are complex numbers.
    """
    if array.dtype.isbuiltin == 2:
        # A type of ml_dtypes, such as bfloat16 or int4.
        array = array.astype(np.int8 if "int" in array.dtype.name else np.float32)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{where}: its data type is {array.dtype}, but it must be bool, an integer type or a float type; convert it with astype, or "
                         "give one array for each part")
    if array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8):
        array = array.astype(np.float32 if array.dtype.itemsize < 4 else np.float64)
    return array.astype(array.dtype.newbyteorder("<"), copy=False)
