"""The descriptions of tables that servers send."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from relive import _native, _protos, item_selectors, specs
from relive.item_selectors import ItemSelector

SpecNest = Any
"""A nest of specs; see ``relive.specs``."""

SelectorType = ItemSelector

_WORKER_TIMES = (
    "running_ms",
    "sampling_ms",
    "inserting_ms",
    "sleeping_ms",
    "waiting_for_sampling_ms",
    "waiting_for_inserts_ms",
)


@dataclasses.dataclass
class TableInfo:
    """Rules, sizes and counters of a table at one moment.

    Fields with protobuf messages are created when they are first read, so that the other fields do not need protobuf.
    Fields whose descriptions do not begin with "Relive" also exist in dm-reverb.
    """

    name: str
    """The table's name."""
    sampler_options: Any
    """The sampler as a ``KeyDistributionOptions`` message; the property ``sampler`` returns it as an object."""
    remover_options: Any
    """The remover as a ``KeyDistributionOptions`` message; the property ``remover`` returns it as an object."""
    max_size: int
    """The largest number of items in the table."""
    max_times_sampled: int
    """The number of samples after which an item is deleted; below 1: never."""
    rate_limiter_info: Any
    """The limiter's parameters and counters as a ``RateLimiterInfo`` message."""
    signature: SpecNest | None
    """The signature as a nest of specs, or ``None``. The specs are ``tf.TensorSpec`` if the program has imported
    TensorFlow when the field is first read, else ``relive.ArraySpec``; ``structure`` always has the latter."""
    current_size: int
    """The number of items in the table."""
    num_episodes: int
    """The number of episodes that these items refer to."""
    num_deleted_episodes: int
    """The number of episodes that items no longer refer to."""
    num_unique_samples: int
    """The number of items that were sampled at least once since the last reset."""
    table_worker_time: Any
    """Milliseconds spent per activity, as a ``TableWorkerTime`` message."""
    waiters: Any = dataclasses.field(default=None, compare=False, repr=False)
    """Relive: the waiting callers, with reason and duration, as a list of mappings; ``None`` from other servers."""
    limiter_cursor: float | None = dataclasses.field(default=None, compare=False, repr=False)
    """Relive: ``inserts * samples_per_insert - samples``, which the limiter keeps between its bounds."""
    max_bytes: int | None = dataclasses.field(default=None, compare=False, repr=False)
    """Relive: bytes of chunks that the table keeps, or ``None`` without such a bound. Only ``Client.status`` and
    ``Table.info`` set this field and the following fields: dm-reverb's protocol, which ``Client.server_info`` uses,
    does not have them."""
    shards: int | None = dataclasses.field(default=None, compare=False, repr=False)
    """Relive: the number of parts into which the server divides the table."""
    num_chunks: int | None = dataclasses.field(default=None, compare=False, repr=False)
    """Relive: the number of stored chunks that the items refer to. Each chunk counts once, here and in all byte counts
    except ``referenced_bytes``."""
    encoded_bytes: int | None = dataclasses.field(default=None, compare=False, repr=False)
    """Relive: the size of these chunks as they are stored, in bytes."""
    raw_bytes: int | None = dataclasses.field(default=None, compare=False, repr=False)
    """Relive: the size of these chunks when decoded, in bytes."""
    shared_bytes: int | None = dataclasses.field(default=None, compare=False, repr=False)
    """Relive: the part of the encoded bytes that is shared with other tables."""
    spilled_bytes: int | None = dataclasses.field(default=None, compare=False, repr=False)
    """Relive: the part of the encoded bytes that is on disk instead of in memory."""
    resident_bytes: int | None = dataclasses.field(default=None, compare=False, repr=False)
    """Relive: the encoded bytes in memory."""
    referenced_bytes: int | None = dataclasses.field(default=None, compare=False, repr=False)
    """Relive: the bytes of the stored chunks that the items refer to; a chunk counts once for each item."""
    inserts_paused: bool | None = dataclasses.field(default=None, compare=False, repr=False)
    """Relive: whether an operator has paused inserts; they then wait regardless of the limiter."""
    samples_paused: bool | None = dataclasses.field(default=None, compare=False, repr=False)
    """Relive: whether an operator has paused samples."""
    undelivered_samples: int | None = dataclasses.field(default=None, compare=False, repr=False)
    """Relive: the number of samples that were taken for a caller, but could not be sent."""

    @classmethod
    def from_serialized_proto(cls, proto_string: bytes) -> TableInfo:
        """Parses a serialized ``TableInfo`` message.

        Raises ``ValueError`` if the signature has a leaf that is not a tensor.
        """
        from relive import _structured_value

        proto = _protos.message(_protos.SCHEMA, "TableInfo").FromString(proto_string)
        signature = _structured_value.decode_signature(proto.signature)
        info = cls(
            name=proto.name,
            sampler_options=proto.sampler_options,
            remover_options=proto.remover_options,
            max_size=proto.max_size,
            max_times_sampled=proto.max_times_sampled,
            rate_limiter_info=proto.rate_limiter_info,
            signature=specs.in_callers_terms(signature),
            current_size=proto.current_size,
            num_episodes=proto.num_episodes,
            num_deleted_episodes=proto.num_deleted_episodes,
            num_unique_samples=proto.num_unique_samples,
            table_worker_time=proto.table_worker_time,
        )
        vars(info)["_native"] = {"signature": signature}
        return info

    @classmethod
    def _from_native(cls, native: dict[str, Any]) -> TableInfo:
        """Builds the info from the values of ``relive._native``; ``__getattr__`` creates the attributes that ``vars``
        lacks."""
        info = cls.__new__(cls)
        vars(info).update({name: native[name] for name in _EAGER if name in native})
        vars(info)["_native"] = native
        return info

    def __getattr__(self, name: str) -> Any:
        make = _LAZY.get(name)
        if make is None or not self._raw():
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        value = make(self._raw())
        setattr(self, name, value)
        return value

    @property
    def sampler(self) -> ItemSelector:
        """The selector that chooses which item is sampled."""
        return self._selector("sampler")

    @property
    def remover(self) -> ItemSelector:
        """The selector that chooses which item a full table evicts."""
        return self._selector("remover")

    @property
    def structure(self) -> SpecNest | None:
        """The signature as a nest of ``relive.ArraySpec``, or ``None``."""
        raw = self._raw()
        return _specs(raw) if "signature" in raw else specs.as_signature(self.signature)

    @property
    def num_inserts(self) -> int:
        """The number of inserts that the limiter has counted since the last reset."""
        return self._counter("insert")

    @property
    def num_samples(self) -> int:
        """The number of samples that the limiter has counted since the last reset."""
        return self._counter("sample")

    def _counter(self, name: str) -> int:
        raw = self._raw()
        if f"{name}_completed" in raw:
            return int(raw[f"{name}_completed"])
        return int(getattr(self.rate_limiter_info, f"{name}_stats").completed)

    def _selector(self, role: str) -> ItemSelector:
        raw = self._raw()
        if role in raw:
            return item_selectors.from_spec(raw[role])
        return selector_from_options(getattr(self, f"{role}_options"))

    def _raw(self) -> dict[str, Any]:
        """Returns the values from the compiled module, if the info comes from that module."""
        raw: dict[str, Any] = vars(self).get("_native", {})
        return raw


