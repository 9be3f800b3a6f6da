"""Batches that a CUDA device collects itself, from the memory of the store, as tensors of PyTorch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from relive import _native
from relive.errors import FailedPreconditionError, InvalidArgumentError
from relive.gpu import _batch

if TYPE_CHECKING:
    import torch


class _View(NamedTuple):
    """A tensor within a batch's memory, for any number of rows."""

    dtype: torch.dtype
    first: int
    """The position of its first element, counted in elements of its type."""
    shape: tuple[int, ...]
    """The shape of a row."""


class CudaBatches:
    """The memory of a loader's batches on a CUDA device.

    PyTorch allocates it, so that it can be freed and reused like the memory of any other tensor. The device reads the
    trajectories over the bus.
    """

    def __init__(self, device: torch.device) -> None:
        import torch

        self._torch = torch
        self._device = device if device.index is not None else torch.device("cuda", torch.cuda.current_device())
        self._bytes = 0
        self._lists = 0
        self._views: list[_View] = []

    def open(self, source: Any, settings: dict[str, Any]) -> _native.GpuLoader:
        """Returns the extension's loader for these batches.

        Raises:
          ReverbError: the device cannot collect these batches; the error gives the reason.
        """
        native: _native.GpuLoader = source.loader({**settings, "device": (self._device.index, self.allocate)})
        self._lists, list_bytes, windows = native.layout()
        self._views = [_View(_torch_dtype(dtype), at // dtype.itemsize, tuple(shape)) for at, dtype, shape in windows]
        self._bytes = self._lists + list_bytes
        return native

    def allocate(self) -> tuple[tuple[torch.Tensor, int], int, int]:
        """Returns a pair of memory for a batch and the current stream; the memory's address; and the stream."""
        if self._torch.cuda.is_current_stream_capturing():
            raise FailedPreconditionError("a batch cannot be collected while a CUDA graph is captured; call next() before the capture")
        memory = self._torch.empty(self._bytes, dtype=self._torch.uint8, device=self._device)
        stream = self._torch.cuda.current_stream(self._device).cuda_stream
        return (memory, stream), memory.data_ptr(), stream

    def next(self, native: _native.GpuLoader, names: Sequence[str]) -> _batch.Batch:
        """Returns the loader's next batch."""
        current = self._torch.cuda.current_stream(self._device)
        return self._batch(names, native.next_on_device(current.cuda_stream), current)

    def collect(self, native: _native.GpuLoader, names: Sequence[str], indices: Any, steps: Any) -> _batch.Batch:
        """Returns the batch of the given trajectories at the given steps."""
        current = self._torch.cuda.current_stream(self._device)
        return self._batch(names, native.collect_on_device(indices, steps, current.cuda_stream), current)

    def _batch(self, names: Sequence[str], parts: Any, current: torch.cuda.Stream) -> _batch.Batch:
        (memory, stream), indices, generations = parts
        if stream != current.cuda_stream:
            # The current stream has changed since the memory was allocated.
            memory.record_stream(current)
        data, valid, others = views_of(memory, self._views, self._lists, len(indices))
        lengths, steps, weights, probabilities = others
        return _batch.Batch(
            dict(zip(names, data, strict=True)), dict(zip(names, valid, strict=True)), lengths, steps, weights, probabilities, indices,
            generations,
        )


def views_of(
    memory: torch.Tensor, windows: Sequence[_View], lists: int, rows: int
) -> tuple[list[torch.Tensor], list[torch.Tensor], list[torch.Tensor]]:
    """Returns tensors over a batch's memory: the windows; the valid steps of each window; and lengths, current steps,
    importance weights and probabilities. The lists begin at byte ``lists``."""
    import torch

    storage, device = memory.untyped_storage(), memory.device

    def tensor(dtype: torch.dtype, first: int, shape: tuple[int, ...]) -> torch.Tensor:
        # Not a view: to autograd, a view shares its changes with all other views of the same memory.
        strides = [math.prod(shape[at + 1 :]) for at in range(len(shape))]
        return torch.empty(0, dtype=dtype, device=device).set_(storage, first, shape, strides)

    data = [tensor(window.dtype, window.first, (rows, *window.shape)) for window in windows]
    numbers = len(windows) + 2
    integers = tensor(torch.int64, lists // 8, (numbers, rows)).unbind()
    floats = [tensor(torch.float32, lists // 4 + (2 * numbers + number) * rows, (rows,)) for number in range(2)]
    return data, list(integers[:-2]), [*integers[-2:], *floats]


def _torch_dtype(dtype: np.dtype[Any]) -> torch.dtype:
    from relive.torch import to_torch

    tensor = to_torch(np.empty(0, dtype))
    if isinstance(tensor, np.ndarray):
        raise InvalidArgumentError(f"PyTorch has no {dtype.name}")
    found: torch.dtype = tensor.dtype
    return found
