"""An iterator over batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from relive import _native
from relive.errors import FailedPreconditionError, InvalidArgumentError, ReverbError, UnavailableError
from relive.gpu import _batch, _columns, _kept_weights, _window
from relive.gpu._device import conversion, cuda_batches
from relive.gpu._given import real, whole
from relive.gpu._group import Group, exchange
from relive.gpu._sampling import LARGEST, MAX_EXPONENT, Prioritized, Sampling, sampling_of
from relive.gpu._waits import REMOTE, log_long_wait
from relive.gpu._window import Window

UpdateWeights = Callable[["npt.ArrayLike", "npt.ArrayLike", "npt.ArrayLike | None"], Any]

_log = logging.getLogger("relive")

# The version of a loader's state, which is a dictionary. Version 3 has no unfinished batch.
_VERSION = 4
_VERSIONS = (3, 4)


class Loader:
    """An endless iterator of batches, created by :meth:`relive.gpu.Store.loader`.

    It is also a context manager; exiting it ends its thread, and waits for a batch that is being collected. Only one
    thread at a time may use it.
    """

    def __init__(
        self,
        source: _native.GpuStore | _native.GpuReader,
        batch_size: int,
        windows: Mapping[str, Window],
        *,
        sampling: Sampling | str,
        steps: Literal["random", "last"],
        seed: int,
        device: Any,
        framework: Literal["numpy", "torch", "jax"],
        prefetch: int,
        threads: int,
        max_weight: float,
        group: Group | None,
        update_weights: UpdateWeights | None = None,
    ) -> None:
        if steps not in ("random", "last"):
            raise InvalidArgumentError(f"steps is {steps!r}; it must be 'random' or 'last'")
        self._sampling = sampling_of(sampling)
        self._convert = conversion(framework, device)
        self._beta = self._sampling.exponent_of_importance()
        self._settings: dict[str, Any] = {
            "windows": _window.as_native(windows, _columns.from_native(source.schema()[0])),
            "batch_size": whole("batch_size", batch_size, 1, 1 << 32),
            "sampling": self._sampling.name,
            "beta": self._beta,
            "exponent": self._sampling.exponent(),
            "max_weight": self._sampling.largest(real("max_weight", max_weight, most=LARGEST)),
            "is_last": steps == "last",
            "seed": whole("seed", seed, 0, 1 << 64),
            "prefetch": whole("prefetch", prefetch, 0, 1 << 10),
            "threads": whole("threads", threads, 1, 1 << 10),
            "share": None if group is None or group.ranks == 1 else (group.replica, group.replicas),
            "device": None,
        }
        self._group = None if self._settings["share"] is None else group
        self._names = list(windows)
        # With several ranks, the host collects, since a device reads the memory of a single store.
        self._cuda = cuda_batches(framework, device) if source.shard()[1] == 1 else None
        self._native = self._open(source)
        self._source = source
        self._update_weights = update_weights
        # With several ranks, the affected rank reports the error to the other ranks, which wait at the first draw.
        if self._group is None and (text := self._too_heavy()):
            raise InvalidArgumentError(text)

    def _open(self, source: _native.GpuStore | _native.GpuReader) -> _native.GpuLoader:
        if self._cuda is None:
            return source.loader(self._settings)
        try:
            return self._cuda.open(source, self._settings)
        except ReverbError as error:
            reason = error
        self._cuda = None
        # If the settings themselves are invalid, this call raises the error again.
        native = source.loader(self._settings)
        _log.warning("batches are collected on the host and copied to the device, which cannot collect them itself: %s", reason)
        return native

    @property
    def batch_size(self) -> int:
        """The number of trajectories in a batch."""
        size: int = self._settings["batch_size"]
        return size

    def __iter__(self) -> Loader:
        return self

    def __next__(self) -> _batch.Batch:
        """Returns the next batch.

        Raises:
          UnavailableError: no trajectory has a weight above 0, or too few do for a draw without replacement.
          InvalidArgumentError: a weight of the store is above ``max_weight``; ``max_weight`` is so far above the
            weights that the probabilities would be inaccurate; or the ranks draw differently: all ranks must make the
            same calls.
          DeadlineExceededError: another rank does not arrive in time, if the group has a deadline.
        """
        try:
            if self._group is not None:
                self._draw_ahead(self._group)
            if self._cuda is not None:
                return self._cuda.next(self._native, self._names)
            parts = self._next()
        except InvalidArgumentError as error:
            # The extension's error does not contain the argument's name.
            if text := self._too_heavy():
                raise InvalidArgumentError(text) from error
            raise
        return _batch.from_native(self._names, parts, self._convert)

    def _collect(self, indices: npt.NDArray[Any], steps: npt.NDArray[np.int64]) -> _batch.Batch:
        """Returns the batch of the given trajectories, which counts as sampling them; step -1 is the position after the
        last step."""
        if self._cuda is not None:
            return self._cuda.collect(self._native, self._names, indices, steps)
        return _batch.from_native(self._names, self._native.collect(indices, steps, True), self._convert)

    def _read(self, indices: npt.NDArray[Any], steps: npt.NDArray[np.int64]) -> _batch.Batch:
        """Like :meth:`_collect`, but does not count as sampling; for loaders that collect on the host."""
        return _batch.from_native(self._names, self._native.collect(indices, steps, False), self._convert)

    def _next(self) -> Any:
        if self._group is None:
            return self._native.next()
        with log_long_wait(f"rank {self._group.rank} of {self._group.ranks}", lambda: REMOTE):
            return self._native.next()

    def _too_heavy(self) -> str | None:
        """Returns a trajectory with a weight above the maximum, or ``None`` if there is none."""
        most = self._settings["max_weight"]
        if most == LARGEST:
            return None
        weights = self._source.weights()
        at = int(weights.argmax())
        # Before version 2, numpy compares a float32 with a Python number as float64.
        if weights[at] <= np.float32(most):
            return None
        rank, _ = self._source.shard()
        return (
            f"trajectory {rank * len(weights) + at} has the weight {weights[at]:g}, which is above max_weight, {most:g}; give the loader "
            "max_weight= with the largest weight that the store will have, or lower the weight"
        )

    def _draw_ahead(self, group: Group) -> None:
        """Draws batches ahead together with all ranks. If no more can be drawn at the moment, earlier draws can still
        be returned; all ranks have the same number of them."""
        try:
            while self._native.is_short():
                self._draw_together(group)
        except UnavailableError:
            if not (group._is_unavailable and self._native.has_batch()):
                raise

    def _draw_together(self, group: Group) -> None:
        """Draws trajectories together with all ranks, and starts to collect this process's share."""
        try:
            while True:
                summaries = exchange(group, self._native.summary, "next(loader)")
                parts = exchange(group, lambda: self._native.part(summaries), "next(loader), second part")
                if self._native.share(parts):
                    return
        except BaseException:
            self._native.give_up(group._is_unavailable)
            raise

    def set_beta(self, beta: float) -> None:
        """Sets β of prioritized draws, for example according to a schedule. It applies from the next draw on; batches
        already prefetched keep the old β.

        Raises:
          InvalidArgumentError: the sampling is not prioritized, or β is not between 0 and 16.
        """
        if not isinstance(self._sampling, Prioritized):
            raise InvalidArgumentError(f"beta applies to prioritized sampling, but this loader's sampling is {self._sampling.name}")
        beta = real("beta", beta, most=MAX_EXPONENT)
        self._native.set_beta(beta)
        self._beta = beta

    def update_weights(self, batch: _batch.Batch, weights: npt.ArrayLike) -> None:
        """Sets the weights of the trajectories of a batch, ``[B]``, like ``Store.update_weights``.

        Raises:
          FailedPreconditionError: the store belongs to another process; only that process changes weights.
          TypeError: the first argument is not a batch.
          InvalidArgumentError: as for ``Store.update_weights``.
        """
        if self._update_weights is None:
            raise FailedPreconditionError("the store belongs to another process, and only that process can change weights")
        if not hasattr(batch, "generations"):
            raise TypeError(f"update_weights needs a batch of this loader, but got a {type(batch).__name__}; Store.update_weights takes indices")
        self._update_weights(batch.indices, weights, batch.generations)

    def state(self) -> dict[str, Any]:
        """Returns a state from which :meth:`restore` continues with exactly the batches that come next. The state can
        be pickled.

        The state contains the random stream, the batches that were drawn ahead, the first rows of a batch for which
        there were too few trajectories, β, and the weights of all trajectories of this process's store. It does not
        contain the trajectories, which ``Store.save`` saves. With several ranks and the removal ``("max_times_sampled",
        n)``, it also does not contain the rows of a batch for which there were too few trajectories, although they count
        as sampled; this is logged. After a call of ``next`` that returns a batch, there are no such rows.
        """
        seed, selector, pending, unfinished = self._native.state()
        weights = _kept_weights.of_store(self._source) if isinstance(self._source, _native.GpuStore) else None
        return {
            "version": _VERSION, "settings": self._drawing(), "seed": seed, "beta": self._beta, "selector": selector, "pending": pending,
            "unfinished": unfinished, "weights": weights,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continues from a :meth:`state` of this loader or of another loader with the same settings on the same
        trajectories. It also restores β and the trajectories' weights. If the store has different trajectories, this is
        logged to the logger ``relive``.

        Raises:
          InvalidArgumentError: the value is not a state, or belongs to a loader with different settings. This loader
            stays unchanged.
          DataLossError: the random stream in the state is damaged.
          NotFoundError: the store lacks trajectories that were drawn ahead, or has no room for trajectories of the
            state. This loader stays unchanged.
        """
        # Everything is checked before the first change.
        self._expect_own(state)
        beta = real("beta of the state", state["beta"], most=MAX_EXPONENT)
        store = self._source if isinstance(self._source, _native.GpuStore) else None
        weights = None if store is None or state["weights"] is None else _kept_weights.checked(store, state["weights"])
        try:
            self._native.restore(state["seed"], state["selector"], state["pending"], state.get("unfinished"))
        except ReverbError:
            raise
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidArgumentError(f"this is not the state of a loader: {error}; give the result of state()") from error
        if isinstance(self._sampling, Prioritized):
            self.set_beta(beta)
        if store is not None and weights is not None:
            _kept_weights.give_back(store, weights)

    def _expect_own(self, state: Mapping[str, Any]) -> None:
        """Checks that a value is a state of a loader with this loader's settings."""
        if not isinstance(state, Mapping) or not _is_version(state.get("version")):
            raise InvalidArgumentError(f"this is not the state of a loader of version {_VERSION}; give the result of state()")
        if missing := [part for part in ("settings", "seed", "beta", "selector", "pending", "weights") if part not in state]:
            raise InvalidArgumentError(f"the state of a loader has no {', '.join(missing)}; give the result of state()")
        settings = state["settings"]
        if not isinstance(settings, Mapping):
            raise InvalidArgumentError(f"the settings of the state are a {type(settings).__name__}; give the result of state()")
        for name, value in self._drawing().items():
            if settings.get(name) != value:
                raise InvalidArgumentError(f"the state belongs to a loader with {name} {settings.get(name)!r}; this one has {value!r}")

    def close(self) -> None:
        """Ends the loader. Its batches remain valid."""
        self._native.close()

    def __enter__(self) -> Loader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _drawing(self) -> dict[str, Any]:
        return {name: self._settings[name] for name in ("batch_size", "sampling", "exponent", "max_weight", "is_last", "share")}


def _is_version(given: Any) -> bool:
    return isinstance(given, int) and given in _VERSIONS
