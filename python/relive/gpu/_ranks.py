"""How ranks exchange information about their stores."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from relive import _native
from relive.errors import InvalidArgumentError, NotFoundError, UnavailableError
from relive.gpu._given import floats, generations_of, places, store_name, whole
from relive.gpu._group import Group, exchange, group_of
from relive.gpu._local_group import LocalGroup
from relive.gpu._network import Network

# The identity of this machine until it reboots.
_MACHINE = "/proc/sys/kernel/random/boot_id"

# The longest wait for other ranks that read their parts of a data set, in seconds.
_READING_S = 3_600.0


def group_for(name: str | None, group: Any, rank: int | None, ranks: int | None) -> Group | None:
    """Returns the group for a store's arguments, or ``None`` for a store without other ranks."""
    if (rank is None) != (ranks is None):
        raise InvalidArgumentError(f"rank is {rank} and ranks is {ranks}; give both, or neither")
    if rank is None or ranks is None:
        return None if group is None else group_of(group)
    if group is not None:
        raise InvalidArgumentError("the group has its own rank; omit rank and ranks")
    if name is None:
        raise InvalidArgumentError("give name= together with rank= and ranks=, so that the ranks find each other")
    return _OfStore(name, rank, ranks)


class _OfStore(LocalGroup):
    """A group that the store itself has created."""


@contextlib.contextmanager
def freeing(group: Group | None, store: _native.GpuStore | None = None) -> Iterator[None]:
    """Closes a store, and its own group, if they cannot be used, so that another attempt can use the name."""
    try:
        yield
    except BaseException:
        if store is not None:
            store.close()
        if isinstance(group, _OfStore):
            group.close()
        raise


def honor(group: Group, network: Network | None) -> None:
    """Sets the timeout for exchanges in a store's own group to the network's timeout. Groups that were created
    elsewhere keep their own timeouts."""
    if network is not None and isinstance(group, _OfStore):
        group.timeout = network.timeout


def segment_name(name: str, rank: int, ranks: int) -> str:
    """Returns the name of a rank's memory."""
    return name if ranks == 1 else rank_name(name, rank)


def rank_name(name: str, rank: int) -> str:
    """Returns the name of the memory of one of several ranks."""
    return f"{name}.{rank}"


def attached_name(name: str, rank: int | None) -> str:
    """Returns the name of the memory of a store or, with a rank, of one of several ranks.

    Raises:
      InvalidArgumentError: an invalid name or rank.
    """
    name = store_name(name)
    return name if rank is None else rank_name(name, whole("rank", rank, 0, 1 << 32))


def agree_on_name(group: Group, name: str | None) -> str:
    """Returns the name of the store, which either all ranks pass or rank 0 generates."""
    with freeing(group):
        given = [answer.decode() for answer in exchange(group, lambda: (name or "").encode(), "Store()")]
        if len(set(given)) > 1:
            raise InvalidArgumentError(f"the ranks give different names: {given}")
        if name is not None:
            return name
        made_up = exchange(group, lambda: f"relive-gpu-{secrets.token_hex(8)}".encode(), "Store()")
        return made_up[0].decode()


def join(group: Group, store: _native.GpuStore | None, error: Exception | None, name: str, network: Network | None) -> None:
    """Makes a store read the stores of the other ranks. All ranks call this function, with the outcome of creating
    their own stores."""
    with freeing(group, store):
        _join(group, store, error, name, network)


def _join(group: Group, store: _native.GpuStore | None, error: Exception | None, name: str, network: Network | None) -> None:
    token = exchange(group, lambda: secrets.token_hex(32).encode(), "Store()")[0].decode()

    def describe_self() -> bytes:
        if error is not None:
            raise error
        assert store is not None, "otherwise there is an error"
        address = None if network is None else network.address(store.serve(network.as_native(token)))
        with open(_MACHINE, encoding="ascii") as file:
            machine = file.read().strip()
        return json.dumps({"machine": machine, "address": address, "shares": network is None or network.shared_memory}).encode()

    answers = [json.loads(answer) for answer in exchange(group, describe_self, "Store()")]
    if silent := [rank for rank, other in enumerate(answers) if other["address"] is None and _remote_ranks(answers, rank)]:
        raise UnavailableError(
            f"the ranks are on {len({other['machine'] for other in answers})} machines, or share no memory, and ranks {silent} have no "
            "network; give network=relive.gpu.Network(host=…) with the name by which other machines reach this one"
        )

    def connect() -> bytes:
        assert store is not None, "otherwise `describe_self` has raised"
        remote = _remote_ranks(answers, group.rank)
        local = [rank for rank in range(group.ranks) if rank != group.rank and rank not in remote]
        readers = [_native.GpuReader.attach(segment_name(name, rank, group.ranks), None) for rank in local]
        store.join(readers, [answers[rank]["address"] for rank in remote])
        return b""

    exchange(group, connect, "Store()")


