"""Where dm-reverb keeps its messages."""

from relive import _protos

# Programs put TensorFlow's messages into these, so both have to come from one pool.
_protos.share_with_tensorflow()
