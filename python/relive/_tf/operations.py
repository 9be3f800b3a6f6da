"""Functions that TensorFlow operations in Python need in addition to ``tf.numpy_function``."""

from __future__ import annotations

import tensorflow as tf

# The largest length of a path component; a longer component would cause a different error.
_MAX_TEXT_BYTES = 250


def raise_not_found(text: tf.Tensor) -> tf.Tensor:
    """Returns an operation that fails with ``NotFoundError`` and the message ``text``, unless ``text`` is empty.

    Python code within a graph can raise only `InvalidArgumentError` and `UnknownError`. This function therefore uses
    TensorFlow's operation for reading a file: it raises ``NotFoundError`` if the file does not exist, and the text of
    that error begins with the name of the file.
    """
    short = tf.strings.substr(text, 0, tf.minimum(tf.strings.length(text), _MAX_TEXT_BYTES))
    return tf.io.read_file(tf.where(tf.equal(text, ""), "/dev/null", short))
