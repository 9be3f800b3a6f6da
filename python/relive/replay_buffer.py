"""A replay buffer for single-process programs, built on a server's table; using it takes three lines of code."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from relive import _native, item_selectors, nest, rate_limiters
from relive._buffer_settings import BufferSettings, load
from relive._buffer_table import BufferTable
from relive._frameworks import as_numpy, converted
from relive._n_step import NStep
from relive.security import ServerTls
from relive.server import Server
from relive.tables import Table

# The additional entries in a sample from a prioritized buffer.
_WEIGHTS, _KEYS = "weights", "keys"


class ReplayBuffer:
    """Keeps the newest ``capacity`` transitions, and samples batches of them.

    >>> buffer = ReplayBuffer(100_000, batch_size=32, seed=0)
    >>> buffer.add(observation=np.zeros(4, np.float32), action=1, reward=0.5, next_observation=np.ones(4, np.float32), done=False)
    >>> buffer.sample()["observation"].shape
    (32, 4)

    A step is a mapping of names to values, which may be nests. The steps are items of a table of an in-process
    :class:`relive.Server`, which has no port until :meth:`serve` opens one. Only one thread at a time may use a buffer.

    Args:
      capacity: the number of transitions that are kept; the oldest are evicted.
      batch_size: the number of transitions in a batch, unless :meth:`sample` is called with another number.
      prioritized: the exponent α of prioritized replay (Schaul et al., 2016): transitions are sampled in proportion to
        priority^α, and new transitions get the highest priority so far. ``None``: uniform sampling.
      beta: the exponent β of the importance weights; the attribute may be changed at any time.
      n_step: the number of steps that a transition covers. More than one step requires ``discount``.
      discount: γ. With it, steps must have a ``reward``, ``terminated`` or ``done``, and ``truncated`` if episodes are
        truncated. The buffer adds the column ``discount``: γ^m for a transition over m steps, or 0 where the episode
        terminated, so that ``reward + discount * value(next_observation)`` is the target. ``reward`` becomes the
        discounted sum over the m steps. Columns with the prefix ``next_`` are taken from the last of these steps.
      seed: the seed of the random choices; with the same seed, the same calls produce the same batches.
      table: the table's name, for clients that connect after :meth:`serve`.

    Raises:
      ValueError: a number that is out of range, or an ``n_step`` above 1 without a ``discount``.
      TypeError: ``prioritized`` is a bool.
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
        self._settings = BufferSettings(capacity, batch_size, prioritized, n_step, discount, table)
        self.beta = beta
        sampler = item_selectors.Uniform() if prioritized is None else item_selectors.Prioritized(prioritized)
        self._is_prioritized = prioritized is not None
        self._exponent = 1.0 if prioritized is None else prioritized
        self._n_step = None if discount is None else NStep(n_step, discount)
        self._highest = 1.0
        self._table = BufferTable(
            Table(table, sampler, item_selectors.Fifo(), capacity, rate_limiters.MinSize(1), seed=seed)
        )

    def add(self, step: Mapping[str, Any] | None = None, /, *, priority: float | None = None, **columns: Any) -> None:
        """Adds a step of a single environment, as a mapping or as keyword arguments.

        ``priority`` replaces the default priority, the highest so far.

        Raises:
          ValueError: a step with a different structure, data type or shape than the previous steps, a missing column, a
            column that the buffer itself adds, or a priority that is negative, not finite, or too large for the
            exponent.
          TypeError: a value that is not a tensor.
          ClosedError: the buffer is closed.
        """
        step = columns if step is None else {**step, **columns} if columns else step
        if self._n_step is not None:
            step = _native.with_lists_joined(dict(step))
            return self._add_windows(nest.map_structure(lambda leaf: np.asarray(leaf)[None], step), priority)
        priority = self._highest if priority is None else self._checked(priority)
        if not self._table.is_started:
            self._check_names(step)
        self._table.add(step, priority)
        self._highest = max(self._highest, priority)

    def add_batch(self, steps: Mapping[str, Any] | None = None, /, *, priority: float | None = None, **columns: Any) -> None:
        """Adds one step from each of many environments; the leading dimension of every column indexes the environments.

        With ``discount``, the buffer tracks the episodes of each environment separately. Without ``discount``, the
        leading dimension can have any meaning and size.

        Raises:
          The same exceptions as :meth:`add`, and ValueError for columns with different leading dimensions.
        """
        steps = _native.with_lists_joined({**(steps or {}), **columns})
        if self._n_step is not None:
            return self._add_windows(steps, priority)
        leaves = nest.flatten(steps)
        if not leaves or not all(map(np.ndim, leaves)):
            raise ValueError("the steps of add_batch must have columns with a leading dimension; use add for a single step")
        self._add_rows(len(np.asarray(leaves[0])), steps, priority)

    def _add_windows(self, steps: Mapping[str, Any], priority: float | None) -> None:
        assert self._n_step is not None
        self._table.expect_open()
        if priority is not None:
            self._checked(priority)
        count, windows = self._n_step.push(steps)
        if count:
            self._add_rows(count, windows, priority)

    def _add_rows(self, count: int, rows: Mapping[str, Any], priority: float | None) -> None:
        priority = self._highest if priority is None else self._checked(priority)
        if not self._table.is_started:
            self._check_names(rows)
        self._table.add_rows(count, rows, priority)
        self._highest = max(self._highest, priority)

    def _checked(self, given: float) -> float:
        """Returns the priority of a new transition.

        Raises:
          ValueError: the priority is invalid. The table would refuse the item only after it was sent.
        """
        priority = float(given)
        try:
            is_valid = priority >= 0 and math.isfinite(priority**self._exponent)
        except OverflowError:
            is_valid = False
        if not is_valid:
            raise ValueError(f"priority must be a number from 0, finite also to the power of {self._exponent:g}, got {priority}")
        return priority

    def _check_names(self, step: Mapping[str, Any]) -> None:
        if self._is_prioritized and (_WEIGHTS in step or _KEYS in step):
            raise ValueError(f"{_WEIGHTS!r} and {_KEYS!r} are extra columns of a prioritized buffer; rename your columns")

    def sample(self, batch_size: int | None = None, to: str = "numpy") -> dict[str, Any]:
        """Returns a batch; the leading dimension of each column indexes the transitions.

        A prioritized buffer adds ``weights``, the importance weights (N·P)^-β divided by the largest weight in the
        batch, and ``keys``, for :meth:`update`.

        Args:
          batch_size: the number of transitions in this batch.
          to: the library of the arrays: ``"numpy"``, ``"torch"`` or ``"jax"``; ``keys`` are always numpy arrays.

        Raises:
          ValueError: the buffer is empty, ``batch_size`` is below 1, or ``to`` is not one of these names.
          ClosedError: the buffer is closed.
        """
        batch = self._table.sample(self._settings.batch_size if batch_size is None else batch_size)
        data: dict[str, Any] = dict(batch.data)
        if self._is_prioritized:
            data[_WEIGHTS] = batch.weights(self.beta)
        data = converted(data, to)
        if self._is_prioritized:
            data[_KEYS] = batch.info.key
        return data

    def update(self, keys: npt.ArrayLike, priorities: npt.ArrayLike) -> None:
        """Sets the priorities of the transitions ``keys``, as returned by :meth:`sample`. Evicted transitions are
        ignored.

        Transitions with priority 0 are never sampled again, so programs usually add a small constant to the errors.

        Raises:
          ValueError: different lengths, a priority that is negative or not a number, or a buffer that is not
            prioritized.
        """
        if not self._is_prioritized:
            raise ValueError("the buffer has no priorities; create it with, for example, prioritized=0.6")
        values = np.asarray(as_numpy(priorities), np.float64)
        self._table.update(keys, values)
        if values.size:
            self._highest = max(self._highest, float(values.max()))

    def __len__(self) -> int:
        """Returns the number of transitions in the buffer."""
        return len(self._table)

    @property
    def server(self) -> Server:
        """The underlying server, with one table. The table has the signature of the first step, or no signature if this
        property is read before a step is added."""
        return self._table.server

    def save(self, path: str | os.PathLike[str]) -> None:
        """Saves the buffer in the folder ``path``, replacing any buffer there.

        Steps of incomplete n-step windows and the state of the random choices are not saved.

        Raises:
          RuntimeError: writing failed.
        """
        path = os.path.abspath(path)
        self.server._native.save(path)
        self._settings.save(path, beta=self.beta, highest_priority=self._highest)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, seed: int | None = None) -> ReplayBuffer:
        """Returns the buffer that was saved at ``path``; ``seed`` is the seed of its further random choices.

        Raises:
          OSError: no buffer was saved there.
          DataLossError: the saved buffer is damaged.
        """
        path = os.path.abspath(path)
        settings = load(path)
        highest = settings.pop("highest_priority")
        buffer = cls(seed=seed, **settings)
        buffer._table.load(path)
        buffer._highest = highest
        return buffer

    def serve(
        self,
        port: int = 0,
        *,
        host: str | None = None,
        tls: ServerTls | None = None,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
    ) -> int:
        """Opens a port for clients in other processes, and returns it; see :meth:`relive.Server.listen`."""
        return self.server.listen(port, host=host, tls=tls, token=token, token_file=token_file)

    def close(self) -> None:
        """Closes the buffer and releases its transitions."""
        self._table.close()

    def __enter__(self) -> ReplayBuffer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
