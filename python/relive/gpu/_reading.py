"""Reads a store, in the process that created it and in other processes."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from relive import _native
from relive.errors import InvalidArgumentError, UnavailableError
from relive.gpu import _batch, _columns, _ranks, _window
from relive.gpu._device import resolved
from relive.gpu._given import places
from relive.gpu._group import Group
from relive.gpu._loader import Loader
from relive.gpu._sampling import LARGEST, Sampling
from relive.gpu._waits import REMOTE, log_long_wait
from relive.gpu._window import Window
from relive.specs import ArraySpec

if TYPE_CHECKING:
    from typing_extensions import Self


class Readable:
    """Base class of :class:`Store` and :class:`Reader`."""

    def __init__(self, native: Any, *, group: Group | None = None) -> None:
        self._native = native
        self._group = group
        self._rank: int
        self._ranks: int
        self._rank, self._ranks = native.shard()
        columns, max_steps, capacity = native.schema()
        self._max_steps: int = max_steps
        self._capacity: int = capacity
        self._columns = _columns.from_native(columns)
        self._trajectory_bytes: int = max_steps * sum(math.prod(shape) * dtype.itemsize for _, dtype, shape in columns)
        self._collectors: dict[Any, Loader] = {}

    @property
    def columns(self) -> dict[str, ArraySpec]:
        """The columns of a step, by name."""
        return dict(self._columns)

    @property
    def max_steps(self) -> int:
        """The largest number of steps in a trajectory."""
        return self._max_steps

    @property
    def capacity(self) -> int:
        """The number of trajectories for which each rank has room."""
        return self._capacity

    @property
    def rank(self) -> int:
        """This store's rank. The indices of its trajectories start at ``rank * capacity``."""
        return self._rank

    @property
    def ranks(self) -> int:
        """The number of stores that share the indices."""
        return self._ranks

    def weights(self) -> npt.NDArray[np.float32]:
        """Returns a copy of the weights of all indices of this rank, ``[capacity]``; 0 for an index without a
        trajectory."""
        weights: npt.NDArray[np.float32] = self._native.weights()
        return weights

    def metrics(self) -> dict[str, Any]:
        """Returns this process's counters for the store, since it created the store or attached to it.

        The keys are ``inserted_rows``, ``inserted_bytes``, ``aborted_rows``, ``collects``, ``collected_rows``,
        ``collected_bytes``, ``collect_s``, ``waits``, ``wait_s``, ``evictions`` (a dictionary by reason: ``no_free``,
        ``max_selectable``, ``exhausted``, ``removed``), ``stale_updates``, ``dead_readers``, ``dead_writers`` and
        ``ages``; the section "Metrics" of docs/gpu.md has their meanings. Bytes are those of steps in the store, without
        padding, so ``collected_bytes / collect_s`` is the mean number of bytes per second. The age of a sampled
        trajectory is the number of trajectories that have become available since. Element ``i`` of ``ages`` counts the
        ages from ``2^(i-1)`` to ``2^i - 1``; element 0 counts age 0."""
        metrics: dict[str, Any] = self._native.metrics()
        return metrics

    def loader(
        self,
        batch_size: int,
        windows: Mapping[str, Window],
        *,
        sampling: Sampling | str = "uniform",
        steps: Literal["random", "last"] = "random",
        seed: int = 0,
        device: Any = "cpu",
        framework: Literal["numpy", "torch", "jax"] = "numpy",
        prefetch: int = 1,
        threads: int = 2,
        max_weight: float = 65_536.0,
    ) -> Loader:
        """Returns an endless iterator of batches. All ranks must create the iterator and take batches from it together;
        each rank gets its share of one draw from all trajectories.

        Args:
          batch_size: the number of trajectories in the batch of each rank or replica.
          windows: the steps and columns to collect, by name.
          sampling: the sampling rule; a name selects its class with defaults.
          steps: the current step of each trajectory, to which windows are relative: ``"random"``, a uniformly drawn
            step, or ``"last"``, the position after the last step, so that ``Window(-n, n)`` has the last ``n`` steps.
          seed: the seed of all draws. The same seed, weights and calls give the same batches on all machines.
          device, framework: the device and the library of the arrays: ``"cpu"``, and ``"cuda"`` with PyTorch or JAX.
            JAX converts 64-bit types to 32 bits unless its ``jax_enable_x64`` is set.
          prefetch: the number of batches that are drawn and copied ahead. New weights do not affect these batches.
          threads: the number of threads that copy, including the caller's.
          max_weight: the largest weight that the store will have, for draws that depend on the size of weights.
            Probabilities are rounded to about 2⁻⁴⁰ of this weight's probability: with an ``alpha``, ``weight^alpha`` to
            2⁻⁴⁰ of ``max_weight^alpha``. If rounding would change the mean weight's probability by more than 0.4 %,
            draws are rejected; in this case, pass a value near the largest weight. The probabilities of much smaller
            weights may change more; ``batch.probabilities`` has the probabilities after rounding. Uniform, FIFO and
            LIFO draws only check whether a weight is above 0, and accept weights of any size.

        Raises:
          InvalidArgumentError: an invalid window, an argument out of range, or a store of another process that is one
            of several ranks; only the ranks themselves can draw.
          NotFoundError: a window refers to a column that does not exist.
          UnavailableError: the device cannot be used; the error gives the reason.
        """
        if self._ranks > 1 and self._group is None:
            raise InvalidArgumentError(
                f"this store is rank {self._rank} of {self._ranks}, which draw together; create the loader in their processes"
            )
        return Loader(
            self._native, batch_size, windows, sampling=sampling, steps=steps, seed=seed, device=device, framework=framework,
            prefetch=prefetch, threads=threads, max_weight=max_weight, group=self._group, update_weights=getattr(self, "update_weights", None),
        )

    def collect(
        self,
        indices: npt.ArrayLike,
        windows: Mapping[str, Window],
        *,
        steps: npt.ArrayLike | Literal["last"] = "last",
        device: Any = "cpu",
        framework: Literal["numpy", "torch", "jax"] = "numpy",
    ) -> _batch.Batch:
        """Returns a batch of the given trajectories, which may belong to any rank.

        Args:
          indices: the trajectories, ``[B]``; an index may occur several times.
          windows, device, framework: as in :meth:`loader`.
          steps: the current step of each trajectory, ``[B]``, from 0 to its length; or ``"last"``.

        Raises:
          NotFoundError: a trajectory does not exist.
          InvalidArgumentError: a step is beyond its trajectory's length, the numbers of steps and indices differ, or
            there is more than one dimension.
          TypeError: the indices are not whole numbers.
        """
        indices = places("indices", indices)
        last = isinstance(steps, str)
        if last and steps != "last":
            raise InvalidArgumentError(f"steps is {steps!r}; give an array of steps, or 'last'")
        at = np.full(len(indices), -1) if last else self._steps(steps)
        _window.as_native(windows, self._columns)
        key = (tuple(windows.items()), resolved(framework, device), framework)
        loader = self._collectors.pop(key, None)
        if loader is None or loader.batch_size < len(indices):
            # If the number of rows grows, it grows by powers of 2, so that few collectors are created.
            rows = max(1, len(indices)) if loader is None else 1 << (len(indices) - 1).bit_length()
            loader = self._collector(windows, device, framework, rows)
        with log_long_wait(f"rank {self._rank} of {self._ranks}", lambda: REMOTE) if self._ranks > 1 else contextlib.nullcontext():
            batch = loader._collect(indices, at)
        # The collector of the last windows is cached, since callers mostly repeat these windows. A concurrent thread
        # creates its own collector.
        self._collectors = {key: loader}
        return batch

    def _steps(self, given: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Checks the current steps, except for the checks that need the trajectories."""
        steps = np.atleast_1d(np.asarray(given))
        if steps.size and steps.dtype.kind not in "iu":
            raise InvalidArgumentError(f"the steps are {steps.dtype}, but must be integers from 0 to the length of the trajectory")
        outside = (steps < 0) | (steps > self._max_steps)
        if outside.any():
            raise InvalidArgumentError(f"step {steps[outside][0]}, but steps must be from 0 to the length of the trajectory, at most {self._max_steps}")
        return steps.astype(np.int64)

    def _collector(self, windows: Mapping[str, Window], device: Any, framework: Literal["numpy", "torch", "jax"], rows: int) -> Loader:
        """Returns a collector that builds batches of up to ``rows`` rows from given trajectories."""
        return Loader(
            self._native, rows, windows, sampling="uniform", steps="last", seed=0, device=device, framework=framework, prefetch=0, threads=2,
            max_weight=LARGEST, group=None,
        )

    def all_steps(self) -> dict[str, npt.NDArray[Any]]:
        """Returns the steps of all trajectories with a weight, concatenated, as ``[steps, …]`` for each column: the
        layout of D4RL's data sets. If there is a column ``terminals``, the result also has ``timeouts``, which is true
        for the last step of a trajectory that has not terminated. Reading does not count as sampling.

        Raises:
          UnavailableError: no trajectory has a weight.
          NotFoundError: a trajectory was replaced in the meantime.
        """
        indices = self._rank * self._capacity + np.flatnonzero(self.weights())
        if not len(indices):
            raise UnavailableError("the store has no trajectory with a weight above 0")
        windows = {name: Window(-self._max_steps, self._max_steps, pad="tail") for name in self._columns}
        parts: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in self._columns}
        ends: list[int] = []
        each = min(len(indices), max(1, _BYTES_AT_ONCE // self._trajectory_bytes))
        with self._collector(windows, "cpu", "numpy", each) as collector:
            for start in range(0, len(indices), each):
                part = indices[start : start + each].astype(np.uint64)
                batch = collector._read(part, np.full(len(part), -1))
                there = np.arange(self._max_steps) < batch.lengths[:, None]
                for name, steps in batch.data.items():
                    parts[name].append(steps[there])
                ends.extend(batch.lengths.tolist())
        arrays = {name: np.concatenate(part) for name, part in parts.items()}
        if "terminals" in arrays:
            last = np.cumsum(ends) - 1
            timeouts = np.zeros(len(arrays["terminals"]), np.bool_)
            timeouts[last] = ~arrays["terminals"][last].astype(np.bool_).reshape(len(last))
            arrays["timeouts"] = timeouts
        return arrays

    def close(self) -> None:
        """Releases the store. Existing loaders and batches remain usable."""
        self._collectors = {}
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


# The number of bytes that `all_steps` reads at a time, into a few buffers of this size. A trajectory can be larger.
_BYTES_AT_ONCE = 1 << 24


class Reader(Readable):
    """A store in another process, created by :func:`attach`."""


def attach(
    name: str, columns: Mapping[str, Any] | None = None, *, max_steps: int | None = None, rank: int | None = None
) -> Reader:
    """Attaches to the store with this name, which another process on this machine has created, to read it in place.

    After a fork, the child must attach again.

    Args:
      name: as in ``Store(name=…)``.
      columns, max_steps: the expected columns and maximum length of trajectories, which must be given together; by
        default, any are accepted.
      rank: the rank of the store, if several ranks share its name.

    Raises:
      NotFoundError: no such store exists.
      InvalidArgumentError: the store's columns differ; the error shows both lists of columns.
      UnavailableError: the store's process has ended, or the store already has its maximum number of readers.
      DataLossError: the memory is not a store, or is damaged.
    """
    return Reader(_native.GpuReader.attach(_ranks.attached_name(name, rank), _columns.expected(columns, max_steps)))
