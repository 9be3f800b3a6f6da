"""The weights of a store, as part of a loader's state: draws depend on the weights, and learners change them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from relive import _native

_log = logging.getLogger("relive")

Kept = dict[str, npt.NDArray[Any]]


def of_store(store: _native.GpuStore) -> Kept:
    """Returns the index, generation and weight of each trajectory of this rank."""
    _, _, capacity = store.schema()
    rank, _ = store.shard()
    weights = store.weights()
    # If every trajectory has a weight, free slots need no check.
    places = np.flatnonzero(weights) if np.count_nonzero(weights) == len(store) else np.arange(capacity)
    statuses = [store.status(rank * capacity + place) for place in places.tolist()]
    there = np.array([status[0] != "free" for status in statuses], bool)
    generations = np.array([status[1] for status in statuses], np.int64)
    return {"indices": rank * capacity + places[there], "generations": generations[there], "weights": weights[places][there]}


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
