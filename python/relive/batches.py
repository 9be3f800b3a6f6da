"""Batches of items as stacked arrays."""

from __future__ import annotations

from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from relive import _native, nest
from relive._numbers import count
from relive._structures import Structure, packed
from relive.replay_sample import SampleInfo


class Batch(NamedTuple):
    """``B`` items of a table.

    The caller owns the arrays and may write to them. Their memory is reused for later batches once the last reference
    is gone.
    """

    info: SampleInfo
    """Arrays of shape ``[B]``: key (uint64), probability (float64), table_size (int64), priority (float64) and
    times_sampled (int32)."""
    data: Any
    """The columns, each ``[B, steps, …]``, or ``[B, …]`` if squeezed. With ``out``, this is the same nest as
    ``out``."""
    lengths: Any = None
    """With padding: the number of steps of each item (int64, ``[B]``) per column, in the structure of ``data``, or
    ``None`` for squeezed columns."""

    def weights(self, beta: float, *, normalized: bool = True) -> npt.NDArray[np.float32]:
        """Returns the importance weights (N·P)^-β of the items (Schaul et al., Prioritized Experience Replay, 2016,
        section 3.4): float32, ``[B]``.

        N is the size of the table and P the probability of the item when it was sampled. ``normalized`` divides the
        weights by the largest weight in the batch, so that updates are only ever scaled down.
        """
        chances = np.asarray(self.info.table_size, np.float64) * np.asarray(self.info.probability, np.float64)
        weights = chances**-beta
        if normalized:
            weights /= weights.max()
        return weights.astype(np.float32)


class BatchIterator:
    """An iterator over batches, created by :meth:`relive.Client.batches`.

    It is also a context manager; exiting it ends the streams immediately.

    >>> import relive
    >>> server = relive.Server([relive.Table.queue("steps", 100)], listen=False)
    >>> client = server.localhost_client()
    >>> for reward in range(4):
    ...     client.insert({"reward": float(reward)}, {"steps": 1.0})
    >>> with client.batches("steps", 4, max_batches=1) as batches:
    ...     batch = next(batches)
    >>> batch.data["reward"].ravel().tolist()
    [0.0, 1.0, 2.0, 3.0]
    >>> server.stop()
    """

    def __init__(
        self,
        client: _native.Client,
        table: str,
        batch_size: int,
        *,
        timeout: float | None,
        prefetch: int | None,
        num_workers: int,
        max_batches: int | None,
        pad: bool,
        out: Any,
    ) -> None:
        for name, value, least in (
            ("batch_size", batch_size, 1),
            ("prefetch", prefetch, 0),
            ("num_workers", num_workers, 1),
            ("max_batches", max_batches, 1),
        ):
            if value is not None:
                count(name, value, least)
        self._table = table
        self._structure: Structure | None = None
        # The names of the previous batch; the object stays the same while the names do not change. Initially, there is
        # no previous batch.
        self._names: Any = _NO_BATCH_YET
        self._out = out
        given = None if out is None else [(_name(path), leaf) for path, leaf in nest.iterate(out)]
        self._out_is_complete = given is not None and all(leaf is not None for _, leaf in given)
        self._native = client.batches(
            table, batch_size, timeout=timeout, prefetch=prefetch, num_workers=num_workers,
            max_batches=max_batches, pad=pad, out=given,
        )

    def __iter__(self) -> BatchIterator:
        return self

    def __next__(self) -> Batch:
        info, columns, lengths, names = next(self._native)
        if names is not self._names:
            self._take_names(names, len(columns))
        ragged = None if lengths is None else self._packed(lengths)
        data = self._out if self._out_is_complete else self._packed(columns)
        return Batch(SampleInfo._make(info), data, ragged)

    def _take_names(self, names: Any, columns: int) -> None:
        """Records the names of the first batch, which later batches must also have.

        Raises ``ValueError`` if a later batch has different names.
        """
        if self._names is _NO_BATCH_YET:
            self._structure = None if names is None else Structure(names, is_promised=True)
            self._check_out(columns)
        elif self._structure is not None and names is not None and not _same(self._structure.nest, names):
            raise ValueError(
                f"the columns of table {self._table!r} have other names than in earlier batches: {names!r}, previously "
                f"{self._structure.nest!r}; create a new iterator"
            )
        self._names = names

    def _packed(self, columns: list[Any]) -> Any:
        return packed(self._structure, columns) if self._out is None else nest.unflatten_as(self._out, columns)

    def _check_out(self, columns: int) -> None:
        """Raises ``ValueError`` if the structure of ``out`` differs from the items' structure."""
        structure = self._structure
        if self._out is None or structure is None or structure.num_leaves != columns:
            return
        try:
            nest.assert_same_structure(structure.nest, self._out, names=("the table", "out"))
        except ValueError as error:
            raise ValueError(f"out must have the structure of the items of table {self._table!r}: {error}") from None

    @property
    def prefetched(self) -> tuple[int, int]:
        """The number of complete batches that are ready, and the number of requested samples that have not arrived."""
        return self._native.prefetched

    def close(self) -> None:
        """Ends the iterator and drops prefetched items."""
        self._native.close()

    def __enter__(self) -> BatchIterator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


# The value of `_names` before the first batch; `None` is a valid value after it.
_NO_BATCH_YET = object()


def _same(one: Any, other: Any) -> bool:
    try:
        nest.assert_same_structure(one, other)
    except ValueError:
        return False
    return True


def _name(path: nest.Path) -> str:
    """Returns the name of the array at ``path`` in error messages."""
    return "out" + "".join(f"[{element!r}]" for element in path)
