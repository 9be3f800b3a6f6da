"""The client of a replay server."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from relive import _native, nest
from relive._structures import Structure, packed
from relive.batches import BatchIterator
from relive.changes import Changed, LoggedChange
from relive.checkpoints import CheckpointStatus
from relive.replay_sample import ReplaySample, SampleInfo
from relive.reverb_types import TableInfo
from relive.security import ClientTls
from relive.servers import ServerChange, ServerState, joined
from relive.trajectory_writer import TrajectoryWriter
from relive.writer import Writer

if TYPE_CHECKING:
    from relive.rate_limiters import RateLimiter
    from relive.server import Table
    from relive.structured_writer import StructuredWriter

# Samples that `Client.sample` asks for ahead of the caller.
_MAX_SAMPLES_AHEAD = 64

# Items of one page of `Client.items`: as many as a server gives, since it looks through the whole table for each page.
_ITEMS_PER_PAGE = 100_000


class ItemInfo(NamedTuple):
    """What a table knows about an item, without its data."""

    key: int
    priority: float
    times_sampled: int
    inserted_at: float
    """Seconds since the epoch, by the server's clock."""


class Client:
    """A client of the server at ``server_address``, ``host:port``, or of many servers.

    Many servers are given as a list of addresses, as one string with commas between them, or as ``dns:///name:port`` for all addresses
    that a name has. They then are as one: see ``docs/many-servers.md``. A server that is away is left out until it answers
    again, and no call waits for it; :meth:`servers` and :meth:`server_changes` tell.

    Nothing is connected before the first call. ``transport`` is the way to the server: ``"in-process"`` for one of this
    process, which is reached through memory; ``"shm"`` for one of this machine and user, whose batches come in memory that is
    shared with it; ``"unix"`` for the same through a socket; ``"tcp"``; or ``"auto"``, the first of these that there is. The
    property :attr:`transport` says which one is in use. Clients can be pickled, and go on after a fork with connections of
    their own.

    Every call that waits can be interrupted by Ctrl-C, lets other threads run, and takes a timeout. ``timeout`` is the one
    of calls that are given none, in seconds. Without any, a call waits as long as it takes and says in the log of
    :mod:`logging` (logger ``relive``) what it waits for.

    ``token`` is shown to a server that asks for one. With ``tls``, or an address ``https://host:port``, which is trusted as the
    system says, everything goes over TLS.

    Raises:
      ValueError: an address or a transport that cannot be, certificates that cannot be used.
    """

    # Whether it does as dm-reverb's client where this package's does otherwise: in what lists of numbers are, in the texts of some errors,
    # in waiting for a server of this process that was stopped, and in closing writers that have items left.
    _as_reverb = False
    # Whether the columns of a step that is inserted must have the names of the table's.
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
        """The address as it was given; those of many servers with commas between."""
        return self._server_address

    @property
    def transport(self) -> str:
        """How items and batches travel now: ``"in-process"``, ``"shm"``, ``"unix"`` or ``"tcp"``.

        The server is asked the first time. As long as none answers, ``"tcp"``.

        Raises:
          FailedPreconditionError: the way that was asked for does not lead to the server.
        """
        return self._native.transport

    # Many servers.

    def servers(self) -> list[ServerState]:
        """How each of many servers stands now; nothing for a client of one, which watches nothing."""
        return [ServerState._make(state) for state in self._native.servers()]

    def server_changes(self) -> list[ServerChange]:
        """The last 256 times that one of many servers was left out or taken back, the oldest first.

        They are also in the log of :mod:`logging` (logger ``relive``), as warnings when a server is left out.
        """
        return [ServerChange._make(change) for change in self._native.server_changes()]

    def server(self, address: str) -> Client:
        """A client of one of many servers alone, by its address as :meth:`servers` tells it.

        Raises:
          ValueError: the client has no server there.
        """
        known = [state.address for state in self.servers()]
        if address not in known:
            raise ValueError(f"there is no server at {address!r}; the servers are {known}")
        return _client(type(self), address, *self._arguments[1:])

    # Writing.

    def insert(self, data: Any, priorities: Mapping[str, float], *, timeout: float | None = None) -> None:
        """Writes one step as one item of each table in ``priorities``, and waits until the server has confirmed it.

        The columns of the items keep a leading dimension of 1.

        Raises:
          ValueError: no priorities, an unknown table, a step that the table's signature does not allow, or whose columns have other
            names than the table's, a NaN priority.
          TypeError: a value of the step is no tensor; ``None`` is none, either.
          DeadlineExceededError: not confirmed within ``timeout`` seconds.
        """
        if not priorities:
            raise ValueError("priorities must name at least one table with a priority")
        if not isinstance(priorities, Mapping):
            raise TypeError(f"priorities must be a mapping of table to priority, not {priorities!r}")
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
        """A writer whose items are the newest steps of all columns; :meth:`trajectory_writer` can do more.

        Args:
          max_sequence_length: most steps of an item, at least 1.
          delta_encoded: whether integers are stored as differences from step to step before they are compressed.
          chunk_length: steps that are stored together.
          max_in_flight_items: items that may wait for the server's confirmation.
          codec: as for :meth:`trajectory_writer`.

        Raises:
          ValueError: a length or bound below 1, a ``chunk_length`` above ``max_sequence_length``, an unknown codec.
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
        """A writer of steps and of items that refer to any of the newest ``num_keep_alive_refs`` steps of a column.

        Args:
          num_keep_alive_refs: steps of each column that items can refer to, at least 1.
          validate_items: whether items are checked against their table's signature before they are sent.
          chunk_length: steps that are stored together; tuned to the items unless given.
          max_pending_items: items that may wait for the server's confirmation before ``create_item`` waits; 10,000.
          max_pending_bytes: bytes that may; 256 MiB.
          get_signature_timeout_ms: accepted since programs for older versions of dm-reverb pass it; this call does not
            wait for the server.
          codec: how steps are compressed: ``"raw"`` (not at all), ``"snappy"``, ``"lz4"``, ``"zstd"``, or ``"auto"``: with
            Snappy, or stored as they are where that is tried in vain. All readers get the same data. Codecs but
            ``"auto"`` and ``"snappy"`` need a Relive server; with another one the writer's later calls raise
            :class:`relive.errors.UnimplementedError`, and nothing is sent.

        Raises:
          ValueError: an option out of range, an unknown codec.
        """
        if num_keep_alive_refs < 1:
            raise ValueError(f"num_keep_alive_refs ({num_keep_alive_refs}) must be a positive integer")
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
        writer._tells_of_loss = not self._as_reverb
        return writer

    def structured_writer(self, configs: Sequence[Any], *, codec: str = "auto") -> StructuredWriter:
        """A writer that makes items by itself, from the patterns of :mod:`relive.structured`.

        Args:
          configs: the patterns, as :func:`relive.structured.create_config` makes them.
          codec: as for :meth:`trajectory_writer`.

        Raises:
          ValueError: no configuration, or one that is wrong (the error names its position); an unknown codec.
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
          num_samples: how many items, at least 1.
          emit_timesteps: whether an item comes as a list of one :class:`ReplaySample` per step, or as one
            :class:`ReplaySample` whose columns have a leading dimension.
          unpack_as_table_signature: whether data has the structure of the table's signature, without one that of the first
            item that was written, or is a list of columns.
          timeout: how many seconds to wait for each item.

        Raises:
          RuntimeError: there is no such table.
          ValueError: ``num_samples`` below 1; columns of different lengths with ``emit_timesteps``.
          DeadlineExceededError: no item came within ``timeout`` seconds.
        """
        if num_samples < 1:
            raise ValueError(f"max_samples ({num_samples}) must be at least 1: num_samples is the number of items")
        structure = self._structure(table, timeout, required=True) if unpack_as_table_signature else None
        for info, columns in self._native.samples(table, num_samples, _MAX_SAMPLES_AHEAD, timeout):
            sample_info = SampleInfo(*info)
            if emit_timesteps:
                yield _timesteps(sample_info, columns, structure)
            else:
                yield ReplaySample(sample_info, packed(structure, columns))

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
        """An iterator of batches: data columns ``[batch_size, steps, …]`` and arrays of what is known of the items.

        A squeezed column has no dimension for the steps. Data has the structure of the table's signature or, without one,
        of the first item that was written; items with another number of columns come as a list.

        Args:
          table: the table.
          batch_size: items of a batch, at least 1.
          timeout: seconds that a batch may take; a batch that is incomplete by then loses nothing, the next call goes
            on with it.
          prefetch: batches that are asked for before they are wanted. 0 is exact: only what is handed out is sampled,
            as the table is at that moment. By default 0 within the process and 2 over a network.
          num_workers: streams that fetch at the same time.
          max_batches: ends after that many; by default never.
          pad: whether items of different lengths are padded with zeros to the longest of the batch; their lengths are
            in ``batch.lengths``. Without it they are an error.
          out: arrays that every batch is written to, in the structure of the items; ``batch.data`` is then this very nest.
            They have the shapes and data types of a batch's columns, are C-contiguous and writable, and share no memory; with
            ``pad`` they may have room for more steps. ``None`` in the place of an array makes a new one for that column, as
            columns of strings need. The interpreter is released while they are written to, so that other threads must leave
            them alone until the next batch is there.

        Raises:
          ValueError: a number out of range, arrays of ``out`` that cannot be written to; the error names the path. While
            iterating: items of different shapes, ``out`` of another structure, shape or data type.
          TypeError: something in ``out`` is no array.
          DeadlineExceededError: while iterating, no complete batch within ``timeout`` seconds.
          RuntimeError: while iterating, there is no such table, or the server stopped.
        """
        return BatchIterator(
            self, table, batch_size, timeout=timeout, prefetch=prefetch, num_workers=num_workers,
            max_batches=max_batches, pad=pad, out=out,
        )

    def items(self, table: str, *, timeout: float | None = None) -> Iterator[ItemInfo]:
        """All items of ``table`` in the order of their insertion, without their data and without sampling them.

        Pages are read one after the other; items that are inserted or deleted meanwhile may or may not appear.
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
        """The items with these keys, ``None`` for those that the table does not have. It does not count as sampling."""
        structure = self._structure(table, timeout)
        found = self._native.get_items(table, keys, timeout)
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
        """Deletes the items ``deletes``, then sets the priorities ``updates``. Unknown keys are passed over.

        Raises:
          RuntimeError: there is no such table.
          ValueError: a priority that the table's selectors do not take; the ones before it are set.
          TypeError: a key that is no integer of 64 bits, a priority that is no number.
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
        """Sets the priorities of the items ``keys``; both are arrays or sequences of the same length.

        Raises:
          As :meth:`mutate_priorities`, and ValueError for different lengths.
        """
        self._native.mutate_priorities(table, keys, priorities, (), timeout)

    def delete_items(self, table: str, keys: npt.ArrayLike, *, timeout: float | None = None) -> None:
        """Deletes the items ``keys``; unknown keys are passed over."""
        self._native.mutate_priorities(table, (), (), keys, timeout)

    def reset(self, table: str, *, timeout: float | None = None) -> None:
        """Removes all items of ``table`` and sets its counters to 0."""
        self._native.reset(table, timeout)

    # Changing tables in use.

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
        """Changes rules of ``table`` while it is in use, all of them or none; what is not given stays.

        Whoever may go on then does. Items beyond smaller bounds leave by the remover's choice before this returns. The
        cursor of the rate limiter stays where it is: a new ratio is for inserts to come. The change is logged by the server
        and in ``changes`` of :meth:`status`.

        Args:
          table: name of the table.
          max_size: items that the table keeps.
          max_bytes: bytes of chunks that the table keeps; 0 takes this bound away.
          max_times_sampled: samples after which an item is deleted; 0: never.
          rate_limiter: sets the four bounds that follow, at once.
          samples_per_insert: samples per insert that the limiter aims at.
          min_size_to_sample: items that the table must hold before it may be sampled.
          min_diff: the lowest cursor that a sample may leave behind.
          max_diff: the highest cursor that an insert may leave behind.
          timeout: seconds to wait for the server's answer.

        Raises:
          ValueError: an unknown table, rules out of range, nothing to change.
          NotImplementedError: the server is not Relive's.
        """
        limiter = {} if rate_limiter is None else _bounds(rate_limiter)
        bounds = {
            "samples_per_insert": samples_per_insert,
            "min_size_to_sample": min_size_to_sample,
            "min_diff": min_diff,
            "max_diff": max_diff,
        }
        limiter.update({name: bound for name, bound in bounds.items() if bound is not None})
        sizes = {"max_size": max_size, "max_bytes": max_bytes, "max_times_sampled": max_times_sampled}
        return self._change(table, timeout, **sizes, **limiter)

    def pause_table(
        self, table: str, *, inserts: bool = True, samples: bool = True, timeout: float | None = None
    ) -> Changed:
        """Holds back inserts, samples or both of ``table``: calls wait, and say that the table is paused.

        Raises:
          As :meth:`change_table`.
        """
        return self._change(table, timeout, pause_inserts=inserts or None, pause_samples=samples or None)

    def resume_table(
        self, table: str, *, inserts: bool = True, samples: bool = True, timeout: float | None = None
    ) -> Changed:
        """Lets inserts, samples or both of ``table`` go on.

        Raises:
          As :meth:`change_table`.
        """
        resumed = {"pause_inserts": inserts, "pause_samples": samples}
        return self._change(table, timeout, **{name: False for name, chosen in resumed.items() if chosen})

    def add_table(self, table: Table, *, timeout: float | None = None) -> None:
        """Adds an empty table of the rules of ``table`` to the server, which goes on. ``table`` itself stays unused.

        A server that is started again finds the table in its checkpoint, and wants it among its tables, too.

        Raises:
          ValueError: the server has a table of this name; ``table`` has extensions.
          NotImplementedError: the server is not Relive's.
        """
        self._native.add_table(table.internal_table, timeout)

    def drop_table(self, table: str, *, timeout: float | None = None) -> None:
        """Drops ``table`` with all its items. Calls that wait for it fail. A server keeps its last table.

        Raises:
          ValueError: an unknown table, or the only one.
          NotImplementedError: the server is not Relive's.
        """
        self._native.drop_table(table, timeout)
        self._structures.pop(table, None)

    def _change(self, table: str, timeout: float | None, **change: Any) -> Changed:
        return Changed._from_native(self._native.change_table(table, {**_NO_CHANGE, **change}, timeout))

    # Asking.

    def server_info(self, timeout: float | None = None) -> dict[str, TableInfo]:
        """The tables by name. Waits for a server to be there; no ``timeout`` or one of 0 means for ever.

        Raises:
          DeadlineExceededError: no server answered within ``timeout`` seconds.
        """
        limit = timeout if timeout is not None and timeout > 0 else None
        infos = [TableInfo._from_native(info) for info in self._native.server_info(limit)]
        return {info.name: info for info in infos}

    def status(self, timeout: float | None = None) -> dict[str, Any]:
        """What a Relive server holds: ``version``, ``uptime_s``, and ``tables``: :class:`TableInfo` by name, each with its
        bytes and its ``waiters``: who waits for what, and since when.

        Of all chunks there are ``num_chunks``, ``encoded_bytes``, ``raw_bytes``, ``shared_bytes`` (held by several tables),
        ``spilled_bytes`` (on disk) and ``resident_bytes`` (in memory); ``max_bytes`` is their bound, ``waiters`` are the
        writers that wait for memory, and ``process_bytes`` is all that the server's process has. ``spill_error`` says why
        chunks could not be moved to disk when that was last tried; it is ``None`` if they can be, or nobody asked for it.
        ``codecs`` names the codecs that writers may choose. ``connections`` counts those that are open, and ``changes`` has the
        last changes of tables in use, the oldest first, as :class:`relive.LoggedChange`.

        Raises:
          NotImplementedError: the server is not Relive's.
        """
        status = dict(self._native.status(timeout))
        infos = [TableInfo._from_native(info) for info in status["tables"]]
        status["tables"] = {info.name: info for info in infos}
        status["changes"] = [LoggedChange(**change) for change in status["changes"]]
        return status

    def checkpoint(self, *, timeout: float | None = None) -> str:
        """Makes the server write a checkpoint, and gives its path on the server's machine.

        It holds everything that was confirmed before; the server goes on meanwhile. Calls at the same time share checkpoints,
        and one that is interrupted or runs out of time ends none.

        Raises:
          ValueError: the server has nowhere to write to.
          RuntimeError: there is no server, or writing failed.
        """
        return self._native.checkpoint(timeout)

    def checkpoint_status(self, *, timeout: float | None = None) -> CheckpointStatus:
        """What becomes of the server's checkpoints: which one is being written and how far it is, what came of the last, and
        when the next is due.

        Raises:
          NotImplementedError: the server is not Relive's.
          RuntimeError: there is no server.
        """
        return CheckpointStatus._from_native(self._native.checkpoint_status(timeout))

    def _sampler(self, table: str, **options: Any) -> _native.Sampler:
        """The reader behind the datasets."""
        return self._native.sampler(table, **options)

    def _structure(self, table: str, timeout: float | None, *, required: bool = False) -> Structure | None:
        """What the items of ``table`` look like; ``None`` if that is not known."""
        known = self._structures.get(table)
        if known is None:
            infos = self.server_info(timeout)
            if table not in infos and required:
                raise ValueError(
                    f"the server at {self._server_address} has no table {table!r}; its tables are {sorted(infos)}"
                )
            known = self._structure_of(infos[table], timeout) if table in infos else None
            if known is not None:
                self._structures[table] = known
        return known

    def _structure_of(self, info: TableInfo, timeout: float | None) -> Structure | None:
        signature = info.structure
        # A signature without leaves says nothing, as in dm-reverb.
        if signature is not None and nest.flatten(signature):
            return Structure(signature, is_promised=True)
        named = self._native.structure(info.name, timeout)
        return None if named is None else Structure(named, is_promised=False)


# What the compiled half is told of a change, which leaves out nothing.
_NO_CHANGE: dict[str, Any] = dict.fromkeys((
    "max_size", "max_bytes", "max_times_sampled", "samples_per_insert", "min_size_to_sample", "min_diff", "max_diff",
    "pause_inserts", "pause_samples",
))


def _bounds(limiter: RateLimiter) -> dict[str, Any]:
    """The four bounds of a rate limiter."""
    return {
        "samples_per_insert": limiter.samples_per_insert,
        "min_size_to_sample": limiter.min_size_to_sample,
        "min_diff": limiter.min_diff,
        "max_diff": limiter.max_diff,
    }


def _client(
    kind: type[Client],
    server_address: str,
    transport: str,
    timeout: float | None,
    token: str | None,
    tls: ClientTls | None,
) -> Client:
    """A client of a class that may take the address alone, as long as nothing else was said."""
    options = {"timeout": timeout, "token": token, "tls": tls}
    given: dict[str, Any] = {name: option for name, option in options.items() if option is not None}
    if transport != "auto":
        given["transport"] = transport
    return kind(server_address, **given)


def _timesteps(info: SampleInfo, columns: list[Any], structure: Structure | None) -> list[ReplaySample]:
    """One sample per step; all have the same information."""
    shapes = [np.shape(column) for column in columns]
    lengths = {shape[:1] for shape in shapes}
    if len(lengths) != 1 or () in lengths:
        raise ValueError(
            f"the item cannot be split into timesteps, its columns have the shapes {shapes}; "
            "sample it with emit_timesteps=False"
        )
    (steps,) = lengths.pop()
    # With the ellipsis, a scalar is an array, too.
    return [ReplaySample(info, packed(structure, [column[step, ...] for column in columns])) for step in range(steps)]
