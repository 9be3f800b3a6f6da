"""A trajectory writer that wraps any object with the methods of dm-reverb's compiled writer.

Test suites of programs written for dm-reverb replace the compiled writer under its Python class, to check the calls
without a server. This class supports such test suites: ``Append`` and ``AppendPartial`` get one list of leaves per
step, in the order in which the columns first appeared, with ``None`` for missing leaves, and return a reference for
each leaf.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from relive import errors, nest
from relive._chunker_options import AutoTunedChunkerOptions, ChunkerOptions, ConstantChunkerOptions
from relive.trajectory_writer import TrajectoryColumn

from reverb import _union
from reverb._column_history import ColumnHistory

_COLUMN = re.compile(r"(?<= for column )\d+\b")

# dm-reverb's weight of sent bytes relative to stored bytes.
_THROUGHPUT_WEIGHT = 1.0

# The value for ``Flush`` without a timeout.
_NO_TIMEOUT_MS = -1


class WrappedWriter:
    """The methods of a trajectory writer, for an object with ``Append``, ``AppendPartial``, ``CreateItem``, ``Flush``,
    ``EndEpisode``, ``Close``, ``ConfigureChunker``, ``max_num_keep_alive_refs`` and ``episode_steps``."""

    def __init__(self, internal_writer: Any) -> None:
        self._writer = internal_writer
        self._structure: Any = _union.NOTHING
        self._columns: list[ColumnHistory] = []
        self._index_of_path: dict[nest.Path, int] = {}
        self._chunker_options: dict[nest.Path, ChunkerOptions] = {}
        self._step_is_open = False

    @property
    def history(self) -> Any:
        """The columns of all steps since the history was last cleared, in the structure of the steps.

        Raises ``RuntimeError`` before the first step.
        """
        if self._structure is _union.NOTHING:
            raise RuntimeError("history cannot be accessed before `append` is called at least once.")
        return nest.map_structure_with_path(
            lambda path, _: self._columns[self._index_of_path[path]], self._structure
        )

    @property
    def episode_steps(self) -> int:
        """The number of complete steps in the episode."""
        steps: int = self._writer.episode_steps
        return steps

    @property
    def step_is_open(self) -> bool:
        """Whether the newest step is partial."""
        return self._step_is_open

    def append(self, data: Any, *, partial_step: bool = False) -> None:
        """Appends a step, or with ``partial_step`` a part of a step, which the next call continues.

        Raises:
          ValueError: a leaf that the open step already has, a structure that does not match earlier structures, or a
            leaf that the writer refuses; the error names its path.
        """
        self._grow(data)
        leaves: list[Any] = [None] * len(self._columns)
        for path, leaf in nest.flatten_with_path(data):
            if leaf is not None:
                leaves[self._index_of_path[path]] = leaf
        self._check_unset(leaves)
        append = self._writer.AppendPartial if partial_step else self._writer.Append
        try:
            references = append(leaves)
        except ValueError as error:
            raise self._with_path(error) from error
        self._remember(references)
        self._step_is_open = partial_step

    def append_sequence(self, data: Any) -> None:
        """See ``relive.TrajectoryWriter``."""
        arrays = [np.asarray(leaf) for leaf in nest.flatten(data)]
        lengths = {array.shape[:1] for array in arrays}
        if len(lengths) != 1 or () in lengths:
            raise ValueError(
                "the leaves of a sequence must have the same leading dimension, the steps; "
                f"the shapes are {[array.shape for array in arrays]}"
            )
        for step in range(len(arrays[0])):
            self.append(nest.unflatten_as(data, [array[step] for array in arrays]))

    def create_item(self, table: str, priority: float, trajectory: Any) -> Any:
        """Creates an item from a nest of columns, and returns the writer's result.

        Raises ``TypeError`` for a leaf that is not a ``TrajectoryColumn``.
        """
        columns = nest.flatten(trajectory)
        if not all(isinstance(column, TrajectoryColumn) for column in columns):
            raise TypeError(f"All leaves of `trajectory` must be `TrajectoryColumn` but got {trajectory}")
        squeezed = [column.is_squeezed for column in columns]
        return self._writer.CreateItem(table, priority, [list(column) for column in columns], squeezed)

    def append_item(self, table: str, priority: float, data: Any) -> int:
        """See ``relive.TrajectoryWriter``."""
        self.append(data)
        newest = nest.map_structure(lambda column: column[-1], self.history)
        return self.create_item(table, priority, newest)

    def create_items(
        self, table: str, priorities: npt.ArrayLike, trajectories: Iterable[Any]
    ) -> npt.NDArray[np.uint64]:
        """See ``relive.TrajectoryWriter``."""
        pairs = zip(np.asarray(priorities).tolist(), trajectories, strict=True)
        return np.array([self.create_item(table, priority, item) for priority, item in pairs], np.uint64)

    def create_window_items(
        self, table: str, priorities: npt.ArrayLike, ends: Sequence[int], *, length: int = 1, squeeze: bool = False
    ) -> npt.NDArray[np.uint64]:
        """See ``relive.TrajectoryWriter``."""
        if squeeze and length != 1:
            raise ValueError(f"only items of one step can be squeezed, but length is {length}")

        def window(end: int) -> Any:
            key: Any = end if squeeze else slice(end - length + 1, end + 1 or None)
            return nest.map_structure(lambda column: column[key], self.history)

        return self.create_items(table, priorities, [window(end) for end in ends])

    def flush(self, block_until_num_items: int = 0, timeout_ms: int | None = None) -> None:
        """Waits until at most ``block_until_num_items`` items are unconfirmed.

        Raises:
          ValueError: ``block_until_num_items`` is negative.
          DeadlineExceededError: more items are unconfirmed after ``timeout_ms``; without a timeout, the call waits
            forever.
        """
        if block_until_num_items < 0:
            raise ValueError(f"block_until_num_items must be >= 0, got {block_until_num_items}")
        limit = _NO_TIMEOUT_MS if timeout_ms is None else timeout_ms
        try:
            self._writer.Flush(block_until_num_items, limit)
        except RuntimeError as error:
            raise _deadline("flush", timeout_ms, error) from error

    def end_episode(self, clear_buffers: bool = True, timeout_ms: int | None = None) -> None:
        """Flushes and starts a new episode; ``clear_buffers`` clears the history.

        Raises ``DeadlineExceededError`` if not all items are confirmed after ``timeout_ms``; the episode then
        continues.
        """
        try:
            self._writer.EndEpisode(clear_buffers, timeout_ms)
        except RuntimeError as error:
            raise _deadline("end_episode", timeout_ms, error) from error
        self._step_is_open = False
        if clear_buffers:
            for column in self._columns:
                column.reset()

    def configure(self, path: Sequence[Any], *, num_keep_alive_refs: int, max_chunk_length: int | None) -> None:
        """Sets how a column is chunked, either now or when it first appears.

        Args:
          path: the path of the column in a step.
          num_keep_alive_refs: the number of steps that items can refer to, at least 1.
          max_chunk_length: the number of steps that are stored together, from 1 to ``num_keep_alive_refs``; ``None``
            adapts it.

        Raises:
          ValueError: a number out of range.
        """
        options = _chunker_options(num_keep_alive_refs, max_chunk_length)
        path = tuple(path)
        if path in self._index_of_path:
            self._writer.ConfigureChunker(self._index_of_path[path], options)
        else:
            self._chunker_options[path] = options

    def close(self) -> None:
        """Closes the writer."""
        self._writer.Close()

    def __del__(self) -> None:
        if hasattr(self, "_writer"):
            self.close()

    def _grow(self, data: Any) -> None:
        """Creates columns for the new places of ``data``."""
        union = _union.union(self._structure, data)
        for path, _ in nest.flatten_with_path(union):
            if path not in self._index_of_path:
                self._add_column(path)
        self._structure = union

    def _add_column(self, path: nest.Path) -> None:
        index = len(self._columns)
        length = len(self._columns[0]) if self._columns else 0
        self._columns.append(ColumnHistory(path, self._writer.max_num_keep_alive_refs, length))
        self._index_of_path[path] = index
        if path in self._chunker_options:
            self._writer.ConfigureChunker(index, self._chunker_options.pop(path))

    def _check_unset(self, leaves: Sequence[Any]) -> None:
        if not self._step_is_open:
            return
        for column, leaf in zip(self._columns, leaves, strict=True):
            if leaf is not None and not column.can_set_last:
                raise ValueError(
                    f"Field {column.path()} has already been set in the active step by previous (partial) append call "
                    f"and thus must be omitted or set to None but got: {leaf}"
                )

    def _remember(self, references: Sequence[Any]) -> None:
        for column, reference in zip(self._columns, references, strict=True):
            if not self._step_is_open:
                column.append(reference)
            elif reference is not None:
                column.set_last(reference)

    def _with_path(self, error: ValueError) -> ValueError:
        def place(match: re.Match[str]) -> str:
            index = int(match[0])
            return str(self._columns[index].path()) if index < len(self._columns) else match[0]

        return ValueError(_COLUMN.sub(place, str(error)))


def _chunker_options(num_keep_alive_refs: int, max_chunk_length: int | None) -> ChunkerOptions:
    if num_keep_alive_refs < 1:
        raise ValueError(f"num_keep_alive_refs ({num_keep_alive_refs}) must be a positive integer")
    if max_chunk_length is None:
        return AutoTunedChunkerOptions(num_keep_alive_refs, _THROUGHPUT_WEIGHT)
    if not 1 <= max_chunk_length <= num_keep_alive_refs:
        raise ValueError(
            f"max_chunk_length ({max_chunk_length}) must be None or a positive integer <= num_keep_alive_refs "
            f"({num_keep_alive_refs})"
        )
    return ConstantChunkerOptions(max_chunk_length, num_keep_alive_refs)


def _deadline(call: str, timeout_ms: int | None, error: RuntimeError) -> Exception:
    """Returns the exception for callers: a timeout of the writer gets its own class; all other exceptions are
    unchanged."""
    if "Timeout exceeded" not in str(error):
        return error
    return errors.DeadlineExceededError(f"{call} was not done within {timeout_ms} ms: {error}")
