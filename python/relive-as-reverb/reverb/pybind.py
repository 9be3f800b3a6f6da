"""The names of dm-reverb's extension module: the parts of its Python classes, with the same calls.

Programs seldom need more than the selectors and chunker options. The classes of this module are built on Relive's
clients, writers, samplers, servers and tables.
"""

import operator
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from relive import _native, checkpointers
from relive import pybind as _relive
from relive import server as _servers
from relive.pybind import AutoTunedChunkerOptions as AutoTunedChunkerOptions
from relive.pybind import ChunkerOptions as ChunkerOptions
from relive.pybind import ConstantChunkerOptions as ConstantChunkerOptions
from relive.pybind import FifoSelector as FifoSelector
from relive.pybind import HeapSelector as HeapSelector
from relive.pybind import ItemSelector as ItemSelector
from relive.pybind import LifoSelector as LifoSelector
from relive.pybind import PrioritizedSelector as PrioritizedSelector
from relive.pybind import TableExtension as TableExtension
from relive.pybind import UniformSelector as UniformSelector
from relive.pybind import WeakCellRef as WeakCellRef
from relive.pybind import selector_from_proto as selector_from_proto

from reverb import client as _clients
from reverb import structured_writer as _structured
from reverb import trajectory_writer as _trajectories
from reverb.platform.default import checkpointers as _checkpointers
from reverb.rate_limiters import RateLimiter as RateLimiter
from reverb.server import Server as _Server
from reverb.server import Table as _Table

Checkpointer = checkpointers.Checkpointer

__all__ = list(_relive.__all__)

_INFO_DTYPES = (np.uint64, np.float64, np.int64, np.float64, np.int32)

_T = TypeVar("_T")


def _below(kind: type[_T], **attributes: Any) -> _T:
    """Returns the object of this module for an existing table, client or server, which is its only attribute."""
    made = object.__new__(kind)
    vars(made).update(attributes)
    return made


class Writer:
    """The writer for whole steps below ``reverb.Writer``; takes flat lists of tensors."""

    def __init__(self, writer: _clients.Writer) -> None:
        self._writer = writer

    def Append(self, data: Sequence[Any]) -> None:
        self._writer.append(list(data))

    def AppendSequence(self, data: Sequence[Any]) -> None:
        self._writer.append_sequence(list(data))

    def CreateItem(self, table: str, num_timesteps: int, priority: float) -> None:
        self._writer.create_item(table, num_timesteps, priority)

    def Flush(self) -> None:
        self._writer.flush()

    def Close(self, retry_on_unavailable: bool) -> None:
        self._writer.close(retry_on_unavailable)


class TrajectoryWriter:
    """The writer below ``reverb.TrajectoryWriter``; takes flat lists of tensors and returns references to their
    cells."""

    def __init__(self, writer: _trajectories.TrajectoryWriter, max_num_keep_alive_refs: int) -> None:
        self._writer = writer
        self._max_num_keep_alive_refs = max_num_keep_alive_refs

    @property
    def episode_steps(self) -> int:
        return self._writer.episode_steps

    @property
    def max_num_keep_alive_refs(self) -> int:
        """The largest number of references that a column keeps."""
        return self._max_num_keep_alive_refs

    def Append(self, data: Sequence[Any]) -> list[WeakCellRef | None]:
        return self._append(data, is_partial=False)

    def AppendPartial(self, data: Sequence[Any]) -> list[WeakCellRef | None]:
        return self._append(data, is_partial=True)

    def CreateItem(
        self, table: str, priority: float, columns: Sequence[Sequence[WeakCellRef]], squeeze_column: Sequence[bool]
    ) -> None:
        if len(columns) != len(squeeze_column):
            raise RuntimeError("Length of py_trajectory and squeeze_column did not match.")
        made = [
            _trajectories.TrajectoryColumn(list(cells), squeeze=bool(squeeze))
            for cells, squeeze in zip(columns, squeeze_column, strict=True)
        ]
        self._writer.create_item(table, priority, made)

    def Flush(self, ignore_last_num_items: int, timeout_ms: int) -> None:
        self._writer.flush(ignore_last_num_items, None if timeout_ms < 0 else timeout_ms)

    def EndEpisode(self, clear_buffers: bool, timeout_ms: int | None) -> None:
        self._writer.end_episode(clear_buffers, timeout_ms)

    def ConfigureChunker(self, column: int, options: ChunkerOptions) -> None:
        refs = options.num_keep_alive_refs
        length = options.max_chunk_length if isinstance(options, ConstantChunkerOptions) else None
        self._writer.configure((column,), num_keep_alive_refs=refs, max_chunk_length=length)
        self._max_num_keep_alive_refs = max(self._max_num_keep_alive_refs, refs)

    def Close(self) -> None:
        self._writer.close()

    def _append(self, data: Sequence[Any], *, is_partial: bool) -> list[WeakCellRef | None]:
        self._writer.append(list(data), partial_step=is_partial)
        history = self._writer.history
        return [None if leaf is None else next(iter(history[column][-1:])) for column, leaf in enumerate(data)]


