"""Objects that are sent between processes: a pickle and, next to it, the large arrays, which are not copied."""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

# Smaller arrays are part of the pickle, which can be sent together with those of later items: that saves wake-ups,
# which take longer than the copies.
_LARGE_BYTES = 1 << 18
# The largest number of arrays in one call; Linux accepts at most 1024.
_MOST_PARTS = 64

Parcel = bytes | tuple[bytes, Sequence[pickle.PickleBuffer]]
"""A pickled object; if it has large arrays, a pair of the pickle without them, and the arrays."""


def pack(value: Any) -> Parcel:
    """Pickles an object. Its large arrays are not copied, so the object must not change before the parcel is sent."""
    arrays: list[pickle.PickleBuffer] = []

    def is_part_of_the_pickle(buffer: pickle.PickleBuffer) -> bool:
        try:
            is_small = buffer.raw().nbytes < _LARGE_BYTES
        except BufferError:
            # The memory is not contiguous.
            return True
        if not is_small:
            arrays.append(buffer)
        return is_small

    pickled = pickle.dumps(value, pickle.HIGHEST_PROTOCOL, buffer_callback=is_part_of_the_pickle)
    return (pickled, arrays) if arrays else pickled


def unpack(parcel: Parcel) -> Any:
    """Restores a packed object. Arrays that were writable are writable."""
    return pickle.loads(parcel) if isinstance(parcel, bytes) else pickle.loads(parcel[0], buffers=parcel[1])


def send(pipe: Connection, kind: str, content: Any, parcels: Sequence[Parcel] = ()) -> None:
    """Sends a message: a kind with its content and any number of parcels, of which only the last may have arrays. The
    arrays follow the message."""
    arrays: list[memoryview] = []
    if parcels and not isinstance(parcels[-1], bytes):
        pickled, buffers = parcels[-1]
        parcels, arrays = [*parcels[:-1], pickled], [buffer.raw() for buffer in buffers]
    sizes = [(array.nbytes, array.readonly) for array in arrays]
    # Faster than the pipe's own send().
    pipe.send_bytes(pickle.dumps((kind, content, parcels, sizes), pickle.HIGHEST_PROTOCOL))
    _write(pipe.fileno(), arrays)


def receive(pipe: Connection) -> tuple[str, Any, list[Parcel]]:
    """Receives a message.

    Raises:
      EOFError: the pipe is closed.
      OSError: the pipe is closed within a message.
    """
    kind, content, parcels, sizes = pickle.loads(pipe.recv_bytes())
    if sizes:
        parcels = [*parcels[:-1], (parcels[-1], [_read(pipe.fileno(), *size) for size in sizes])]
    return kind, content, parcels


def _write(pipe: int, parts: list[memoryview]) -> None:
    while parts:
        written = os.writev(pipe, parts[:_MOST_PARTS])
        while parts and written >= len(parts[0]):
            written -= len(parts.pop(0))
        if written:
            parts[0] = parts[0][written:]


def _read(pipe: int, size: int, is_read_only: bool) -> pickle.PickleBuffer:
    # A bytearray would first be filled with zeros.
    array = np.empty(size, np.uint8)
    left = array.data
    while left:
        received = os.readv(pipe, [left])
        if not received:
            raise EOFError
        left = left[received:]
    array.flags.writeable = not is_read_only
    return pickle.PickleBuffer(array.data)
