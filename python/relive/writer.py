"""dm-reverb's original writer; its items consist of the newest steps of all columns."""

from __future__ import annotations

import atexit
import functools
import logging
import math
import os
import re
import time
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from relive import _native, errors, nest
from relive._numbers import count, milliseconds, string, whole

# The number of steps in a chunk, unless it is given or bounded by the sequence.
_DEFAULT_CHUNK_LENGTH = 10

# dm-reverb's value for "no bound".
_UNBOUNDED_ITEMS = 1_000_000

# The default time to wait for a server that does not respond.
_PATIENCE_S = 1.0

# The time for which a deleted writer, or all writers together at the end of the process, wait for the confirmation of
# their items.
CLOSE_TIMEOUT_S = 5.0

# The type and shape of each tensor of a step.
_Specs = tuple[tuple["np.dtype[Any]", tuple[int, ...]], ...]

# How errors for a leaf of a step begin if the leaves are in a list.
_NUMBERED = re.compile(r"at \((\d+),\): ")

# What a list of numbers begins with.
_JOINED = (bool, int, float, list)

_Refused = TypeVar("_Refused", TypeError, ValueError, Exception)

# The type of all text.
_TEXT = np.dtype(object)

# The writers that exist in this process.
_open: weakref.WeakSet[Writer] = weakref.WeakSet()


