"""Batches as PyTorch tensors, and data sets for ``torch.utils.data.DataLoader``.

>>> dataset = ReplayDataset("localhost:8000", "replay", batch_size=256, device="cuda")  # doctest: +SKIP
>>> for info, data, _ in dataset:  # doctest: +SKIP
...     loss = train(data["observation"], data["action"])

The tensors share the memory of the gathered batch, without a further copy on the CPU. For a CUDA device, the data is
copied to page-locked memory and from there to the device, while Python continues.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NoReturn

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

from relive import gpu, nest
from relive.batches import Batch
from relive.client import Client

# Types of numpy's extension package ml_dtypes with the same name in PyTorch, and the type of equal size for sharing
# memory. Old versions of PyTorch lack some of these types.
_CARRIERS: dict[str, type[np.generic]] = {"bfloat16": np.int16, "float8_e4m3fn": np.uint8, "float8_e5m2": np.uint8}


class ReplayDataset(IterableDataset[Batch]):
    """An endless dataset of batches of a table, like :meth:`relive.Client.batches`, as PyTorch tensors.

    Iterate over it directly, or through a ``torch.utils.data.DataLoader`` with ``batch_size=None``, since the data is
    already batched. A loader's workers, forked or spawned, draw their own batches over the network; ``max_batches`` is
    divided among them. Most programs need no workers, since sampling and gathering run without Python's interpreter
    lock.

    Strings, types that PyTorch does not support, and ``batch.info.key`` stay numpy arrays. The keys can be passed back
    to the client: ``client.update_priorities(table, batch.info.key, priorities)``.

    Args:
      server: a client, or the address of a server, ``host:port``.
      table: the table.
      batch_size: the number of items in a batch, at least 1.
      timeout: the number of seconds to wait for a batch.
      prefetch: the number of batches to request ahead; with 0, a batch is sampled only when it is requested. The
        default is 0 within the process and 4 over a network, or fewer if 5 batches would exceed 2²⁰ samples.
      num_workers: the number of streams that fetch in parallel, for each iterator.
      max_batches: the number of batches of one iteration over the dataset; by default, an iteration never ends.
      pad: whether to pad items that differ in length with zeros to the longest of the batch.
      device: the device of the tensors of ``data``, and of ``info`` except the keys. It cannot be used with a loader's
        workers.
      pin_memory: whether tensors on the CPU are in page-locked memory; by default if the device is a CUDA device. With
        a ``DataLoader``, use the loader's own ``pin_memory``.

    Raises:
      ValueError: a number that is out of range. While iterating, the same exceptions as :meth:`relive.Client.batches`.
    """

    def __init__(
        self,
        server: Client | str,
        table: str,
        batch_size: int,
        *,
        timeout: float | None = None,
        prefetch: int | None = None,
        num_workers: int = 1,
        max_batches: int | None = None,
        pad: bool = False,
        device: torch.device | str | None = None,
        pin_memory: bool | None = None,
    ) -> None:
        super().__init__()
        _check_numbers(batch_size, max_batches)
        self._client = Client(server) if isinstance(server, str) else server
        self._table = table
        self._batch_size = batch_size
        self._max_batches = max_batches
        self._options: dict[str, Any] = {
            "timeout": timeout, "prefetch": prefetch, "num_workers": num_workers, "pad": pad,
        }
        self._device = None if device is None else torch.device(device)
        self._pin_memory = pin_memory

    def __iter__(self) -> Iterator[Batch]:
        worker = get_worker_info()
        if worker is not None:
            _check_worker(self._device, self._pin_memory)
        max_batches = _share(self._max_batches, worker)
        if max_batches == 0:
            return
        with self._client.batches(
            self._table, self._batch_size, max_batches=max_batches, **self._options
        ) as batches:
            for batch in batches:
                yield to_torch(batch, device=self._device, pin_memory=self._pin_memory)

    def __len__(self) -> int:
        """Returns the number of batches, if bounded."""
        return _bound(self._max_batches)


class StoreDataset(IterableDataset[gpu.Batch]):
    """An endless dataset of batches of a store of trajectories, like :meth:`relive.gpu.Store.loader`, as PyTorch
    tensors.

    Iterate over it directly, or through a ``torch.utils.data.DataLoader`` with ``batch_size=None``, since the data is
    already batched. A loader's workers, forked or spawned, attach to the store by its name and draw their own batches;
    ``max_batches`` is divided among them, and each of them is one of the store's ``readers``. Most programs need no
    workers, since a store's loader collects batches ahead, without Python's interpreter lock.

    The first iteration has the batches of ``store.loader(..., seed=seed)``; each later iteration, and each worker, has
    its own random stream. The streams of workers also depend on the seed of PyTorch, ``torch.manual_seed``. To save the
    state of a stream, iterate over a ``store.loader`` instead.

    Args:
      store: the store, or its name on this machine, which workers need. A store that is one of several ranks cannot be
        given by name.
      batch_size: the number of trajectories in a batch.
      windows: the steps and columns, by name.
      max_batches: the number of batches of one iteration over the dataset; by default, an iteration never ends.
      seed: the seed of all draws.
      sampling, steps, device, prefetch, threads, max_weight: as for :meth:`relive.gpu.Store.loader`. A device other than
        the CPU cannot be used with a loader's workers.

    Raises:
      ValueError: a number that is out of range; or workers cannot use the store or the device. While iterating, the same
        exceptions as :func:`relive.gpu.attach` and the iterator of the store.
    """

    def __init__(
        self,
        store: gpu.Readable | str,
        batch_size: int,
        windows: Mapping[str, gpu.Window],
        *,
        max_batches: int | None = None,
        seed: int = 0,
        sampling: gpu.Sampling | str = "uniform",
        steps: Literal["random", "last"] = "random",
        device: Any = "cpu",
        prefetch: int = 1,
        threads: int = 2,
        max_weight: float = 65_536.0,
    ) -> None:
        super().__init__()
        _check_numbers(batch_size, max_batches)
        self._store = store
        self._arguments: dict[str, Any] = {
            "batch_size": batch_size, "windows": windows, "sampling": sampling, "steps": steps, "device": device,
            "framework": "torch", "prefetch": prefetch, "threads": threads, "max_weight": max_weight,
        }
        self._max_batches = max_batches
        self._seed = seed
        self._iterations = 0

    def __iter__(self) -> Iterator[gpu.Batch]:
        worker = get_worker_info()
        if worker is not None:
            if not isinstance(self._store, str):
                _refuse_workers()
            _check_worker(torch.device(self._arguments["device"]), None)
        # PyTorch starts the workers anew for each iteration, with new seeds, unless they are persistent.
        stream = [self._iterations] if worker is None else [worker.seed, self._iterations]
        self._iterations += 1
        return self._batches(self._seed if stream == [0] else _mixed(self._seed, *stream), _share(self._max_batches, worker))

    def _batches(self, seed: int, max_batches: int | None) -> Iterator[gpu.Batch]:
        with contextlib.ExitStack() as opened:
            store = opened.enter_context(gpu.attach(self._store)) if isinstance(self._store, str) else self._store
            loader = opened.enter_context(store.loader(seed=seed, **self._arguments))
            yield from itertools.islice(loader, max_batches)

    def __len__(self) -> int:
        """Returns the number of batches, if bounded."""
        return _bound(self._max_batches)

    def __getstate__(self) -> dict[str, Any]:
        if not isinstance(self._store, str):
            _refuse_workers()
        return self.__dict__


def _refuse_workers() -> NoReturn:
    raise ValueError(
        "other processes, such as the workers of a DataLoader, cannot use this process's store; create the store with name=, and give "
        "StoreDataset its name instead of the store, or use no workers"
    )


def _mixed(*numbers: int) -> int:
    """Returns a seed that depends on all numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


