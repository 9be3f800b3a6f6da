"""Several ranks draw the same trajectories as a single rank with all trajectories."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_ranks import batches, filled, together, trajectory, whole
from relive import gpu

SAMPLINGS = ["uniform", "weighted", "stratified", gpu.Prioritized(0.7, 0.5), "top_k", gpu.WithoutReplacement(0.5)]


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
@pytest.mark.parametrize("ranks", [2, 3])
def test_any_number_of_ranks_draws_the_same_rows(sampling: Any, ranks: int) -> None:
    """Defects 1, 2, 13 and 15: the weights of all ranks count, and each rank gets its own share of the rows."""
    alone = together(1, lambda group: batches(group, sampling, 6))[0]
    shares = together(ranks, lambda group: batches(group, sampling, 6))
    for number, expected in enumerate(alone):
        drawn = [share[number] for share in shares]
        for field in ("indices", "steps", "lengths", "weights", "probabilities"):
            np.testing.assert_array_equal(whole(drawn, field), getattr(expected, field), err_msg=field)
        for share in drawn:
            for row, (index, step) in enumerate(zip(share.indices, share.steps)):
                steps = trajectory(index)["x"]
                there = [steps[at] for at in range(step - 2, step + 1) if 0 <= at < len(steps)]
                assert share.data["x"][row].tolist() == [0] * (3 - len(there)) + there


def test_ranks_of_one_replica_read_the_same_rows() -> None:
    """A topology of two data-parallel ranks of two processes each: pipeline stages, or parts of tensors."""
    shares = together(4, lambda group: batches(group, "weighted", 6), replicas=2)
    for first, second in (shares[:2], shares[2:]):
        for one, other in zip(first, second):
            np.testing.assert_array_equal(one.indices, other.indices)
            np.testing.assert_array_equal(one.data["x"], other.data["x"])
    assert any((one.indices != other.indices).any() for one, other in zip(shares[0], shares[2]))


def test_fifo_alternates_between_ranks() -> None:
    shares = together(2, lambda group: [list(batch.indices) for batch in batches(group, "fifo", 4, count=1)])
    # The first trajectory of each rank, then the second trajectory of each rank. Trajectories 0, 4 and 8 have weight 0
    # and are not drawn.
    assert shares == [[[6, 7]], [[1, 2]]]


def test_collect_reads_rows_of_any_rank() -> None:
    def work(group: gpu.Group) -> Any:
        with filled(group) as store:
            group.all_gather(b"")
            found = store.collect([11, 0, 5, 6], {"x": gpu.Window(-1, 1)}).data["x"].tolist()
            group.all_gather(b"")
            return found

    for found in together(3, work):
        assert found == [[1101], [0], [500], [601]]


def test_rows_of_other_ranks_have_their_own_length() -> None:
    """Defect 19: adjacent steps of 1 to 24 bytes, from all ranks."""
    columns = {"byte": "uint8", "short": "int16", "wide": ("float64", (3,)), "flag": "bool", "half": ("float16", (5,))}

    def steps(number: int) -> dict[str, Any]:
        rng = np.random.default_rng(number)
        return {
            "byte": rng.integers(0, 256, 4, np.uint8), "short": rng.integers(-(2**15), 2**15, 4, np.int16), "wide": rng.normal(size=(4, 3)),
            "flag": rng.random(4) < 0.5, "half": rng.normal(size=(4, 5)).astype(np.float16),
        }

    def work(group: gpu.Group) -> None:
        with gpu.Store(columns, capacity=4, max_steps=4, group=group) as store:
            for number in range(4 * group.rank, 4 * group.rank + 4):
                store.insert(steps(number))
            group.all_gather(b"")
            indices = [9, 1, 4, 11, 0, 7, 9]
            batch = store.collect(indices, {name: gpu.Window(-4, 4) for name in columns})
            for name in columns:
                np.testing.assert_array_equal(batch.data[name], np.stack([steps(number)[name] for number in indices]))
            group.all_gather(b"")

    together(3, work)
