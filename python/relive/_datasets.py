"""The common parts of the datasets that sample from a table."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from relive import errors, nest, specs
from relive.client import Client
from relive.replay_sample import ReplaySample, SampleInfo
from relive.reverb_types import TableInfo
from relive.servers import joined
from relive.specs import ArraySpec

_log = logging.getLogger("relive")

# The time that an iterator waits for the table's signature before it continues without comparing specs.
_SIGNATURE_TIMEOUT_SECONDS = 30.0

_INFO_DTYPES: tuple[Any, ...] = (np.uint64, np.float64, np.int64, np.float64, np.int32)

_Self = TypeVar("_Self", bound="SampleDataset")


class SamplerOptions(NamedTuple):
    """The sampling options of a dataset; -1 selects a default or no limit."""

    max_in_flight_samples_per_worker: int
    num_workers: int
    max_samples_per_stream: int
    rate_limiter_timeout_ms: int
    max_samples: int

    def check(self) -> None:
        """Raises ``ValueError`` if a number is out of range."""
        if self.max_in_flight_samples_per_worker < 1:
            raise ValueError(
                f"max_in_flight_samples_per_worker ({self.max_in_flight_samples_per_worker}) must be a positive integer"
            )
        _check_positive("num_workers_per_iterator", self.num_workers)
        _check_positive("max_samples_per_stream", self.max_samples_per_stream)
        _check_positive("max_samples", self.max_samples)
        if self.rate_limiter_timeout_ms < -1:
            raise ValueError(f"rate_limiter_timeout_ms ({self.rate_limiter_timeout_ms}) must be an integer >= -1")


class SampleDataset:
    """A dataset of samples from a table, which are taken when the dataset is iterated."""

    _timesteps: ClassVar[bool]
    # The class of the clients that read from the server.
    _client_class: ClassVar[type[Client]] = Client

    def __init__(
        self,
        server_address: str | Sequence[str] | Client,
        table: str,
        dtypes: Any,
        shapes: Any,
        max_in_flight_samples_per_worker: int,
        num_workers_per_iterator: int = -1,
        max_samples_per_stream: int = -1,
        rate_limiter_timeout_ms: int = -1,
        max_samples: int = -1,
    ) -> None:
        """Creates a dataset, which connects to the server when it is iterated.

        Args:
          server_address: the server, ``host:port``, or many servers as for :class:`relive.Client`, or a client.
          table: the table.
          dtypes: a nest of data types, one per column; the samples' data has this structure, with tuples for lists.
          shapes: a nest of shapes with the same structure, ``None`` for unknown sizes.
          max_in_flight_samples_per_worker: the number of samples that a worker may request ahead, at least 1.
          num_workers_per_iterator: the number of streams that fetch in parallel; -1 for one.
          max_samples_per_stream: the number of samples after which a stream is replaced; -1 for 10,000.
          rate_limiter_timeout_ms: milliseconds without a sample after which the dataset ends; -1 for never.
          max_samples: the number of samples after which the dataset ends; -1 for never.

        Raises:
          ValueError: a number that is out of range, different structures, or a data type that no column can have.
        """
        self._options = SamplerOptions(
            max_in_flight_samples_per_worker,
            num_workers_per_iterator,
            max_samples_per_stream,
            rate_limiter_timeout_ms,
            max_samples,
        )
        self._options.check()
        self._address = server_address
        self._table = table
        pairs = nest.map_structure_up_to(lambda dtype, shape: ArraySpec(shape, dtype), dtypes, dtypes, shapes)
        self._data_spec = lists_to_tuples(pairs)
        _, self._fill = nest.filler(self._data_spec)

    @classmethod
    def from_table_signature(
        cls: type[_Self],
        server_address: str | Sequence[str] | Client,
        table: str,
        max_in_flight_samples_per_worker: int,
        num_workers_per_iterator: int = -1,
        max_samples_per_stream: int = -1,
        rate_limiter_timeout_ms: int = -1,
        get_signature_timeout_secs: float | None = None,
        max_samples: int = -1,
        *,
        get_signature_timeout_ms: int | None = None,
    ) -> _Self:
        """Creates a dataset with the data types and shapes of the table's signature.

        Args:
          server_address: as for the constructor, like all arguments that are not listed here.
          get_signature_timeout_secs: seconds to wait for the server; ``None`` waits indefinitely.
          get_signature_timeout_ms: the same timeout in milliseconds, as Acme passes it. With 0 or a negative number,
            there is no limit.

        Raises:
          ValueError: the table does not exist, or has no signature.
          DeadlineExceededError: the server did not respond in time.
        """
        client = cls._client(server_address)
        timeout = signature_timeout(get_signature_timeout_secs, get_signature_timeout_ms)
        signature = signed_table(client, table, timeout).structure
        return cls(
            server_address,
            table,
            nest.map_structure(lambda spec: spec.dtype, signature),
            nest.map_structure(lambda spec: spec.shape, signature),
            max_in_flight_samples_per_worker,
            num_workers_per_iterator,
            max_samples_per_stream,
            rate_limiter_timeout_ms,
            max_samples,
        )

    @property
    def element_spec(self) -> ReplaySample:
        """The specs of an element, as nests of ``ArraySpec``."""
        info = SampleInfo(*(ArraySpec((), dtype) for dtype in _INFO_DTYPES))
        return ReplaySample(info, self._data_spec)

    def __iter__(self) -> Iterator[ReplaySample]:
        """Yields samples until the table or the options end the dataset; the information consists of numpy scalars.

        Raises, when iterated:
          ValueError: the requested specs, or a sample, do not match the table's signature; or a sample does not match
            the requested specs.
          RuntimeError: the table does not exist, or the server stopped.
        """
        client = self._client(self._address)
        check = self._check(client)
        options = self._options._asdict()
        if self._timesteps:
            # A squeezed column also counts as one step.
            options["keep_rows"] = True
        with contextlib.closing(client._sampler(self._table, **options)) as sampler:
            while True:
                try:
                    info, columns = sampler.next()
                except StopIteration:
                    return
                except errors.DeadlineExceededError:
                    if self._options.rate_limiter_timeout_ms < 0:
                        raise
                    return
                yield from self._elements(_info(info), columns, check)

    def as_tf_dataset(self) -> Any:
        """Returns the same samples as a ``tf.data.Dataset``; TensorFlow must be installed."""
        from relive._tf import datasets
        from relive._tf.specs import dtypes_and_shapes

        made = datasets.TimestepDataset if self._timesteps else datasets.TrajectoryDataset
        address = self._address.server_address if isinstance(self._address, Client) else joined(self._address)
        options = self._options
        return made(
            address,
            self._table,
            *dtypes_and_shapes(self._data_spec),
            options.max_in_flight_samples_per_worker,
            options.num_workers,
            options.max_samples_per_stream,
            options.rate_limiter_timeout_ms,
            options.max_samples,
        )

    @classmethod
    def _client(cls, server: str | Sequence[str] | Client) -> Client:
        return server if isinstance(server, Client) else cls._client_class(server)

    def _elements(
        self, info: SampleInfo, columns: list[npt.NDArray[Any]], check: Check
    ) -> Iterator[ReplaySample]:
        """Yields the elements of one sample."""
        raise NotImplementedError

    def _pack(self, columns: Sequence[Any]) -> Any:
        """Returns columns that were checked in the structure of the specs."""
        return self._fill(columns)

    def _check(self, client: Client) -> Check:
        requested = nest.flatten(self._data_spec)
        signature = _signature(client, self._table)
        if signature is not None:
            _check_request(self._table, requested, signature)
        return Check(self._table, requested, signature)


class Check:
    """Compares samples with the requested specs, and with the table's signature if there is one."""

    def __init__(self, table: str, requested: Sequence[ArraySpec], signature: Sequence[ArraySpec] | None) -> None:
        self._table = table
        self._requested = requested
        self._signature = signature
        # Most samples have the same specs as the previous one.
        self._last: list[tuple[Any, ...]] | None = None

    def __call__(self, columns: Sequence[npt.NDArray[Any]]) -> None:
        """Raises ``InvalidArgumentError`` if the columns do not match."""
        layout = [(column.dtype, column.shape) for column in columns]
        if layout == self._last:
            return
        if self._signature is not None:
            _check_sample(self._table, layout, self._signature)
        _check_sample(self._table, layout, self._requested)
        self._last = layout


