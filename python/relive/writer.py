"""dm-reverb's original writer; its items consist of the newest steps of all columns."""

from __future__ import annotations

import functools
import logging
import math
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np

from relive import _native, errors, nest

# The number of steps in a chunk, unless it is given or bounded by the sequence.
_DEFAULT_CHUNK_LENGTH = 10

# dm-reverb's value for "no bound".
_UNBOUNDED_ITEMS = 1_000_000

# The default time to wait for a server that does not respond.
_PATIENCE_S = 1.0

# The time for which a deleted writer waits for the confirmation of its items.
CLOSE_TIMEOUT_S = 5.0


class Writer:
    """Writes steps; created by :meth:`relive.Client.writer`.

    Unlike in dm-reverb, :meth:`flush` and :meth:`close` wait until the server has confirmed all items, and raise
    errors.
    """

    def __init__(
        self,
        client: _native.Client,
        *,
        max_sequence_length: int,
        delta_encoded: bool,
        chunk_length: int | None,
        max_in_flight_items: int | None,
        codec: str = "auto",
    ) -> None:
        if max_sequence_length < 1:
            raise ValueError(f"max_sequence_length ({max_sequence_length}) must be a positive integer")
        if chunk_length is None:
            chunk_length = min(_DEFAULT_CHUNK_LENGTH, max_sequence_length)
        if not 1 <= chunk_length <= max_sequence_length:
            raise ValueError(
                f"chunk_length ({chunk_length}) must be from 1 to max_sequence_length ({max_sequence_length})"
            )
        if max_in_flight_items is None:
            max_in_flight_items = _UNBOUNDED_ITEMS
        if max_in_flight_items < 1:
            raise ValueError(f"max_in_flight_items ({max_in_flight_items}) must be a positive integer")
        self._max_sequence_length = max_sequence_length
        self._chunk_length = chunk_length
        self._client = client
        self._make = functools.partial(
            client.trajectory_writer,
            max_sequence_length,
            chunk_length=chunk_length,
            max_pending_items=max_in_flight_items,
            delta_encoded=bool(delta_encoded),
            signature_per_step=True,
            codec=codec,
        )
        self._columns = _Columns(self._make())
        # Writers for earlier kinds of columns, which may have unconfirmed items.
        self._former: _Columns | None = None
        self._closed = False

    def append(self, data: Any) -> None:
        """Appends one step: a nest of tensors.

        The tensors must have the same number, types and shapes as in the previous step, unless the previous step ended
        a chunk; with ``chunk_length=1``, every step ends a chunk. Different tensors then start a new history: no item
        contains steps of both kinds.

        Raises:
          ValueError: tensors that differ from the previous ones within a chunk.
          TypeError: a leaf that is not a tensor.
          RuntimeError: the writer is closed.
        """
        self._add(data, self._leaves(data), 1)

    def append_sequence(self, sequence: Any) -> None:
        """Appends several steps: a nest of arrays with the number of steps as the common leading dimension.

        Raises:
          ValueError: a leaf without a leading dimension, or different leading dimensions; otherwise as :meth:`append`.
        """
        leaves = [np.asarray(leaf) for leaf in self._leaves(sequence)]
        if not leaves:
            raise ValueError("append_sequence requires at least one tensor")
        shapes = [leaf.shape for leaf in leaves]
        if not all(shapes):
            raise ValueError(f"every tensor of a sequence must have a leading dimension, the steps; the shapes are {shapes}")
        lengths = {shape[0] for shape in shapes}
        if len(lengths) != 1:
            raise ValueError(f"the tensors of a sequence must have the same leading dimension; the shapes are {shapes}")
        steps = lengths.pop()
        if steps > 0:
            self._add(sequence, leaves, steps, is_sequence=True)

    def create_item(self, table: str, num_timesteps: int, priority: float) -> None:
        """Creates an item from the newest ``num_timesteps`` steps.

        Raises:
          ValueError: fewer than 1 step, more steps than were appended or are retained, steps from before a change of
            tensors, a NaN priority, an unknown table, or steps that do not match the table's signature.
        """
        self._check_open()
        if num_timesteps < 1:
            raise ValueError(f"num_timesteps ({num_timesteps}) must be a positive integer")
        if num_timesteps > self._max_sequence_length:
            raise ValueError(
                f"num_timesteps ({num_timesteps}) must not exceed max_sequence_length ({self._max_sequence_length})"
            )
        steps = self._columns.steps
        if num_timesteps > steps:
            since = "" if self._former is None else " since their tensors have this type and shape"
            raise ValueError(f"num_timesteps ({num_timesteps}) exceeds the {steps} steps that were appended{since}")
        if math.isnan(priority):
            raise ValueError("the priority is NaN")
        self._columns.create_item(table, num_timesteps, priority)

    def flush(self, timeout: float | None = None) -> None:
        """Waits until all items are confirmed.

        Raises:
          DeadlineExceededError: the items are not confirmed within ``timeout`` seconds.
        """
        self._check_open()
        self._flush(0, _milliseconds(timeout))

    def close(self, retry_on_unavailable: bool = True, *, timeout: float | None = None) -> None:
        """Waits until all items are confirmed, and closes the writer.

        Args:
          retry_on_unavailable: whether to wait for a server that does not respond; if false, the call waits at most one
            second.
          timeout: the longest time to wait, in seconds.

        Raises:
          ValueError: the writer is closed.
          DeadlineExceededError: not all items are confirmed, and the unconfirmed items are lost.
        """
        if self._closed:
            raise ValueError("the writer is closed")
        self._closed = True
        try:
            if retry_on_unavailable:
                self._flush(0, _milliseconds(timeout))
            else:
                flush_while_there(self._flush, self._client, timeout)
        finally:
            self._columns.writer.close()
            if self._former is not None:
                self._former.writer.close()

    def __enter__(self) -> Writer:
        if self._closed:
            raise ValueError("the writer is closed and cannot be used again")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._closed:
            self.close()

    def __del__(self) -> None:
        if getattr(self, "_closed", True):
            return
        try:
            self.close(retry_on_unavailable=False, timeout=CLOSE_TIMEOUT_S)
        except Exception:
            # No caller could catch the exception.
            logging.getLogger("relive").warning("a writer was dropped without close(), so items were lost", exc_info=True)

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the writer is closed")

    def _leaves(self, data: Any) -> list[Any]:
        self._check_open()
        leaves = nest.flatten(data)
        if any(leaf is None for leaf in leaves):
            raise TypeError("a step has None in the place of a tensor; client.trajectory_writer() supports partial steps")
        return leaves

    def _add(self, data: Any, leaves: list[Any], steps: int, *, is_sequence: bool = False) -> None:
        try:
            return self._columns.add(data, leaves, steps, is_sequence)
        except ValueError:
            is_within_chunk = self._columns.steps % self._chunk_length > 0
            if self._columns.steps == 0 or is_within_chunk or self._columns.specs == _specs(leaves, is_sequence):
                raise
        columns = _Columns(self._make())
        columns.add(data, leaves, steps, is_sequence)
        self._finish_previous(None)
        self._former, self._columns = self._columns, columns

    def _flush(self, left: int, timeout_ms: int | None) -> None:
        until = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        self._finish_previous(timeout_ms)
        self._columns.writer.flush(left, None if until is None else _milliseconds(until - time.monotonic()))

    def _finish_previous(self, timeout_ms: int | None) -> None:
        """Waits until the items of earlier kinds of columns are confirmed."""
        if self._former is not None:
            self._former.writer.flush(0, timeout_ms)
            self._former.writer.close()
            self._former = None


