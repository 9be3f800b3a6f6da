"""A replay buffer for programs of one process: three lines, and the tables of a server beneath."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from relive import _native, item_selectors, nest, rate_limiters
from relive._n_step import NStep
from relive.batches import BatchIterator
from relive.checkpointers import DefaultCheckpointer
from relive.security import ServerTls
from relive.server import Server, Table
from relive.specs import ArraySpec

# The settings of a buffer, beside the checkpoint of its table.
_SETTINGS = "replay_buffer.json"

# What a sample of a prioritized buffer has beside the columns of the steps.
_WEIGHTS, _KEYS = "weights", "keys"


class ReplayBuffer:
    """Keeps the newest ``capacity`` transitions, and samples batches of them.

    >>> buffer = ReplayBuffer(100_000, batch_size=32, seed=0)
    >>> buffer.add(observation=np.zeros(4, np.float32), action=1, reward=0.5, next_observation=np.ones(4, np.float32), done=False)
    >>> buffer.sample()["observation"].shape
    (32, 4)

    A step is a mapping of names to values; its values may be nests. The steps are items of a table of an in-process
    :class:`relive.Server` that has no port until :meth:`serve` opens one. A buffer belongs to one thread at a time.

    Args:
      capacity: transitions that are kept; the oldest leave.
      batch_size: transitions of a batch, unless :meth:`sample` is told otherwise.
      prioritized: the exponent α of prioritized replay (Schaul et al., 2016): transitions are sampled in proportion to
        priority^α, new ones with the highest priority that there was. ``None``: all alike.
      beta: the exponent β of the importance weights; the attribute may be changed at any time.
      n_step: transitions go over so many steps. It needs ``discount``.
      discount: γ. With it steps have a ``reward``, ``terminated`` or ``done``, and ``truncated`` if episodes are cut off, and the
        buffer makes the column ``discount``: γ^m, or 0 where the episode terminated, so that
        ``reward + discount * value(next_observation)`` is the target; ``reward`` is the discounted sum over the m steps. What begins
        with ``next_`` is that after the last of them.
      seed: where the random choices begin: the same calls then give the same batches.
      table: the table's name, for those who are served.

    Raises:
      ValueError: a number out of its range.
    """

    def __init__(
        self,
        capacity: int,
        *,
        batch_size: int = 256,
        prioritized: float | None = None,
        beta: float = 0.4,
        n_step: int = 1,
        discount: float | None = None,
        seed: int | None = None,
        table: str = "replay",
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, but it is {batch_size}")
        if n_step < 1:
            raise ValueError(f"n_step must be at least 1, but it is {n_step}")
        if discount is None and n_step > 1:
            raise ValueError(f"n_step={n_step} needs a discount, such as discount=0.99")
        if discount is not None and not 0 <= discount <= 1:
            raise ValueError(f"discount must be from 0 to 1, but it is {discount}")
        self.beta = beta
        self._batch_size = batch_size
        self._settings = {
            "capacity": capacity, "batch_size": batch_size, "prioritized": prioritized,
            "n_step": n_step, "discount": discount, "table": table,
        }
        sampler = item_selectors.Uniform() if prioritized is None else item_selectors.Prioritized(prioritized)
        self._is_prioritized = prioritized is not None
        self._n_step = None if discount is None else NStep(n_step, discount)
        self._highest = 1.0
        self._name = table
        self._table = Table(
            table, sampler, item_selectors.Fifo(), capacity, rate_limiters.MinSize(1), seed=seed
        )
        # There is no server before the first step, which says what the columns of the table are.
        self._started: Server | None = None
        # Names of the columns, as the first step has them.
        self._columns: set[str] | None = None
        self._kept = 1
        # Whether no column is a nest, which mapping over costs time.
        self._is_flat = False
        self._iterators: dict[int, BatchIterator] = {}
        self._is_flushed = True

    def _start(self, signature: Any = None, checkpoint: str | None = None) -> Server:
        if signature is not None:
            self._table = self._table.replace(signature=signature)
        with tempfile.TemporaryDirectory() as folder:
            # Begins with the checkpoint, and writes nothing where that lies.
            loader = None if checkpoint is None else DefaultCheckpointer(folder, fallback_checkpoint_path=checkpoint)
            server = Server([self._table], checkpointer=loader, listen=False)
        self._client = server.localhost_client()
        self._writer = self._client.trajectory_writer(num_keep_alive_refs=1)
        self._started = server
        return server

    def add(self, step: Mapping[str, Any] | None = None, /, *, priority: float | None = None, **columns: Any) -> None:
        """Adds a step of a single environment, as a mapping or as keyword arguments.

        With ``priority`` it has another one than the highest so far.

        Raises:
          ValueError: a step of another structure, data type or shape than the ones before, a column that is missing or that the
            buffer makes itself, a priority that is negative or no number.
          TypeError: a value that is no tensor.
        """
        step = columns if step is None else {**step, **columns} if columns else step
        if self._n_step is not None:
            step = _native.with_lists_joined(dict(step))
            return self._add_windows(nest.map_structure(lambda leaf: np.asarray(leaf)[None], step), priority)
        if self._started is None:
            self._check_names(step)
            step = _native.with_lists_joined(dict(step))
            self._is_flat = not any(nest.is_nested(value) for value in step.values())
            self._start(nest.map_structure(_spec, step))
        elif step.keys() != self._columns:
            self._check_columns(step)
        self._writer.append(step)
        history = self._writer.history
        newest = {name: column[-1] for name, column in history.items()} if self._is_flat else nest.map_structure(_newest, history)
        self._writer.create_item(self._name, self._highest if priority is None else priority, newest)
        self._is_flushed = False

    def add_batch(self, steps: Mapping[str, Any] | None = None, /, *, priority: float | None = None, **columns: Any) -> None:
        """Adds a step of each of many environments: the leading dimension of every column is the environment.

        With ``n_step`` each environment has its own episodes. Without it the leading dimension may be anything.

        Raises:
          As :meth:`add`; ValueError also for columns of different leading dimensions.
        """
        steps = _native.with_lists_joined({**(steps or {}), **columns})
        if self._n_step is not None:
            return self._add_windows(steps, priority)
        self._add_rows(len(np.asarray(next(nest.iterate(steps))[1])), steps, priority)

    def _add_windows(self, steps: Mapping[str, Any], priority: float | None) -> None:
        assert self._n_step is not None
        count, windows = self._n_step.push(steps)
        if count:
            self._add_rows(count, windows, priority)

    def _add_rows(self, count: int, rows: Mapping[str, Any], priority: float | None) -> None:
        if self._started is None:
            self._check_names(rows)
            self._start(nest.map_structure(lambda leaf: _spec(np.asarray(leaf)[0]), rows))
        elif rows.keys() != self._columns:
            self._check_columns(rows)
        if count > self._kept:
            # Items are made of what a writer keeps.
            self._flush()
            self._writer = self._client.trajectory_writer(num_keep_alive_refs=count)
            self._kept = count
        self._writer.append_sequence(rows)
        self._create(count, priority)

    def _create(self, count: int, priority: float | None) -> None:
        priorities = [self._highest if priority is None else priority] * count
        self._writer.create_window_items(self._name, priorities, range(-count, 0), squeeze=True)
        self._is_flushed = False

    def _check_names(self, step: Mapping[str, Any]) -> None:
        self._columns = set(step)
        if self._is_prioritized and (_WEIGHTS in step or _KEYS in step):
            raise ValueError(f"{_WEIGHTS!r} and {_KEYS!r} are what a prioritized buffer gives beside the columns; rename yours")

    def _check_columns(self, step: Mapping[str, Any]) -> None:
        """Raises ``ValueError`` for a step whose columns have other names than those of the steps before."""
        if self._columns is None and self._started is not None:
            # Of a buffer that was loaded.
            self._columns = set(self._client.server_info()[self._name].structure)
        if self._columns is not None and step.keys() != self._columns:
            raise ValueError(
                f"the steps of the buffer have the columns {sorted(self._columns)}, but this one has {sorted(step)}: "
                "give its columns the same names, or add it to a buffer of its own"
            )

    def _flush(self) -> None:
        if not self._is_flushed:
            self._writer.flush()
            self._is_flushed = True

    def sample(self, batch_size: int | None = None, to: str = "numpy") -> dict[str, Any]:
        """A batch: each column with the transitions as its leading dimension.

        If the buffer is prioritized there are ``weights`` as well, the importance weights (N·P)^-β over the largest of the batch, and
        ``keys``, for :meth:`update`.

        Args:
          batch_size: transitions of this batch.
          to: whether the arrays are of ``"numpy"``, ``"torch"`` or ``"jax"``; ``keys`` always are numpy's.

        Raises:
          ValueError: the buffer is empty, ``batch_size`` is below 1, or ``to`` is none of these.
        """
        self._flush()
        if self._started is None or not self._table.can_sample(1):
            raise ValueError("the buffer is empty: add steps before sampling")
        batch = next(self._iterator(self._batch_size if batch_size is None else batch_size))
        data: dict[str, Any] = dict(batch.data)
        if self._is_prioritized:
            data[_WEIGHTS] = batch.weights(self.beta)
        data = _converted(data, to)
        if self._is_prioritized:
            data[_KEYS] = batch.info.key
        return data

    def _iterator(self, batch_size: int) -> BatchIterator:
        iterator = self._iterators.get(batch_size)
        if iterator is None:
            # Nothing is fetched ahead, so that one that is not used costs nothing.
            iterator = self._client.batches(self._name, batch_size, prefetch=0)
            self._iterators[batch_size] = iterator
        return iterator

    def update(self, keys: npt.ArrayLike, priorities: npt.ArrayLike) -> None:
        """Sets the priorities of the transitions ``keys``, as :meth:`sample` gave them. Those that have left are passed over.

        Transitions of priority 0 are not sampled any more, so that most add a little to the errors that they give here.

        Raises:
          ValueError: different lengths, a priority that is negative or no number, a buffer that is not prioritized.
        """
        if not self._is_prioritized:
            raise ValueError("the buffer has no priorities: make it with prioritized=0.6, for example")
        values = np.asarray(_as_numpy(priorities), np.float64)
        self._client.update_priorities(self._name, keys, values)
        if values.size:
            self._highest = max(self._highest, float(values.max()))

    def __len__(self) -> int:
        """Transitions in the buffer."""
        self._flush()
        return 0 if self._started is None else self._table.info.current_size

    @property
    def server(self) -> Server:
        """The server beneath, with the one table. Its signature is that of the first step, if there was one before this."""
        self._flush()
        return self._start() if self._started is None else self._started

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the buffer into the folder ``path``, in place of one that was saved there before.

        Steps of windows that are not complete are no part of it, nor is where the random choices stand.

        Raises:
          RuntimeError: it cannot be written.
        """
        self._flush()
        path = os.fspath(path)
        self.server._native.save(path)
        settings = {**self._settings, "beta": self.beta, "highest_priority": self._highest}
        with open(os.path.join(path, _SETTINGS), "w", encoding="utf-8") as file:
            json.dump(settings, file)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, seed: int | None = None) -> ReplayBuffer:
        """The buffer that was saved at ``path``, with random choices that begin at ``seed``.

        Raises:
          OSError: there is none.
          DataLossError: it is damaged.
        """
        path = os.fspath(path)
        with open(os.path.join(path, _SETTINGS), encoding="utf-8") as file:
            settings = json.load(file)
        highest = settings.pop("highest_priority")
        buffer = cls(seed=seed, **settings)
        buffer._start(checkpoint=path)
        buffer._highest = highest
        return buffer

    def serve(
        self,
        port: int = 0,
        *,
        host: str | None = None,
        tls: ServerTls | None = None,
        token_file: str | os.PathLike[str] | None = None,
    ) -> int:
        """Opens a port for clients of other processes, and gives it; see :meth:`relive.Server.listen`."""
        return self.server.listen(port, host=host, tls=tls, token_file=token_file)

    def close(self) -> None:
        """Ends the buffer and lets go of its transitions."""
        for iterator in self._iterators.values():
            iterator.close()
        if self._started is not None:
            self._flush()
            self._writer.close()
            self._started.stop()

    def __enter__(self) -> ReplayBuffer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _newest(column: Any) -> Any:
    return column[-1]


def _spec(leaf: Any) -> ArraySpec:
    array = np.asarray(leaf)
    return ArraySpec(array.shape, array.dtype)


def _converted(data: dict[str, Any], to: str) -> dict[str, Any]:
    if to == "numpy":
        return data
    converted: dict[str, Any]
    if to == "torch":
        from relive.torch import to_torch

        converted = to_torch(data)
    elif to == "jax":
        from relive.jax import to_jax

        converted = to_jax(data)
    else:
        raise ValueError(f"to must be 'numpy', 'torch' or 'jax', not {to!r}")
    return converted


def _as_numpy(values: Any) -> Any:
    """Values of a framework as numpy can have them: PyTorch's may have a gradient, or be on a device."""
    return values.detach().cpu() if hasattr(values, "detach") else values

