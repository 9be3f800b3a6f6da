"""Tables, before and while a server serves them."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence
from typing import Any

from relive import _native, item_selectors, rate_limiters, specs
from relive._numbers import count, whole
from relive.reverb_types import TableInfo

# The largest size of a table: dm-reverb's clients store it as a signed 32-bit integer.
_MAX_TABLE_SIZE = 2**31 - 1

# The largest number of shards in a table.
_MAX_SHARDS = 64


class TableExtensionBase(abc.ABC):
    """An extension of a table; see :mod:`relive.extensions`."""

    @abc.abstractmethod
    def build_internal_extensions(self, table_name: str) -> Sequence[Any]:
        """Returns the parts that the server runs. This method is called once, when the table is created."""


class Table:
    """A set of items, with rules for sampling items, removing items, and blocking calls.

    Args:
      name: the table's name for clients; not empty.
      sampler: the selector of the next item to sample.
      remover: the selector of the item to evict when the table exceeds ``max_size`` or ``max_bytes``.
      max_size: the largest number of items in the table, at least 1.
      rate_limiter: the bounds on the ratio of samples to inserts.
      max_times_sampled: the number of samples after which an item is deleted; below 1: never.
      extensions: additional code that runs when items change.
      signature: a nest of array specs (:class:`relive.ArraySpec`, ``tf.TensorSpec``, ``dm_env.specs.Array``,
        ``gymnasium.spaces`` …). Items are checked against it, and sampled data has its structure.
      max_bytes: the largest number of bytes in the table, counting each of its items' chunks once, as stored. Beyond
        this bound, the remover chooses the items to evict. A single item that exceeds the bound is rejected. ``None``:
        no bound.
      shards: the number of parts into which the server divides the table, 1 to 64, so that writers on several threads
        do not wait for each other. Each part holds its share of ``max_size``, at least 1, and evicts independently.
        More than one shard needs the sampler ``Uniform`` or ``Prioritized``, the rate limiter ``MinSize``, and neither
        ``max_bytes`` nor extensions.
      seed: the seed of the table's random choices, from 0 to 2**64 - 1. New tables with the same rules and seed produce
        the same samples for the same calls in the same order. This does not apply with ``shards``, since random keys
        assign items to shards.

    Raises:
      ValueError: an empty name, a ``max_size`` or ``max_bytes`` below 1, a signature with a leaf that is not a spec, or
        ``shards`` that such a table does not support; a rate limiter that needs more than ``max_size`` items before the
        first sample, or has bounds that block all samples.
      TypeError: an argument of the wrong type.

    >>> import relive
    >>> table = relive.Table(
    ...     "replay", relive.selectors.Prioritized(0.6), relive.selectors.Fifo(), max_size=1000,
    ...     rate_limiter=relive.rate_limiters.MinSize(2),
    ... )
    >>> table.info.max_size, table.can_sample(1)
    (1000, False)
    """

    # Whether rules that block all samples are rejected. dm-reverb accepts them.
    _must_be_samplable = True

    @classmethod
    def _plain_class(cls) -> type[Table]:
        return Table

    def __init__(
        self,
        name: str,
        sampler: item_selectors.ItemSelector,
        remover: item_selectors.ItemSelector,
        max_size: int,
        rate_limiter: rate_limiters.RateLimiter,
        max_times_sampled: int = 0,
        extensions: Sequence[TableExtensionBase] = (),
        signature: Any = None,
        *,
        max_bytes: int | None = None,
        shards: int = 1,
        seed: int | None = None,
    ) -> None:
        _check_arguments(name, sampler, remover, max_size, rate_limiter)
        _check_max_times_sampled(max_times_sampled)
        check_max_bytes(max_bytes)
        _check_shards(shards)
        check_seed(seed)
        self._seed = seed
        self._sampler = sampler
        self._remover = remover
        self._rate_limiter = rate_limiter
        self._extensions = _extensions(extensions)
        self._signature = signature
        internal = [part for extension in self._extensions for part in extension.build_internal_extensions(name)]
        self._native = _native.Table(
            name,
            sampler._spec,
            remover._spec,
            max_size,
            max_bytes,
            max_times_sampled,
            shards,
            seed,
            not self._must_be_samplable,
            (
                rate_limiter.samples_per_insert,
                rate_limiter.min_size_to_sample,
                rate_limiter.min_diff,
                rate_limiter.max_diff,
            ),
            specs.as_signature(signature),
            internal,
        )

    @classmethod
    def queue(
        cls,
        name: str,
        max_size: int,
        extensions: Sequence[TableExtensionBase] = (),
        signature: Any = None,
        *,
        max_bytes: int | None = None,
        seed: int | None = None,
    ) -> Table:
        """Returns a table that delivers every item once, oldest first; inserts wait while it is full."""
        _check_max_size(max_size)
        return cls(
            name=name,
            sampler=item_selectors.Fifo(),
            remover=item_selectors.Fifo(),
            max_size=max_size,
            max_times_sampled=1,
            rate_limiter=rate_limiters.Queue(max_size),
            extensions=extensions,
            signature=signature,
            max_bytes=max_bytes,
            seed=seed,
        )

    @classmethod
    def stack(
        cls,
        name: str,
        max_size: int,
        extensions: Sequence[TableExtensionBase] = (),
        signature: Any = None,
        *,
        max_bytes: int | None = None,
        seed: int | None = None,
    ) -> Table:
        """Returns a table that delivers every item once, newest first; inserts wait while it is full."""
        _check_max_size(max_size)
        return cls(
            name=name,
            sampler=item_selectors.Lifo(),
            remover=item_selectors.Lifo(),
            max_size=max_size,
            max_times_sampled=1,
            rate_limiter=rate_limiters.Stack(max_size),
            extensions=extensions,
            signature=signature,
            max_bytes=max_bytes,
            seed=seed,
        )

    @property
    def name(self) -> str:
        """The table's name."""
        return self._native.name

    @property
    def info(self) -> TableInfo:
        """The table's current rules, sizes and counters, and its waiting callers."""
        return TableInfo._from_native(self._native.info())

    @property
    def internal_table(self) -> _native.Table:
        """The compiled table."""
        return self._native

    def can_sample(self, num_samples: int) -> bool:
        """Returns whether the rate limiter currently allows ``num_samples`` samples.

        Raises:
          ValueError: ``num_samples`` is below 1.
        """
        return self._native.can_sample(_number_of_calls("num_samples", num_samples))

    def can_insert(self, num_inserts: int) -> bool:
        """Returns whether the rate limiter currently allows ``num_inserts`` inserts.

        Raises:
          ValueError: ``num_inserts`` is below 1.
        """
        return self._native.can_insert(_number_of_calls("num_inserts", num_inserts))

    def replace(
        self,
        name: str | None = None,
        sampler: item_selectors.ItemSelector | None = None,
        remover: item_selectors.ItemSelector | None = None,
        max_size: int | None = None,
        rate_limiter: rate_limiters.RateLimiter | None = None,
        max_times_sampled: int | None = None,
        extensions: Sequence[TableExtensionBase] | None = None,
        signature: Any = None,
        *,
        max_bytes: int | None = None,
        shards: int | None = None,
        seed: int | None = None,
    ) -> Table:
        """Returns an empty table with the same rules and seed, except for the given arguments.

        The result is a plain table, since the constructor of a derived class may have other parameters.
        """
        info = self._native.info()
        return self._plain_class()(
            name=self.name if name is None else name,
            sampler=self._sampler if sampler is None else sampler,
            remover=self._remover if remover is None else remover,
            max_size=info["max_size"] if max_size is None else max_size,
            rate_limiter=self._limiter(info) if rate_limiter is None else rate_limiter,
            max_times_sampled=info["max_times_sampled"] if max_times_sampled is None else max_times_sampled,
            extensions=self._extensions if extensions is None else extensions,
            signature=self._signature if signature is None else signature,
            max_bytes=info["max_bytes"] if max_bytes is None else max_bytes,
            shards=info["shards"] if shards is None else shards,
            seed=self._seed if seed is None else seed,
        )

    def _limiter(self, info: dict[str, Any]) -> rate_limiters.RateLimiter:
        """Returns the current rate limiter, which clients may have changed."""
        bounds = (info["samples_per_insert"], info["min_size_to_sample"], info["min_diff"], info["max_diff"])
        now = rate_limiters.RateLimiter(*bounds)
        return self._rate_limiter if self._rate_limiter == now else now

    def __repr__(self) -> str:
        info = self._native.info()
        return (
            f"Table(name={self.name!r}, sampler={self._sampler!r}, remover={self._remover!r}, "
            f"max_size={info['max_size']}, max_times_sampled={info['max_times_sampled']}, "
            f"rate_limiter={self._limiter(info)!r}, signature={self._signature!r}, current_size={info['current_size']})"
        )


