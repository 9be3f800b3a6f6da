"""The table of a replay buffer, with the server, the writer and the iterators that belong to it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from relive import _native, nest
from relive._n_step import expect_columns
from relive.batches import Batch, BatchIterator
from relive.checkpointers import DefaultCheckpointer
from relive.errors import ClosedError
from relive.server import Server
from relive.specs import ArraySpec
from relive.tables import Table


# The number of batch sizes for which a buffer keeps an iterator, which holds the memory of a batch and of the next one.
_MAX_ITERATORS = 8


class BufferTable:
    """Stores steps, and returns batches of them. The server is created when the first step, which determines the
    table's columns, is added."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._name = table.name
        self._server: Server | None = None
        # Names of the columns; queried from the table if the buffer was loaded or already has a server.
        self._columns: set[str] | None = None
        # The number of steps that the writer retains.
        self._kept = 1
        self._iterators: dict[int, BatchIterator] = {}
        self._is_flushed = True
        self._is_closed = False

    def expect_open(self) -> None:
        """Raises ``ClosedError`` if the buffer is closed."""
        if self._is_closed:
            raise ClosedError("the buffer is closed")

    @property
    def is_started(self) -> bool:
        return self._server is not None

    @property
    def server(self) -> Server:
        self.expect_open()
        self.flush()
        return self._start(self._table) if self._server is None else self._server

    def load(self, checkpoint: str) -> None:
        """Loads a table that was saved in a folder; the folder is not changed."""
        with tempfile.TemporaryDirectory() as folder:
            self._start(self._table, DefaultCheckpointer(folder, fallback_checkpoint_path=checkpoint))

    def _start(self, table: Table, loader: DefaultCheckpointer | None = None) -> Server:
        self._table = table
        server = Server([table], checkpointer=loader, listen=False)
        self._client = server.localhost_client()
        self._writer = self._client.trajectory_writer(num_keep_alive_refs=1)
        self._server = server
        return server

    def add(self, step: Mapping[str, Any], priority: float) -> None:
        """Adds a step as an item."""
        if self._server is None:
            self.expect_open()
            step = _native.with_lists_joined(dict(step))
            with self._first(step, nest.map_structure(_spec, step)):
                return self._append(step, priority)
        if self._columns is None or step.keys() != self._columns:
            self._check_columns(step)
        self._append(step, priority)

    def _append(self, step: Mapping[str, Any], priority: float) -> None:
        self._writer.append_item(self._name, priority, step)
        self._is_flushed = False

    @contextlib.contextmanager
    def _first(self, step: Mapping[str, Any], signature: Any) -> Iterator[None]:
        """Creates the server for the first step, which determines the columns. If adding the step fails, the buffer stays
        as it was."""
        if not step:
            raise ValueError("a step must have at least one column")
        table = self._table
        server = self._start(table.replace(signature=signature))
        try:
            yield
        except Exception:
            self._server, self._table, self._is_flushed = None, table, True
            server.stop()
            raise
        self._columns = set(step)

    def add_rows(self, count: int, rows: Mapping[str, Any], priority: float) -> None:
        """Adds ``count`` steps, each as one item; the leading dimension of each column is ``count``."""
        if self._server is None:
            self.expect_open()
            if not count:
                # Without rows, the types of the columns are unknown.
                return
            signature = nest.map_structure(lambda leaf: _spec(np.asarray(leaf)[0]), rows)
            with self._first(rows, signature):
                return self._append_rows(count, rows, priority)
        if self._columns is None or rows.keys() != self._columns:
            self._check_columns(rows)
        self._append_rows(count, rows, priority)

    def _append_rows(self, count: int, rows: Mapping[str, Any], priority: float) -> None:
        if count > self._kept:
            # Items can only refer to steps that the writer retains.
            self.flush()
            self._writer = self._client.trajectory_writer(num_keep_alive_refs=count)
            self._kept = count
        self._writer.append_sequence(rows)
        self._writer.create_window_items(self._name, [priority] * count, range(-count, 0), squeeze=True)
        self._is_flushed = False

    def _check_columns(self, step: Mapping[str, Any]) -> None:
        """Raises ``ValueError`` if the step's column names differ from the column names of earlier steps."""
        if self._columns is None:
            structure = self._client.server_info()[self._name].structure
            self._columns = set(step if structure is None else structure)
        expect_columns(self._columns, step)

    def flush(self) -> None:
        """Waits until the table contains all added steps."""
        if not self._is_flushed:
            self._writer.flush()
            self._is_flushed = True

    def sample(self, batch_size: int) -> Batch:
        """Returns a batch.

        Raises:
          ValueError: the table is empty.
        """
        self.expect_open()
        self.flush()
        if self._server is None or not self._table.can_sample(1):
            raise ValueError("the buffer is empty; add steps before you sample")
        iterator = self._iterators.get(batch_size)
        if iterator is None:
            iterator = self._client.batches(self._name, batch_size)
            if len(self._iterators) == _MAX_ITERATORS:
                self._iterators.pop(next(iter(self._iterators))).close()
            self._iterators[batch_size] = iterator
        return next(iterator)

    def update(self, keys: npt.ArrayLike, priorities: npt.ArrayLike) -> None:
        self.expect_open()
        if self._server is None:
            raise ValueError("the buffer is empty; add steps before you update priorities")
        self._client.update_priorities(self._name, keys, priorities)

    def __len__(self) -> int:
        self.expect_open()
        self.flush()
        return 0 if self._server is None else self._table.info.current_size

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        for iterator in self._iterators.values():
            iterator.close()
        if self._server is not None:
            self.flush()
            self._writer.close()
            self._server.stop()
            self._server = None


def _spec(leaf: Any) -> ArraySpec:
    array = np.asarray(leaf)
    return ArraySpec(array.shape, array.dtype)
