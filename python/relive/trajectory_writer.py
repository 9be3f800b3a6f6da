"""Writing steps, and items that refer to any of the steps that are kept."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from relive import _native, errors
from relive._native import TrajectoryColumn

__all__ = ["TrajectoryColumn", "TrajectoryWriter"]

# Called for each step or item, where the cost of one more Python call shows.
_FREQUENT = ("append", "append_item", "append_sequence", "create_item", "create_items", "create_window_items")


class TrajectoryWriter:
    """Appends steps and makes items; made by ``Client.trajectory_writer``.

    A step is a nest of tensors. A list of Python's own numbers, or of such lists of one length, that is a part of a step is one array; any
    other list is a nest, and so is a tuple. The nest of one step may lack places of another, as mappings without a key, shorter
    sequences, or ``None``; the columns of what is missing hold ``None`` there. ``history`` has the nest of all places
    seen.

    A writer belongs to one thread at a time. Leaving it as a context manager flushes it, unless the reason is an interrupt or
    a ``ReverbError`` other than a refused argument (``ValueError``).
    """

    # Whether :meth:`close` raises if items are lost.
    _tells_of_loss = False

    def __init__(self, internal_writer: _native.TrajectoryWriter) -> None:
        if not isinstance(internal_writer, _native.TrajectoryWriter):
            raise TypeError(
                f"a trajectory writer is made by Client.trajectory_writer, not out of {type(internal_writer).__name__}; "
                "over a stand-in for the compiled writer reverb.TrajectoryWriter of the package relive-as-reverb works"
            )
        self._writer = internal_writer
        # Attributes of the object go before the methods of its class, and have their signatures.
        vars(self).update({name: getattr(internal_writer, name) for name in _FREQUENT})

    @property
    def history(self) -> Any:
        """The columns of the steps since the history was last cleared, in the structure of the steps.

        A column is indexed like a list: ``column[-1]`` is the newest step without a leading dimension, ``column[-3:]``
        and ``column[[-4, -1]]`` are several steps with one. Only the newest ``num_keep_alive_refs`` steps are kept;
        what asks for others, or for steps without data, is a ``ValueError``.

        Raises ``RuntimeError`` before the first append.
        """
        return self._writer.history

    @property
    def episode_steps(self) -> int:
        """Complete steps of the episode."""
        return self._writer.episode_steps

    @property
    def step_is_open(self) -> bool:
        """Whether the newest step is partial."""
        return self._writer.step_is_open

    @property
    def pending_items(self) -> int:
        """Items that the server has not confirmed yet."""
        return self._writer.pending_items

    def append(self, data: Any, *, partial_step: bool = False) -> None:
        """Appends a step, or with ``partial_step`` a part of one, which the next call goes on with.

        Raises:
          ValueError: a leaf of another data type or shape than before, or one that the open step has already; the error names
            its path. Nothing is stored then.
          TypeError: a leaf that is no tensor, or a mapping, sequence or leaf where earlier steps had another of these.
          RuntimeError: the writer is closed, or has failed.
        """
        self._writer.append(data, partial_step=partial_step)

    def append_sequence(self, data: Any) -> None:
        """Appends as many steps as the leading dimension of all leaves of ``data`` says.

        Raises:
          ValueError: leaves without a leading dimension, or with different ones; and as ``append``.
        """
        self._writer.append_sequence(data)

    def create_item(self, table: str, priority: float, trajectory: Any) -> int:
        """Makes an item of a nest of columns of ``history``, and gives its key.

        It is sent in the background, so it can be followed by more steps and items.

        Raises:
          TypeError: a leaf of ``trajectory`` that is no ``TrajectoryColumn``.
          ValueError: no columns or an empty one, a NaN priority, steps of different data types or shapes in a column,
            an unknown table, or a trajectory that the table's signature does not allow, or whose columns have other names than the
            table's: those of its signature, or else of its first item.
          RuntimeError: the writer is closed, or the server has refused an item.
        """
        return self._writer.create_item(table, priority, trajectory)

    def append_item(self, table: str, priority: float, data: Any) -> int:
        """Appends a step, makes an item of it without a leading dimension, and gives its key.

        It is ``append`` and ``create_item`` in one call, for those whose steps are items: transitions. A step that is appended stays in the
        history, also if no item can be made of it.

        Raises:
          As ``append`` and ``create_item``.
        """
        return self._writer.append_item(table, priority, data)

    def create_items(
        self, table: str, priorities: npt.ArrayLike, trajectories: Iterable[Any]
    ) -> npt.NDArray[np.uint64]:
        """Makes an item of each trajectory, with a priority each, and gives their keys; otherwise as ``create_item``.

        Raises ``ValueError`` if there are more or fewer priorities than trajectories.
        """
        return self._writer.create_items(table, priorities, trajectories)

    def create_window_items(
        self, table: str, priorities: npt.ArrayLike, ends: Sequence[int], *, length: int = 1, squeeze: bool = False
    ) -> npt.NDArray[np.uint64]:
        """Makes an item of all columns for each of the steps ``ends``, and gives their keys.

        Args:
          table: the table.
          priorities: one for each end.
          ends: last steps, counted from the newest, which is -1.
          length: steps of an item.
          squeeze: whether items of one step have no leading dimension.

        Raises:
          ValueError: as ``create_item``; also ``squeeze`` with another ``length`` than 1.
        """
        return self._writer.create_window_items(table, priorities, ends, length=length, squeeze=squeeze)

    def flush(self, block_until_num_items: int = 0, timeout_ms: int | None = None) -> None:
        """Waits until at most ``block_until_num_items`` items are not confirmed by the server.

        Args:
          block_until_num_items: items that may be on their way still.
          timeout_ms: milliseconds to wait at most; ``None``, 0 and less wait for ever.

        Raises:
          ValueError: ``block_until_num_items`` is negative.
          DeadlineExceededError: there are still more items after ``timeout_ms``.
          RuntimeError: the server has refused an item.
        """
        self._writer.flush(block_until_num_items, timeout_ms)

    def end_episode(self, clear_buffers: bool = True, timeout_ms: int | None = None) -> None:
        """Flushes and begins a new episode.

        Args:
          clear_buffers: whether the history is forgotten.
          timeout_ms: milliseconds to wait at most; 0 does not wait, ``None`` and less than 0 wait for ever.

        Raises:
          DeadlineExceededError: not all items are confirmed after ``timeout_ms``; the episode goes on.
          RuntimeError: the server has refused an item.
        """
        self._writer.end_episode(bool(clear_buffers), timeout_ms)

    def configure(
        self, path: tuple[int | str, ...], *, num_keep_alive_refs: int, max_chunk_length: int | None
    ) -> None:
        """Sets how a column is kept and stored, now or when it first appears.

        Args:
          path: where the column is in a step.
          num_keep_alive_refs: steps that items can refer to, at least 1.
          max_chunk_length: steps stored together, from 1 to ``num_keep_alive_refs``; ``None`` tunes it to the items.

        Raises:
          ValueError: a number out of range.
          RuntimeError: the column holds steps that are not stored yet.
        """
        self._writer.configure(path, num_keep_alive_refs=num_keep_alive_refs, max_chunk_length=max_chunk_length)

    def close(self) -> None:
        """Ends the writer without waiting; items that are not confirmed are dropped. A second close does nothing.

        Raises:
          UnavailableError: items are not confirmed, and their server is away; the text says how many for which tables.
          FailedPreconditionError: items are not confirmed for another reason, such as a rate limiter; :meth:`flush` waits for
            them. As with dm-reverb, writers of ``reverb.Client`` drop items with no more than a warning in the log.
        """
        # An error that is on its way already is worth more than its consequence, which the log has.
        is_failing = sys.exc_info()[0] is not None
        self._writer.close(tell=self._tells_of_loss and not is_failing)

    def __enter__(self) -> TrajectoryWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if errors._lets_flush(error):
            self.flush()
