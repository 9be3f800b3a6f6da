"""Writes steps, and items that refer to any of the retained steps."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from relive import _native, errors
from relive._native import TrajectoryColumn

__all__ = ["TrajectoryColumn", "TrajectoryWriter"]


class TrajectoryWriter:
    """Appends steps and creates items; created by ``Client.trajectory_writer``.

    A step is a nest of tensors. Within a step, a list of Python numbers, or of such lists of equal length, is
    interpreted as one array; any other list is a nest, as is a tuple. A step can omit parts that other steps have: a
    mapping can lack a key, a sequence can be shorter, or a value can be ``None``. The columns of missing parts then
    contain ``None``. ``history`` is the union of all parts so far.

    Only one thread at a time may use a writer. As a context manager, it flushes on exit, unless the ``with`` block ends
    because of Ctrl-C or a ``ReverbError`` other than a rejected argument (``ValueError``).

    >>> import relive
    >>> server = relive.Server([relive.Table.queue("pairs", 100)], listen=False)
    >>> client = server.localhost_client()
    >>> with client.trajectory_writer(num_keep_alive_refs=2) as writer:
    ...     for step in range(3):
    ...         writer.append({"observation": step})
    ...         if writer.episode_steps >= 2:
    ...             _ = writer.create_item("pairs", 1.0, {"pair": writer.history["observation"][-2:]})
    >>> [int(step.data[0]) for step in next(client.sample("pairs"))]
    [0, 1]
    >>> server.stop()
    """

    # Whether :meth:`close` raises if items are lost.
    _reports_loss = False

    def __init__(self, internal_writer: _native.TrajectoryWriter) -> None:
        if not isinstance(internal_writer, _native.TrajectoryWriter):
            raise TypeError(
                f"use Client.trajectory_writer to create a trajectory writer; it cannot be created from {type(internal_writer).__name__}. "
                "reverb.TrajectoryWriter of the package relive-as-reverb also accepts a stand-in for the compiled writer"
            )
        self._writer = internal_writer
        # Attributes of the object take precedence over the methods of its class, and have the same signatures. Methods
        # that a derived class or a test replaced stay in place.
        kind = type(self)
        vars(self).update(
            {name: getattr(internal_writer, name) for name, method in _FREQUENT.items() if getattr(kind, name) is method}
        )

    @property
    def history(self) -> Any:
        """The columns of the steps since the history was last cleared, in the structure of the steps.

        A column is indexed like a list: ``column[-1]`` is the newest step without a leading dimension; ``column[-3:]``
        and ``column[[-4, -1]]`` are several steps with a leading dimension. Only the newest ``num_keep_alive_refs``
        steps are kept; an index of other steps, or of steps without data, raises ``ValueError``.

        Raises ``RuntimeError`` before the first append.
        """
        return self._writer.history

    @property
    def episode_steps(self) -> int:
        """The number of complete steps in the episode."""
        return self._writer.episode_steps

    @property
    def step_is_open(self) -> bool:
        """Whether the newest step is partial."""
        return self._writer.step_is_open

    @property
    def pending_items(self) -> int:
        """The number of items that the server has not confirmed yet."""
        return self._writer.pending_items

    def append(self, data: Any, *, partial_step: bool = False) -> None:
        """Appends a step, or with ``partial_step`` a part of a step, which the next call continues.

        The first value of a column determines its data type. A Python ``int`` or ``bool`` is converted if that type is
        a float, or an integer that can represent it.

        Raises:
          ValueError: a leaf with a different data type or shape than before, or that the open step already has; the
            error names its path. Nothing is stored in this case.
          TypeError: a leaf that is not a tensor (the error names its path), or a part whose kind (mapping, sequence or
            leaf) differs from that in an earlier step.
          RuntimeError: the writer is closed, or has failed.
        """
        self._writer.append(data, partial_step=partial_step)

    def append_sequence(self, data: Any) -> None:
        """Appends several steps; the leading dimension of all leaves of ``data`` is the number of steps.

        Raises:
          ValueError: leaves without a leading dimension, or with different leading dimensions; otherwise as ``append``.
        """
        self._writer.append_sequence(data)

    def create_item(self, table: str, priority: float, trajectory: Any) -> int:
        """Creates an item from a nest of columns of ``history``, and returns its key.

        The item is sent in the background.

        Raises:
          TypeError: a leaf of ``trajectory`` that is not a ``TrajectoryColumn``.
          ValueError: no columns or an empty column, a NaN priority, steps of different data types or shapes in a
            column, an unknown table, a trajectory that does not match the table's signature, or column names that
            differ from the table's. The table's names come from its signature or, without a signature, from its first
            item.
          RuntimeError: the writer is closed, or the server rejected an item.
        """
        return self._writer.create_item(table, priority, trajectory)

    def append_item(self, table: str, priority: float, data: Any) -> int:
        """Appends a step, creates an item from it without a leading dimension, and returns its key.

        This combines ``append`` and ``create_item``, for programs in which each step is an item, such as a transition.
        The appended step stays in the history even if creating the item fails.

        Raises:
          The same exceptions as ``append`` and ``create_item``.
        """
        return self._writer.append_item(table, priority, data)

    def create_items(
        self, table: str, priorities: npt.ArrayLike, trajectories: Iterable[Any]
    ) -> npt.NDArray[np.uint64]:
        """Creates an item from each trajectory with its priority, or one priority for all, and returns the keys;
        otherwise like ``create_item``.

        Raises ``ValueError`` if the numbers of priorities and trajectories differ.
        """
        return self._writer.create_items(table, priorities, trajectories)

    def create_window_items(
        self,
        table: str,
        priorities: npt.ArrayLike,
        ends: Sequence[int] | npt.NDArray[np.integer[Any]],
        *,
        length: int = 1,
        squeeze: bool = False,
    ) -> npt.NDArray[np.uint64]:
        """Creates an item from all columns for each of the steps ``ends``, and returns the keys.

        Args:
          table: the table.
          priorities: one priority for each end, or one number for all.
          ends: the last steps of the items, counted from the newest, which is -1.
          length: the number of steps in an item.
          squeeze: whether items of one step have no leading dimension.

        Raises:
          ValueError: the same as for ``create_item``; or ``squeeze`` with a ``length`` other than 1.
          TypeError: ``ends`` are not whole numbers.
        """
        return self._writer.create_window_items(table, priorities, ends, length=length, squeeze=squeeze)

    def flush(self, block_until_num_items: int = 0, timeout_ms: int | None = None) -> None:
        """Waits until at most ``block_until_num_items`` items are unconfirmed.

        Args:
          block_until_num_items: the number of items that may remain unconfirmed.
          timeout_ms: the longest time to wait, in milliseconds; with ``None``, 0 or a negative number, there is no
            limit.

        Raises:
          ValueError: ``block_until_num_items`` is negative.
          DeadlineExceededError: more items are unconfirmed after ``timeout_ms``.
          RuntimeError: the server rejected an item.
        """
        self._writer.flush(block_until_num_items, timeout_ms)

    def end_episode(self, clear_buffers: bool = True, timeout_ms: int | None = None) -> None:
        """Flushes and starts a new episode.

        Args:
          clear_buffers: whether to clear the history.
          timeout_ms: the longest time to wait, in milliseconds; 0 does not wait, and with ``None`` or a negative
            number, there is no limit.

        Raises:
          DeadlineExceededError: not all items are confirmed after ``timeout_ms``; the episode continues.
          RuntimeError: the server rejected an item.
        """
        self._writer.end_episode(bool(clear_buffers), timeout_ms)

    def forget_columns(self) -> None:
        """Forgets all columns, so that the next step may have any structure, data types and shapes.

        The episode continues. Existing items keep their steps. ``history`` starts over.

        Raises:
          FailedPreconditionError: a step is open.
        """
        self._writer.forget_columns()

    def configure(
        self, path: tuple[int | str, ...], *, num_keep_alive_refs: int, max_chunk_length: int | None
    ) -> None:
        """Sets how a column is retained and stored, with immediate effect or from the column's first appearance.

        Args:
          path: the path of the column in a step.
          num_keep_alive_refs: the number of steps that items can refer to, at least 1.
          max_chunk_length: the number of steps that are stored together, from 1 to ``num_keep_alive_refs``; ``None``
            adapts it to the items.

        Raises:
          ValueError: a number is out of range.
          RuntimeError: the column contains steps that are not stored yet.
        """
        self._writer.configure(path, num_keep_alive_refs=num_keep_alive_refs, max_chunk_length=max_chunk_length)

    def close(self) -> None:
        """Closes the writer without waiting; unconfirmed items are dropped. A second close does nothing.

        Raises:
          UnavailableError: items are unconfirmed and their server does not respond; the message lists their number per
            table.
          FailedPreconditionError: items are unconfirmed for another reason, such as a rate limiter; :meth:`flush` waits
            for them. There is only a warning in the log, and no error, while another error is being raised or handled;
            for writers of ``reverb.Client``, this is always so, as with dm-reverb.
        """
        # An error that is already being raised is more important than its consequence. The end of an iteration is not an
        # error.
        error = sys.exc_info()[1]
        is_failing = error is not None and not isinstance(error, (StopIteration, StopAsyncIteration))
        self._writer.close(report_loss=self._reports_loss and not is_failing)

    def __reduce__(self) -> NoReturn:
        raise TypeError(errors._NOT_COPIED)

    def __enter__(self) -> TrajectoryWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if errors._allows_flush(error):
            self.flush()


# Called for each step or item: the cost of even one additional Python call matters.
_FREQUENT = {
    name: getattr(TrajectoryWriter, name)
    for name in ("append", "append_item", "append_sequence", "create_item", "create_items", "create_window_items")
}