def to_torch(
    batch: Any, *, device: torch.device | str | None = None, pin_memory: bool | None = None
) -> Any:
    """Converts a batch, or any nest of numpy arrays, to tensors that share the memory of the arrays. Arrays
    with a negative stride or another byte order than this machine's are copied.

    The arguments are the same as for :class:`ReplayDataset`. In a :class:`relive.Batch`, the keys stay a numpy array.
    """
    target = None if device is None else torch.device(device)
    pinned = pin_memory if pin_memory is not None else target is not None and target.type == "cuda"

    def convert(leaf: Any) -> Any:
        tensor = _tensor(leaf)
        return _placed(tensor, target, pinned) if isinstance(tensor, torch.Tensor) else tensor

    converted = nest.map_structure(convert, batch)
    if isinstance(batch, Batch):
        return converted._replace(info=converted.info._replace(key=batch.info.key))
    return converted


def _tensor(leaf: Any) -> Any:
    """Returns the leaf as a tensor over the same memory, or the leaf itself if no tensor type matches."""
    if not isinstance(leaf, np.ndarray):
        return leaf
    if not leaf.dtype.isnative or min(leaf.strides, default=0) < 0:
        # Tensors have neither another byte order nor negative strides.
        leaf = leaf.astype(leaf.dtype.newbyteorder("="), order="C")
    try:
        return torch.from_numpy(leaf)
    except TypeError:
        name = leaf.dtype.name
        if name not in _CARRIERS or not hasattr(torch, name):
            return leaf
        return torch.from_numpy(leaf.view(_CARRIERS[name])).view(getattr(torch, name))


def _placed(tensor: torch.Tensor, device: torch.device | None, pinned: bool) -> torch.Tensor:
    if pinned:
        tensor = tensor.pin_memory()
    if device is None:
        return tensor
    # PyTorch does not reuse pinned memory until the copy is complete.
    return tensor.to(device, non_blocking=True)


def _check_numbers(batch_size: int, max_batches: int | None) -> None:
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    if max_batches is not None and max_batches < 0:
        raise ValueError(f"max_batches must be at least 0, got {max_batches}")


def _check_worker(device: torch.device | None, pin_memory: bool | None) -> None:
    if pin_memory or (device is not None and device.type != "cpu"):
        raise ValueError(
            f"device={device} and pin_memory={pin_memory} do not work in the workers of a DataLoader, "
            "whose tensors travel through shared memory; use DataLoader(..., pin_memory=True) and move the batches in the training "
            "process, or use no workers"
        )


def _bound(max_batches: int | None) -> int:
    if max_batches is None:
        raise TypeError("the dataset has no length because it was created without max_batches")
    return max_batches


def _share(total: int | None, worker: Any) -> int | None:
    """Returns one worker's share of ``total``, if there is a worker; the remainder is distributed among the first
    workers."""
    if total is None or worker is None:
        return total
    share: int = total // worker.num_workers + (worker.id < total % worker.num_workers)
    return share
