"""Merging the infos of environments in worker processes."""

from __future__ import annotations

import math
import random
from typing import Any

import gymnasium
import numpy as np
import pytest
from relive.rl._vector_infos import Infos, infos_of, merged

COUNT = 6

# Values of an entry; all environments have values of the same kind.
KINDS: list[Any] = [
    lambda rng: rng.random(),
    lambda rng: rng.randrange(100),
    lambda rng: rng.random() < 0.5,
    lambda rng: np.float32(rng.random()),
    lambda rng: np.int8(rng.randrange(100)),
    lambda rng: np.bool_(rng.random() < 0.5),
    lambda rng: np.full(3, rng.random(), np.float32),
    lambda rng: rng.choice(["left", None, (1, 2)]),
    lambda rng: {"r": rng.random(), "l": rng.randrange(9), "names": "a"},
]


class Merging(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """Merges infos as Gymnasium's vectors do."""

    num_envs = COUNT

    def merged(self, infos: dict[int, dict[str, Any]]) -> dict[str, Any]:
        """Returns the infos of these environments."""
        result: dict[str, Any] = {}
        for number, info in infos.items():
            result = self._add_info(result, info, number)
        return result

    def merged_by_workers(self, infos: dict[int, dict[str, Any]], workers: int) -> dict[str, Any]:
        """Returns the same from workers' infos."""
        shares = [range(number * COUNT // workers, (number + 1) * COUNT // workers) for number in range(workers)]
        parts = [infos_of({number: infos[number] for number in share}) for share in shares]
        return merged([part for part in parts if part is not None], COUNT, self._add_info)


def expect_equal(found: Any, expected: Any, path: str = "infos") -> None:
    """Compares nests, including the types of arrays."""
    assert type(found) is type(expected), path
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), path
        for name, value in expected.items():
            expect_equal(found[name], value, f"{path}[{name!r}]")
    elif isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype, path
        np.testing.assert_array_equal(found, expected, path)
    else:
        assert found == expected, path


def outcome(merge: Any) -> Any:
    """Returns the infos, or the type of the exception."""
    try:
        return merge()
    except Exception as error:
        return {"exception": np.array(type(error).__name__)}


@pytest.mark.parametrize("seed", range(40))
def test_workers_infos_are_merged_as_gymnasium_merges_them(seed: int) -> None:
    rng = random.Random(seed)
    names = {f"entry {number}": rng.choice(KINDS) for number in range(6)} | {"final_obs": rng.choice(KINDS[:2])}
    # Some environments lack some entries.
    infos = {number: {name: kind(rng) for name, kind in names.items() if rng.random() < 0.7} for number in range(COUNT)}
    merging = Merging()
    for workers in (1, 2, 3, 6):
        expect_equal(merging.merged_by_workers(infos, workers), merging.merged(infos))


@pytest.mark.parametrize(
    "values",
    [
        [2, 1.5, 1.5, True, 1.5, 1.5],
        [np.zeros(3), 3.0, 4.0, 5.0, 6.0, 7.0],
        [1.0, 2.0, 3.0, np.zeros(3), 4.0, 5.0],
        [np.int8(1), 2, 3, 300, 5, 6],
        [1, 2, 3, math.nan, 4, 5],
        [None, None, None, np.float32(1), 2.0, 3],
        [{"r": 1}, {"r": 2}, {"r": 3}, 4.0, 5.0, 6.0],
        [1.0, 2.0, 3.0, 2**70, 4.0, 5.0],
        [1, 2, 3, 2**70, 2**70, 2**70],
        [np.timedelta64(1, "s")] * COUNT,
        [True, 2, 3.5, np.float32(4), np.int64(5), "six"],
        ["a", 2.0, 2.0, 2.0, 2.0, 2.0],
    ],
)
def test_the_types_of_an_entry_may_differ(values: list[Any]) -> None:
    infos = {number: {"value": value} for number, value in enumerate(values)}
    merging = Merging()
    expected = outcome(lambda: merging.merged(infos))
    for workers in (1, 2, 3, 6):
        expect_equal(outcome(lambda workers=workers: merging.merged_by_workers(infos, workers)), expected)


def test_an_entry_may_have_the_name_of_a_mask() -> None:
    infos: dict[int, dict[str, Any]] = {number: {"x": 1.0, "_x": 2.0, "__x": 3} for number in range(COUNT)}
    merging = Merging()
    for workers in (1, 2, 6):
        expect_equal(merging.merged_by_workers(infos, workers), merging.merged(infos))
    # Only some workers have one.
    some = {number: {"x": 1.0} | ({"_x": 2.0} if number < 3 else {}) for number in range(COUNT)}
    for workers in (1, 2, 6):
        expect_equal(merging.merged_by_workers(some, workers), merging.merged(some))


def test_numbers_are_sent_together() -> None:
    infos = infos_of({2: {"x": 1.0, "y": 2.0, "name": "a"}, 3: {"x": 3.0, "y": 4.0}})
    assert isinstance(infos, Infos) and infos.others == {2: {"name": "a"}}
    ((kind, names, environments, values),) = infos.numbers
    assert (kind, names, environments, values.tolist()) == (float, ["x", "y"], [2, 3], [[1.0, 3.0], [2.0, 4.0]])
    assert infos_of({2: {}, 3: {}}) is None
