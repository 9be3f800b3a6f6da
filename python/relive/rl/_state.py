"""States of Python objects as bytes: numbers, strings and arrays in nested dicts and lists, without pickle."""

from __future__ import annotations

import contextlib
import contextvars
import importlib
import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from relive.rl._weights import as_array

_ARRAY, _TYPED, _TUPLE, _BYTES, _ITEMS = "$array", "$typed", "$tuple", "$bytes", "$items"

# Whether states are restored before the end of the current call, so that no checkpoint contains them.
_is_within_a_call: contextvars.ContextVar[bool] = contextvars.ContextVar("relive_is_within_a_call", default=False)


@contextlib.contextmanager
def within_a_call() -> Iterator[None]:
    """Within this context, the states that this thread takes are not those of a checkpoint, but only serve to undo the
    effect of a call."""
    before = _is_within_a_call.set(True)
    try:
        yield
    finally:
        _is_within_a_call.reset(before)


def is_within_a_call() -> bool:
    """Returns whether this thread is :func:`within_a_call`."""
    return _is_within_a_call.get()


def encode(state: Any) -> bytes:
    """Converts a state to bytes.

    Raises:
      TypeError: a value has the wrong type; the error names its path.
    """
    arrays: list[Any] = []
    text = json.dumps(_plain(state, "state", arrays)).encode()
    out = io.BytesIO()
    out.write(len(text).to_bytes(8, "little"))
    out.write(text)
    for array in arrays:
        np.lib.format.write_array(out, array, allow_pickle=False)
    return out.getvalue()


def decode(data: bytes) -> Any:
    """Restores a state from the bytes of :func:`encode`; arrays are numpy arrays.

    Raises:
      ValueError: the bytes are damaged.
      ImportError: an array has a type of ``ml_dtypes``, which is not installed.
    """
    source = io.BytesIO(data)
    size = int.from_bytes(source.read(8), "little")
    try:
        plain = json.loads(source.read(size))
        arrays = []
        while source.tell() < len(data):
            arrays.append(np.lib.format.read_array(source, allow_pickle=False))
        return _restored(plain, arrays)
    except (ValueError, IndexError, KeyError, EOFError) as error:
        raise ValueError(f"the saved state is damaged: {error}") from error


def _plain(value: Any, path: str, arrays: list[Any]) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Mapping):
        # A list, since keys can be numbers, as in PyTorch's optimizers.
        return {_ITEMS: [[_plain(_as_key(key), path, arrays), _plain(part, f"{path}[{key!r}]", arrays)] for key, part in value.items()]}
    if isinstance(value, (list, tuple)):
        parts = [_plain(part, f"{path}[{number}]", arrays) for number, part in enumerate(value)]
        return {_TUPLE: parts} if isinstance(value, tuple) else parts
    if isinstance(value, bytes):
        return {_BYTES: value.hex()}
    try:
        array = as_array(value)
    except TypeError as error:
        raise TypeError(f"{path} is not a numpy array: {error}") from error
    if array.dtype.hasobject:
        raise TypeError(f"{path} is {value!r}, but a state can contain only numbers, strings, arrays, dicts and lists")
    name = array.dtype.name
    # The types of ml_dtypes, such as bfloat16, which numpy's format would not keep.
    is_foreign = array.dtype.isbuiltin == 2
    arrays.append(array.view(f"u{array.itemsize}") if is_foreign else array)
    place = len(arrays) - 1
    return {_TYPED: [name, place]} if is_foreign else {_ARRAY: place}


def _as_key(key: Any) -> Any:
    """Returns a key that is not restored as an array, which cannot be a key."""
    return key.item() if isinstance(key, np.generic) else key


def _restored(plain: Any, arrays: list[Any]) -> Any:
    if isinstance(plain, list):
        return [_restored(part, arrays) for part in plain]
    if not isinstance(plain, dict):
        return plain
    ((kind, content),) = plain.items()
    if kind == _ARRAY:
        return arrays[content]
    if kind == _TYPED:
        # With ml_dtypes, numpy knows the names of its types.
        importlib.import_module("ml_dtypes")
        name, place = content
        return arrays[place].view(name)
    if kind == _BYTES:
        return bytes.fromhex(content)
    if kind == _TUPLE:
        return tuple(_restored(part, arrays) for part in content)
    return {_restored(key, arrays): _restored(part, arrays) for key, part in content}
