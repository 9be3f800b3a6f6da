"""What sampling gives."""

from __future__ import annotations

from typing import Any, NamedTuple


class SampleInfo(NamedTuple):
    """What is known of a sampled item: numbers from ``Client.sample``, numpy scalars from datasets, arrays of batches."""

    key: Any
    """The item's key, unsigned with 64 bits."""
    probability: Any
    """The probability with which the item was chosen, at that moment."""
    table_size: Any
    """Items in the table at that moment."""
    priority: Any
    """The item's priority at that moment."""
    times_sampled: Any
    """How often the item has been sampled, this time included."""

    @classmethod
    def tf_dtypes(cls) -> SampleInfo:
        """The fields' data types in TensorFlow, which must be installed."""
        import tensorflow as tf

        return cls(tf.uint64, tf.double, tf.int64, tf.double, tf.int32)

    @classmethod
    def tf_shapes(cls) -> SampleInfo:
        """The fields' shapes in TensorFlow, which must be installed: all are scalars."""
        import tensorflow as tf

        return cls(*(tf.TensorShape([]) for _ in cls._fields))

    @classmethod
    def zeros(cls) -> SampleInfo:
        """The info of data that comes from no table."""
        return cls(key=0, probability=0.0, table_size=0, priority=0.0, times_sampled=0)


class ReplaySample(NamedTuple):
    """An item, or one step of it."""

    info: SampleInfo
    """What is known of the item."""
    data: Any
    """The item's columns, as a nest where its structure is known and else as a list."""