def _remote_ranks(answers: list[dict[str, Any]], rank: int) -> list[int]:
    """Returns the ranks that do not share this rank's memory."""
    own = answers[rank]
    return [
        at
        for at, other in enumerate(answers)
        if at != rank and not (own["machine"] == other["machine"] and own["shares"] and other["shares"])
    ]


def part_of(group: Group | None, count: int) -> slice:
    """Returns this rank's part of ``count`` consecutive objects: the parts have the same size, except that the last
    ranks may have fewer objects."""
    if group is None:
        return slice(0, count)
    each = -(-count // group.ranks)
    return slice(group.rank * each, min(count, (group.rank + 1) * each))


def gathered(group: Group | None, make: Callable[[], bytes], call: str) -> list[bytes]:
    """Like :func:`exchange`, if there are other ranks. Some ranks may have to read much more than others, so ranks that
    find each other by name wait for an hour; they notice at once if another rank ends."""
    if group is None or group.ranks == 1:
        return [make()]
    if not isinstance(group, LocalGroup):
        return exchange(group, make, call)
    timeout, group.timeout = group.timeout, max(group.timeout, _READING_S)
    try:
        return exchange(group, make, call)
    finally:
        group.timeout = timeout


def own_updates(
    group: Group, capacity: int, indices: npt.ArrayLike, weights: npt.ArrayLike, generations: npt.ArrayLike | None
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.float32], npt.NDArray[np.uint64] | None]:
    """Selects the new weights of this rank's trajectories from the weights that all ranks pass. Row ``i`` of replica
    ``r`` is row ``i · replicas + r`` of the whole list. The last weight of a trajectory in this list counts, as with a
    single rank. A rank's weights are checked before they are sent: if they are rejected, no rank changes any
    weights."""

    def encode_updates() -> bytes:
        found, of_found = places("indices", indices), generations_of(generations)
        _expect_below(found, capacity * group.ranks)
        given: list[npt.NDArray[Any]] = [found, _stored(floats("weights", weights))]
        if of_found is not None:
            given.append(of_found)
        if len({len(array) for array in given}) > 1:
            raise InvalidArgumentError(f"{[len(array) for array in given]} indices, weights and generations; give the same number of each")
        header = json.dumps({"count": len(given[0]), "generations": of_found is not None, "replica": group.replica}).encode()
        return header + b"\n" + b"".join(array.tobytes() for array in given)

    parts = [_parsed(answer, group.replicas) for answer in exchange(group, encode_updates, "update_weights")]
    if len({len(part) for part in parts}) > 1:
        raise InvalidArgumentError("some ranks give generations, but others do not")
    rows, indices, weights, *rest = (np.concatenate(arrays) for arrays in zip(*parts))
    own = np.flatnonzero(indices // capacity == group.rank)
    own = own[np.argsort(rows[own], kind="stable")]
    return indices[own], weights[own], rest[0][own] if rest else None


def _expect_below(indices: npt.NDArray[np.uint64], limit: int) -> None:
    if indices.size and indices.max() >= limit:
        raise NotFoundError(f"an index is {indices.max()}; it must be 0 to {limit - 1}")


def _stored(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Converts weights to the form that stores use."""
    with np.errstate(over="ignore"):
        rounded = weights.astype("<f4")
    refused = ~np.isfinite(rounded) | (weights < 0)
    if refused.any():
        raise InvalidArgumentError(f"the weight is {weights[refused][0]}, but it must be a finite, non-negative 32-bit float")
    rounded[(weights > 0) & (rounded == 0)] = np.finfo(np.float32).smallest_subnormal
    return rounded


def _parsed(answer: bytes, replicas: int) -> list[npt.NDArray[Any]]:
    """Returns the rows in the whole list, the indices, the weights and, if given, the generations."""
    header, _, rest = answer.partition(b"\n")
    fields = json.loads(header)
    count = fields["count"]
    found = [np.arange(count) * replicas + fields["replica"]]
    for dtype, offset in (("<u8", 0), ("<f4", 8 * count), ("<u8", 12 * count))[: 3 if fields["generations"] else 2]:
        found.append(np.frombuffer(rest, dtype, count, offset))
    return found