class StructuredWriter:
    """The writer below ``reverb.structured.StructuredWriter``; takes flat lists of tensors."""

    def __init__(self, writer: _structured.StructuredWriter) -> None:
        self._writer = writer

    @property
    def step_is_open(self) -> bool:
        return self._writer.step_is_open

    def Append(self, data: Sequence[Any]) -> None:
        self._writer.append(list(data))

    def AppendPartial(self, data: Sequence[Any]) -> None:
        self._writer.append(list(data), partial_step=True)

    def Flush(self, ignore_last_num_items: int, timeout_ms: int | None) -> None:
        self._writer.flush(ignore_last_num_items, timeout_ms)

    def EndEpisode(self, clear_buffers: bool, timeout_ms: int | None) -> None:
        self._writer.end_episode(clear_buffers, timeout_ms)


class Sampler:
    """Samples of a table one after the other, as lists: the item's metadata, then its columns."""

    NUM_INFO_TENSORS = _native.Sampler.NUM_INFO_TENSORS

    def __init__(self, sampler: _native.Sampler) -> None:
        self._sampler = sampler
        # The remaining time steps of the current sample.
        self._steps: list[list[Any]] = []

    def GetNextTrajectory(self) -> list[Any]:
        """Returns the columns of the next sample as they are stored."""
        info, columns = self._next()
        return [*info, *columns]

    def GetNextTimestep(self) -> tuple[list[Any], bool]:
        """Returns the next time step, and whether it is the last of its sample."""
        if not self._steps:
            info, columns = self._next()
            lengths = {np.shape(column)[:1] for column in columns}
            if len(lengths) != 1 or () in lengths:
                raise ValueError("Sampled trajectory cannot be decomposed into timesteps.")
            (length,) = lengths.pop()
            self._steps = [[*info, *(column[step, ...] for column in columns)] for step in reversed(range(length))]
        return self._steps.pop(), not self._steps

    def _next(self) -> tuple[list[Any], list[Any]]:
        try:
            with _clients._texts.telling(_clients._texts.UNKNOWN_TABLE):
                info, columns = self._sampler.next()
        except StopIteration as end:
            raise RuntimeError("`max_samples` already returned.") from end
        return [dtype(value) for dtype, value in zip(_INFO_DTYPES, info, strict=True)], columns


class Client:
    """The client below ``reverb.Client``."""

    def __init__(self, server_name: str) -> None:
        self._client = _clients.Client(server_name)

    def NewWriter(
        self, chunk_length: int, max_timesteps: int, delta_encoded: bool = False, max_in_flight_items: int = 25
    ) -> Writer:
        return Writer(self._client.writer(max_timesteps, delta_encoded, chunk_length, max_in_flight_items))

    def NewTrajectoryWriter(self, chunker_options: ChunkerOptions, validate_items: bool) -> TrajectoryWriter:
        refs = chunker_options.num_keep_alive_refs
        length = chunker_options.max_chunk_length if isinstance(chunker_options, ConstantChunkerOptions) else None
        writer = self._client.trajectory_writer(refs, validate_items=validate_items, chunk_length=length)
        return TrajectoryWriter(writer, refs)

    def NewStructuredWriter(self, configs: Sequence[bytes]) -> StructuredWriter:
        return StructuredWriter(
            self._client.structured_writer([_structured.Config.FromString(config) for config in configs])
        )

    def NewSampler(self, table: str, max_samples: int, buffer_size: int) -> Sampler:
        options = {"max_samples": max_samples, "max_in_flight_samples_per_worker": buffer_size}
        return Sampler(self._client._sampler(table, keep_rows=False, **options))

    def MutatePriorities(self, table: str, updates: Sequence[tuple[int, float]], deletes: Sequence[int]) -> None:
        self._client.mutate_priorities(table, dict(updates), list(deletes))

    def Reset(self, table: str) -> None:
        self._client.reset(table)

    def ServerInfo(self, timeout_sec: int) -> list[bytes]:
        """Returns a serialized ``TableInfo`` message for each table."""
        return [_serialized(info) for info in self._client.server_info(timeout_sec or None).values()]

    def Checkpoint(self) -> str:
        return self._client.checkpoint()


