"""Parallel streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, Literal, TypeVar

from relive._numbers import count, whole
from relive.flow._local import LocalIterator, _seed
from relive.flow._metrics import Binding, Origins
from relive.flow._operators import Operator, bound, each, itself, label
from relive.flow._turns import take_turns_here

T = TypeVar("T")
U = TypeVar("U")

On = Literal["threads", "serial", "processes", "ray"]


class ParallelIterator(Generic[T]):
    """A set of shards, each with one stream. Operators run in the shards, in parallel; a gathering operator merges the
    shards into one stream.

    A set of shards can be gathered more than once: operators then start over, and source iterators continue from their
    current positions. Shards in other processes start over altogether, because each gathering starts new processes.
    """

    def __init__(self, make: Callable[[bool, Binding], Any], name: str, actors: list[Any]) -> None:
        # Recreates the shards, for the given binding of functions. If the first argument is true, they may work ahead
        # of the consumer.
        self._make = make
        self.name = name
        self._actors = actors

    def __repr__(self) -> str:
        return f"ParallelIterator[{self.name}]"

    def __iter__(self) -> Iterator[T]:
        raise TypeError("a ParallelIterator cannot be iterated directly; call gather_sync() or gather_async() first")

    def _then(self, operator: Operator, name: str) -> ParallelIterator[Any]:
        make = self._make
        return ParallelIterator(lambda ahead, binding: make(ahead, binding).then(bound(operator, binding)), self.name + name, self._actors)

    def _begun(self, ahead: bool, kept: list[Any]) -> Any:
        """Creates the shards, and adds their functions to ``kept``."""
        return self._make(ahead, Binding(Origins(self._actors), kept))

    def _gathered(self, ahead: bool, gather: Callable[[Any], Any], name: str) -> LocalIterator[Any]:
        kept: list[Any] = []
        return LocalIterator._over(gather(self._begun(ahead, kept)), f"{self}.{name}()", actors=self._actors, kept=kept)

    def transform(self, fn: Callable[[Iterator[T]], Iterable[U]]) -> ParallelIterator[U]:
        """Applies a function, which takes an iterator and returns an iterable, to each shard's stream."""
        return self._then(("transform", label("transform", fn), fn), ".transform()")

    def for_each(self, fn: Callable[[T], U], max_concurrency: int = 1, resources: Any = None) -> ParallelIterator[U]:
        """Applies a function to each item; see :meth:`LocalIterator.for_each`. Shards in this process share the function:
        if it is an object with state, it sees the items of all shards, possibly several at a time. Each shard in
        another process has its own copy."""
        return self._then(each(fn, max_concurrency), ".for_each()")

    def filter(self, fn: Callable[[T], bool]) -> ParallelIterator[T]:
        """Keeps the items for which a function returns true."""
        return self._then(("filter", label("filter", fn), fn), ".filter()")

    def batch(self, n: int) -> ParallelIterator[list[T]]:
        """Groups items of a shard into lists of ``n`` items; the last list may be shorter."""
        return self._then(("batch", count("n", n, 1)), f".batch({n})")

    def flatten(self) -> ParallelIterator[Any]:
        """Flattens items that are iterables."""
        return self._then(("combine", "flatten", itself), ".flatten()")

    def combine(self, fn: Callable[[T], Iterable[U]]) -> ParallelIterator[U]:
        """Applies a function that returns any number of results for each item, including none."""
        return self._then(("combine", label("combine", fn), fn), ".combine()")

    def local_shuffle(self, shuffle_buffer_size: int, seed: int | None = None) -> ParallelIterator[T]:
        """Shuffles the items of each shard: each item is drawn at random from a buffer of the given size."""
        size = count("shuffle_buffer_size", shuffle_buffer_size, 1)
        return self._then(("shuffle", size, _seed(seed)), f".local_shuffle(shuffle_buffer_size={size}, seed={seed})")

    def repartition(self, num_partitions: int, batch_ms: int = 0) -> ParallelIterator[T]:
        """Redistributes the items: item ``j`` of each shard goes to shard ``j`` modulo the number of shards.
        ``batch_ms`` has no effect, since items are not requested one by one."""
        parts, begun = count("num_partitions", num_partitions, 1), self._begun
        name = f"{self.name}.repartition[num_partitions={parts}]"
        return ParallelIterator(lambda ahead, binding: begun(ahead, binding.kept).repartition(parts), name, list(range(parts)))

    def union(self, other: ParallelIterator[T]) -> ParallelIterator[T]:
        """Combines the shards of both iterators. Each shard runs where it ran before, such as in a thread of its own. The
        operators that follow run in the shards, unless only one of the iterators has shards in other processes: they then
        run in threads of this process."""
        if not isinstance(other, ParallelIterator):
            raise TypeError(f"other must be a ParallelIterator, got {type(other).__name__}")
        return self._joined(other, f"ParallelUnion[{self}, {other}]")

    def _joined(self, other: ParallelIterator[T], name: str) -> ParallelIterator[T]:
        mine, theirs = self._make, other._make
        union = lambda ahead, binding: mine(ahead, binding).union(theirs(ahead, binding))  # noqa: E731
        return ParallelIterator(union, name, [*self._actors, *other._actors])

    def select_shards(self, shards_to_keep: Sequence[int]) -> ParallelIterator[T]:
        """Selects the shards with the given numbers."""
        if not isinstance(shards_to_keep, Iterable):
            raise TypeError(f"shards_to_keep must be a list of the numbers of shards, got {shards_to_keep!r}")
        numbers = [whole("a number in shards_to_keep", number) for number in shards_to_keep]
        if not numbers:
            raise ValueError("shards_to_keep is empty, but at least one shard must be selected")
        wrong = [number for number in numbers if not 0 <= number < self.num_shards()]
        if wrong:
            raise ValueError(f"the shards are 0 to {self.num_shards() - 1}; there is no shard {wrong[0]}")
        numbers = sorted(set(numbers))
        return self._selected(numbers, f"{self}.select_shards({len(numbers)} total)")

    def _selected(self, numbers: list[int], name: str) -> ParallelIterator[T]:
        make = self._make
        select = lambda ahead, binding: make(ahead, binding).select(numbers)  # noqa: E731
        return ParallelIterator(select, name, [self._actors[number] for number in numbers])

    @property
    def actors(self) -> list[Any]:
        """The shards, in order; see :attr:`LocalIterator.actors`. For shards in other processes, calls have an effect
        only after the shards are gathered."""
        take_turns_here()
        return list(self._actors)

    def num_shards(self) -> int:
        """Returns the number of shards."""
        return len(self._actors)

    def shards(self) -> list[LocalIterator[T]]:
        """Returns each shard as a stream."""
        kept: list[Any] = []
        streams = enumerate(self._begun(False, kept).streams(1))
        return [
            LocalIterator._over(native, f"{self.name}.shard[{number}]", actors=[*[None] * number, self._actors[number]], kept=kept)
            for number, native in streams
        ]

    def get_shard(self, shard_index: int, batch_ms: int = 0, num_async: int = 1) -> LocalIterator[T]:
        """Returns a shard as a stream that works up to ``num_async`` items ahead."""
        shard, kept = self.select_shards([whole("shard_index", shard_index)]), list[Any]()
        (native,) = shard._begun(False, kept).streams(count("num_async", num_async, 1))
        return LocalIterator._over(native, f"{self.name}.shard[{shard_index}]", actors=shard._actors, kept=kept)

    def gather_sync(self) -> LocalIterator[T]:
        """Yields one item from each shard in turn, in order. Shards produce one round of items and start the next round
        only when it is requested, so a change between two rounds applies to the whole next round."""
        return self._gathered(False, lambda shards: shards.gather_sync(), "gather_sync")

    def gather_async(
        self, batch_ms: int = 0, num_async: int | None = None, resubmit: Literal["before", "after"] = "before"
    ) -> LocalIterator[T]:
        """Yields the items of all shards as they arrive; the items of one shard keep their order.

        Args:
          batch_ms: has no effect: items are not batched by time.
          num_async: the number of items that each shard may work ahead, at least 1. By default, it is 1, but shards in
            other processes work up to 1,024 items ahead, and Ray actors up to eight messages with 256 items each.
          resubmit: the time at which a shard starts its next item. ``"before"``: when the current item is returned;
            ``"after"``: at the next request, so that the item reflects changes made in between.
        """
        if resubmit not in ("before", "after"):
            raise ValueError(f"resubmit is {resubmit!r}, but it must be 'before' or 'after'")
        depth, is_fresh = 1 if num_async is None else count("num_async", num_async, 1), resubmit == "after"
        return self._gathered(not is_fresh, lambda shards: shards.gather_async(depth, is_fresh), "gather_async")

    def batch_across_shards(self) -> LocalIterator[list[T]]:
        """Yields lists with one item from each shard; shards that have ended are left out."""
        return self._gathered(False, lambda shards: shards.batch_across_shards(), "batch_across_shards")

    def take(self, n: int) -> list[T]:
        """Returns the first ``n`` items of :meth:`gather_sync` as a list."""
        return self.gather_sync().take(n)

    def show(self, n: int = 20) -> None:
        """Prints the first ``n`` items."""
        self.gather_sync().show(n)
