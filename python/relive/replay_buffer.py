"""A replay buffer for single-process programs, built on a server's table; using it takes three lines of code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from relive import item_selectors, nest, rate_limiters
from relive._buffer_checks import as_mask, expect_mask, readable, warn_of_consecutive, warn_of_indices
from relive._buffer_settings import BufferSettings, load
from relive._buffer_table import BufferTable
from relive._frameworks import as_floats, converted
from relive._n_step import NStep
from relive._numbers import any_number, number, whole
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

    A step is a mapping of names to values, which may be nests. The first step determines the names, data types and
    shapes. Strings are sampled as bytes, in arrays of objects. The steps are items of a table of an in-process
    :class:`relive.Server`, which has no port until :meth:`serve` opens one. Only one thread at a time may use a buffer,
    and only the process that created it.

    Copies (``copy.deepcopy``, ``copy.copy``) and pickled buffers contain the transitions, their priorities and the
    attributes. They do not contain the steps of incomplete n-step windows, the state of the random choices (a copy
    starts again from ``seed``), or the port of :meth:`serve`.

    Args:
      capacity: the number of transitions that are kept; the oldest are evicted.
      batch_size: the number of transitions in a batch, unless :meth:`sample` is called with another number.
      prioritized: the exponent α of prioritized replay (Schaul et al., 2016): transitions are sampled in proportion to
        priority^α, and new transitions get the highest priority so far. ``None``: uniform sampling.
      beta: the exponent β of the importance weights, at least 0; the attribute may be changed at any time.
      n_step: the number of steps that a transition covers. More than one step requires ``discount``.
      discount: γ. With it, steps must have a ``reward``, ``terminated`` or ``done``, and ``truncated`` if episodes are
        truncated. The buffer adds the column ``discount``: γ^m for a transition over m steps, or 0 where the episode
        terminated, so that ``reward + discount * value(next_observation)`` is the target. ``reward`` becomes the
        discounted sum over the m steps, as float32. The column ``next`` and columns with the prefix ``next_`` are taken
        from the last of these steps; with ``n_step`` above 1, at least one column must have such a name.
      seed: the seed of the random choices; with the same seed, the same calls produce the same batches.
      table: the table's name, for clients that connect after :meth:`serve`.

    Raises:
      ValueError: a number that is out of range, or an ``n_step`` above 1 without a ``discount``.
      TypeError: an argument that is not a number, or not a whole number.
    """

    def __init__(
        self,
        capacity: int,
        batch_size: int = 256,
        *,
        prioritized: float | None = None,
        beta: float = 0.4,
        n_step: int = 1,
        discount: float | None = None,
        seed: int | None = None,
        table: str = "replay",
    ) -> None:
        self._settings = BufferSettings(capacity, batch_size, prioritized, n_step, discount, table)
        self._seed = seed
        self.beta = beta
        self._highest = 1.0
        self._has_told_keys = False
        self._build()

    def _build(self) -> None:
        """Creates an empty table and empty windows."""
        settings = self._settings
        self._is_prioritized = settings.prioritized is not None
        self._exponent = 1.0 if settings.prioritized is None else settings.prioritized
        # The powers of greater priorities may be infinite after rounding.
        self._limit = 0.999 * sys.float_info.max ** (1 / max(self._exponent, 1.0))
        sampler = item_selectors.Prioritized(self._exponent) if self._is_prioritized else item_selectors.Uniform()
        self._n_step = self._windows()
        self._table = BufferTable(
            Table(settings.table, sampler, item_selectors.Fifo(), settings.capacity, rate_limiters.MinSize(1), seed=self._seed)
        )

    def _windows(self) -> NStep | None:
        settings = self._settings
        return None if settings.discount is None else NStep(settings.n_step, settings.discount)

    def add(self, step: Mapping[str, Any] | None = None, /, *, priority: float | None = None, **columns: Any) -> None:
        """Adds a step of a single environment, as a mapping or as keyword arguments.

        ``priority``, for prioritized buffers, replaces the default priority, the highest so far. With ``n_step`` above
        1, it is the priority of all transitions that this step completes; it has no effect if it completes none.

        Raises:
          ValueError: a step with a different structure, data type or shape than the first step, a missing column, a
            column that the buffer itself adds, a priority that is negative, not finite, or too large for the exponent,
            a priority for a buffer that is not prioritized, or, with ``discount``, an end of an episode that is
            neither a bool nor 0 or 1.
          TypeError: a value that is not a tensor.
          ClosedError: the buffer is closed.
          FailedPreconditionError: the buffer was created before this process was forked.
        """
        step = columns if step is None else {**step, **columns} if columns else step
        if self._n_step is not None:
            completed = self._n_step.completed(step)
            if completed is None:
                return self._add_windows(self._n_step, self._n_step.rows_of(readable(step)), priority)
            step = completed
        value = self._highest
        if priority is not None:
            value = any_number("priority", priority)
            self._expect_valid(value)
        if not self._table.is_bound:
            self._check_names(step)
        self._table.add(step, value)
        self._highest = max(self._highest, value)

    def add_batch(
        self,
        steps: Mapping[str, Any] | None = None,
        /,
        *,
        priority: npt.ArrayLike | None = None,
        skip: npt.ArrayLike | None = None,
        **columns: Any,
    ) -> None:
        """Adds one step from each of many environments; the leading dimension of every column indexes the environments.

        With ``n_step`` above 1, the buffer tracks the episodes of each environment separately, so each call must have a
        row for every environment. Otherwise, the leading dimension can have any meaning and size.

        Args:
          steps, columns: the columns, as a mapping or as keyword arguments.
          priority: a number for all rows, or an array with a number for each row. With ``n_step`` above 1, it must be
            one number, which applies to all transitions that this call completes.
          skip: an array with a bool for each row; rows with ``True`` are left out. With ``n_step``, the episodes of
            these environments end before this call, as by :meth:`end_episode`. Pass the environments that ended in the
            previous step if the vector resets them in a step of its own (Gymnasium's default, ``NEXT_STEP``).

        Raises:
          The same exceptions as :meth:`add`, and ValueError for columns with different leading dimensions, or a
          ``skip`` that has not one bool for each row.
        """
        steps = readable(columns if steps is None else {**steps, **columns})
        is_skipped = None if skip is None else as_mask(skip)
        if self._n_step is not None:
            return self._add_windows(self._n_step, steps, priority, is_skipped)
        known = self._table.flattened(steps)
        leaves = nest.flatten(steps) if known is None else known
        counts = {leaf.shape[:1] if type(leaf) is np.ndarray else np.shape(leaf)[:1] for leaf in leaves}
        if not counts or () in counts:
            raise ValueError("the steps of add_batch must have columns with a leading dimension; use add for a single step")
        if len(counts) > 1:
            raise ValueError(f"the columns have {', '.join(str(rows) for (rows,) in sorted(counts))} rows, but all columns of add_batch must "
                             "have the same leading dimension")
        ((count,),) = counts
        if is_skipped is not None:
            expect_mask(is_skipped, count)
            kept = ~is_skipped
            steps, known = nest.map_structure(lambda leaf: np.asarray(leaf)[kept], steps), None
            priority, count = _of_kept(priority, kept), int(kept.sum())
        self._add_rows(count, steps, priority, known)

    def _add_windows(
        self,
        windows: NStep,
        steps: Mapping[str, Any],
        priority: npt.ArrayLike | None,
        is_skipped: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        self._table.expect_open()
        if priority is not None:
            given = as_floats("priority", priority)
            if given.ndim and self._settings.n_step > 1:
                raise ValueError("with n_step, priority must be one number for all transitions that this call completes, but its shape "
                                 f"is {given.shape}")
            self._expect_valid(given)
        if not self._table.is_bound:
            # Otherwise, the table would refuse the windows with this step, and all later steps would differ from it.
            self._check_names(steps)
            if self._settings.n_step > 1:
                warn_of_consecutive(steps)
        if is_skipped is not None and self._settings.n_step == 1:
            # Windows of one step have the priority of their row.
            priority = _of_kept(priority, ~is_skipped)
        self._add_completed(windows, lambda: windows.push(steps, is_skipped), priority)

    def end_episode(self, environments: npt.ArrayLike | None = None) -> None:
        """Ends episodes that are abandoned without a last step, for example before ``env.reset()`` in the middle of an
        episode: no transition then spans steps before and after this call. Transitions that wait for further steps are
        added as if their episodes had been truncated.

        Args:
          environments: the numbers of the environments, or an array with a bool for each environment; by default all.

        Raises:
          IndexError: transitions wait for further steps, and there are no such environments.
          ClosedError: the buffer is closed.
        """
        self._table.expect_open()
        windows = self._n_step
        if windows is not None and windows.has_open:
            self._add_completed(windows, lambda: windows.end(environments), None)

    def _add_completed(
        self, windows: NStep, complete: Callable[[], tuple[int, Mapping[str, Any]]], priority: npt.ArrayLike | None
    ) -> None:
        """Adds the transitions that a change of the windows completes."""
        before = windows.state
        count, rows = complete()
        try:
            if count:
                self._add_rows(count, rows, priority)
        except Exception:
            # The windows must not contain a step that the table has refused.
            windows.restore(before)
            raise

    def _add_rows(
        self, count: int, rows: Mapping[str, Any], priority: npt.ArrayLike | None, leaves: list[Any] | None = None
    ) -> None:
        priorities = [self._highest] * count if priority is None else self._for_rows(count, priority)
        if not self._table.is_bound:
            self._check_names(rows)
        self._table.add_rows(count, rows, priorities, leaves)
        if priority is not None:
            self._highest = max([self._highest, *priorities])

    def _for_rows(self, count: int, priority: npt.ArrayLike) -> list[float]:
        """Returns the priority of each of ``count`` new transitions."""
        given = as_floats("priority", priority)
        self._expect_valid(given)
        if given.ndim and given.shape != (count,):
            raise ValueError(f"priority must be one number, or an array with one for each of the {count} steps, but its shape is "
                             f"{given.shape}")
        priorities: list[float] = np.broadcast_to(given, count).tolist()
        return priorities

    def _expect_valid(self, priorities: float | npt.NDArray[np.float64]) -> None:
        """Raises ``ValueError`` if the buffer is not prioritized, or if a priority is invalid. The table would refuse it
        only after other changes, or after the item was sent."""
        if not self._is_prioritized:
            raise ValueError("the buffer has no priorities; create it with, for example, prioritized=0.6")
        is_valid = (priorities >= 0) & (priorities <= self._limit)
        if not (is_valid if isinstance(is_valid, bool) else is_valid.all()):
            bad = np.asarray(priorities)[~np.asarray(is_valid)][0]
            raise ValueError(f"priority must be at least 0, and finite even to the power of {self._exponent:g}, got {bad}")

    def _check_names(self, step: Mapping[str, Any]) -> None:
        if not isinstance(step, Mapping):
            raise TypeError(f"a step must be a mapping of column names to values, not {step!r}")
        if self._is_prioritized and (_WEIGHTS in step or _KEYS in step):
            raise ValueError(f"{_WEIGHTS!r} and {_KEYS!r} are extra columns of a prioritized buffer; rename your columns")

    def sample(self, batch_size: int | None = None, to: str = "numpy", *, device: Any = None) -> dict[str, Any]:
        """Returns a batch; the leading dimension of each column indexes the transitions.

        A prioritized buffer adds ``weights``, the importance weights (N·P)^-β divided by the largest weight in the
        batch, and ``keys``, for :meth:`update`.

        Args:
          batch_size: the number of transitions in this batch.
          to: the library of the arrays: ``"numpy"``, ``"torch"`` or ``"jax"``; ``keys`` are always numpy arrays.
          device: the device of PyTorch's or JAX's arrays, as in :func:`relive.torch.to_torch` and
            :func:`relive.jax.to_jax`.

        Raises:
          ValueError: the buffer is empty, ``batch_size`` is below 1, ``to`` is not one of these names, or a ``device``
            for numpy.
          ClosedError: the buffer is closed.
        """
        size = self.batch_size if batch_size is None else whole("batch_size", batch_size)
        batch = self._table.sample(size)
        if batch is None:
            return converted(self._sample_empty(size), to, device)
        data: dict[str, Any] = dict(batch.data)
        if self._is_prioritized:
            data[_WEIGHTS] = batch.weights(self.beta)
        data = converted(data, to, device)
        if self._is_prioritized:
            data[_KEYS] = batch.info.key
        return data

    def _sample_empty(self, batch_size: int) -> dict[str, Any]:
        """Called by :meth:`sample` if the table has no transitions."""
        if self._n_step is not None and self._n_step.has_open:
            raise ValueError(f"no window of n_step={self._settings.n_step} steps is complete yet; add more steps before you sample")
        raise ValueError("the buffer is empty; add steps before you sample")

    def update(self, keys: npt.ArrayLike, priorities: npt.ArrayLike) -> None:
        """Sets the priorities of the transitions ``keys``, as returned by :meth:`sample`. Evicted transitions are
        ignored.

        Transitions with priority 0 are not sampled as long as others have higher priorities, so programs usually add a
        small constant to the errors. If all priorities are 0, sampling is uniform.

        Raises:
          ValueError: different lengths, a priority that is negative, not finite, or too large for the exponent, or a
            buffer that is not prioritized. No priority changes in this case.
        """
        values = as_floats("priorities", priorities)
        self._expect_valid(values)
        if not self._has_told_keys:
            self._has_told_keys = warn_of_indices(np.asarray(keys))
        self._table.update(keys, values)
        self._highest = max(self._highest, float(values.max(initial=0.0)))

    @property
    def beta(self) -> float:
        """The exponent β of the importance weights.

        Raises:
          ValueError: it is set to a number that is negative or not finite.
          TypeError: it is set to something that is not a number.
        """
        return self._beta

    @beta.setter
    def beta(self, beta: float) -> None:
        self._beta = number("beta", beta, least=0)

    @property
    def capacity(self) -> int:
        """The number of transitions that are kept."""
        return self._settings.capacity

    @property
    def batch_size(self) -> int:
        """The default number of transitions in a batch."""
        return self._settings.batch_size

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
        self._table.save(path)
        self._settings.save(path, beta=self.beta, highest_priority=self._highest)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, seed: int | None = None) -> ReplayBuffer:
        """Returns the buffer that was saved at ``path``; ``seed`` is the seed of its further random choices.

        Raises:
          OSError: no buffer was saved there.
          DataLossError: the saved buffer is damaged.
          FailedPreconditionError: a later version of Relive has saved the buffer.
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

    def clear(self) -> None:
        """Removes all transitions and incomplete n-step windows, and resets the highest priority to 1. Later steps must
        still have the same names, data types and shapes."""
        self._table.clear()
        self._n_step, self._highest = self._windows(), 1.0

    def close(self) -> None:
        """Closes the buffer and releases its transitions."""
        self._table.close()

    def state_dict(self) -> dict[str, Any]:
        """Returns the transitions, their priorities and ``beta``, as in a copy of the buffer; see
        :meth:`load_state_dict`. A checkpoint of a run contains the buffers that are attributes of a
        ``relive.rl.torch.Learner``."""
        archive = self._table.archive()
        contents = None if archive is None else np.frombuffer(archive, np.uint8)
        return {"transitions": contents, "beta": self.beta, "highest_priority": self._highest}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replaces the contents of the buffer with a state. The state of the random choices starts again from ``seed``,
        and a port of :meth:`serve` is closed.

        Raises:
          ValueError: the state is not that of a buffer. The buffer does not change.
          DataLossError: the transitions are damaged. The buffer does not change.
        """
        if state.keys() != {"transitions", "beta", "highest_priority"}:
            raise ValueError(f"the state has the keys {sorted(state)}, but it must be the state_dict() of a ReplayBuffer")
        former = self._table
        self._build()
        try:
            if state["transitions"] is not None:
                self._table.load_archive(np.asarray(state["transitions"], np.uint8).tobytes())
        except BaseException:
            self._table.close()
            self._table = former
            raise
        former.close()
        self.beta, self._highest = state["beta"], float(state["highest_priority"])

    def __getstate__(self) -> dict[str, Any]:
        state = {**vars(self), "archive": self._table.archive(), "beta": self.beta}
        del state["_table"], state["_n_step"], state["_beta"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        archive, self.beta = state.pop("archive"), state.pop("beta")
        self.__dict__.update(state)
        self._build()
        if archive is not None:
            self._table.load_archive(archive)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(capacity={self.capacity}, {self._table.described})"

    def __enter__(self) -> ReplayBuffer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _of_kept(priority: npt.ArrayLike | None, kept: npt.NDArray[np.bool_]) -> npt.ArrayLike | None:
    """Returns the priorities of the rows that are kept."""
    given = None if priority is None else as_floats("priority", priority)
    if given is None or not given.ndim:
        return given
    if given.shape != kept.shape:
        raise ValueError(f"priority must be one number, or a number for each of the {kept.size} rows, but its shape is {given.shape}")
    return given[kept]