def options_of(spec: item_selectors.Spec) -> Any:
    """Converts a selector's plain values to a ``KeyDistributionOptions`` message."""
    options = _protos.message(_protos.SCHEMA, "KeyDistributionOptions")()
    name, *parameters = spec
    options.is_deterministic = name in ("fifo", "lifo", "min_heap", "max_heap")
    if name == "prioritized":
        options.prioritized.priority_exponent = parameters[0]
    elif name in ("min_heap", "max_heap"):
        options.heap.min_heap = name == "min_heap"
    else:
        # Some clients do not support sampling without replacement, so it is reported as uniform sampling.
        setattr(options, "uniform" if name == "without_replacement" else name, True)
    return options


def selector_from_options(options: Any) -> ItemSelector:
    """Returns the selector that a ``KeyDistributionOptions`` message describes.

    Raises:
      ValueError: the message names a selector that is switched off.
      NotImplementedError: the message names no selector.
    """
    kind = options.WhichOneof("distribution")
    if kind is None:
        raise NotImplementedError("distribution=None: the options name no selector")
    if kind == "prioritized":
        return item_selectors.Prioritized(options.prioritized.priority_exponent)
    if kind == "heap":
        return item_selectors.MinHeap() if options.heap.min_heap else item_selectors.MaxHeap()
    if not getattr(options, kind):
        raise ValueError(f"distribution={kind} but the associated boolean value is false. Omit it, or set it to true")
    return item_selectors.from_spec((kind,))


def _limiter_info(native: dict[str, Any]) -> Any:
    info = _protos.message(_protos.SCHEMA, "RateLimiterInfo")(
        samples_per_insert=native["samples_per_insert"],
        min_diff=native["min_diff"],
        max_diff=native["max_diff"],
        min_size_to_sample=native["min_size_to_sample"],
    )
    for stats, name in ((info.insert_stats, "insert_completed"), (info.sample_stats, "sample_completed")):
        stats.SetInParent()
        stats.completed = native[name]
    return info


def _worker_time(native: dict[str, Any]) -> Any:
    times = dict(zip(_WORKER_TIMES, native["worker_time_ms"], strict=True))
    return _protos.message(_protos.SCHEMA, "TableWorkerTime")(**times)


def _specs(native: dict[str, Any]) -> SpecNest | None:
    """Returns the signature as a nest of ``relive.ArraySpec``, or ``None``."""
    signature = native["signature"]
    return signature.specs() if isinstance(signature, _native.TableSignature) else signature


_LAZY: dict[str, Callable[[dict[str, Any]], Any]] = {
    "sampler_options": lambda native: options_of(native["sampler"]),
    "remover_options": lambda native: options_of(native["remover"]),
    "rate_limiter_info": _limiter_info,
    "signature": lambda native: specs.in_callers_terms(_specs(native)),
    "table_worker_time": _worker_time,
}

# The fields that are set when an info is created.
_EAGER = tuple(field.name for field in dataclasses.fields(TableInfo) if field.name not in _LAZY)
