"""The client and the writer for whole steps."""

import functools
import sys
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from relive import client as _relive
from relive import errors as _errors
from relive import nest as _nest
from relive import writer as _writers

from reverb import _borrowed, _texts
from reverb.structured_writer import StructuredWriter
from reverb.trajectory_writer import TrajectoryWriter

if TYPE_CHECKING:
    from reverb import pybind

_CLOSED = "the writer is closed"


class Writer(_writers.Writer):
    __doc__ = _writers.Writer.__doc__

    _joins_lists = False

    # The client for querying the signatures in texts.
    _signatures: "Client | None" = None
    # The newest step or sequence, for the texts.
    _tensors: Sequence[Any] = ()

    def __enter__(self) -> "Writer":
        if self._closed:
            raise ValueError("Cannot reuse already closed Writer")
        return self

    def append(self, data: Any) -> None:
        self._check_calling("Append")
        try:
            super().append(data)
        except TypeError as error:
            told = _texts.retold(error, [_texts.arguments_of("Append")])
            raise told from _texts.cause(told, error)
        except ValueError as error:
            told = self._append_error(error, _nest.flatten(data))
            raise told from _texts.cause(told, error)
        self._tensors = _nest.flatten(data)

    def append_sequence(self, sequence: Any) -> None:
        self._check_calling("Append")
        tensors = [np.asarray(leaf) for leaf in _nest.flatten(sequence)]
        _check_sequence(tensors)
        try:
            super().append_sequence(sequence)
        except ValueError as error:
            told = self._append_error(error, [tensor[0] for tensor in tensors if len(tensor)])
            raise told from _texts.cause(told, error)
        if len(tensors[0]):
            self._tensors = [tensor[-1] for tensor in tensors]

    def create_item(self, table: str, num_timesteps: int, priority: float) -> None:
        self._check_calling("CreateItem")
        table = _texts.name(table)
        try:
            super().create_item(table, num_timesteps, priority)
        except _errors.NotFoundError as error:
            raise _texts.said_first(error, self._unknown_table(table)) from error
        except TypeError as error:
            told = _texts.retold(error, [_texts.arguments_of("CreateItem")])
            raise told from _texts.cause(told, error)
        except ValueError as error:
            if self._max_sequence_length < num_timesteps <= self._num_buffered():
                raise _texts.said_first(error, "`num_timesteps` must be <= `max_timesteps`") from error
            told = self._of_signature(error, table) or _texts.retold(error, _CREATE_ITEM)
            raise told from _texts.cause(told, error)

    def _num_buffered(self) -> int:
        """Returns the number of steps that dm-reverb's writer would hold: in the chunks of the longest item, and after
        them."""
        chunks, rest = divmod(self._steps, self._chunk_length)
        most = -(-self._max_sequence_length // self._chunk_length)
        return min(chunks, most) * self._chunk_length + rest

    @_texts.tells(_texts.UNKNOWN_TABLE, *_texts.PRIORITIES)
    def flush(self, timeout: float | None = None) -> None:
        self._check_calling("Flush")
        super().flush(timeout)

    @_texts.tells(_texts.UNKNOWN_TABLE, *_texts.PRIORITIES)
    def close(self, retry_on_unavailable: bool = True, *, timeout: float | None = None) -> None:
        if self._closed:
            raise ValueError("close() has already been called on Writer.")
        super().close(retry_on_unavailable, timeout=timeout)

    def _check_calling(self, method: str) -> None:
        if self._closed:
            raise RuntimeError(f"Calling method {method} after Close has been called")

    def _append_error(self, error: ValueError, tensors: Sequence[Any]) -> Exception:
        before = self._tensors
        if len(before) != len(tensors):
            return _texts.said_first(
                error,
                f"Number of tensors per timestep was inconsistent. Previously it was {len(before)}, but is now {len(tensors)}.",
            )
        for index, (old, new) in enumerate(zip(map(np.asarray, before), map(np.asarray, tensors), strict=True)):
            if _texts.dtype_text(old.dtype) != _texts.dtype_text(new.dtype):
                got = f"{_texts.dtype_text(old.dtype)} and {_texts.dtype_text(new.dtype)}"
                return _texts.said_first(
                    error, f"Cannot concatenate tensors that have different data types. Got {got}."
                )
            if old.shape != new.shape:
                return _texts.said_first(
                    error,
                    f"Unable to concatenate tensors at index {index} due to mismatched shapes.  Tensor 0 has shape: "
                    f"{_texts.shape_text(old.shape)}, but tensor 1 has shape: {_texts.shape_text(new.shape)}",
                )
        return error

    def _unknown_table(self, table: str) -> str:
        known = sorted(_texts.known_tables(self._signatures)) if self._signatures else []
        return (
            f"Unable to find signatures for table '{table}' in signature cache.  "
            f"Available tables: [{', '.join(repr(name) for name in known)}]."
        )

    def _of_signature(self, error: ValueError, table: str) -> Exception | None:
        """Returns the error for steps that do not match the table's signature; ``None`` if the error has another
        reason."""
        if "signature" not in str(error) or self._signatures is None:
            return None
        info = _texts.known_tables(self._signatures).get(table)
        if info is None or info.structure is None:
            return None
        wanted = _texts.signature_tensors(info.structure)
        arrays = [np.asarray(leaf) for leaf in self._tensors]
        table_list, data_list = _texts.listed(wanted), _texts.listed([("", one.dtype, one.shape) for one in arrays])
        words = f"Unable to CreateItem in table '{table}' because Append was called with a tensor signature inconsistent with "
        if len(wanted) != len(arrays):
            words += (
                f"table signature.  Append for timestep offset 0 was called with {len(arrays)} tensors, but table requires "
                f"{len(wanted)} tensors per entry.  Table signature: {table_list}, data signature: {data_list}."
            )
            return _texts.said_first(error, words)
        for index, (want, array) in enumerate(zip(wanted, arrays, strict=True)):
            if _texts.fits(want, array.dtype, array.shape):
                continue
            # dm-reverb also compares a signature of whole items with its steps, and accepts steps that match after the
            # first dimension.
            if want[2] is not None and _texts.fits(want, array.dtype, (want[2][0] if want[2] else 0, *array.shape)):
                continue
            words += (
                f"the table signature. At timestep offset 0, flattened index {index}, saw a tensor of dtype "
                f"{_texts.dtype_text(array.dtype)}, shape {_texts.shape_text(array.shape)}, but expected tensor '{want[0]}' "
                f"of dtype {_texts.dtype_text(want[1])} and shape compatible with {_texts.shape_text(want[2])}.  "
                f"(Flattened) table signature: {table_list}, data signature: {data_list}."
            )
            return _texts.said_first(error, words)
        return None


_CREATE_ITEM = (
    *_texts.PRIORITIES,
    _texts.rule(
        r"num_timesteps \(\d+\) (?:exceeds|must not exceed)",
        "Argument `num_timesteps` is larger than number of buffered timesteps.",
    ),
)


def _is_number(priority: Any) -> bool:
    return hasattr(priority, "__float__")


def _check_sequence(tensors: Sequence[Any]) -> None:
    if not tensors:
        raise ValueError("AppendSequence called with empty data.")
    for index, tensor in enumerate(tensors):
        if tensor.ndim == 0:
            raise ValueError(
                f"AppendSequence called with scalar tensor at index {index}. Its first dimension must be the steps"
            )
    if len({len(tensor) for tensor in tensors}) > 1:
        listed = _texts.listed([("", tensor.dtype, tensor.shape) for tensor in tensors])
        raise ValueError(f"AppendSequence called with tensors of non equal batch dimension: {listed}.")


class _NoColumnsError(_errors.InvalidArgumentError, RuntimeError):
    """Data without a tensor: dm-reverb notices it only when the server does not confirm the item."""


class Client(_relive.Client):
    __doc__ = _relive.Client.__doc__

    # Selects dm-reverb's behavior where Relive's differs.
    _as_reverb = True

    @functools.wraps(_relive.Client.__init__)
    def __init__(self, server_address: str | bytes, **options: Any) -> None:
        super().__init__(_texts.name(server_address), **options)

    @property
    def _client(self) -> "pybind.Client":
        from reverb import pybind

        return pybind._below(pybind.Client, _client=self)

    @_texts.tells(*_texts.PRIORITIES)
    def insert(self, data: Any, priorities: Mapping[str, float], *, timeout: float | None = None) -> None:
        if not priorities:
            raise ValueError("priorities must contain at least one item")
        if isinstance(priorities, Mapping):
            priorities = {_texts.name(table): priority for table, priority in priorities.items()}
        is_replaced = getattr(self.writer, "__func__", None) is not _WRITER
        if is_replaced and timeout is None and isinstance(priorities, Mapping):
            self._insert_with_writer(data, priorities)
            return
        try:
            super().insert(data, priorities, timeout=timeout)
        except TypeError as error:
            call = (
                "Append"
                if isinstance(priorities, Mapping) and all(map(_is_number, priorities.values()))
                else "CreateItem"
            )
            told = _texts.retold(error, [_texts.arguments_of(call)])
            raise told from _texts.cause(told, error)
        except _errors.NotFoundError as error:
            writer = self._words_for(data)
            missing = next(iter(sorted(set(priorities) - set(_texts.known_tables(self)))), "")
            raise _texts.said_first(error, writer._unknown_table(missing)) from error
        except ValueError as error:
            if "has no columns" in str(error):
                words = f"Error when confirming that all items written to table. ({error})"
                raise _NoColumnsError(words) from error
            writer = self._words_for(data)
            refusals = (writer._of_signature(error, table) for table in priorities)
            told = next(filter(None, refusals), error)
            raise told from _texts.cause(told, error)

    def _insert_with_writer(self, data: Any, priorities: Mapping[str, float]) -> None:
        """Inserts with the writer that a derived class or a test supplies."""
        with self.writer(max_sequence_length=1) as writer:
            writer.append(data)
            for table, priority in priorities.items():
                writer.create_item(table=table, num_timesteps=1, priority=priority)

    def _words_for(self, data: Any) -> Writer:
        """Returns a writer that creates the error texts of ``insert``, which are a writer's."""
        writer = Writer.__new__(Writer)
        writer._closed = True
        writer._signatures, writer._tensors = self, _nest.flatten(data)
        return writer

    def writer(
        self,
        max_sequence_length: int,
        delta_encoded: bool = False,
        chunk_length: int | None = None,
        max_in_flight_items: int | None = 25,
        *,
        codec: str = "auto",
    ) -> Writer:
        if chunk_length is not None and max_sequence_length >= 1 and not 1 <= chunk_length <= max_sequence_length:
            raise ValueError(
                f"chunk_length ({chunk_length}) must be a positive integer le to max_sequence_length ({max_sequence_length})"
            )
        writer = Writer(
            self._native,
            max_sequence_length=max_sequence_length,
            delta_encoded=delta_encoded,
            chunk_length=chunk_length,
            max_in_flight_items=max_in_flight_items,
            codec=codec,
        )
        writer._signatures = self
        return writer

    @functools.wraps(_relive.Client.trajectory_writer)
    def trajectory_writer(self, num_keep_alive_refs: int, **options: Any) -> TrajectoryWriter:
        for limit in ("max_pending_items", "max_pending_bytes"):
            # As in dm-reverb, `create_item` does not wait for the server unless the program sets a limit.
            if options.get(limit) is None:
                options[limit] = sys.maxsize
        made: Any = super().trajectory_writer(num_keep_alive_refs, **options)
        writer: Any = TrajectoryWriter(made._writer)
        writer._client = self
        return writer  # type: ignore[no-any-return]

    def structured_writer(self, configs: Sequence[Any], *, codec: str = "auto") -> StructuredWriter:
        return StructuredWriter.from_configs(self._native, configs, codec=codec)

    def sample(
        self,
        table: str,
        num_samples: int = 1,
        *,
        emit_timesteps: bool = True,
        unpack_as_table_signature: bool = False,
        timeout: float | None = None,
    ) -> Generator[Any, None, None]:
        table, num_samples = _texts.name(table), _texts.number(num_samples)
        if num_samples == -1:
            # The value for no limit in dm-reverb's sampler; its client counts up to the value and yields nothing.
            return
        if num_samples < 1:
            raise ValueError(f"max_samples ({num_samples}) must be -1 or >= 1: num_samples is the number of items")
        with _texts.telling(*_SAMPLE):
            # Without a signature, the columns are returned as a list, even if Relive has their names.
            unpack = unpack_as_table_signature and self._is_signed(table, timeout)
            yield from super().sample(
                table, num_samples, emit_timesteps=emit_timesteps, unpack_as_table_signature=unpack, timeout=timeout
            )

    def _is_signed(self, table: str, timeout: float | None) -> bool:
        known = self._structures.get(table)
        if known is not None and known.is_promised:
            return True
        tables = self.server_info(timeout)
        if table not in tables:
            raise ValueError(
                f'Could not find table "{table}". The following tables exists: {", ".join(sorted(tables))}.'
            )
        return bool(tables[table].signature)

    @_texts.tells(_texts.UNKNOWN_TABLE, *_texts.PRIORITIES, _texts.arguments_of("MutatePriorities"))
    def mutate_priorities(self, table: str, *arguments: Any, **named: Any) -> None:
        super().mutate_priorities(_texts.name(table), *arguments, **named)

    @_texts.tells(_texts.UNKNOWN_TABLE, *_texts.PRIORITIES)
    def update_priorities(self, table: str, *arguments: Any, **named: Any) -> None:
        super().update_priorities(_texts.name(table), *arguments, **named)

    @_texts.tells(_texts.UNKNOWN_TABLE)
    def reset(self, table: str, *, timeout: float | None = None) -> None:
        super().reset(_texts.name(table), timeout=timeout)

    @_texts.tells(_texts.rule("checkpoints do not support groups", "Setting non-empty group is not supported"))
    def checkpoint(self, *, timeout: float | None = None) -> str:
        return super().checkpoint(timeout=timeout)

    def server_info(self, timeout: float | None = None) -> dict[str, Any]:
        try:
            return super().server_info(timeout)
        except TypeError as error:
            raise _texts.said_first(error, "ServerInfo(): incompatible function arguments.") from error
        except _errors.DeadlineExceededError as error:
            words = f"ServerInfo call did not complete within provided timeout of {timeout}s"
            raise _texts.said_first(error, words) from error


_WRITER = Client.writer

_SAMPLE = (
    _texts.UNKNOWN_TABLE,
    _texts.rule("the item cannot be split into timesteps", "Can't split non timestep trajectory into timesteps."),
)


__getattr__, __dir__ = _borrowed.lend(
    globals(),
    "Any Dict Generator List Optional Sequence Union",
    errors="reverb.errors",
    logging="absl.logging",
    np="numpy",
    pybind="reverb.pybind",
    replay_sample="reverb.replay_sample",
    reverb_types="reverb.reverb_types",
    structured_writer_lib="reverb.structured_writer",
    trajectory_writer_lib="reverb.trajectory_writer",
    tree="tree",
)
