"""The weights of a store, as part of a loader's state: draws depend on the weights, and learners change them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from relive import _native
from relive.errors import InvalidArgumentError, NotFoundError
from relive.gpu._sampling import LARGEST

_log = logging.getLogger("relive")

Kept = dict[str, npt.NDArray[Any]]


def of_store(store: _native.GpuStore) -> Kept:
    """Returns the index, generation and weight of each finished trajectory of this rank."""
    _, _, capacity = store.schema()
    rank, _ = store.shard()
    weights = store.weights()
    # If every trajectory has a weight, free slots need no check.
    places = np.flatnonzero(weights) if np.count_nonzero(weights) == len(store) else np.arange(capacity)
    statuses = [store.status(rank * capacity + place) for place in places.tolist()]
    there = np.array([status[0] in ("selectable", "pinned") for status in statuses], bool)
    generations = np.array([status[1] for status in statuses], np.int64)
    # Another thread may have changed the store since the weights were read; a status belongs to one trajectory.
    weights = np.array([status[3] for status in statuses], np.float32)
    return {"indices": rank * capacity + places[there], "generations": generations[there], "weights": weights[there]}


def checked(store: _native.GpuStore, kept: Any) -> Kept:
    """Returns the weights in a loader's state, which :func:`give_back` then accepts.

    Raises:
      InvalidArgumentError: the value does not consist of an index, a generation and a weight for each trajectory.
      NotFoundError: an index is not one of this rank.
    """
    if not isinstance(kept, Mapping) or kept.keys() != {"indices", "generations", "weights"}:
        raise InvalidArgumentError("the weights in the state do not have indices, generations and weights; give the result of state()")
    arrays = {name: np.asarray(part) for name, part in kept.items()}
    kinds = {name: array.dtype.kind for name, array in arrays.items()}
    weights = arrays["weights"]
    is_valid = (
        len({array.shape for array in arrays.values()}) == 1 and weights.ndim == 1
        and kinds["indices"] in "iu" and kinds["generations"] in "iu" and kinds["weights"] == "f"
        and bool(((weights >= 0) & (weights <= LARGEST)).all()) and bool((arrays["generations"] >= 0).all())
    )
    if not is_valid:
        raise InvalidArgumentError("the weights in the state are damaged; give the result of state()")
    _, _, capacity = store.schema()
    first = store.shard()[0] * capacity
    indices = arrays["indices"]
    if len(outside := indices[(indices < first) | (indices >= first + capacity)]):
        raise NotFoundError(
            f"the state has trajectory {outside[0]}, but this store has the indices {first} to {first + capacity - 1}: the state belongs to "
            "another store"
        )
    return arrays


def give_back(store: _native.GpuStore, kept: Mapping[str, npt.NDArray[Any]]) -> None:
    """Sets the weights of the trajectories. If the store has different trajectories, this is logged."""
    applied, skipped = store.update_weights(kept["indices"], kept["weights"], kept["generations"])
    others = len(store) - applied
    if skipped or others:
        _log.warning(
            "the loader will draw different batches than before: of the %d trajectories in its state, the store has %d, and it has %d "
            "others; save the store with Store.save() together with the state, and restore the state after "
            "Store.load()", applied + skipped, applied, others,
        )
