"""Batches as JAX arrays.

On the CPU, the arrays share the memory of the gathered batch, without a copy. This memory has the alignment that XLA
requires, and is not reused as long as a JAX array refers to it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from relive import nest
from relive.batches import Batch
from relive.client import Client


def batches(
    client: Client,
    table: str,
    batch_size: int,
    *,
    device: jax.Device | jax.sharding.Sharding | None = None,
    timeout: float | None = None,
    prefetch: int | None = None,
    num_workers: int = 1,
    max_batches: int | None = None,
    pad: bool = False,
) -> Iterator[Batch]:
    """Iterates over batches of a table as JAX arrays: data columns ``[batch_size, steps, …]``, information
    ``[batch_size]``.

    ``batch.info.key`` stays a numpy array of uint64, which ``client.update_priorities`` takes; by default JAX would
    truncate it to 32 bits. Strings also stay numpy arrays. Unless ``jax_enable_x64`` is set, JAX copies other 64-bit
    arrays to 32-bit types.

    Args:
      client: the client for the server.
      table: the table.
      batch_size: the number of items in a batch, at least 1.
      device: the device, or the sharding over devices; by default JAX's default device.
      timeout, prefetch, num_workers, max_batches, pad: as in :meth:`relive.Client.batches`.

    Raises:
      The same exceptions as :meth:`relive.Client.batches`.
    """
    iterator = client.batches(
        table, batch_size, timeout=timeout, prefetch=prefetch, num_workers=num_workers, max_batches=max_batches, pad=pad
    )
    return _converted(iterator, device)


def _converted(iterator: Any, device: Any) -> Iterator[Batch]:
    with iterator:
        for batch in iterator:
            yield to_jax(batch, device=device)


def to_jax(batch: Any, *, device: jax.Device | jax.sharding.Sharding | None = None) -> Any:
    """Converts a batch, or any nest of numpy arrays, to JAX arrays; see :func:`batches`.

    On the CPU, the JAX arrays may share the memory of the numpy arrays. Do not write to the numpy arrays afterwards.
    """
    converted = nest.map_structure(lambda leaf: _array(leaf, device), batch)
    if isinstance(batch, Batch):
        return converted._replace(info=converted.info._replace(key=batch.info.key))
    return converted


# Older versions of JAX do not share the memory of arrays, and lack this argument.
_SHARED = {"may_alias": True} if "may_alias" in inspect.signature(jax.device_put).parameters else {}


def _array(leaf: Any, device: Any) -> Any:
    if not isinstance(leaf, np.ndarray) or leaf.dtype == object:
        return leaf
    # Shares the array's memory where possible, and then holds a reference to it.
    return jax.device_put(leaf, device, **_SHARED)
