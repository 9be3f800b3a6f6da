"""What TensorFlow operations of Python code need beyond ``tf.numpy_function``."""

from __future__ import annotations

import tensorflow as tf

# A component of a path may not be longer, and what is too long is another error.
_MAX_TEXT_BYTES = 250


def raise_not_found(text: tf.Tensor) -> tf.Tensor:
    """An operation that fails with ``tf.errors.NotFoundError`` and ``text``, unless ``text`` is empty.

    Python code within a graph can raise wrong arguments and unknown errors only. Reading a file that does not exist is
    TensorFlow's operation that raises this one, and its text begins with the name of the file.
    """
    short = tf.strings.substr(text, 0, tf.minimum(tf.strings.length(text), _MAX_TEXT_BYTES))
    return tf.io.read_file(tf.where(tf.equal(text, ""), "/dev/null", short))
