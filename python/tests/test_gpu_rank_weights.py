"""New weights of trajectories that belong to any rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_ranks import TRAJECTORIES, WINDOWS, filled, together
from relive import errors, gpu


def test_new_weights_reach_the_rank_that_has_the_trajectory() -> None:
    def work(group: gpu.Group) -> Any:
        with filled(group) as store:
            every = np.arange(TRAJECTORIES)
            mine = every[group.rank :: 2]
            generations = np.ones(len(mine), np.int64)
            changed = store.update_weights(mine, mine * 10.0, generations)
            stale = store.update_weights(mine, mine * 20.0, generations + 1)
            return store.weights(), changed, stale

    (first, *changed), (second, *stale) = together(2, work)
    np.testing.assert_array_equal(np.concatenate([first, second]), np.arange(TRAJECTORIES) * 10.0)
    assert changed == stale == [gpu.Changed(6, 0), gpu.Changed(0, 6)]


@pytest.mark.parametrize(
    ("indices", "weights", "generations", "kind"),
    [
        ([0, 6], [5, float("nan")], None, errors.InvalidArgumentError),
        ([0, 6], [5, -5], None, errors.InvalidArgumentError),
        ([0, 6], [5, 1e39], None, errors.InvalidArgumentError),
        ([0, 6], [5, 5], [1, -1], errors.NotFoundError),
        ([0, -1], [5, 5], None, errors.NotFoundError),
        ([0, 6], [[5, 5]], None, errors.InvalidArgumentError),
        ([[0, 6]], [5, 5], None, errors.InvalidArgumentError),
        ([True, False], [5, 5], None, TypeError),
        ([0, 6], [5], None, errors.InvalidArgumentError),
        ([0, TRAJECTORIES], [5, 5], None, errors.NotFoundError),
        ([0.0, 6.5], [5, 5], None, TypeError),
        (["a"], [5], None, TypeError),
        ([0], ["a"], None, TypeError),
        ([0], [None], None, TypeError),
    ],
)
def test_invalid_new_weights_change_nothing_on_any_rank(indices: Any, weights: Any, generations: Any, kind: type[Exception]) -> None:
    def work(group: gpu.Group) -> Any:
        with filled(group) as store:
            before = store.weights()
            # The other rank's values are valid.
            mine = (indices, weights, generations) if group.rank == 0 else ([1], [5.0], None if generations is None else [1])
            with pytest.raises(kind if group.rank == 0 else errors.UnavailableError):
                store.update_weights(*mine)
            np.testing.assert_array_equal(store.weights(), before)
            tiny = store.update_weights([0, 6], [1e-60, 1e-60])
            return store.weights()[0] > 0, tiny.applied

    assert together(2, work) == [(True, 2), (True, 2)]


@pytest.mark.parametrize("prefetch", [0, 1])
def test_a_too_large_weight_is_reported_until_it_is_removed(prefetch: int) -> None:
    def work(group: gpu.Group) -> set[int]:
        with filled(group) as store, store.loader(40, WINDOWS, sampling="weighted", prefetch=prefetch) as loader:
            next(loader)
            heavy = [70_000.0, 1.0, 0, 0, 0, 0]
            store.update_weights(np.arange(6) + 6 * group.rank, heavy if group.rank else [0] * 6)
            for _ in range(3):
                with pytest.raises((errors.InvalidArgumentError, errors.UnavailableError), match="70000"):
                    next(loader)
            store.update_weights([6], [0.0])
            for _ in range(prefetch):
                next(loader)
            return set(next(loader).indices.tolist())

    assert together(2, work) == [{7}, {7}]