def _check_arguments(
    name: str,
    sampler: item_selectors.ItemSelector,
    remover: item_selectors.ItemSelector,
    max_size: int,
    rate_limiter: rate_limiters.RateLimiter,
) -> None:
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, not {name!r}")
    if not name:
        raise ValueError("name must be nonempty")
    for role, selector in (("sampler", sampler), ("remover", remover)):
        if not isinstance(selector, item_selectors.ItemSelector):
            raise TypeError(f"{role} must be one of relive.selectors, not {selector!r}")
    if not isinstance(rate_limiter, rate_limiters.RateLimiter):
        raise TypeError(f"rate_limiter must be one of relive.rate_limiters, not {rate_limiter!r}")
    _check_max_size(max_size)


def _check_max_size(max_size: int) -> None:
    if whole("max_size", max_size) <= 0:
        raise ValueError(f"max_size ({max_size}) must be a positive integer")
    if max_size > _MAX_TABLE_SIZE:
        raise TypeError(f"max_size ({max_size}) must be at most {_MAX_TABLE_SIZE}")


def _check_max_times_sampled(max_times_sampled: int) -> None:
    if not -(2**31) <= whole("max_times_sampled", max_times_sampled) < 2**31:
        raise TypeError(f"max_times_sampled ({max_times_sampled}) must be from -2**31 to 2**31 - 1; below 1 means no limit")


