"""Items in the form in which a client returns them: samples, or only metadata."""

from __future__ import annotations

from typing import Any, NamedTuple


class SampleInfo(NamedTuple):
    """The metadata of a sampled item: numbers from ``Client.sample``, numpy scalars from datasets, arrays in
    batches."""

    key: Any
    """The item's key, an unsigned 64-bit number."""
    probability: Any
    """The item's probability when it was sampled."""
    table_size: Any
    """The number of items in the table when the item was sampled."""
    priority: Any
    """The item's priority when it was sampled."""
    times_sampled: Any
    """The number of times that the item has been sampled, including this time."""

    @classmethod
    def tf_dtypes(cls) -> SampleInfo:
        """Returns the fields' data types in TensorFlow, which must be installed."""
        import tensorflow as tf

        return cls(tf.uint64, tf.double, tf.int64, tf.double, tf.int32)

    @classmethod
    def tf_shapes(cls) -> SampleInfo:
        """Returns the fields' shapes in TensorFlow, which must be installed: all are scalars."""
        import tensorflow as tf

        return cls(*(tf.TensorShape([]) for _ in cls._fields))

    @classmethod
    def zeros(cls) -> SampleInfo:
        """Returns zeros, the information for data that does not come from a table."""
        return cls(key=0, probability=0.0, table_size=0, priority=0.0, times_sampled=0)


class ReplaySample(NamedTuple):
    """An item, or one step of it.

    >>> import relive
    >>> server = relive.Server([relive.Table.queue("steps", 100)], listen=False)
    >>> server.localhost_client().insert([7], {"steps": 0.5})
    >>> (sample,) = next(server.localhost_client().sample("steps"))
    >>> sample.info.priority, [column.tolist() for column in sample.data]
    (0.5, [7])
    >>> server.stop()
    """

    info: SampleInfo
    """The item's metadata."""
    data: Any
    """The item's columns: a nest if its structure is known, otherwise a list."""


class ItemInfo(NamedTuple):
    """The metadata of an item in a table, without its data."""

    key: int
    priority: float
    times_sampled: int
    inserted_at: float
    """Seconds since the epoch, by the server's clock."""
