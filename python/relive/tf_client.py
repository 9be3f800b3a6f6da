"""A client with calls that are TensorFlow operations."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from relive import client as clients
from relive import errors, replay_sample
from relive._tf import checks, operations, specs
from relive._tf.errors import as_tensorflow

# The number of metadata fields of an item.
_NUM_INFO = 5


class TFClient:
    """Samples, inserts and updates priorities, either eagerly or within ``tf.function``.

    The operations run in the process that created them and cannot be saved. In eager mode, they raise the matching
    class of :mod:`tf.errors`. Within a graph, TensorFlow only distinguishes invalid arguments
    (``InvalidArgumentError``) from other errors of Python code (``UnknownError``, with the text of the error).
    """

    def __init__(self, server_address: str, shared_name: str | None = None, name: str = "reverb") -> None:
        """Connects when the first operation runs.

        Args:
          server_address: Address of the server, ``host:port``.
          shared_name: Accepted for compatibility with dm-reverb; it has no effect.
          name: Prefix of the names of the operations.
        """
        self._server_address = server_address
        self._name = name
        self._client = clients.Client(server_address)
        # A list of tensors has no names, even if the tables' signatures do.
        self._client._checks_names = False

    @property
    def server_address(self) -> str:
        return self._server_address

    def sample(
        self, table: str | tf.Tensor, data_dtypes: Any, name: str | None = None
    ) -> replay_sample.ReplaySample:
        """Returns one time step of ``table``: the first time step of the sampled item.

        Args:
          table: Name of the table.
          data_dtypes: Data type of each column, in the structure of the sample's ``data``.
          name: Name of the operation.

        Raises:
          tf.errors.InvalidArgumentError: The item has different columns, or columns with different numbers of steps.
          tf.errors.NotFoundError: The table does not exist.
        """
        dtypes = [tf.as_dtype(dtype) for dtype in tf.nest.flatten(data_dtypes)]
        info_dtypes = [spec.dtype for spec in specs.info_spec()]

        def sample(table: bytes) -> list[np.ndarray]:
            return self._sample(_text(table), dtypes)

        flat = self._run(sample, [tf.convert_to_tensor(table)], info_dtypes + dtypes, name or f"{self._name}_sample")
        info = replay_sample.SampleInfo(*flat[: len(info_dtypes)])
        return replay_sample.ReplaySample(info, tf.nest.pack_sequence_as(data_dtypes, flat[len(info_dtypes) :]))

    def insert(
        self, data: Sequence[Any], tables: tf.Tensor, priorities: tf.Tensor, name: str | None = None
    ) -> tf.Operation | None:
        """Writes ``data`` as an item of one time step to each table in ``tables``; a table that is listed twice gets
        two items.

        Args:
          data: One tensor per column.
          tables: Names, of rank 1.
          priorities: A priority for each of them: float64, of rank 1.
          name: Name of the operation.

        Returns:
          The operation within a graph; ``None`` in eager mode.

        Raises:
          ValueError: ``tables`` or ``priorities`` have the wrong type or shape.
          tf.errors.InvalidArgumentError: A table does not exist, or its signature does not match.
        """
        if tables.dtype != tf.string or tables.shape.rank != 1:
            raise ValueError(f"tables must be a string tensor of rank 1, not {tables.dtype.name} and {tables.shape}")
        if priorities.dtype != tf.float64 or priorities.shape.rank != 1:
            raise ValueError(
                f"priorities must be a float64 tensor of rank 1, not {priorities.dtype.name} and {priorities.shape}"
            )
        if not tables.shape.is_compatible_with(priorities.shape):
            raise ValueError(
                f"priorities and tables must have the same shape, not {priorities.shape} and {tables.shape}"
            )

        def insert(tables: np.ndarray, priorities: np.ndarray, *data: np.ndarray) -> list[np.ndarray]:
            try:
                for by_table in _once_each(tables, priorities):
                    self._client.insert(list(data), by_table)
            except errors.NotFoundError as error:
                # The text of dm-reverb's operation for an unknown table.
                raise errors.InvalidArgumentError(str(error)) from error
            return []

        arguments = [tables, priorities, *(tf.convert_to_tensor(column) for column in data)]
        return self._run(insert, arguments, [], name or f"{self._name}_insert")

    def update_priorities(
        self, table: str | tf.Tensor, keys: tf.Tensor, priorities: tf.Tensor, name: str | None = None
    ) -> tf.Operation | None:
        """Sets the priorities of items of ``table``; unknown keys are ignored.

        Args:
          table: Name of the table.
          keys: Keys of items: uint64, of rank 1.
          priorities: A priority for each of them: float64, of rank 1.
          name: Name of the operation.

        Returns:
          The operation within a graph; ``None`` in eager mode.

        Raises:
          tf.errors.InvalidArgumentError: The shapes differ or are not of rank 1, or a priority is invalid.
          tf.errors.NotFoundError: The table does not exist.
        """

        def update(table: bytes, keys: np.ndarray, priorities: np.ndarray) -> list[np.ndarray]:
            if keys.shape != priorities.shape:
                raise errors.InvalidArgumentError(
                    f"Tensors `keys` and `priorities` do not match in shape ({_shape(keys)} vs. {_shape(priorities)})"
                )
            if keys.ndim != 1:
                raise errors.InvalidArgumentError(
                    f"Tensors `keys` and `priorities` must be of rank 1. They have the shape {_shape(keys)}"
                )
            self._client.update_priorities(_text(table), keys, priorities)
            return []

        arguments = [
            tf.convert_to_tensor(table),
            tf.convert_to_tensor(keys, tf.uint64),
            tf.convert_to_tensor(priorities, tf.float64),
        ]
        return self._run(update, arguments, [], name or f"{self._name}_update_priorities")

    def _run(
        self, function: Callable[..., list[np.ndarray]], arguments: list[tf.Tensor], dtypes: list[tf.DType], name: str
    ) -> Any:
        """Runs ``function`` on numpy arrays, either immediately or as an operation of the current graph."""
        if not tf.executing_eagerly():
            return _in_graph(function, arguments, dtypes, name)
        with as_tensorflow():
            results = function(*(argument.numpy() for argument in arguments))
        return [tf.convert_to_tensor(result, dtype) for result, dtype in zip(results, dtypes, strict=True)] or None

    def _sample(self, table: str, dtypes: list[tf.DType]) -> list[np.ndarray]:
        options = {"max_samples": 1, "max_in_flight_samples_per_worker": 1, "keep_rows": True}
        with contextlib.closing(self._client._sampler(table, **options)) as sampler:
            info, columns = sampler.next()
        lengths = [len(column) for column in columns]
        if len(set(lengths)) > 1:
            raise errors.InvalidArgumentError(
                f"Sampled trajectory cannot be decomposed into timesteps. The columns of an item of table {table!r} "
                f"have {lengths} rows, but must have one row for each time step; Client.sample can read such items"
            )
        if len(columns) != len(dtypes):
            raise errors.InvalidArgumentError(
                "Number of tensors in the replay sample did not match the expected count. "
                f"Got {_NUM_INFO + len(columns)} but wanted {_NUM_INFO + len(dtypes)}: an item of table {table!r} has "
                f"{len(columns)} columns, but {len(dtypes)} were requested, in addition to {_NUM_INFO} tensors of information"
            )
        for index, (column, dtype) in enumerate(zip(columns, dtypes, strict=True)):
            if checks.dtype_of(column) != dtype:
                raise errors.InvalidArgumentError(
                    f"Type mismatch: actual {checks.dtype_of(column).name} vs. expect {dtype.name}: column {index} of an "
                    f"item of table {table!r}"
                )
        info_arrays = [
            np.asarray(value, spec.dtype.as_numpy_dtype) for value, spec in zip(info, specs.info_spec(), strict=True)
        ]
        return info_arrays + [column[0, ...] for column in columns]


def _in_graph(
    function: Callable[..., list[np.ndarray]], arguments: list[tf.Tensor], dtypes: list[tf.DType], name: str
) -> Any:
    """Returns an operation that runs ``function``; it fails with ``NotFoundError`` if a table does not exist."""

    def run(*arguments: Any) -> list[Any]:
        try:
            return [b"", *function(*arguments)]
        except errors.NotFoundError as error:
            nothing = [b"" if dtype == tf.string else np.zeros([], dtype.as_numpy_dtype) for dtype in dtypes]
            return [str(error).encode(), *nothing]

    missing, *results = tf.compat.v1.py_func(run, arguments, [tf.string, *dtypes], stateful=True, name=name)
    # An assertion is not optimized away, unlike an operation with an unused result.
    is_there = tf.equal(operations.raise_not_found(missing), "")
    with tf.control_dependencies([tf.raw_ops.Assert(condition=is_there, data=[missing])]):
        return [tf.identity(result) for result in results] if results else tf.no_op()


def _shape(array: np.ndarray) -> str:
    return specs.shape_text(tf.TensorShape(array.shape))


def _text(name: bytes | str) -> str:
    return name.decode() if isinstance(name, bytes) else name


def _once_each(tables: np.ndarray, priorities: np.ndarray) -> list[dict[str, float]]:
    """Groups the items into mappings that contain at most one item of each table."""
    mappings: list[dict[str, float]] = []
    for table, priority in zip(map(_text, tables), priorities, strict=True):
        if all(table in mapping for mapping in mappings):
            mappings.append({})
        next(mapping for mapping in mappings if table not in mapping)[table] = float(priority)
    return mappings
