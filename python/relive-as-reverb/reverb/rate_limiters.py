"""The rate limiters."""

from relive.rate_limiters import MinSize as MinSize
from relive.rate_limiters import Queue as Queue
from relive.rate_limiters import RateLimiter as RateLimiter
from relive.rate_limiters import SampleToInsertRatio as SampleToInsertRatio
from relive.rate_limiters import Stack as Stack

from reverb import _borrowed

__getattr__, __dir__ = _borrowed.lend(
    globals(),
    "Tuple Union",
    abc="abc",
    logging="absl.logging",
    pybind="reverb.pybind",
    sys="sys",
)