class Table:
    """The table below ``reverb.Table``."""

    def __init__(
        self,
        name: str,
        sampler: ItemSelector,
        remover: ItemSelector,
        max_size: int,
        max_times_sampled: int,
        rate_limiter: RateLimiter,
        extensions: Sequence[Any],
        signature: bytes | None,
    ) -> None:
        structure = None if signature is None else _structure_of(signature)
        self._table = _Table(
            name, sampler, remover, max_size, rate_limiter, max_times_sampled, [_Given(extensions)], structure
        )

    def name(self) -> str:
        return self._table.name

    def info(self) -> bytes:
        """Returns a serialized ``TableInfo`` message."""
        return _serialized(self._table.info)

    def can_sample(self, num_samples: int) -> bool:
        return self._table.can_sample(num_samples)

    def can_insert(self, num_inserts: int) -> bool:
        return self._table.can_insert(num_inserts)

    def __repr__(self) -> str:
        return repr(self._table)


class Server:
    """The server below ``reverb.Server``."""

    def __init__(self, priority_tables: Sequence[Table], port: int, checkpointer: Checkpointer | None = None) -> None:
        given = None if checkpointer is None else _GivenCheckpointer(checkpointer)
        self._server = _Server([table._table for table in priority_tables], operator.index(port), given)

    def Stop(self) -> None:
        self._server.stop()

    def Wait(self) -> bool:
        """Waits until the server stops; returns whether a keyboard interrupt was the reason."""
        try:
            self._server.wait()
        except KeyboardInterrupt:
            return True
        return False

    def __repr__(self) -> str:
        return repr(self._server)


class _Given(_servers.TableExtensionBase):
    """Existing extensions."""

    def __init__(self, extensions: Sequence[Any]) -> None:
        self._extensions = list(extensions)

    def build_internal_extensions(self, table_name: str) -> Sequence[Any]:
        return self._extensions


class _GivenCheckpointer(checkpointers.CheckpointerBase):
    """An existing checkpointer."""

    def __init__(self, checkpointer: Checkpointer) -> None:
        self._checkpointer = checkpointer

    def internal_checkpointer(self) -> Checkpointer:
        return self._checkpointer


def create_default_checkpointer(
    name: str, group: str = "", fallback_checkpoint_path: str | None = None
) -> Checkpointer:
    """Returns the server's options for ``reverb.checkpointers.DefaultCheckpointer``."""
    return _checkpointers.DefaultCheckpointer(name, group, fallback_checkpoint_path).internal_checkpointer()


def _structure_of(signature: bytes) -> Any:
    from relive import _protos, _structured_value

    return _structured_value.decode_signature(_protos.message(_protos.STRUCT, "StructuredValue").FromString(signature))


def _serialized(info: Any) -> bytes:
    from relive import _structured_value

    from reverb.cc import schema_pb2

    message = schema_pb2.TableInfo(
        name=info.name,
        sampler_options=info.sampler_options,
        remover_options=info.remover_options,
        max_size=info.max_size,
        max_times_sampled=info.max_times_sampled,
        rate_limiter_info=info.rate_limiter_info,
        current_size=info.current_size,
        num_episodes=info.num_episodes,
        num_deleted_episodes=info.num_deleted_episodes,
        num_unique_samples=info.num_unique_samples,
        table_worker_time=info.table_worker_time,
    )
    if info.structure is not None:
        message.signature.CopyFrom(_structured_value.encode_signature(info.structure))
    return message.SerializeToString()