def lists_to_tuples(structure: Any) -> Any:
    """Returns the structure with lists replaced by tuples, as in TensorFlow's datasets."""
    if not nest.is_nested(structure):
        return structure
    parts = [lists_to_tuples(part) for _, part in nest.children(structure)]
    return tuple(parts) if isinstance(structure, list) else nest.rebuild(structure, parts)


def _check_positive(name: str, value: int) -> None:
    if value != -1 and value < 1:
        raise ValueError(f"{name} ({value}) must be a positive integer or -1")


def signature_timeout(seconds: float | None, milliseconds: int | None) -> float | None:
    """Returns the number of seconds to wait for a table's signature; ``None``: no limit. Milliseconds that are not
    positive are no limit."""
    if seconds is not None or milliseconds is None or milliseconds <= 0:
        return seconds
    return milliseconds / 1000


def _info(info: tuple[Any, ...]) -> SampleInfo:
    return SampleInfo(*(dtype(value) for dtype, value in zip(_INFO_DTYPES, info, strict=True)))


def signed_table(client: Client, table: str, timeout: float | None) -> TableInfo:
    """Returns the information about a table with a signature.

    Raises:
      ValueError: the table does not exist, or has no signature.
      DeadlineExceededError: the server did not respond in time.
    """
    tables = client.server_info(timeout)
    if table not in tables:
        raise ValueError(
            f"Server at {client.server_address} does not contain any table named {table}. "
            f"Found: {', '.join(sorted(tables))}."
        )
    if tables[table].structure is None:
        raise ValueError(
            f"Table {table} at {client.server_address} does not have a signature. "
            f"Tables that have one: {', '.join(sorted(name for name in tables if tables[name].structure is not None))}"
        )
    return tables[table]


