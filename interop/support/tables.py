"""Tables that both servers can create: dm-reverb's own configuration messages."""

from __future__ import annotations

from reverb.cc import schema_pb2 as schema
from reverb.cc.checkpointing import checkpoint_pb2
from tensorflow.python.saved_model import nested_structure_coder

UNBOUNDED = 1.7976931348623157e308

Table = checkpoint_pb2.PriorityTableCheckpoint
Limiter = checkpoint_pb2.RateLimiterCheckpoint
Selector = schema.KeyDistributionOptions


def fifo() -> Selector:
    return Selector(fifo=True, is_deterministic=True)


def lifo() -> Selector:
    return Selector(lifo=True, is_deterministic=True)


def uniform() -> Selector:
    return Selector(uniform=True)


def min_heap() -> Selector:
    return Selector(heap=Selector.Heap(min_heap=True), is_deterministic=True)


def max_heap() -> Selector:
    return Selector(heap=Selector.Heap(min_heap=False), is_deterministic=True)


def prioritized(exponent: float) -> Selector:
    return Selector(prioritized=Selector.Prioritized(priority_exponent=exponent))


def min_size(size: int) -> Limiter:
    return Limiter(samples_per_insert=1.0, min_size_to_sample=size, min_diff=-UNBOUNDED, max_diff=UNBOUNDED)


def ratio(samples_per_insert: float, size: int, low: float, high: float) -> Limiter:
    return Limiter(samples_per_insert=samples_per_insert, min_size_to_sample=size, min_diff=low, max_diff=high)


def table(
    name: str = "replay",
    *,
    sampler: Selector | None = None,
    remover: Selector | None = None,
    max_size: int = 1000,
    limiter: Limiter | None = None,
    max_times_sampled: int = 0,
    signature=None,
) -> Table:
    """Returns a table, which by default is sampled in order of insertion."""
    proto = Table(
        table_name=name,
        sampler=sampler or fifo(),
        remover=remover or fifo(),
        max_size=max_size,
        rate_limiter=limiter or min_size(1),
        max_times_sampled=max_times_sampled,
    )
    if signature is not None:
        encoded = nested_structure_coder.encode_structure(signature)
        proto.signature.ParseFromString(encoded.SerializeToString())
    return proto


def queue(name: str = "queue", size: int = 10) -> Table:
    return table(name, max_size=size, limiter=ratio(1.0, 1, 0.0, size), max_times_sampled=1)


def stack(name: str = "stack", size: int = 10) -> Table:
    return table(
        name,
        sampler=lifo(),
        remover=lifo(),
        max_size=size,
        limiter=ratio(1.0, 1, 0.0, size),
        max_times_sampled=1,
    )
