"""A client for a replay server."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from relive import _native, nest
from relive._numbers import any_number, count, flag, has_other_dtype, seconds, string, whole
from relive._samples import Samples
from relive._structures import Structure, packed
from relive.batches import BatchIterator
from relive.changes import Changed, LoggedChange, _limiter_rules, _with_all_rules
from relive.checkpoints import CheckpointStatus
from relive.errors import NotFoundError
from relive.replay_sample import ItemInfo, ReplaySample, SampleInfo
from relive.reverb_types import TableInfo
from relive.security import ClientTls
from relive.servers import ServerChange, ServerState, joined
from relive.trajectory_writer import TrajectoryWriter
from relive.writer import Writer

if TYPE_CHECKING:
    from relive.rate_limiters import RateLimiter
    from relive.structured_writer import StructuredWriter
    from relive.tables import Table

# The number of items per page of `Client.items`: the server's maximum, since it scans the whole table for each page.
_ITEMS_PER_PAGE = 100_000


class Client:
    """A client for the server at ``server_address`` (``host:port``), or for many servers.

    To use many servers, pass a list of addresses, a comma-separated string, or ``dns:///name:port`` for all addresses
    of a name. The client uses these servers as one; see ``docs/many-servers.md``. If a server does not respond, the
    client skips it until it responds again, and no call waits for it. :meth:`servers` and :meth:`server_changes` report
    the state of the servers.

    The client connects at the first call. ``transport`` selects the connection: ``"in-process"`` uses the memory of a
    server in this process; ``"shm"`` receives batches through memory shared with a server that the same user runs on
    the same machine; ``"unix"`` uses a Unix socket to such a server; ``"tcp"`` uses TCP; ``"auto"`` selects the first
    of these that is available. The property :attr:`transport` returns the transport in use. Clients can be pickled.
    After a fork, they open their own connections.

    Every call that waits can be interrupted with Ctrl-C, lets other threads run, and takes a timeout in seconds.
    ``timeout`` is the default for calls that do not pass a timeout. Without any timeout, a call waits indefinitely and
    logs what it is waiting for to the logger ``relive`` of :mod:`logging`.

    ``token`` is sent to a server that requires a token. All traffic uses TLS if ``tls`` is given, or if the address is
    ``https://host:port``; the latter trusts the system's certificate authorities.

    Raises:
      ValueError: an invalid address, transport or timeout, or unusable certificates.
      TypeError: an argument of the wrong type.

    >>> import relive
    >>> server = relive.Server([relive.Table.queue("steps", 100)], listen=False)
    >>> client = server.localhost_client()
    >>> client.insert({"reward": 1.5}, {"steps": 1.0})
    >>> client.server_info()["steps"].current_size
    1
    >>> (sample,) = next(client.sample("steps"))
    >>> float(sample.data[0])
    1.5
    >>> server.stop()
    """

    # Whether the client behaves like dm-reverb's client where this package would otherwise differ: how lists of numbers
    # are interpreted, the texts of some errors, waiting for a stopped server of this process, and closing writers that
    # have unsent items.
    _as_reverb = False
    # Whether the columns of an inserted step must have the names of the table's columns.
    _checks_names = True

    def __init__(
        self,
        server_address: str | Sequence[str],
        *,
        transport: str = "auto",
        timeout: float | None = None,
        token: str | None = None,
        tls: ClientTls | None = None,
    ) -> None:
        string("transport", transport)
        if token is not None:
            string("token", token)
        if tls is not None and not isinstance(tls, ClientTls):
            raise TypeError(f"tls must be a relive.ClientTls, got {tls!r}")
        seconds(timeout)
        self._server_address = joined(server_address)
        self._arguments = (self._server_address, transport, timeout, token, tls)
        self._native = _native.Client(*self._arguments, as_reverb=self._as_reverb)
        self._structures: dict[str, Structure] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _client, (type(self), *self._arguments)

    def __repr__(self) -> str:
        return f"Client, server_address={self._server_address}"

    @property
    def server_address(self) -> str:
        """The address as given; the addresses of many servers are separated by commas."""
        return self._server_address

    @property
    def transport(self) -> str:
        """The transport of items and batches: ``"in-process"``, ``"shm"``, ``"unix"`` or ``"tcp"``.

        The first access queries the server. Until a server responds, the value is ``"tcp"``.

        Raises:
          FailedPreconditionError: the server cannot be reached over the requested transport.
        """
        return self._native.transport

    # Many servers.

    def servers(self) -> list[ServerState]:
        """Returns the state of each server. The result is empty for a client of a single server, which is not
        monitored."""
        return [ServerState._make(state) for state in self._native.servers()]

    def server_changes(self) -> list[ServerChange]:
        """Returns the last 256 events in which a server was left out or rejoined, oldest first.

        These changes are also logged to the logger ``relive`` of :mod:`logging`, as warnings when a server is left out.
        """
        return [ServerChange._make(change) for change in self._native.server_changes()]

    def server(self, address: str) -> Client:
        """Returns a client for one of the servers, which is selected by its address in :meth:`servers`.

        Raises:
          ValueError: the client has no server with this address.
        """
        known = [state.address for state in self.servers()]
        if address not in known:
            raise ValueError(f"this client has no server at {address!r}; its servers are {known}")
        return _client(type(self), address, *self._arguments[1:])

    # Writing.

    def insert(self, data: Any, priorities: Mapping[str, float], *, timeout: float | None = None) -> None:
        """Writes one step as one item to each table in ``priorities``, and waits for the server's confirmation.

        The columns of the items keep a leading dimension of 1.

        Raises:
          ValueError: no priorities, an unknown table, a NaN priority, a step that does not match the table's signature,
            or a step with column names that differ from the table's.
          TypeError: a value of the step is not a tensor (the error names its path); this includes ``None`` and arrays
            with masked elements; or a priority is not a number.
          DeadlineExceededError: the server did not confirm within ``timeout`` seconds.
        """
        if not priorities:
            raise ValueError("priorities must name at least one table with a priority")
        if not isinstance(priorities, Mapping):
            raise TypeError(f"priorities must be a mapping of table to priority, not {priorities!r}")
        for table, priority in priorities.items():
            if not isinstance(table, str) and not self._as_reverb:
                raise TypeError(f"priorities must map the names of tables to priorities, but one name is {table!r}")
            is_number = (hasattr(priority, "__float__") or hasattr(priority, "__index__")) and not has_other_dtype(priority)
            if not is_number and not self._as_reverb:
                raise TypeError(f"the priority of table {table!r} is {priority!r}, but it must be a number")
        self._native.insert(data, dict(priorities), timeout, check_names=self._checks_names)

    def writer(
        self,
        max_sequence_length: int,
        delta_encoded: bool = False,
        chunk_length: int | None = None,
        max_in_flight_items: int | None = 25,
        *,
        codec: str = "auto",
    ) -> Writer:
        """Returns a writer for items that consist of the newest steps of all columns; :meth:`trajectory_writer` is more
        flexible.

        Args:
          max_sequence_length: the largest number of steps in an item, at least 1.
          delta_encoded: whether integers are stored as differences between consecutive steps before compression.
          chunk_length: the number of steps that are stored together.
          max_in_flight_items: the largest number of unconfirmed items.
          codec: as for :meth:`trajectory_writer`.

        Raises:
          ValueError: a length or bound below 1, a ``chunk_length`` above ``max_sequence_length``, or an unknown codec.
        """
        return Writer(
            self._native,
            max_sequence_length=max_sequence_length,
            delta_encoded=delta_encoded,
            chunk_length=chunk_length,
            max_in_flight_items=max_in_flight_items,
            codec=codec,
        )

    def trajectory_writer(
        self,
        num_keep_alive_refs: int,
        *,
        validate_items: bool = True,
        chunk_length: int | None = None,
        max_pending_items: int | None = None,
        max_pending_bytes: int | None = None,
        get_signature_timeout_ms: int | None = None,
        codec: str = "auto",
    ) -> TrajectoryWriter:
        """Returns a writer for steps, and for items that refer to any of the newest ``num_keep_alive_refs`` steps of a
        column.

        Args:
          num_keep_alive_refs: the number of steps of each column that items can refer to, at least 1.
          validate_items: whether items are checked against their table's signature before they are sent.
          chunk_length: the number of steps that are stored together; by default it adapts to the items.
          max_pending_items: the number of unconfirmed items at which ``create_item`` waits; 10,000 by default, and
            unlimited for ``reverb.Client``.
          max_pending_bytes: the same bound in bytes; 256 MiB by default, and unlimited for ``reverb.Client``.
          get_signature_timeout_ms: accepted for programs written for older versions of dm-reverb; this call does not
            wait for the server.
          codec: the compression of steps: ``"raw"`` (none), ``"snappy"``, ``"lz4"``, ``"zstd"``, or ``"auto"``, which
            uses Snappy and stores incompressible data uncompressed. The codec does not change what readers receive.
            Codecs other than ``"auto"`` and ``"snappy"`` need a Relive server; with another server the writer sends
            nothing and its later calls raise :class:`relive.errors.UnimplementedError`.

        Raises:
          ValueError: an option that is out of range, or an unknown codec.
        """
        if whole("num_keep_alive_refs", num_keep_alive_refs) < 1:
            raise ValueError(f"num_keep_alive_refs ({num_keep_alive_refs}) must be a positive integer")
        count("num_keep_alive_refs", num_keep_alive_refs, 1, bits=32)
        for name, value, least, bits in (
            ("chunk_length", chunk_length, 1, 32), ("max_pending_items", max_pending_items, 0, 63), ("max_pending_bytes", max_pending_bytes, 0, 63),
        ):
            if value is not None:
                count(name, value, least, bits=bits)
        string("codec", codec)
        del get_signature_timeout_ms
        writer = TrajectoryWriter(
            self._native.trajectory_writer(
                num_keep_alive_refs,
                validate_items=bool(validate_items),
                chunk_length=chunk_length,
                max_pending_items=max_pending_items,
                max_pending_bytes=max_pending_bytes,
                codec=codec,
            )
        )
        writer._reports_loss = not self._as_reverb
        return writer

    def structured_writer(self, configs: Sequence[Any], *, codec: str = "auto") -> StructuredWriter:
        """Returns a writer that creates items automatically, from the patterns of :mod:`relive.structured`.

        Args:
          configs: the patterns, created by :func:`relive.structured.create_config`.
          codec: as for :meth:`trajectory_writer`.

        Raises:
          ValueError: no configuration, an invalid configuration (the error names its position), configurations from
            reference steps with different structures, or an unknown codec.
        """
        from relive.structured_writer import StructuredWriter

        return StructuredWriter.from_configs(self._native, configs, codec=codec)

    # Reading.

    def sample(
        self,
        table: str,
        num_samples: int = 1,
        *,
        emit_timesteps: bool = True,
        unpack_as_table_signature: bool = False,
        timeout: float | None = None,
    ) -> Generator[Any, None, None]:
        """Samples ``num_samples`` items one after the other.

        Args:
          table: the table.
          num_samples: the number of items, at least 1.
          emit_timesteps: whether to return an item as a list of one :class:`ReplaySample` per step, or as one
            :class:`ReplaySample` with columns that have a leading dimension.
          unpack_as_table_signature: whether data has the structure of the table's signature (without a signature, of
            the first item written) or is a list of columns.
          timeout: the number of seconds to wait for each item.

        Raises:
          NotFoundError: the table does not exist.
          ValueError: ``num_samples`` below 1; columns with different lengths together with ``emit_timesteps``.
          DeadlineExceededError: no item arrived within ``timeout`` seconds.

        The arguments are also checked at the first ``next()``, not by this call. After an error, such as a timeout, a
        further ``next()`` continues.
        """
        return Samples(
            self, table, num_samples, timeout, emit_timesteps=emit_timesteps, unpack=unpack_as_table_signature
        )

    def batches(
        self,
        table: str,
        batch_size: int,
        *,
        timeout: float | None = None,
        prefetch: int | None = None,
        num_workers: int = 1,
        max_batches: int | None = None,
        pad: bool = False,
        out: Any = None,
    ) -> BatchIterator:
        """Iterates over batches: data columns ``[batch_size, steps, …]`` and arrays of the items' metadata.

        A squeezed column has no dimension for the steps. Data has the structure of the table's signature or, without
        one, of the first item written; items with a different number of columns are returned as a list.

        Args:
          table: the table.
          batch_size: the number of items in a batch, at least 1.
          timeout: the number of seconds to wait for a batch. A timeout loses no items; the next call continues the
            incomplete batch.
          prefetch: the number of batches to request ahead from a server. With 0, sampling is exact: a batch is
            sampled only when it is requested, from the table's contents at that moment. The default is 4, or fewer if
            5 batches would exceed 2²⁰ samples. Within the process, the number is always 0.
          num_workers: the number of streams that fetch in parallel.
          max_batches: the number of batches after which the iterator ends; by default it never ends.
          pad: whether to pad items that differ in length with zeros to the longest item of the batch; the original
            lengths are in ``batch.lengths``. Without ``pad``, different lengths are an error.
          out: arrays that receive every batch, in the structure of the items; ``batch.data`` is then this same nest,
            unless it contains ``None``: then it is a nest of the same structure with the same arrays. The arrays have
            the shapes and data types of a batch's columns, are C-contiguous and writable, and share no memory; with
            ``pad`` they may have room for more steps. ``None`` in place of an array allocates a new array for that
            column; columns of strings require this. The interpreter lock is released while they are written to, so
            other threads must not access them until the next batch is returned.

        Raises:
          ValueError: a number that is out of range, or arrays of ``out`` that are not writable; the error names the
            path. While iterating: items with different shapes, or ``out`` has a different structure, shape or data
            type.
          TypeError: a value in ``out`` is not an array.
          DeadlineExceededError: while iterating, no complete batch within ``timeout`` seconds.
          RuntimeError: while iterating, the table does not exist, or the server stopped.
        """
        return BatchIterator(
            self._native, table, batch_size, timeout=timeout, prefetch=prefetch, num_workers=num_workers,
            max_batches=max_batches, pad=flag("pad", pad), out=out,
        )

    def items(self, table: str, *, timeout: float | None = None) -> Iterator[ItemInfo]:
        """Returns all items of ``table`` in insertion order, without their data and without sampling them.

        The iterator reads page by page; items that are inserted or deleted in the meantime may or may not appear.
        """
        cursor: int | None = None
        while True:
            page, cursor = self._native.items(table, cursor, _ITEMS_PER_PAGE, timeout)
            yield from (ItemInfo(*item) for item in page)
            if cursor is None:
                return

    def get_items(
        self, table: str, keys: Sequence[int] | npt.NDArray[np.uint64], *, timeout: float | None = None
    ) -> list[ReplaySample | None]:
        """Returns the items with these keys, and ``None`` in place of unknown keys. This does not count as sampling.

        Raises:
          NotFoundError: the table does not exist.
          DeadlineExceededError: no answer within ``timeout`` seconds, for all requests to the server together.
        """
        left = _countdown(timeout)
        structure = self._structure(table, left())
        found = self._native.get_items(table, keys, left())
        counts = {len(item[1]) for item in found if item is not None}
        if structure is not None and counts - {structure.num_leaves}:
            structure = self._renewed_structure(table, left())
        return [
            None if item is None else ReplaySample(SampleInfo(*item[0]), packed(structure, item[1]))
            for item in found
        ]

    # Changing.

    def mutate_priorities(
        self,
        table: str,
        updates: Mapping[int, float] | None = None,
        deletes: Sequence[int] | npt.NDArray[np.uint64] | None = None,
        *,
        timeout: float | None = None,
    ) -> None:
        """Deletes the items ``deletes``, then sets the priorities ``updates``. Unknown keys are ignored.

        Raises:
          RuntimeError: the table does not exist.
          ValueError: a priority that the table's selectors do not accept; the priorities that precede it in the call
            have already been set.
          TypeError: a key that is not a 64-bit integer, or a priority that is not a number.
        """
        updates = updates or {}
        if not isinstance(updates, Mapping):
            raise TypeError(f"updates must be a mapping of key to priority, not {updates!r}; for arrays: update_priorities")
        if deletes is not None and not isinstance(deletes, Iterable):
            raise TypeError(f"deletes must be a sequence of keys, not {deletes!r}")
        self._native.mutate_priorities(
            table, list(updates), list(updates.values()), () if deletes is None else deletes, timeout
        )

    def update_priorities(
        self,
        table: str,
        keys: npt.ArrayLike,
        priorities: npt.ArrayLike,
        *,
        timeout: float | None = None,
    ) -> None:
        """Sets the priorities of the items ``keys``; ``keys`` and ``priorities`` are arrays or sequences with the same
        length.

        Raises:
          The same exceptions as :meth:`mutate_priorities`, and ValueError if the lengths differ.
        """
        self._native.mutate_priorities(table, keys, priorities, (), timeout)

    def delete_items(self, table: str, keys: npt.ArrayLike, *, timeout: float | None = None) -> None:
        """Deletes the items ``keys``; unknown keys are ignored."""
        self._native.mutate_priorities(table, (), (), keys, timeout)

    def reset(self, table: str, *, timeout: float | None = None) -> None:
        """Removes all items of ``table`` and resets its counters to 0."""
        self._native.reset(table, timeout)

    # Changes to tables in use.

    def change_table(
        self,
        table: str,
        *,
        max_size: int | None = None,
        max_bytes: int | None = None,
        max_times_sampled: int | None = None,
        rate_limiter: RateLimiter | None = None,
        samples_per_insert: float | None = None,
        min_size_to_sample: int | None = None,
        min_diff: float | None = None,
        max_diff: float | None = None,
        timeout: float | None = None,
    ) -> Changed:
        """Changes rules of ``table`` while it is in use. Either all of the given rules change, or none of them; omitted
        rules keep their values.

        Waiting calls proceed if the new rules allow it. If a bound shrinks, the remover evicts the excess items
        before this call returns. The rate limiter's cursor keeps its value: a new ratio applies to future inserts. The
        server logs the change and lists it in ``changes`` of :meth:`status`.

        Args:
          table: the table's name.
          max_size: the largest number of items in the table.
          max_bytes: the largest number of bytes of chunks in the table; 0 removes this bound.
          max_times_sampled: the number of samples after which an item is deleted; 0 means never.
          rate_limiter: sets the four bounds below together.
          samples_per_insert: the limiter's target for samples per insert.
          min_size_to_sample: the number of items that the table must hold before it can be sampled.
          min_diff: the lowest value to which a sample may move the cursor.
          max_diff: the highest value to which an insert may move the cursor.
          timeout: the number of seconds to wait for the server's response.

        Raises:
          ValueError: an unknown table, rules that are out of range, or no rule to change.
          NotImplementedError: the server is not a Relive server.
          UnavailableError: the connection ended before the answer; the change may or may not have been made.
        """
        limiter = _limiter_rules(rate_limiter, samples_per_insert, min_size_to_sample, min_diff, max_diff)
        sizes = {"max_size": max_size, "max_bytes": max_bytes, "max_times_sampled": max_times_sampled}
        return self._change(table, timeout, **sizes, **limiter)

    def pause_table(
        self, table: str, *, inserts: bool = True, samples: bool = True, timeout: float | None = None
    ) -> Changed:
        """Pauses inserts into ``table``, samples from it, or both: the calls wait, and report that the table is paused.

        Raises:
          The same exceptions as :meth:`change_table`.
        """
        return self._change(table, timeout, pause_inserts=inserts or None, pause_samples=samples or None)

    def resume_table(
        self, table: str, *, inserts: bool = True, samples: bool = True, timeout: float | None = None
    ) -> Changed:
        """Resumes inserts into ``table``, samples from it, or both.

        Raises:
          The same exceptions as :meth:`change_table`.
        """
        resumed = {"pause_inserts": inserts, "pause_samples": samples}
        return self._change(table, timeout, **{name: False for name, chosen in resumed.items() if chosen})

    def add_table(self, table: Table, *, timeout: float | None = None) -> None:
        """Adds an empty table with the rules of ``table`` to the running server. ``table`` itself is not used.

        The server's next checkpoint contains the table, so a server that restarts from this checkpoint must also have
        the table in its configuration.

        Raises:
          ValueError: the server already has a table with this name, or ``table`` has extensions.
          TypeError: ``table`` is not a table.
          NotImplementedError: the server is not a Relive server.
          UnavailableError: the connection ended before the answer; the change may or may not have been made.
        """
        if not hasattr(table, "internal_table"):
            raise TypeError(f"table must be a relive.Table, got {table!r}")
        self._native.add_table(table._native, timeout)
        # Another client may have dropped a table of this name.
        self._structures.pop(table.name, None)

    def drop_table(self, table: str, *, timeout: float | None = None) -> None:
        """Drops ``table`` with all its items. Calls that wait for it fail. The last table cannot be dropped.

        Raises:
          ValueError: an unknown table, or the server's only table.
          NotImplementedError: the server is not a Relive server.
          UnavailableError: the connection ended before the answer; the change may or may not have been made.
        """
        self._native.drop_table(table, timeout)
        self._structures.pop(table, None)

    def _change(self, table: str, timeout: float | None, **change: Any) -> Changed:
        for name in ("max_size", "max_bytes", "max_times_sampled", "min_size_to_sample"):
            if change.get(name) is not None:
                change[name] = count(name, change[name])
        return Changed._from_native(self._native.change_table(table, _with_all_rules(change), timeout))

    # Queries.

    def server_info(self, timeout: float | None = None) -> dict[str, TableInfo]:
        """Returns the tables by name, waiting until the server is available. Without a ``timeout``, or with a timeout
        of 0, the call waits for as long as the client's own timeout allows, by default forever.

        Raises:
          ValueError: ``timeout`` is negative or NaN.
          DeadlineExceededError: no server responded within ``timeout`` seconds.
        """
        # In dm-reverb, a negative timeout is no timeout.
        limit = max(0.0, any_number("timeout", timeout)) if self._as_reverb and timeout is not None else seconds(timeout)
        return self._tables(limit or None)

    def _tables(self, timeout: float | None) -> dict[str, TableInfo]:
        """Returns the tables by name. Unlike in :meth:`server_info`, a timeout of 0 does not wait."""
        infos = [TableInfo._from_native(info) for info in self._native.server_info(timeout)]
        return {info.name: info for info in infos}

    def status(self, timeout: float | None = None) -> dict[str, Any]:
        """Returns the state of a Relive server: ``version``, ``uptime_s``, and ``tables``, which maps names to
        :class:`TableInfo`. Each table has its bytes and its ``waiters``: the waiting callers, their conditions, and the
        start of each wait.

        For all chunks it reports ``num_chunks``, ``encoded_bytes``, ``raw_bytes``, ``shared_bytes`` (held by several
        tables), ``spilled_bytes`` (on disk) and ``resident_bytes`` (in memory). ``max_bytes`` is the server's memory
        bound for chunks, ``waiters`` are the writers that wait for memory, and ``process_bytes`` is the memory of the
        server's process. ``spill_error`` is the reason why the last attempt to move chunks to disk failed; it is
        ``None`` if that attempt succeeded or spilling is off. ``codecs`` lists the codecs available to writers.
        ``connections`` counts the open connections, and ``changes`` lists the last changes to tables in use, oldest
        first, as :class:`relive.LoggedChange`.

        Raises:
          NotImplementedError: the server is not a Relive server.
        """
        status = dict(self._native.status(timeout))
        infos = [TableInfo._from_native(info) for info in status["tables"]]
        status["tables"] = {info.name: info for info in infos}
        status["changes"] = [LoggedChange(**change) for change in status["changes"]]
        return status

    def checkpoint(self, *, timeout: float | None = None) -> str:
        """Makes the server write a checkpoint, and returns its path on the server's machine.

        The checkpoint contains every item that was confirmed before the call; the server keeps serving. Concurrent
        calls share checkpoints. A call that is interrupted or times out does not stop the checkpoint.

        Raises:
          ValueError: the server has no location for checkpoints.
          RuntimeError: no server responds, or writing failed.
        """
        return self._native.checkpoint(timeout)

    def checkpoint_status(self, *, timeout: float | None = None) -> CheckpointStatus:
        """Returns the state of the server's checkpoints: the progress of the current checkpoint, the result of the last
        one, and the time until the next one.

        Raises:
          NotImplementedError: the server is not a Relive server.
          RuntimeError: no server responds.
        """
        return CheckpointStatus._from_native(self._native.checkpoint_status(timeout))

    def _sampler(self, table: str, **options: Any) -> _native.Sampler:
        """Returns the reader that the datasets use."""
        return self._native.sampler(table, **options)

    def _structure(self, table: str, timeout: float | None, *, required: bool = False) -> Structure | None:
        """Returns the structure of the items of ``table``, or ``None`` if the structure is not known."""
        known = self._structures.get(table)
        if known is None:
            left = _countdown(timeout)
            infos = self._tables(left())
            if table not in infos and required:
                raise NotFoundError(
                    f"the server at {self._server_address} has no table {table!r}; its tables are {sorted(infos)}"
                )
            known = self._structure_of(infos[table], left()) if table in infos else None
            if known is not None:
                self._structures[table] = known
        return known

    def _renewed_structure(self, table: str, timeout: float | None) -> Structure | None:
        """Queries the structure again, since another client may have replaced the table."""
        self._structures.pop(table, None)
        return self._structure(table, timeout)

    def _structure_of(self, info: TableInfo, timeout: float | None) -> Structure | None:
        signature = info.structure
        # As in dm-reverb, a signature without leaves is no signature.
        if signature is not None and nest.flatten(signature):
            return Structure(signature, is_promised=True)
        named = self._native.structure(info.name, timeout)
        return None if named is None else Structure(named, is_promised=False)


def _countdown(timeout: float | None) -> Callable[[], float | None]:
    """Returns a function that returns the time that is left of a timeout for several requests."""
    if timeout is None or not timeout > 0:
        # No limit, no wait, or an invalid number, which the first request refuses.
        return lambda: timeout
    until = time.monotonic() + timeout
    return lambda: max(0.0, until - time.monotonic())


def _client(
    kind: type[Client],
    server_address: str,
    transport: str,
    timeout: float | None,
    token: str | None,
    tls: ClientTls | None,
) -> Client:
    """Creates a client. If no other arguments are given, only the address is passed on, since the class may accept no
    other argument."""
    options = {"timeout": timeout, "token": token, "tls": tls}
    given: dict[str, Any] = {name: option for name, option in options.items() if option is not None}
    if transport != "auto":
        given["transport"] = transport
    return kind(server_address, **given)
