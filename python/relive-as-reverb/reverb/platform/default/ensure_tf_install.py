"""A check that TensorFlow is installed, for programs that use TensorFlow."""

from reverb import _borrowed

# The oldest version that dm-reverb 0.14 accepts.
_OLDEST = (2, 3)


def ensure_tf_version() -> None:
    """Imports TensorFlow.

    Raises:
      ImportError: TensorFlow is not installed, or is older than 2.3.
    """
    import tensorflow as tf

    version = tf.version.VERSION
    if tuple(int(part) for part in version.split(".")[:2]) < _OLDEST:
        wanted = ".".join(map(str, _OLDEST))
        raise ImportError(
            f"This version of Reverb requires TensorFlow version >= {wanted}.0; Detected an installation of version "
            f"{version}. Please upgrade TensorFlow to proceed."
        )


__getattr__, __dir__ = _borrowed.lend(globals(), distutils="distutils")
