"""Writing steps, and items that refer to any of the kept steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from relive import _native, errors, nest
from relive._column_history import ColumnHistory as _ColumnHistory
from relive._native import TrajectoryColumn

__all__ = ["TrajectoryColumn", "TrajectoryWriter", "_ColumnHistory"]


class TrajectoryWriter:
    """Appends steps and creates items; created by ``Client.trajectory_writer``.

    A step is a nest of tensors. Within a step, a list of Python numbers, or of such lists of equal length, is one
    array; any other list is a nest, and so is a tuple. A step may lack parts that another step has: a mapping may lack
    a key, a sequence may be shorter, or a value may be ``None``. The columns of missing parts hold ``None`` there.
    ``history`` is the union of all parts seen.

    Only one thread at a time may use a writer. Leaving it as a context manager flushes it, unless the reason is an
    interrupt or a ``ReverbError`` other than a refused argument (``ValueError``).

    ``TrajectoryWriter(obj)``, with an object that has the methods of dm-reverb's compiled writer (``Append``,
    ``CreateItem``, ``Flush`` …), is a writer over that object, for tests that check those calls.
    """

    # Whether :meth:`close` raises if items are lost.
    _tells_of_loss = False

    def __new__(cls, internal_writer: Any = None) -> TrajectoryWriter:
        if cls is not TrajectoryWriter:
            return super().__new__(cls)
        if isinstance(internal_writer, _native.TrajectoryWriter):
            from relive._native_writer import NativeWriter

            return super().__new__(NativeWriter)
        from relive._wrapped_writer import WrappedWriter

        return super().__new__(WrappedWriter)

    def __init__(self, internal_writer: Any) -> None:
        """Only the classes that ``__new__`` chooses from are created."""

    @property
    def history(self) -> Any:
        """The columns of the steps since the history was last cleared, in the structure of the steps.

        A column is indexed like a list: ``column[-1]`` is the newest step without a leading dimension; ``column[-3:]``
        and ``column[[-4, -1]]`` are several steps with one. Only the newest ``num_keep_alive_refs`` steps are kept; an
        index of other steps, or of steps without data, raises ``ValueError``.

        Raises ``RuntimeError`` before the first append.
        """
        raise NotImplementedError

    @property
    def episode_steps(self) -> int:
        """The number of complete steps in the episode."""
        raise NotImplementedError

    @property
    def step_is_open(self) -> bool:
        """Whether the newest step is partial."""
        raise NotImplementedError

    def append(self, data: Any, *, partial_step: bool = False) -> None:
        """Appends a step, or with ``partial_step`` a part of one, which the next call continues.

        Raises:
          ValueError: a leaf of another data type or shape than before, or one that the open step already has; the error
            names its path. Nothing is stored in this case.
          TypeError: a leaf that is not a tensor, or a mapping, sequence or leaf in the place of another of these.
          RuntimeError: the writer is closed, or has failed.
        """
        raise NotImplementedError

    def append_sequence(self, data: Any) -> None:
        """Appends several steps; the leading dimension of all leaves of ``data`` is the number of steps.

        Raises:
          ValueError: leaves without a leading dimension, or with different ones; otherwise as ``append``.
        """
        arrays = [np.asarray(leaf) for leaf in nest.flatten(data)]
        lengths = {array.shape[:1] for array in arrays}
        if len(lengths) != 1 or () in lengths:
            raise ValueError(
                "the leaves of a sequence must have the same leading dimension, the steps; "
                f"the shapes are {[array.shape for array in arrays]}"
            )
        for step in range(len(arrays[0])):
            self.append(nest.unflatten_as(data, [array[step] for array in arrays]))

    def create_item(self, table: str, priority: float, trajectory: Any) -> int:
        """Creates an item from a nest of columns of ``history``, and returns its key.

        The item is sent in the background, while you append more steps and items.

        Raises:
          TypeError: a leaf of ``trajectory`` that is not a ``TrajectoryColumn``.
          ValueError: no columns or an empty one, a NaN priority, steps of different data types or shapes in a column,
            an unknown table, a trajectory that does not match the table's signature, or columns with other names than
            the table's. Those names come from its signature, or else from its first item.
          RuntimeError: the writer is closed, or the server refused an item.
        """
        raise NotImplementedError

    def append_item(self, table: str, priority: float, data: Any) -> int:
        """Appends a step, creates an item from it without a leading dimension, and returns its key.

        This combines ``append`` and ``create_item``, for programs whose steps are items: transitions. The appended step
        stays in the history even if creating the item fails.

        Raises:
          As ``append`` and ``create_item``.
        """
        self.append(data)
        newest = nest.map_structure(lambda column: column[-1], self.history)
        return self.create_item(table, priority, newest)

    def create_items(
        self, table: str, priorities: npt.ArrayLike, trajectories: Iterable[Any]
    ) -> npt.NDArray[np.uint64]:
        """Creates an item from each trajectory with its priority, and returns the keys; otherwise like ``create_item``.

        Raises ``ValueError`` if the numbers of priorities and trajectories differ.
        """
        pairs = zip(np.asarray(priorities).tolist(), trajectories, strict=True)
        return np.array([self.create_item(table, priority, item) for priority, item in pairs], np.uint64)

    def create_window_items(
        self, table: str, priorities: npt.ArrayLike, ends: Sequence[int], *, length: int = 1, squeeze: bool = False
    ) -> npt.NDArray[np.uint64]:
        """Creates an item of all columns for each of the steps ``ends``, and returns the keys.

        Args:
          table: the table.
          priorities: one priority for each end.
          ends: the last steps of the items, counted from the newest, which is -1.
          length: the number of steps in an item.
          squeeze: whether items of one step have no leading dimension.

        Raises:
          ValueError: as ``create_item``; also ``squeeze`` with a ``length`` other than 1.
        """
        if squeeze and length != 1:
            raise ValueError(f"only items of one step can be squeezed, but length is {length}")

        def window(end: int) -> Any:
            key: Any = end if squeeze else slice(end - length + 1, end + 1 or None)
            return nest.map_structure(lambda column: column[key], self.history)

        return self.create_items(table, priorities, [window(end) for end in ends])

    def flush(self, block_until_num_items: int = 0, timeout_ms: int | None = None) -> None:
        """Waits until at most ``block_until_num_items`` items are unconfirmed.

        Args:
          block_until_num_items: the number of items that may remain unconfirmed.
          timeout_ms: the number of milliseconds to wait at most; ``None``, 0 and less wait forever.

        Raises:
          ValueError: ``block_until_num_items`` is negative.
          DeadlineExceededError: more items are unconfirmed after ``timeout_ms``.
          RuntimeError: the server refused an item.
        """
        raise NotImplementedError

    def end_episode(self, clear_buffers: bool = True, timeout_ms: int | None = None) -> None:
        """Flushes and starts a new episode.

        Args:
          clear_buffers: whether to clear the history.
          timeout_ms: the number of milliseconds to wait at most; 0 does not wait, ``None`` and less than 0 wait
            forever.

        Raises:
          DeadlineExceededError: not all items are confirmed after ``timeout_ms``; the episode continues.
          RuntimeError: the server refused an item.
        """
        raise NotImplementedError

    def configure(
        self, path: tuple[int | str, ...], *, num_keep_alive_refs: int, max_chunk_length: int | None
    ) -> None:
        """Sets how a column is kept and stored, either now or when the column first appears.

        Args:
          path: where the column is in a step.
          num_keep_alive_refs: the number of steps that items can refer to, at least 1.
          max_chunk_length: the number of steps that are stored together, from 1 to ``num_keep_alive_refs``; ``None``
            adapts it to the items.

        Raises:
          ValueError: a number out of range.
          RuntimeError: the column holds steps that are not stored yet.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Ends the writer without waiting; unconfirmed items are dropped. A second close does nothing.

        Raises:
          UnavailableError: items are unconfirmed and their server is away; the text lists their number per table.
          FailedPreconditionError: items are unconfirmed for another reason, such as a rate limiter; :meth:`flush` waits
            for them. As with dm-reverb, writers of ``reverb.Client`` drop items with only a warning in the log.
        """
        raise NotImplementedError

    def __enter__(self) -> TrajectoryWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if errors._lets_flush(error):
            self.flush()