class Writer:
    """Writes steps; created by :meth:`relive.Client.writer`.

    Unlike in dm-reverb, :meth:`flush` and :meth:`close` wait until the server has confirmed all items, and raise
    errors. Lists of Python numbers are interpreted as in :class:`relive.TrajectoryWriter`.
    """

    # Whether lists of numbers in steps are arrays. In dm-reverb, they are nests.
    _joins_lists = True

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
        if whole("max_sequence_length", max_sequence_length) < 1:
            raise ValueError(f"max_sequence_length ({max_sequence_length}) must be a positive integer")
        if chunk_length is None:
            chunk_length = min(_DEFAULT_CHUNK_LENGTH, max_sequence_length)
        count("max_sequence_length", max_sequence_length, 1, bits=32)
        if not 1 <= whole("chunk_length", chunk_length) <= max_sequence_length:
            raise ValueError(
                f"chunk_length ({chunk_length}) must be from 1 to max_sequence_length ({max_sequence_length})"
            )
        if max_in_flight_items is None:
            max_in_flight_items = _UNBOUNDED_ITEMS
        if whole("max_in_flight_items", max_in_flight_items) < 1:
            raise ValueError(f"max_in_flight_items ({max_in_flight_items}) must be a positive integer")
        count("max_in_flight_items", max_in_flight_items, 1)
        string("codec", codec)
        self._max_sequence_length = max_sequence_length
        self._chunk_length = chunk_length
        self._client = client
        self._max_in_flight_items = max_in_flight_items
        self._writer = client.trajectory_writer(
            max_sequence_length,
            chunk_length=chunk_length,
            max_pending_items=max_in_flight_items,
            delta_encoded=bool(delta_encoded),
            signature_per_step=True,
            codec=codec,
        )
        # The tensors of the newest step, and a step with numbers in the places of its tensors.
        self._specs: _Specs | None = None
        self._structure: Any = None
        # The outline of that step if lists in its steps may be arrays.
        self._outline: Any = None
        self._history: list[Any] = []
        # The number of steps since the tensors last changed.
        self._steps = 0
        self._has_changed = False
        # The numbers of steps in the open chunk, and of items that wait for this chunk.
        self._open_steps = 0
        self._waiting_items = 0
        self._process = os.getpid()
        self._closed = False
        _close_at_exit()
        _open.add(self)

    def append(self, data: Any) -> None:
        """Appends one step: a nest of tensors.

        The tensors must have the same number, types and shapes as in the previous step, unless the previous step ended
        a chunk; with ``chunk_length=1``, every step ends a chunk, and so does :meth:`flush` if an item waits for the
        chunk. Different tensors then start a new history: no item contains steps of both kinds.

        Raises:
          ValueError: tensors that differ from the previous ones within a chunk.
          TypeError: a leaf that is not a tensor; the error names its path.
          RuntimeError: the writer is closed.
        """
        self._add(*self._leaves(data), 1)

    def append_sequence(self, sequence: Any) -> None:
        """Appends several steps: a nest of arrays with the number of steps as the common leading dimension.

        Raises:
          ValueError: a leaf without a leading dimension, or different leading dimensions; otherwise as :meth:`append`.
        """
        structure, leaves = self._leaves(sequence)
        leaves = _arrays(structure, leaves)
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
            self._add(structure, leaves, steps, is_sequence=True)

    def create_item(self, table: str, num_timesteps: int, priority: float) -> None:
        """Creates an item from the newest ``num_timesteps`` steps.

        Raises:
          ValueError: fewer than 1 step, more steps than were appended or are retained, steps from before a change of
            tensors, a NaN priority, an unknown table, or steps that do not match the table's signature.
        """
        self._check_open()
        if whole("num_timesteps", num_timesteps) < 1:
            raise ValueError(f"num_timesteps ({num_timesteps}) must be a positive integer")
        if num_timesteps > self._max_sequence_length:
            raise ValueError(
                f"num_timesteps ({num_timesteps}) must not exceed max_sequence_length ({self._max_sequence_length})"
            )
        if num_timesteps > self._steps:
            since = " since their tensors have this type and shape" if self._has_changed else ""
            raise ValueError(f"num_timesteps ({num_timesteps}) exceeds the {self._steps} steps that were appended{since}")
        try:
            is_nan = math.isnan(priority)
        except TypeError as error:
            raise TypeError(f"priority: {error}") from None
        if is_nan:
            raise ValueError("the priority is NaN")
        self._make_room()
        newest = [column[-num_timesteps:] for column in self._history]
        self._writer.create_item(table, priority, nest.unflatten_as(self._structure, newest))
        if self._open_steps > 0:
            self._waiting_items += 1

    def flush(self, timeout: float | None = None) -> None:
        """Waits until all items are confirmed.

        Raises:
          ValueError: ``timeout`` is negative or NaN.
          DeadlineExceededError: the items are not confirmed within ``timeout`` seconds.
        """
        self._check_open()
        self._flush(0, milliseconds(timeout))

    def close(self, retry_on_unavailable: bool = True, *, timeout: float | None = None) -> None:
        """Waits until all items are confirmed, and closes the writer.

        Args:
          retry_on_unavailable: whether to wait for a server that does not respond; if false, the call waits at most one
            second.
          timeout: the longest time to wait, in seconds.

        Raises:
          ValueError: the writer is closed, or ``timeout`` is negative or NaN.
          DeadlineExceededError: not all items are confirmed, and the unconfirmed items are lost.
        """
        if self._closed:
            raise ValueError("the writer is closed")
        # An invalid timeout must not close the writer.
        timeout_ms = milliseconds(timeout)
        self._closed = True
        try:
            if retry_on_unavailable:
                self._flush(0, timeout_ms)
            else:
                flush_while_there(self._flush, self._client, timeout)
        finally:
            self._writer.close()

    def __enter__(self) -> Writer:
        if self._closed:
            raise ValueError("the writer is closed and cannot be used again")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._closed:
            self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(errors._NOT_COPIED)

    def __del__(self) -> None:
        self._close_unattended(CLOSE_TIMEOUT_S)

    def _close_unattended(self, timeout: float) -> None:
        """Closes the writer, unless it is closed, where no caller could catch an exception."""
        # In a forked process, the writer belongs to the parent process.
        if getattr(self, "_closed", True) or os.getpid() != self._process:
            return
        try:
            self.close(retry_on_unavailable=False, timeout=timeout)
        except Exception:
            logging.getLogger("relive").warning("a writer was dropped without close(), so items were lost", exc_info=True)

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the writer is closed")

    def _leaves(self, data: Any) -> tuple[Any, list[Any]]:
        """Returns a structure with the leaves of a step in their places, and the leaves."""
        self._check_open()
        structure = data
        if self._joins_lists:
            leaves, lists = nest.flatten_with_lists(data)
            if any(not part or type(part[0]) in _JOINED for part in lists):
                structure, leaves = self._with_lists_joined(data)
        else:
            leaves = nest.flatten(data)
        if any(leaf is None for leaf in leaves):
            raise TypeError("a step has None in the place of a tensor; client.trajectory_writer() supports partial steps")
        return structure, leaves

    def _with_lists_joined(self, data: Any) -> tuple[Any, list[Any]]:
        if self._outline is not None:
            # A list that was a nest in the previous step stays one.
            leaves = nest.flatten_outlined(self._outline, data, joined_list)
            if leaves is not None:
                return self._structure, leaves
        joined = _native.with_lists_joined(data)
        return joined, nest.flatten(joined)

    def _add(self, structure: Any, leaves: list[Any], steps: int, *, is_sequence: bool = False) -> None:
        if self._specs is None:
            self._change_tensors(structure, leaves, is_sequence)
        else:
            try:
                self._append(structure, leaves, is_sequence)
            except ValueError as error:
                specs = _specs(leaves, is_sequence)
                if specs == self._specs:
                    raise
                if self._open_steps > 0:
                    raise ValueError(_difference(self._specs, specs)) from error
                self._change_tensors(structure, leaves, is_sequence)
        self._steps += steps
        self._open_steps += steps
        if self._open_steps >= self._chunk_length:
            self._waiting_items = 0
            self._open_steps %= self._chunk_length

    def _append(self, structure: Any, leaves: list[Any], is_sequence: bool) -> None:
        if self._specs is not None and len(leaves) != len(self._specs):
            raise ValueError(f"a step must have {len(self._specs)} tensors, got {len(leaves)}")
        append = self._writer.append_sequence if is_sequence else self._writer.append
        try:
            append(leaves)
        except (TypeError, ValueError) as error:
            raise with_path(error, nest.outlined_paths(nest.outline(structure))) from error.__cause__

    def _change_tensors(self, structure: Any, leaves: list[Any], is_sequence: bool) -> None:
        """Appends steps whose tensors differ from those of the previous step."""
        if self._specs is not None:
            self._writer.forget_columns()
            self._has_changed = True
        structure = nest.map_structure(lambda _: 0, structure)
        self._specs, self._structure, self._outline, self._steps = None, structure, None, 0
        self._append(structure, leaves, is_sequence)
        self._specs = _specs(leaves, is_sequence)
        if self._joins_lists:
            self._outline = nest.outline(structure)
        self._history = self._writer.history

    def _make_room(self) -> None:
        """Waits until an item may be created, if other items wait for the open chunk.

        The internal writer also waits, but it would cut that chunk, depending on when confirmations arrive.
        """
        if self._waiting_items > 0 and self._writer.pending_items >= self._max_in_flight_items:
            self._flush(self._max_in_flight_items - 1, None)

    def _flush(self, left: int, timeout_ms: int | None) -> None:
        """Waits until at most ``left`` items are unconfirmed. This cuts the open chunk if one of the other items needs
        it."""
        if self._waiting_items > left:
            self._open_steps = self._waiting_items = 0
        self._writer.flush(left, timeout_ms)


