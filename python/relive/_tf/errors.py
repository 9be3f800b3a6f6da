"""Conversion of Relive's errors to TensorFlow's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tensorflow as tf

from relive import errors

# The first match applies. For a writer, an unknown table is also an invalid argument, which is what dm-reverb's
# operations report.
_TABLE: tuple[tuple[type[Exception], type[tf.errors.OpError]], ...] = (
    (errors.DeadlineExceededError, tf.errors.DeadlineExceededError),
    (errors.InvalidArgumentError, tf.errors.InvalidArgumentError),
    (errors.NotFoundError, tf.errors.NotFoundError),
    (errors.UnavailableError, tf.errors.UnavailableError),
    (errors.CancelledError, tf.errors.CancelledError),
    (errors.ClosedError, tf.errors.CancelledError),
    (errors.FailedPreconditionError, tf.errors.FailedPreconditionError),
    (errors.DataLossError, tf.errors.DataLossError),
    (errors.PermissionDeniedError, tf.errors.PermissionDeniedError),
    (errors.ResourceExhaustedError, tf.errors.ResourceExhaustedError),
    (errors.UnimplementedError, tf.errors.UnimplementedError),
    (errors.ReverbError, tf.errors.InternalError),
    (ValueError, tf.errors.InvalidArgumentError),
    (TypeError, tf.errors.InvalidArgumentError),
)


@contextlib.contextmanager
def as_tensorflow() -> Iterator[None]:
    """Converts Relive's errors to the corresponding TensorFlow errors, with the same text."""
    try:
        yield
    except Exception as error:
        for ours, theirs in _TABLE:
            if isinstance(error, ours):
                raise theirs(None, None, str(error)) from error
        raise
