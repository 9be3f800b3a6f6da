"""dm-reverb's package of messages."""

from relive import _protos

from reverb import _borrowed

# Programs use TensorFlow's messages inside these messages, so all messages must come from the same pool.
_protos.share_with_tensorflow()

__getattr__, __dir__ = _borrowed.lend(
    globals(),
    checkpointing="reverb.cc.checkpointing",
    ops="reverb.cc.ops",
    patterns_pb2="reverb.cc.patterns_pb2",
    schema_pb2="reverb.cc.schema_pb2",
)
