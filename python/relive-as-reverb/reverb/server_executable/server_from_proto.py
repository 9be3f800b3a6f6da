"""Tables from a configuration."""

from collections.abc import Sequence as _Sequence
from typing import Any as _Any
from typing import cast as _cast

from relive.server_executable import server_from_proto as _relive
from relive.server_executable.server_from_proto import selector_from_proto as selector_from_proto

from reverb import _borrowed
from reverb.rate_limiters import RateLimiter as _RateLimiter
from reverb.server import Table as _Table


def rate_limiter_from_proto(proto: _Any) -> _RateLimiter:
    """Returns the limiter that a ``RateLimiterCheckpoint`` message describes; omitted bounds are 0."""
    limiter = _relive.rate_limiter_from_proto(proto)
    return _RateLimiter(limiter.samples_per_insert, limiter.min_size_to_sample, limiter.min_diff, limiter.max_diff)


def tables_from_proto(configs: _Sequence[_Any]) -> list[_Table]:
    """Creates empty tables from ``PriorityTableCheckpoint`` messages, with their signatures but without their
    counters."""
    return _cast("list[_Table]", _relive.tables_from_proto(configs, kind=_Table))


__getattr__, __dir__ = _borrowed.lend(
    globals(),
    "Sequence",
    checkpoint_pb2="reverb.cc.checkpointing.checkpoint_pb2",
    reverb="reverb",
    reverb_types="reverb.reverb_types",
    schema_pb2="reverb.cc.schema_pb2",
)
