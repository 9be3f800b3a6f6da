"""Samples of a table as ``tf.data`` datasets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import tensorflow as tf

from relive import client as clients
from relive import errors, replay_sample
from relive._datasets import SamplerOptions, signature_timeout, signed_table
from relive._tf import operations, shutdown, source, specs


class _SampleDataset(tf.compat.v1.data.Dataset):
    """A dataset with elements from a Python generator of groups, which TensorFlow splits.

    It is a TensorFlow 1 dataset, which is also a valid TensorFlow 2 dataset, so that it and all datasets derived from
    it have ``make_one_shot_iterator`` and ``make_initializable_iterator``.
    """

    _timesteps: ClassVar[bool]
    # The class of the clients that read from the server.
    _client_class: ClassVar[type[clients.Client]] = clients.Client

    def __init__(
        self,
        server_address: str | tf.Tensor,
        table: str | tf.Tensor,
        dtypes: Any,
        shapes: Any,
        max_in_flight_samples_per_worker: int,
        num_workers_per_iterator: int = -1,
        max_samples_per_stream: int = -1,
        rate_limiter_timeout_ms: int = -1,
        max_samples: int = -1,
    ) -> None:
        """Creates a dataset that samples from ``table`` whenever it is iterated.

        Args:
          server_address: Address of the server, ``host:port``.
          table: Name of the table.
          dtypes: Data type of each column, in the desired structure of the elements' ``data``.
          shapes: Shape of each column, as a ``tf.TensorShape``, in the same structure.
          max_in_flight_samples_per_worker: Largest number of samples that a worker may have requested but not delivered
            yet.
          num_workers_per_iterator: Number of streams that read in parallel; -1 for one.
          max_samples_per_stream: Number of samples after which a stream is replaced; -1 for 10,000.
          rate_limiter_timeout_ms: Milliseconds of waiting for the table's rate limiter after which the dataset ends; -1
            for never.
          max_samples: Number of samples that the dataset yields; -1 for no limit.

        Raises:
          ValueError: A number is out of range, or ``dtypes`` and ``shapes`` have different structures.
          TypeError: A container of ``dtypes`` is of another kind than that of ``shapes``, such as a mapping and a list.
        """
        self._sampler_options = SamplerOptions(
            max_in_flight_samples_per_worker,
            num_workers_per_iterator,
            max_samples_per_stream,
            rate_limiter_timeout_ms,
            max_samples,
        )
        self._sampler_options.check()
        # As in dm-reverb, a list and a tuple are the same structure.
        dtypes, shapes = specs.lists_to_tuples(dtypes), specs.lists_to_tuples(shapes)
        tf.nest.assert_same_structure(dtypes, shapes)
        self._spec = specs.element_spec(dtypes, shapes)
        self._elements = self._split_groups((server_address, table))
        super().__init__()

    @classmethod
    def from_table_signature(
        cls,
        server_address: str,
        table: str,
        max_in_flight_samples_per_worker: int,
        num_workers_per_iterator: int = -1,
        max_samples_per_stream: int = -1,
        rate_limiter_timeout_ms: int = -1,
        get_signature_timeout_secs: int | None = None,
        max_samples: int = -1,
        *,
        get_signature_timeout_ms: int | None = None,
    ) -> Any:
        """Creates a dataset with the data types and shapes of the table's signature.

        Args:
          server_address: Address of the server, ``host:port``.
          table: Name of the table.
          max_in_flight_samples_per_worker: As for the constructor, like all arguments that are not listed here.
          get_signature_timeout_secs: Seconds to wait for the server's response; ``None`` waits indefinitely.
          get_signature_timeout_ms: The same timeout in milliseconds, as older programs pass it. With 0 or a negative
            number, there is no limit.

        Raises:
          ValueError: The table does not exist or has no signature.
          relive.errors.DeadlineExceededError: The server did not respond in time.
        """
        timeout = signature_timeout(get_signature_timeout_secs, get_signature_timeout_ms)
        # The address may be bytes, as in dm-reverb.
        client = cls._client_class(tf.compat.as_str(server_address))
        dtypes, shapes = specs.dtypes_and_shapes(signed_table(client, table, timeout).signature)
        return cls(
            server_address,
            table,
            dtypes,
            shapes,
            max_in_flight_samples_per_worker,
            num_workers_per_iterator,
            max_samples_per_stream,
            rate_limiter_timeout_ms,
            max_samples,
        )

    @property
    def element_spec(self) -> replay_sample.ReplaySample:
        return self._spec

    def _as_variant_tensor(self) -> tf.Tensor:
        # Required by the constructor of the base class.
        return self._elements._variant_tensor

    def _inputs(self) -> list[tf.data.Dataset]:
        return [self._elements]

    def _groups(self, server_address: bytes, table: bytes) -> Iterator[replay_sample.ReplaySample]:
        """Returns the elements of one iterator in groups."""
        return shutdown.Elements(self._read(server_address, table))

    def _read(self, server_address: bytes, table: bytes) -> Iterator[replay_sample.ReplaySample]:
        flat = tf.nest.flatten(self._spec.data)
        columns = [specs.Column(spec.dtype, spec.shape) for spec in flat]
        client = self._client_class(server_address.decode())
        request = source.Request(client, table.decode(), columns, self._timesteps, self._sampler_options)
        for info, data in source.read(request):
            yield tf.nest.pack_sequence_as(self._spec, [*info, *data])

    def _split_groups(self, arguments: tuple[Any, ...]) -> tf.data.Dataset:
        grouped = tf.nest.map_structure(specs.with_row_dimension, self._spec)
        groups = tf.data.Dataset.from_generator(self._groups, args=arguments, output_signature=grouped)

        def check(server_address: tf.Tensor, table: tf.Tensor) -> tf.Tensor:
            found = tf.numpy_function(self._missing_table, [server_address, table], tf.string)
            return operations.raise_not_found(found)

        # Runs once, before each iterator.
        checked = tf.data.Dataset.from_tensors(arguments).map(check)
        return _split(checked.flat_map(lambda _: groups), self._spec)

    @classmethod
    def _missing_table(cls, server_address: bytes, table: bytes) -> bytes:
        """Returns the error text for an unknown table, or an empty text for an existing table."""
        with shutdown.calls:
            if shutdown.calls.are_ending:
                # An error rather than an empty dataset, which `repeat()` would restart forever.
                return b"the program has ended"
            try:
                tables = cls._client_class(server_address.decode()).server_info(source.SIGNATURE_TIMEOUT_SECONDS)
            except errors.DeadlineExceededError:
                return b""
        name = table.decode()
        if name in tables:
            return b""
        return f"Priority table {name} was not found; this server has: {', '.join(tables)}".encode()


def _split(groups: tf.data.Dataset, spec: Any) -> tf.data.Dataset:
    """Splits the groups into elements with ``spec``."""
    if any(_may_be_empty(column.shape) for column in tf.nest.flatten(spec)):
        # TensorFlow's `unbatch`, which is faster, crashes if an element contains an empty tensor.
        return groups.flat_map(tf.data.Dataset.from_tensor_slices)
    return groups.unbatch()


def _may_be_empty(shape: tf.TensorShape) -> bool:
    return not shape.is_fully_defined() or shape.num_elements() == 0


class TrajectoryDataset(_SampleDataset):
    """Samples whole items: an element is one ``ReplaySample`` with the item's columns in ``data``."""

    _timesteps = False


class TimestepDataset(_SampleDataset):
    """Samples items and splits them: an element is one time step, and all steps of an item have the same ``info``."""

    _timesteps = True
