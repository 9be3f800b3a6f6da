"""dm-reverb's package of checkpoint messages."""

from reverb import _borrowed

__getattr__, __dir__ = _borrowed.lend(
    globals(),
    checkpoint_pb2="reverb.cc.checkpointing.checkpoint_pb2",
)
