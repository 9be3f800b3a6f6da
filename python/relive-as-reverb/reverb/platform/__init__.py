"""dm-reverb's package of platform-dependent code."""

from reverb import _borrowed

__getattr__, __dir__ = _borrowed.lend(
    globals(),
    checkpointers_lib="reverb.platform.checkpointers_lib",
    default="reverb.platform.default",
)
