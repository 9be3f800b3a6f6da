"""Creates tables from the messages in a server's configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from relive import _structured_value, rate_limiters, reverb_types
from relive.item_selectors import ItemSelector
from relive.tables import Table


class _Table(Table):
    """A table as in dm-reverb's server, which also allows tables that can never be sampled."""

    _must_be_samplable = False


def selector_from_proto(options: Any) -> ItemSelector:
    """Returns the selector that a ``KeyDistributionOptions`` message describes.

    Raises:
      ValueError: the message names a selector that is switched off.
      NotImplementedError: the message names no selector.
    """
    return reverb_types.selector_from_options(options)


def rate_limiter_from_proto(proto: Any) -> rate_limiters.RateLimiter:
    """Returns the limiter that a ``RateLimiterCheckpoint`` message describes; omitted bounds are 0.

    Raises ``ValueError`` for numbers that are out of range.
    """
    return rate_limiters.RateLimiter(
        samples_per_insert=proto.samples_per_insert,
        min_size_to_sample=proto.min_size_to_sample,
        min_diff=proto.min_diff,
        max_diff=proto.max_diff,
    )


def tables_from_proto(configs: Sequence[Any], *, kind: type[Table] = _Table) -> list[Table]:
    """Creates empty tables of a class from ``PriorityTableCheckpoint`` messages, with their signatures but without their
    counters.

    Raises:
      ValueError: a number that is out of range, an empty name, or a selector that is switched off.
      NotImplementedError: a selector is missing.
    """
    return [_table(config, kind) for config in configs]


def _table(config: Any, kind: type[Table]) -> Table:
    return kind(
        name=config.table_name,
        sampler=selector_from_proto(config.sampler),
        remover=selector_from_proto(config.remover),
        max_size=config.max_size,
        max_times_sampled=config.max_times_sampled,
        rate_limiter=rate_limiter_from_proto(config.rate_limiter),
        signature=_structured_value.decode_signature(config.signature),
    )
