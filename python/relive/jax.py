"""Batches as JAX arrays.

On the CPU they use the memory into which the batch was gathered, without a copy: it is aligned as XLA wants it, and is
kept from being used again for as long as a JAX array needs it.
"""

from __future__ import annotations

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
    """Batches of a table as JAX arrays: data columns ``[batch_size, steps, …]``, information ``[batch_size]``.

    ``batch.info.key`` stays a numpy array of uint64, which JAX would cut to 32 bits by default; it goes back to
    ``client.update_priorities``. Strings stay numpy arrays, too. Unless ``jax_enable_x64`` is set, JAX makes 32-bit
    types of the other 64-bit ones, which takes a copy.

    Args:
      client: the client of the server.
      table: the table.
      batch_size: items of a batch, at least 1.
      device: the device, or the sharding over devices; JAX's default device unless given.
      timeout, prefetch, num_workers, max_batches, pad: as in :meth:`relive.Client.batches`.

    Raises:
      As :meth:`relive.Client.batches`.
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
    """A batch, or any nest of numpy arrays, with JAX arrays instead; see :func:`batches`.

    On the CPU the arrays may use the memory of the numpy arrays, which must not be written to any more.
    """
    converted = nest.map_structure(lambda leaf: _array(leaf, device), batch)
    if isinstance(batch, Batch):
        return converted._replace(info=converted.info._replace(key=batch.info.key))
    return converted


def _array(leaf: Any, device: Any) -> Any:
    if not isinstance(leaf, np.ndarray) or leaf.dtype == object:
        return leaf
    # Aliases the array where it can, and holds a reference to it as long as it does.
    return jax.device_put(leaf, device, may_alias=True)
