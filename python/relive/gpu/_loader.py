"""Batches, one after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Literal

import numpy.typing as npt

from relive import _native
from relive.errors import FailedPreconditionError, InvalidArgumentError, ReverbError
from relive.gpu import _batch, _kept_weights, _window
from relive.gpu._device import conversion
from relive.gpu._given import real, whole
from relive.gpu._group import Group, exchange
from relive.gpu._sampling import LARGEST, Prioritized, Sampling, sampling_of
from relive.gpu._waits import REMOTE, told
from relive.gpu._window import Window

UpdateWeights = Callable[["npt.ArrayLike", "npt.ArrayLike", "npt.ArrayLike | None"], Any]

# The state of a loader is a dictionary of this form.
_VERSION = 2


class Loader:
    """An endless iterator of batches; made by :meth:`relive.gpu.Store.loader`.

    It is also a context manager: leaving it ends its thread at once. One thread at a time may use it.
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
        self._settings: dict[str, Any] = {
            "windows": _window.as_native(windows),
            "batch_size": whole("batch_size", batch_size, 1, 1 << 32),
            "sampling": self._sampling.name,
            "beta": self._sampling.exponent_of_importance(),
            "exponent": self._sampling.exponent(),
            "max_weight": self._sampling.largest(real("max_weight", max_weight, most=LARGEST)),
            "is_last": steps == "last",
            "seed": whole("seed", seed, 0, 1 << 64),
            "prefetch": whole("prefetch", prefetch, 0, 1 << 10),
            "threads": whole("threads", threads, 1, 1 << 10),
            "share": None if group is None or group.ranks == 1 else (group.replica, group.replicas),
        }
        self._group = None if self._settings["share"] is None else group
        self._names = list(windows)
        self._native = source.loader(self._settings)
        self._source = source
        self._update_weights = update_weights
        # A rank of several tells the others, who wait for it at the first draw.
        if self._group is None and (text := self._too_heavy()):
            raise InvalidArgumentError(text)

    def __iter__(self) -> Loader:
        return self

    def __next__(self) -> _batch.Batch:
        """The next batch.

        Raises:
          UnavailableError: no trajectory has a weight above 0, or fewer have than are to be drawn without replacement.
          InvalidArgumentError: a weight of the store is above ``max_weight``, until it is no more; ``max_weight`` is so far above the
            weights that draws would not have their chances; or the ranks do not draw alike: all make the same calls.
          DeadlineExceededError: another rank does not come, where the group has a deadline.
        """
        try:
            while self._group is not None and self._native.is_short():
                self._draw_together(self._group)
            parts = self._next()
        except InvalidArgumentError as error:
            # The extension does not know what the argument is called.
            if text := self._too_heavy():
                raise InvalidArgumentError(text) from error
            raise
        return _batch.from_native(self._names, parts, self._convert)

    def _next(self) -> Any:
        if self._group is None:
            return self._native.next()
        with told(f"rank {self._group.rank} of {self._group.ranks}", lambda: REMOTE):
            return self._native.next()

    def _too_heavy(self) -> str | None:
        """Which trajectory has a weight above the largest one; ``None`` if none has."""
        most = self._settings["max_weight"]
        if most == LARGEST:
            return None
        weights = self._source.weights()
        at = int(weights.argmax())
        if weights[at] <= most:
            return None
        rank, _ = self._source.shard()
        return (
            f"trajectory {rank * len(weights) + at} has the weight {weights[at]:g}, which is above max_weight, {most:g}: give the loader "
            "max_weight= with the largest weight that the store will have, or the trajectory another weight"
        )

    def _draw_together(self, group: Group) -> None:
        """Draws a list with all ranks, and begins to collect this process's share."""
        try:
            while True:
                summaries = exchange(group, self._native.summary)
                parts = exchange(group, lambda: self._native.part(summaries))
                if self._native.share(parts):
                    return
        except BaseException:
            self._native.give_up()
            raise

    def set_beta(self, beta: float) -> None:
        """Gives prioritized draws another β, as schedules do; from the next draw on, which ``prefetch`` puts off.

        Raises:
          InvalidArgumentError: the sampling is not prioritized, or β is not between 0 and 16.
        """
        if not isinstance(self._sampling, Prioritized):
            raise InvalidArgumentError(f"beta belongs to prioritized draws, and this loader's are {self._sampling.name}")
        self._native.set_beta(beta)

    def update_weights(self, batch: _batch.Batch, weights: npt.ArrayLike) -> None:
        """Gives the trajectories of a batch new weights, ``[B]``, as ``Store.update_weights`` does.

        Raises:
          FailedPreconditionError: the store is another process's, which alone changes weights.
          InvalidArgumentError: as there.
        """
        if self._update_weights is None:
            raise FailedPreconditionError("the store is another process's: only that one changes weights")
        self._update_weights(batch.indices, weights, batch.generations)

    def state(self) -> dict[str, Any]:
        """What :meth:`restore` needs to go on with the very batches that would come next. It can be pickled.

        It has the random stream, the batches that were drawn ahead, and the weights of all trajectories of this process's store. It does not
        have the trajectories: ``Store.save`` has.
        """
        seed, selector, pending = self._native.state()
        weights = _kept_weights.of_store(self._source) if isinstance(self._source, _native.GpuStore) else None
        return {
            "version": _VERSION, "settings": self._drawing(), "seed": seed, "selector": selector, "pending": pending, "weights": weights,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes on where :meth:`state` was taken, by this loader or another one of the same settings on the same trajectories. They get the
        weights that they had. The log of the name ``relive`` says if the store has other trajectories.

        Raises:
          InvalidArgumentError: it is no state, or that of a loader that draws in another way.
          DataLossError: what it has of the random stream is damaged.
          NotFoundError: the store has not the trajectories that were drawn ahead. This loader stays as it is.
        """
        if not isinstance(state, Mapping) or state.get("version") != _VERSION:
            raise InvalidArgumentError(f"this is no state of a loader of version {_VERSION}; give what state() returned")
        if missing := [part for part in ("settings", "seed", "selector", "pending") if part not in state]:
            raise InvalidArgumentError(f"the state of a loader has no {', '.join(missing)}; give what state() returned")
        if not isinstance(state["settings"], Mapping):
            raise InvalidArgumentError(f"the settings of the state are a {type(state['settings']).__name__}; give what state() returned")
        for name, value in self._drawing().items():
            if state["settings"].get(name) != value:
                raise InvalidArgumentError(
                    f"the state is of a loader with {name} {state['settings'].get(name)!r}; this one has {value!r}"
                )
        try:
            self._native.restore(state["seed"], state["selector"], state["pending"])
        except ReverbError:
            raise
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidArgumentError(f"this is no state of a loader: {error}; give what state() returned") from error
        if state["weights"] is not None and isinstance(self._source, _native.GpuStore):
            _kept_weights.give_back(self._source, state["weights"])

    def close(self) -> None:
        """Ends the loader. Its batches stay."""
        self._native.close()

    def __enter__(self) -> Loader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _drawing(self) -> dict[str, Any]:
        return {name: self._settings[name] for name in ("batch_size", "sampling", "exponent", "is_last", "share")}
