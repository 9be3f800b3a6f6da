"""Chunks and items for raw clients, and steps for real clients."""

from __future__ import annotations

import itertools

import numpy as np
from tensorflow.core.framework import types_pb2

from .protocol import schema

_KEYS = itertools.count(1)
_DTYPES = {"float32": types_pb2.DT_FLOAT, "uint8": types_pb2.DT_UINT8, "int64": types_pb2.DT_INT64}


def new_key() -> int:
    """Returns a key that is unique among the items and chunks of this run."""
    return next(_KEYS)


def snappy(data: bytes) -> bytes:
    """Returns a valid raw Snappy block without any copies: the length, then literals of 64 KiB."""
    block = bytearray(_varint(len(data)))
    for start in range(0, len(data), 1 << 16):
        piece = data[start : start + (1 << 16)]
        # Tag 61: a literal whose length minus one follows in two bytes.
        block += bytes([61 << 2]) + (len(piece) - 1).to_bytes(2, "little") + piece
    return bytes(block)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def chunk(*columns: np.ndarray, episode: int = 1, start: int = 0, content: bytes | None = None) -> schema.ChunkData:
    """Returns a chunk of some columns; the leading dimension of each counts the steps. `content` replaces the
    payload."""
    data = schema.ChunkData(chunk_key=new_key(), data_tensors_len=len(columns))
    data.sequence_range.episode_id = episode
    data.sequence_range.start = start
    data.sequence_range.end = start + len(columns[0]) - 1
    for column in columns:
        tensor = data.data.tensors.add(dtype=_DTYPES[column.dtype.name])
        for size in column.shape:
            tensor.tensor_shape.dim.add(size=size)
        tensor.tensor_content = snappy(column.tobytes()) if content is None else content
        data.data_uncompressed_size += column.nbytes
    return data


def rows(*values: float) -> np.ndarray:
    """Returns a scalar float32 column."""
    return np.asarray(values, np.float32)


def item(table: str, *chunks: schema.ChunkData, priority: float = 1.0, key: int | None = None) -> schema.PrioritizedItem:
    """Returns an item with one column, which contains all rows of all chunks."""
    slices = [(data.chunk_key, 0, data.sequence_range.end - data.sequence_range.start + 1) for data in chunks]
    return sliced_item(table, [slices], priority=priority, key=key)


def sliced_item(table: str, columns, priority: float = 1.0, key: int | None = None, squeeze: bool = False):
    """Returns an item of columns that are lists of (chunk key, offset, length[, index])."""
    proto = schema.PrioritizedItem(key=new_key() if key is None else key, table=table, priority=priority)
    for slices in columns:
        column = proto.flat_trajectory.columns.add(squeeze=squeeze)
        for chunk_key, offset, length, *index in slices:
            column.chunk_slices.add(chunk_key=chunk_key, offset=offset, length=length, index=sum(index))
    return proto
