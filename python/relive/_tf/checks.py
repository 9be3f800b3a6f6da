"""Checks that requests to a table match the returned data.

The errors are :class:`relive.errors.InvalidArgumentError`, and therefore ``ValueError``, which TensorFlow converts to
``tf.errors.InvalidArgumentError`` when a dataset raises it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from relive import errors
from relive._tf.specs import Column


def requested_columns(table: str, requested: Sequence[Column], signature: Sequence[Column]) -> None:
    """Compares a dataset's columns with the table's signature."""
    if len(requested) != len(signature):
        raise errors.InvalidArgumentError(
            f"Inconsistent number of tensors requested from table '{table}'.  Requested {len(requested)} tensors, but "
            f"table signature shows {len(signature)} tensors.  Table signature: {signature_text(signature)}"
        )
    for index, (want, have) in enumerate(zip(requested, signature, strict=True)):
        if want.dtype != have.dtype or not want.shape.is_compatible_with(have.shape):
            raise errors.InvalidArgumentError(
                f"Requested incompatible tensor at flattened index {index} from table '{table}'.  Requested (dtype, "
                f"shape): {want}.  Signature (dtype, shape): {have}.  Table signature: {signature_text(signature)}"
            )


def received_columns(table: str, arrays: Sequence[np.ndarray], expected: Sequence[Column], signed: bool) -> None:
    """Compares the columns of one item with the table's signature or, without a signature, with the requested
    columns."""
    help_text = "" if signed else "; the table has no signature, so the dataset's specification applies"
    if len(arrays) != len(expected):
        raise errors.InvalidArgumentError(
            f"Inconsistent number of tensors received from table '{table}'.  Specification has {len(expected)} tensors, "
            f"but data coming from the table shows {len(arrays)} tensors.\nTable signature: {signature_text(expected)}."
            f"\nIncoming tensor signature: {signature_text(_columns(arrays))}{help_text}"
        )
    for index, (array, want) in enumerate(zip(arrays, expected, strict=True)):
        have = Column(dtype_of(array), tf.TensorShape(array.shape))
        if want.dtype != have.dtype or not want.shape.is_compatible_with(have.shape):
            raise errors.InvalidArgumentError(
                f"Received incompatible tensor at flattened index {index} from table '{table}'.  Specification has "
                f"(dtype, shape): {want}.  Tensor has (dtype, shape): {have}.\n"
                f"Table signature: {signature_text(expected)}{help_text}"
            )


def dtype_of(array: np.ndarray) -> tf.DType:
    """Returns TensorFlow's name for the data type of an array; arrays of strings contain Python objects."""
    return tf.string if array.dtype.kind in "OSU" else tf.as_dtype(array.dtype)


def signature_text(signature: Sequence[Column]) -> str:
    """Returns the columns as dm-reverb's error texts list them; programs compare these texts."""
    return ", ".join(f"{index}: {column.listed()}" for index, column in enumerate(signature))


def _columns(arrays: Sequence[np.ndarray]) -> list[Column]:
    return [Column(dtype_of(array), tf.TensorShape(array.shape), "") for array in arrays]