def _signature(client: Client, table: str) -> list[ArraySpec] | None:
    try:
        info = client.server_info(_SIGNATURE_TIMEOUT_SECONDS).get(table)
    except errors.DeadlineExceededError:
        _log.warning("no signature of table %r arrived in time; samples are not checked against it", table)
        return None
    # For an unknown table, sampling raises the server's error.
    return None if info is None or info.structure is None else nest.flatten(info.structure)


def _check_request(table: str, requested: Sequence[ArraySpec], signature: Sequence[ArraySpec]) -> None:
    if len(requested) != len(signature):
        raise errors.InvalidArgumentError(
            f"{len(requested)} columns were requested from table {table!r}, but its signature has {len(signature)}: "
            f"{_columns_text(signature)}"
        )
    for index, (want, have) in enumerate(zip(requested, signature, strict=True)):
        if not want.accepts(have.shape, have.dtype):
            raise errors.InvalidArgumentError(
                f"column {index} of table {table!r} does not match the request: requested (dtype, shape): "
                f"{_text(want.dtype, want.shape)}, signature (dtype, shape): {_text(have.dtype, have.shape)}; "
                f"the signature has {_columns_text(signature)}"
            )


def _check_sample(table: str, layout: Sequence[tuple[Any, ...]], expected: Sequence[ArraySpec]) -> None:
    if len(layout) != len(expected):
        raise errors.InvalidArgumentError(
            f"a sample of table {table!r} has {len(layout)} columns, but {len(expected)} were expected: "
            f"{_columns_text(expected)}"
        )
    for index, ((dtype, shape), want) in enumerate(zip(layout, expected, strict=True)):
        if not want.accepts(shape, dtype):
            raise errors.InvalidArgumentError(
                f"column {index} of a sample of table {table!r} does not match the specification: specification (dtype, shape): "
                f"{_text(want.dtype, want.shape)}, tensor (dtype, shape): {_text(dtype, shape)}"
            )


def _columns_text(columns: Sequence[ArraySpec]) -> str:
    return ", ".join(
        f"{index}: {column.name or '?'} {_text(column.dtype, column.shape)}" for index, column in enumerate(columns)
    )


def _text(dtype: np.dtype[Any], shape: specs.Shape | None) -> str:
    return f"({specs.dtype_text(dtype)}, {specs.shape_text(shape)})"
