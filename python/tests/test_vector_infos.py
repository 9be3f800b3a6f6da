"""Merging the infos of environments in worker processes."""

from __future__ import annotations

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
    else:
        assert found.dtype == expected.dtype, path
        np.testing.assert_array_equal(found, expected, path)


@pytest.mark.parametrize("seed", range(40))
def test_workers_infos_are_merged_as_gymnasium_merges_them(seed: int) -> None:
    rng = random.Random(seed)
    names = {f"entry {number}": rng.choice(KINDS) for number in range(6)} | {"final_obs": rng.choice(KINDS[:2])}
    # Some environments lack some entries.
    infos = {number: {name: kind(rng) for name, kind in names.items() if rng.random() < 0.7} for number in range(COUNT)}
    merging = Merging()
    for workers in (1, 2, 3, 6):
        expect_equal(merging.merged_by_workers(infos, workers), merging.merged(infos))


def test_the_first_environment_determines_the_type_of_an_entry() -> None:
    infos: dict[int, dict[str, Any]] = {number: {"value": 1.5} for number in range(COUNT)} | {0: {"value": 2}, 4: {"value": True}}
    merging = Merging()
    for workers in (1, 2, 6):
        expect_equal(merging.merged_by_workers(infos, workers), merging.merged(infos))


def test_numbers_are_sent_together() -> None:
    infos = infos_of({2: {"x": 1.0, "y": 2.0, "name": "a"}, 3: {"x": 3.0, "y": 4.0}})
    assert isinstance(infos, Infos) and infos.others == {2: {"name": "a"}}
    ((names, environments, values),) = infos.numbers
    assert (names, environments, values.tolist()) == (["x", "y"], [2, 3], [[1.0, 3.0], [2.0, 4.0]])
    assert infos_of({2: {}, 3: {}}) is None
