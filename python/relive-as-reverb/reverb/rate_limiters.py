"""The rate limiters, with the attributes of dm-reverb's. As there, a bool is accepted as a number."""

from operator import attrgetter as _attrgetter

from relive import rate_limiters as _relive

from reverb import _borrowed, _texts


class RateLimiter(_relive.RateLimiter):
    __doc__ = _relive.RateLimiter.__doc__

    def __init__(self, samples_per_insert: float, min_size_to_sample: int, min_diff: float, max_diff: float) -> None:
        super().__init__(samples_per_insert, _texts.number(min_size_to_sample), min_diff, max_diff)

    _samples_per_insert = property(_attrgetter("samples_per_insert"))
    _min_size_to_sample = property(_attrgetter("min_size_to_sample"))
    _min_diff = property(_attrgetter("min_diff"))
    _max_diff = property(_attrgetter("max_diff"))


class MinSize(_relive.MinSize, RateLimiter):
    __doc__ = _relive.MinSize.__doc__


class SampleToInsertRatio(_relive.SampleToInsertRatio, RateLimiter):
    __doc__ = _relive.SampleToInsertRatio.__doc__

    def __init__(
        self, samples_per_insert: float, min_size_to_sample: int, error_buffer: float | tuple[float, float]
    ) -> None:
        super().__init__(samples_per_insert, _texts.number(min_size_to_sample), error_buffer)


class Queue(_relive.Queue, RateLimiter):
    __doc__ = _relive.Queue.__doc__


class Stack(_relive.Stack, RateLimiter):
    __doc__ = _relive.Stack.__doc__


__getattr__, __dir__ = _borrowed.lend(
    globals(),
    "Tuple Union",
    abc="abc",
    logging="absl.logging",
    pybind="reverb.pybind",
    sys="sys",
)
