"""Common tables, signatures and configurations for the tests of errors."""

from __future__ import annotations

import reverb
import tensorflow as tf

limiters, selectors = reverb.rate_limiters, reverb.selectors

# The signature of whole items.
SIGNATURE = {"a": tf.TensorSpec([None, 2], tf.float32, "a"), "b": tf.TensorSpec([None], tf.int64, "b")}

STEP = {"a": None, "b": {"c": None}}


def table(name="table", sampler=None, **options):
    options = {"max_size": 100, "rate_limiter": limiters.MinSize(1), **options}
    return reverb.Table(name, sampler or selectors.Fifo(), selectors.Fifo(), **options)


def queue(name="queue", size=100, signature=None):
    return reverb.Table.queue(name, size, signature=signature)


def config(transform, table="queue", conditions=(), **options):
    """Returns a configuration of a structured writer for steps like ``STEP``."""
    structured = reverb.structured_writer
    return structured.create_config(structured.pattern_from_transform(STEP, transform), table, conditions, **options)