@functools.cache
def _close_at_exit() -> None:
    """Makes sure that the writers that are still open when the process ends send their items. Functions that are
    registered later run earlier, so this one precedes the one that drops the native writers."""
    atexit.register(_close_open)


def _close_open() -> None:
    until = time.monotonic() + CLOSE_TIMEOUT_S
    for writer in list(_open):
        writer._close_unattended(max(0.0, until - time.monotonic()))


def joined_list(container: Any) -> Any:
    """Returns a list of numbers as an array, and ``None`` for any other container."""
    if type(container) is not list:
        return None
    (joined,) = _native.with_lists_joined([container])
    return joined if isinstance(joined, np.ndarray) else None


def with_path(error: _Refused, paths: list[nest.Path]) -> _Refused:
    """Returns the error for one of the leaves of a step, with its path in the place of its number."""
    found = _NUMBERED.match(str(error))
    return error if found is None else type(error)(f"at {paths[int(found[1])]}: {str(error)[found.end():]}")


def _arrays(structure: Any, leaves: list[Any]) -> list[npt.NDArray[Any]]:
    """Returns the leaves of a structure as arrays."""
    arrays = []
    for number, leaf in enumerate(leaves):
        try:
            arrays.append(_native.as_array(leaf))
        except TypeError as error:
            raise TypeError(f"at {nest.flatten_with_path(structure)[number][0]}: {error}") from error.__cause__
    return arrays


def _specs(leaves: list[Any], is_sequence: bool) -> _Specs:
    """Types and shapes of a step's tensors; all text has the same type, regardless of its length."""
    arrays = [_native.as_array(leaf) for leaf in leaves]
    return tuple((_TEXT if array.dtype.kind in "OSU" else array.dtype, array.shape[is_sequence:]) for array in arrays)


def _difference(expected: _Specs, got: _Specs) -> str:
    """Describes why steps cannot be in the same chunk."""
    if len(expected) != len(got):
        return (
            f"a step has {len(got)} tensors, but the first one had {len(expected)}; all steps of a chunk must have the same "
            "tensors"
        )
    index, old, new = next((index, old, new) for index, (old, new) in enumerate(zip(expected, got)) if old != new)
    return (
        f"tensor {index} of the step has dtype {new[0]} and shape {new[1]}, but the first one of the chunk had dtype "
        f"{old[0]} and shape {old[1]}; all steps of a chunk must have the same tensors"
    )


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
            return flush(0, milliseconds(max(0.0, min(left, _PATIENCE_S))))
        except errors.DeadlineExceededError:
            if left <= _PATIENCE_S or not _is_reachable(client):
                raise


def _is_reachable(client: _native.Client) -> bool:
    try:
        client.server_info(_PATIENCE_S)
    except errors.ReverbError:
        return False
    return True
