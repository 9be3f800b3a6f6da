"""dm-reverb's package of TensorFlow operations."""

from reverb import _borrowed

__getattr__, __dir__ = _borrowed.lend(
    globals(),
    gen_reverb_ops="reverb.cc.ops.gen_reverb_ops",
)