class _Columns:
    """Steps with tensors of the same types and shapes."""

    def __init__(self, writer: _native.TrajectoryWriter) -> None:
        self.writer = writer
        self.steps = 0
        self.specs: list[Any] = []
        self._structure: Any = None

    def add(self, data: Any, leaves: list[Any], steps: int, is_sequence: bool) -> None:
        if self.steps > 0 and len(leaves) != len(self.specs):
            raise ValueError(
                f"a step has {len(leaves)} tensors, but the first one had {len(self.specs)}; all steps of a chunk must have the same "
                "tensors"
            )
        append = self.writer.append_sequence if is_sequence else self.writer.append
        append(leaves)
        if self.steps == 0:
            self.specs = _specs(leaves, is_sequence)
            self._structure = nest.map_structure(lambda _: 0, data)
        self.steps += steps

    def create_item(self, table: str, num_timesteps: int, priority: float) -> None:
        columns = [column[-num_timesteps:] for column in self.writer.history]
        self.writer.create_item(table, priority, nest.unflatten_as(self._structure, columns))


def _specs(leaves: list[Any], is_sequence: bool) -> list[Any]:
    """Types and shapes of a step's tensors; all text has the same type, regardless of its length."""
    arrays = [np.asarray(leaf) for leaf in leaves]
    return [("text" if array.dtype.kind in "OSU" else array.dtype, array.shape[is_sequence:]) for array in arrays]


def flush_while_there(
    flush: Callable[[int, int | None], None], client: _native.Client, timeout: float | None
) -> None:
    """Flushes as long as a server is available, for ``timeout`` seconds at most.

    Raises:
      DeadlineExceededError: not all items are confirmed.
    """
    until = math.inf if timeout is None else time.monotonic() + timeout
    while True:
        left = until - time.monotonic()
        try:
            return flush(0, _milliseconds(min(left, _PATIENCE_S)))
        except errors.DeadlineExceededError:
            if left <= _PATIENCE_S or not _is_reachable(client):
                raise


def _is_reachable(client: _native.Client) -> bool:
    try:
        client.server_info(_PATIENCE_S)
    except errors.ReverbError:
        return False
    return True


def _milliseconds(timeout: float | None) -> int | None:
    return None if timeout is None else max(1, round(timeout * 1000))
