"""Writing steps, and items that refer to any of the steps that are kept."""

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
    """Appends steps and makes items; made by ``Client.trajectory_writer``.

    A step is a nest of tensors. A list of Python's own numbers, or of such lists of one length, that is a part of a step is one array; any
    other list is a nest, and so is a tuple. The nest of one step may lack places of another, as mappings without a key, shorter
    sequences, or ``None``; the columns of what is missing hold ``None`` there. ``history`` has the nest of all places
    seen.

    A writer belongs to one thread at a time. Leaving it as a context manager flushes it, unless the reason is an interrupt or
    a ``ReverbError`` other than a refused argument (``ValueError``).

    ``TrajectoryWriter(obj)`` with an object that has the calls of dm-reverb's compiled writer (``Append``,
    ``CreateItem``, ``Flush`` …) is a writer over that object, for tests that watch those calls.
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
        """Only the classes that ``__new__`` chooses from are ever made."""

    @property
    def history(self) -> Any:
        """The columns of the steps since the history was last cleared, in the structure of the steps.

        A column is indexed like a list: ``column[-1]`` is the newest step without a leading dimension, ``column[-3:]``
        and ``column[[-4, -1]]`` are several steps with one. Only the newest ``num_keep_alive_refs`` steps are kept;
        what asks for others, or for steps without data, is a ``ValueError``.

        Raises ``RuntimeError`` before the first append.
        """
        raise NotImplementedError

    @property
    def episode_steps(self) -> int:
        """Complete steps of the episode."""
        raise NotImplementedError

    @property
    def step_is_open(self) -> bool:
        """Whether the newest step is partial."""
        raise NotImplementedError

    def append(self, data: Any, *, partial_step: bool = False) -> None:
        """Appends a step, or with ``partial_step`` a part of one, which the next call goes on with.

        Raises:
          ValueError: a leaf of another data type or shape than before, or one that the open step has already; the error names
            its path. Nothing is stored then.
          TypeError: a leaf that is no tensor, or a mapping, sequence or leaf where earlier steps had another of these.
          RuntimeError: the writer is closed, or has failed.
        """
        raise NotImplementedError

    def append_sequence(self, data: Any) -> None:
        """Appends as many steps as the leading dimension of all leaves of ``data`` says.

        Raises:
          ValueError: leaves without a leading dimension, or with different ones; and as ``append``.
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
        """Makes an item of a nest of columns of ``history``, and gives its key.

        It is sent in the background, so it can be followed by more steps and items.

        Raises:
          TypeError: a leaf of ``trajectory`` that is no ``TrajectoryColumn``.
          ValueError: no columns or an empty one, a NaN priority, steps of different data types or shapes in a column,
            an unknown table, or a trajectory that the table's signature does not allow, or whose columns have other names than the
            table's: those of its signature, or else of its first item.
          RuntimeError: the writer is closed, or the server has refused an item.
        """
        raise NotImplementedError

    def append_item(self, table: str, priority: float, data: Any) -> int:
        """Appends a step, makes an item of it without a leading dimension, and gives its key.

        It is ``append`` and ``create_item`` in one call, for those whose steps are items: transitions. A step that is appended stays in the
        history, also if no item can be made of it.

        Raises:
          As ``append`` and ``create_item``.
        """
        self.append(data)
        newest = nest.map_structure(lambda column: column[-1], self.history)
        return self.create_item(table, priority, newest)

    def create_items(
        self, table: str, priorities: npt.ArrayLike, trajectories: Iterable[Any]
    ) -> npt.NDArray[np.uint64]:
        """Makes an item of each trajectory, with a priority each, and gives their keys; otherwise as ``create_item``.

        Raises ``ValueError`` if there are more or fewer priorities than trajectories.
        """
        pairs = zip(np.asarray(priorities).tolist(), trajectories, strict=True)
        return np.array([self.create_item(table, priority, item) for priority, item in pairs], np.uint64)

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
        if squeeze and length != 1:
            raise ValueError(f"only items of one step can be squeezed, but length is {length}")

        def window(end: int) -> Any:
            key: Any = end if squeeze else slice(end - length + 1, end + 1 or None)
            return nest.map_structure(lambda column: column[key], self.history)

        return self.create_items(table, priorities, [window(end) for end in ends])

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
        raise NotImplementedError

    def end_episode(self, clear_buffers: bool = True, timeout_ms: int | None = None) -> None:
        """Flushes and begins a new episode.

        Args:
          clear_buffers: whether the history is forgotten.
          timeout_ms: milliseconds to wait at most; 0 does not wait, ``None`` and less than 0 wait for ever.

        Raises:
          DeadlineExceededError: not all items are confirmed after ``timeout_ms``; the episode goes on.
          RuntimeError: the server has refused an item.
        """
        raise NotImplementedError

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
        raise NotImplementedError

    def close(self) -> None:
        """Ends the writer without waiting; items that are not confirmed are dropped. A second close does nothing.

        Raises:
          UnavailableError: items are not confirmed, and their server is away; the text says how many for which tables.
          FailedPreconditionError: items are not confirmed for another reason, such as a rate limiter; :meth:`flush` waits for
            them. As with dm-reverb, writers of ``reverb.Client`` drop items with no more than a warning in the log.
        """
        raise NotImplementedError

    def __enter__(self) -> TrajectoryWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if errors._lets_flush(error):
            self.flush()
