"""The types of samples."""

from relive.replay_sample import ReplaySample as ReplaySample
from relive.replay_sample import SampleInfo as SampleInfo

from reverb import _borrowed

__getattr__, __dir__ = _borrowed.lend(
    globals(),
    "Any NamedTuple Sequence Union",
    np="numpy",
    tf="tensorflow.compat.v1",
)