def _extensions(given: Iterable[TableExtensionBase]) -> tuple[TableExtensionBase, ...]:
    extensions = tuple(given) if isinstance(given, Iterable) else None
    if extensions is None or not all(hasattr(extension, "build_internal_extensions") for extension in extensions):
        raise TypeError(f"extensions must be a list of extensions from relive.extensions, got {given!r}")
    return extensions


def _number_of_calls(name: str, given: int) -> int:
    # dm-reverb accepts bools.
    number = int(given) if isinstance(given, bool) else whole(name, given)
    if number < 1:
        raise ValueError(f"{name} must be at least 1, got {given}")
    return count(name, number, 1)


def _check_shards(shards: int) -> None:
    if not 1 <= whole("shards", shards) <= _MAX_SHARDS:
        raise ValueError(f"shards ({shards}) must be from 1 to {_MAX_SHARDS}")


def check_seed(seed: int | None) -> None:
    if seed is None:
        return
    if not 0 <= whole("seed", seed, " or None") < 2**64:
        raise ValueError(f"seed ({seed}) must be from 0 to 2**64 - 1")


def check_max_bytes(max_bytes: int | None) -> None:
    if max_bytes is None:
        return
    if whole("max_bytes", max_bytes, " or None") <= 0:
        raise ValueError(f"max_bytes ({max_bytes}) must be a positive integer, or None for no bound")
    count("max_bytes", max_bytes, 1, bits=64)
