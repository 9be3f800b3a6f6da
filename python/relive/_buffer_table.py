"""The table of a replay buffer, with the server, the writer and the iterators that belong to it."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy.typing as npt

from relive import nest
from relive._buffer_checks import expect_like, fitted, has_tensors, readable, specs_of, specs_of_rows
from relive.batches import Batch, BatchIterator
from relive.checkpointers import DefaultCheckpointer
from relive.errors import ClosedError, DataLossError, DeadlineExceededError, FailedPreconditionError
from relive.server import Server
from relive.tables import Table


# The number of batch sizes for which a buffer keeps an iterator, which holds the memory of a batch and of the next one.
_MAX_ITERATORS = 8
# How long to wait for a batch before checking again whether the table is empty.
_LOOK_SECONDS = 1.0
# The number of steps after which the writer begins a new episode, because it can number fewer than 2**31 steps of one.
_EPISODE_STEPS = 1 << 20


class BufferTable:
    """Stores steps, and returns batches of them. The server is created when the first step, which determines the
    table's columns, is added."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._name = table.name
        self._server: Server | None = None
        # The specs of a step, which the first step determines, and the names of its columns.
        self._specs: Mapping[str, Any] | None = None
        self._columns: Set[str] = frozenset()
        # The outline of a step, and the function that builds one from its leaves.
        self._outline: Any = None
        self._fill: Callable[[Sequence[Any]], Any] = list
        # Whether the writer has accepted a step that was compared with the first one; from then on, the writer itself
        # refuses columns of other types.
        self._is_checked = False
        # Held by the thread that closes the buffer.
        self._closing = threading.Lock()
        # Whether the table has no signature, because its server was started before the first step. In this case, the
        # writer would accept different names within nested columns, so this class compares them.
        self._is_unsigned = False
        self._nesting: Any = None
        # The number of steps that the writer retains; it is created with the server.
        self._kept = 0
        self._iterators: dict[int, BatchIterator] = {}
        # The number of steps since the last flush.
        self._unflushed = 0
        self.is_closed = False
        self._process = os.getpid()

    def expect_open(self) -> None:
        """Raises ``ClosedError`` if the buffer is closed."""
        if self.is_closed:
            raise ClosedError("the buffer is closed")

    def _expect_own_process(self) -> None:
        """Raises ``FailedPreconditionError`` in a process that was forked after the buffer was created."""
        if os.getpid() != self._process:
            raise FailedPreconditionError(
                f"this buffer belongs to process {self._process}, from which this one was forked; serve() it there, and connect to its "
                "port with a relive.Client"
            )

    @property
    def is_bound(self) -> bool:
        """Whether the columns of a step are determined."""
        return self._specs is not None

    @property
    def server(self) -> Server:
        self.expect_open()
        self.flush()
        return self._start(self._table) if self._server is None else self._server

    def save(self, folder: str) -> None:
        """Saves the table in a folder."""
        self.server._native.save(folder)

    def load(self, checkpoint: str) -> None:
        """Loads a table that was saved in a folder; the folder is not changed."""
        with tempfile.TemporaryDirectory() as folder:
            self._start(self._table, DefaultCheckpointer(folder, fallback_checkpoint_path=checkpoint))

    def archive(self) -> bytes | None:
        """Returns the saved table as a file, or ``None`` before its server is started."""
        self.expect_open()
        if self._server is None:
            return None
        archive = io.BytesIO()
        with tempfile.TemporaryDirectory() as folder:
            self.save(folder)
            with tarfile.open(fileobj=archive, mode="w") as files:
                files.add(folder, ".")
        return archive.getvalue()

    def load_archive(self, archive: bytes) -> None:
        """Loads a table from the file that :meth:`archive` has returned.

        Raises:
          DataLossError: the file is damaged.
        """
        with tempfile.TemporaryDirectory() as folder:
            try:
                with tarfile.open(fileobj=io.BytesIO(archive)) as files:
                    # The first patch releases of Python 3.10 and 3.11 have no filters. The archive is this class's own.
                    options: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
                    files.extractall(folder, **options)
            except tarfile.TarError as error:
                raise DataLossError(f"the saved transitions are damaged: {error}") from error
            self.load(folder)

    def _start(self, table: Table, loader: DefaultCheckpointer | None = None) -> Server:
        self._table = table
        server = Server([table], checkpointer=loader, listen=False)
        self._client = server.localhost_client()
        self._kept = 1
        self._writer = self._client.trajectory_writer(num_keep_alive_refs=self._kept)
        self._server = server
        return server

    def add(self, step: Mapping[str, Any], priority: float) -> None:
        """Adds a step as an item."""
        if not self._is_checked or self._has_other_names(step):
            step = self._fitted(readable(step))
            with self._checked(specs_of(step)):
                return self._append(step, priority)
        try:
            self._append(step, priority)
        except Exception as error:
            if not has_tensors(step):
                self._recover(error, lambda: specs_of(readable(step)))
                raise
            # numpy refuses tensors with a gradient, on a device or of the type bfloat16.
            self.add(readable(step), priority)

    def _fitted(self, step: dict[str, Any]) -> dict[str, Any]:
        """Returns a readable step with Python's numbers in the data types of the first step, as the writer does itself
        once it knows the columns."""
        self.expect_open()
        if self._server is not None and self._specs is None:
            self._bind_to_stored()
        return step if self._specs is None else fitted(step, self._specs)

    def _append(self, step: Mapping[str, Any], priority: float) -> None:
        if self._unflushed >= _EPISODE_STEPS:
            self.flush()
        self._writer.append_item(self._name, priority, step)
        self._unflushed += 1

    def flattened(self, rows: Mapping[str, Any]) -> list[Any] | None:
        """Returns the leaves of steps with the names of the first step, or ``None`` for other steps."""
        return nest.flatten_outlined(self._outline, rows) if self._is_checked else None

    def add_rows(
        self, count: int, rows: Mapping[str, Any], priorities: list[float], leaves: list[Any] | None = None
    ) -> None:
        """Adds ``count`` readable steps, each as one item with a priority; the leading dimension of each column is
        ``count``. ``leaves`` are those that :meth:`flattened` has returned."""
        if leaves is None:
            leaves = self.flattened(rows)
        if leaves is None or count > self._kept:
            if self._server is None and not count:
                self.expect_open()
                return
            with self._checked(specs_of_rows(rows)):
                return self._append_rows(count, rows, priorities)
        try:
            # A writer takes a step that is a whole item at less than half of the cost.
            if count == 1:
                self._append(self._fill([leaf[0] for leaf in leaves]), priorities[0])
            else:
                self._append_rows(count, rows, priorities)
        except Exception as error:
            self._recover(error, lambda: specs_of_rows(rows))
            raise

    def _append_rows(self, count: int, rows: Mapping[str, Any], priorities: list[float]) -> None:
        if count > self._kept:
            # Items can only refer to steps that the writer retains.
            self.flush()
            self._writer = self._client.trajectory_writer(num_keep_alive_refs=count)
            self._kept = count
        elif self._unflushed >= _EPISODE_STEPS:
            self.flush()
        self._writer.append_sequence(rows)
        self._writer.create_window_items(self._name, priorities, range(-count, 0), squeeze=True)
        self._unflushed += count

    def _has_other_names(self, step: Mapping[str, Any]) -> bool:
        return step.keys() != self._columns or (self._nesting is not None and nest.outline(step) != self._nesting)

    @contextlib.contextmanager
    def _checked(self, specs: Mapping[str, Any]) -> Iterator[None]:
        """Compares a new step with the first step. The first step determines the columns. If adding a step fails, the
        buffer stays as it was."""
        self.expect_open()
        if not specs:
            raise ValueError("a step must have at least one column")
        is_first, table = self._server is None, self._table
        if is_first:
            self._start(table.replace(signature=specs))
        elif self._specs is None:
            self._bind_to_stored()
        if self._specs is not None:
            expect_like(self._specs, specs)
        try:
            yield
        except Exception as error:
            if is_first:
                self._stop()
                self._table = table
            else:
                self._recover(error, lambda: specs)
            raise
        if self._specs is None:
            self._specs = specs
        self._columns, self._is_checked = self._specs.keys(), True
        self._outline, self._fill = nest.outline(self._specs), nest.filler(self._specs)[1]
        if self._is_unsigned and any(map(nest.is_nested, self._specs.values())):
            self._nesting = self._outline

    def _bind_to_stored(self) -> None:
        """Determines the columns from the table's signature or, without one, from its oldest item."""
        self._specs = self._client.server_info()[self._name].structure
        self._is_unsigned = self._specs is None
        if self._is_unsigned:
            self.flush()
            keys = [item.key for item in itertools.islice(self._client.items(self._name), 1)]
            stored = [item.data for item in self._client.get_items(self._name, keys) if item is not None]
            self._specs = next((specs_of(data) for data in stored if isinstance(data, Mapping)), None)

    def _recover(self, error: Exception, specs: Callable[[], Any]) -> None:
        """Prepares the table for further steps after it has refused a step with an error.

        Raises:
          ValueError: the step does not match the first step; the error names the column, and says what to do.
          TypeError: a value of the step is ``None``.
          FailedPreconditionError: the buffer belongs to another process.
        """
        self._expect_own_process()
        # The writer would keep the columns of the refused step.
        self._is_checked = False
        self.flush()
        self._writer.close()
        self._writer = self._client.trajectory_writer(num_keep_alive_refs=self._kept)
        if isinstance(error, ValueError) and self._specs is not None:
            expect_like(self._specs, specs())

    def flush(self) -> None:
        """Waits until the table contains all added steps. Ends a long episode of the writer."""
        if not self._unflushed:
            return
        try:
            if self._writer.episode_steps < _EPISODE_STEPS:
                self._writer.flush()
            else:
                self._writer.end_episode()
        except FailedPreconditionError:
            self._expect_own_process()
            raise
        self._unflushed = 0

    def sample(self, batch_size: int) -> Batch | None:
        """Returns a batch, or ``None`` if the table is empty."""
        self.expect_open()
        self.flush()
        if self._server is None:
            return None
        iterator = self._iterators.get(batch_size)
        if iterator is None:
            iterator = self._client.batches(self._name, batch_size, timeout=_LOOK_SECONDS)
            if len(self._iterators) == _MAX_ITERATORS:
                self._iterators.pop(next(iter(self._iterators))).close()
            self._iterators[batch_size] = iterator
        try:
            while self._table.can_sample(1):
                try:
                    return next(iterator)
                except DeadlineExceededError:
                    # Another client has removed the last item after the check.
                    continue
            return None
        except StopIteration:
            # Iterators end only if they are closed, in this case by another thread.
            self.expect_open()
            raise
        except FailedPreconditionError:
            self._expect_own_process()
            raise

    def update(self, keys: npt.ArrayLike, priorities: npt.ArrayLike) -> None:
        self.expect_open()
        if self._server is None:
            raise ValueError("the buffer is empty; add steps before you update priorities")
        self._client.update_priorities(self._name, keys, priorities)

    def __len__(self) -> int:
        self.expect_open()
        self.flush()
        return 0 if self._server is None else self._table.internal_table.current_size()

    @property
    def described(self) -> str:
        """The number of items as text. Never raises, because it is part of a buffer's ``repr``."""
        if self.is_closed:
            return "closed"
        if os.getpid() != self._process:
            return f"of process {self._process}"
        try:
            return f"size={len(self)}"
        except Exception:
            # Another thread is using or closing the buffer, or its server has stopped.
            return "size unknown"

    def clear(self) -> None:
        """Removes all items. The buffer keeps its columns."""
        self.expect_open()
        self.flush()
        if self._server is not None:
            self._client.reset(self._name)

    def close(self) -> None:
        # If this fails, because another thread is using the writer, the next call continues.
        self.is_closed, self._is_checked = True, False
        # The server's threads exist only in the process that started it.
        if self._server is None or os.getpid() != self._process or not self._closing.acquire(blocking=False):
            return
        try:
            for iterator in self._iterators.values():
                iterator.close()
            self.flush()
        finally:
            try:
                self._stop()
            finally:
                self._closing.release()

    def _stop(self) -> None:
        if self._server is None:
            # Another thread has just closed the buffer.
            return
        self._writer.close()
        server, self._server, self._unflushed = self._server, None, 0
        server.stop()
