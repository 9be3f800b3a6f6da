"""What can be read of a store, in the process that made it and in others."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from relive import _native
from relive.errors import InvalidArgumentError, UnavailableError
from relive.gpu import _batch, _columns, _ranks, _window
from relive.gpu._group import Group
from relive.gpu._loader import Loader
from relive.gpu._sampling import LARGEST, Sampling
from relive.gpu._waits import REMOTE, told
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
        self._collectors: dict[Any, Loader] = {}

    @property
    def columns(self) -> dict[str, ArraySpec]:
        """What a step has, by name."""
        return dict(self._columns)

    @property
    def max_steps(self) -> int:
        """Most steps of a trajectory."""
        return self._max_steps

    @property
    def capacity(self) -> int:
        """Number of trajectories for which there is room; of each rank."""
        return self._capacity

    @property
    def rank(self) -> int:
        """This store's place among the ranks. Its trajectories have the indices from ``rank * capacity`` on."""
        return self._rank

    @property
    def ranks(self) -> int:
        """Number of stores that share the indices."""
        return self._ranks

    def weights(self) -> npt.NDArray[np.float32]:
        """A copy of the weights of all indices of this rank, ``[capacity]``; 0 where there is no trajectory."""
        weights: npt.NDArray[np.float32] = self._native.weights()
        return weights

    def metrics(self) -> dict[str, Any]:
        """What this process has done with the store: trajectories and bytes inserted and collected, seconds spent collecting and waiting,
        trajectories that went by reason, and the ages of those that were sampled, in classes of powers of two."""
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
        """An endless iterator of batches. All ranks make it and take batches from it together; each has its share of one draw from all
        trajectories.

        Args:
          batch_size: trajectories of a batch; of each rank's, or each replica's.
          windows: by name, which steps of which column.
          sampling: how trajectories are drawn; a name stands for its class with defaults.
          steps: the current step of each, to which windows are relative: ``"random"``, any of the trajectory's alike, or ``"last"``, the
            one behind its last, so that ``Window(-n, n)`` has the last ``n`` steps.
          seed: of all draws. The same seed, weights and calls give the same batches on all machines.
          device, framework: where the arrays go, and whose they are: ``"cpu"``, and ``"cuda"`` with PyTorch or JAX. JAX makes 32 bits of 64
            unless its ``jax_enable_x64`` is set.
          prefetch: batches that are drawn and copied before they are asked for. A new weight does not change those.
          threads: how many copy; the caller's included.
          max_weight: the largest weight that the store will have, where draws depend on how large weights are. Chances are rounded to about
            2⁻⁴⁰ of those of such a weight: with an ``alpha``, ``weight^alpha`` to 2⁻⁴⁰ of ``max_weight^alpha``. Where that would change
            them by more than 0.4 %, draws are refused: then give one near the largest weight. Uniform, FIFO and LIFO draws ask only
            whether a weight is above 0, and take any.

        Raises:
          InvalidArgumentError: a window cannot be had, an argument is out of range, or the store is another process's and one of
            several ranks: only these draw.
          NotFoundError: there is no column of a window's name.
          UnavailableError: the device cannot be used; the error says why.
        """
        if self._ranks > 1 and self._group is None:
            raise InvalidArgumentError(
                f"this store is rank {self._rank} of {self._ranks}, which draw together: make the loader in their processes"
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
        """The batch of these trajectories, whichever rank has them.

        Args:
          indices: which, ``[B]``; an index may come several times.
          windows, device, framework: as in :meth:`loader`.
          steps: the current step of each, ``[B]``: 0 to its length; or ``"last"``.

        Raises:
          NotFoundError: one is not there.
          InvalidArgumentError: a step is beyond its trajectory's length, or there are not as many as indices.
        """
        indices = np.atleast_1d(np.asarray(indices))
        last = isinstance(steps, str)
        if last and steps != "last":
            raise InvalidArgumentError(f"steps is {steps!r}; give an array of steps, or 'last'")
        at = np.full(len(indices), -1) if last else self._steps(steps)
        _window.as_native(windows)
        key = (tuple(windows.items()), str(device), framework, 1 << (max(1, len(indices)) - 1).bit_length())
        loader = self._collectors.pop(key, None) or self._collector(windows, device, framework, key[-1])
        with told(f"rank {self._rank} of {self._ranks}", lambda: REMOTE) if self._ranks > 1 else contextlib.nullcontext():
            parts = loader._native.collect(indices, at)
        batch = _batch.from_native(list(windows), parts, loader._convert)
        # Those of the last windows are kept: who collects mostly does it again and again. Another thread meanwhile makes its own.
        self._collectors = {key: loader}
        return batch

    def _steps(self, given: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Current steps, as far as they can be checked without the trajectories."""
        steps = np.atleast_1d(np.asarray(given))
        if steps.size and steps.dtype.kind not in "iu":
            raise InvalidArgumentError(f"the steps are {steps.dtype}; steps are integers, 0 to the length of the trajectory")
        outside = (steps < 0) | (steps > self._max_steps)
        if outside.any():
            raise InvalidArgumentError(f"step {steps[outside][0]}; steps are 0 to the length of the trajectory, at most {self._max_steps}")
        return steps.astype(np.int64)

    def _collector(self, windows: Mapping[str, Window], device: Any, framework: Literal["numpy", "torch", "jax"], rows: int) -> Loader:
        """What makes batches of given trajectories, of up to so many rows."""
        return Loader(
            self._native, rows, windows, sampling="uniform", steps="last", seed=0, device=device, framework=framework, prefetch=0, threads=2,
            max_weight=LARGEST, group=None,
        )

    def all_steps(self) -> dict[str, npt.NDArray[Any]]:
        """The steps of all trajectories with a weight, one after the other, ``[steps, …]`` for each column, as data sets of D4RL have them. If
        there is a column ``terminals``, there is one ``timeouts``, too, which is true for the last step of a trajectory that has not terminated.

        Raises:
          UnavailableError: there is none.
          NotFoundError: a trajectory was replaced meanwhile.
        """
        indices = self._rank * self._capacity + np.flatnonzero(self.weights())
        if not len(indices):
            raise UnavailableError("the store has no trajectory with a weight above 0")
        windows = {name: Window(-self._max_steps, self._max_steps, pad="tail") for name in self._columns}
        parts: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in self._columns}
        ends: list[int] = []
        for start in range(0, len(indices), _AT_ONCE):
            batch = self.collect(indices[start : start + _AT_ONCE], windows)
            there = np.arange(self._max_steps) < batch.lengths[:, None]
            for name, steps in batch.data.items():
                parts[name].append(steps[there])
            ends.extend(batch.lengths.tolist())
        # Whole trajectories take much memory, which is not wanted again soon.
        self._collectors = {}
        arrays = {name: np.concatenate(part) for name, part in parts.items()}
        if "terminals" in arrays:
            last = np.cumsum(ends) - 1
            timeouts = np.zeros(len(arrays["terminals"]), np.bool_)
            timeouts[last] = ~arrays["terminals"][last].astype(np.bool_).reshape(len(last))
            arrays["timeouts"] = timeouts
        return arrays

    def close(self) -> None:
        """Lets go of the store. Loaders and batches that there are stay as they are."""
        self._collectors = {}
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


# Trajectories of which all steps are read at a time.
_AT_ONCE = 64


class Reader(Readable):
    """A store of another process; made by :func:`attach`."""


def attach(
    name: str, columns: Mapping[str, Any] | None = None, *, max_steps: int | None = None, rank: int | None = None
) -> Reader:
    """The store of this name, which another process of this machine has made, to be read where it lies.

    A process that forks attaches anew in the child.

    Args:
      name: as in ``Store(name=…)``.
      columns, max_steps: what trajectories are expected to be made of, given together; taken as they are unless given.
      rank: whose store, of several ranks'.

    Raises:
      NotFoundError: there is no such store.
      InvalidArgumentError: its columns are others; the error shows both.
      UnavailableError: its process has ended, or as many read it as may.
      DataLossError: it is no store, or is damaged.
    """
    name = name if rank is None else _ranks.rank_name(name, rank)
    return Reader(_native.GpuReader.attach(name, _columns.expected(columns, max_steps)))
