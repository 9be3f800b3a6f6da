"""Native environments by their names in Gymnasium."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
import relive.gymnasium  # noqa: F401  Registers them.
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from relive import _gymnasium_ids, rl

# The last setting of each family.
FAMILIES = [*_gymnasium_ids._OTHERS, *(f"{family}/{count - 1}" for family, count in _gymnasium_ids._SETTINGS.items())]


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_registered(name: str) -> None:
    made = gymnasium.make(_gymnasium_ids.gymnasium_id(name))
    observation, _ = made.reset(seed=1)
    expected = rl.make(name, seed=1).reset().observation
    assert np.array_equal(observation, expected) and made.observation_space.contains(observation)


def test_no_name_is_missing() -> None:
    with pytest.raises(ValueError, match="got nothing") as raised:
        rl.make("nothing")
    named = re.findall(r"[A-Z]\w+-v\d|control/[\w-]+|pixels/\w+", str(raised.value))
    assert sorted(named) == sorted(_gymnasium_ids._OTHERS)


def test_no_setting_is_missing() -> None:
    for family, count in _gymnasium_ids._SETTINGS.items():
        with pytest.raises(ValueError, match=f"{family}/0 to {family}/{count - 1}"):
            rl.make(f"{family}/{count}")
    assert len(list(_gymnasium_ids.native_names())) == 408 + 9


@pytest.mark.parametrize("name", ["relive/catch-0", "relive/CartPole-v1", "relive/Pendulum-v1", "relive/pixels-catch"])
@pytest.mark.filterwarnings("ignore:.*A Box observation space (min|max)imum value is", "ignore:.*For Box action spaces, we recommend")
def test_environments_pass_the_gymnasium_check(name: str) -> None:
    check_env(gymnasium.make(name).unwrapped, skip_render_check=True)


def test_a_seed_restarts_the_environment_and_none_continues() -> None:
    made = gymnasium.make("relive/catch-0")

    def columns(count: int) -> list[int]:
        return [int(made.reset()[0][0].argmax()) for _ in range(count)]

    made.reset(seed=7)
    first = columns(20)
    made.reset(seed=7)
    assert columns(20) == first and len(set(first)) > 1
    assert len({tuple(gymnasium.make("relive/catch-0").reset()[0].ravel()) for _ in range(30)}) > 1


def played(vector: Any, steps: int) -> list[Any]:
    rng, found = np.random.default_rng(0), [vector.reset(seed=3)[0]]
    for _ in range(steps):
        found += vector.step(rng.integers(2, size=3))[:4]
    return found


def test_a_vector_matches_single_environments() -> None:
    own = gymnasium.make_vec("relive/CartPole-v1", num_envs=3)
    assert type(own).__name__ == "NativeVectorEnv" and own.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    other = gymnasium.make_vec("relive/CartPole-v1", num_envs=3, vectorization_mode="sync")
    assert own.observation_space == other.observation_space and own.action_space == other.action_space
    theirs = played(other, 200)
    assert any(step.any() for step in theirs[3::4])
    for mine, expected in zip(played(own, 200), theirs, strict=True):
        assert mine.dtype == expected.dtype and np.array_equal(mine, expected)


def test_seeds_of_a_vector_are_one_for_each() -> None:
    own = gymnasium.make_vec("relive/CartPole-v1", num_envs=2)
    assert (own.reset(seed=[4, 5])[0] == own.reset(seed=4)[0]).all()
    before = own.reset(seed=[4, None])[0]
    assert (before[0] == own.reset(seed=4)[0][0]).all()
    with pytest.raises(ValueError, match="3 seeds for 2 environments"):
        own.reset(seed=[1, 2, 3])
    with pytest.raises(ValueError, match="0 seeds for 2 environments"):
        own.reset(seed=[])
    # Numbers and arrays of numpy, including 0.
    assert (own.reset(seed=np.int64(0))[0] == own.reset(seed=0)[0]).all()
    assert (own.reset(seed=np.array([4, 5]))[0] == own.reset(seed=4)[0]).all()


def test_a_mask_selects_the_environments_of_a_vector_to_reset() -> None:
    results = []
    for mode in (None, "sync"):
        vector = gymnasium.make_vec("relive/CartPole-v1", num_envs=3, vectorization_mode=mode)
        vector.reset(seed=1)
        vector.step(np.array([0, 1, 0]))
        begun, _ = vector.reset(seed=7, options={"reset_mask": np.array([True, False, True])})
        results.append([begun, vector.step(np.array([1, 1, 0]))[0]])
    assert np.array_equal(*results)
    with pytest.raises(ValueError, match=r"options\['reset_mask'\] is .* must have the shape \(3,\)"):
        gymnasium.make_vec("relive/CartPole-v1", num_envs=3).reset(options={"reset_mask": np.array([True])})


@pytest.mark.parametrize(
    ("name", "valid", "invalid", "kind", "text"),
    [
        ("catch-0", [1, 1, 1], [0, 1, 7], ValueError, r"the actions must be from 0 to 2, got \[0, 1, 7\]"),
        ("catch-0", [1, 1, 1], [0, 1, -1], ValueError, "the actions must be from 0 to 2"),
        ("catch-0", [1, 1, 1], [0, 1], ValueError, r"must have the shape \(3,\), one row for each environment, got \(2,\)"),
        ("catch-0", [1, 1, 1], [0, 1, 0.5], TypeError, "the actions must be whole numbers, got float64"),
        ("Pendulum-v1", [[1.0]] * 3, [[1.0], [1.0], [np.nan]], ValueError, "the actions must be finite numbers"),
        ("Pendulum-v1", [[1.0]] * 3, [1.0, 1.0, 1.0], ValueError, r"must have the shape \(3, 1\)"),
        ("Pendulum-v1", [[1.0]] * 3, [["a"]] * 3, ValueError, "the actions must be finite numbers"),
    ],
    ids=["high", "low", "few", "fraction", "nan", "shape", "text"],
)
def test_a_vector_takes_all_actions_or_none(name: str, valid: Any, invalid: Any, kind: type[Exception], text: str) -> None:
    seen = []
    for wrong in (None, invalid):
        vector = gymnasium.make_vec(f"relive/{name}", num_envs=3)
        vector.reset(seed=1)
        if wrong is not None:
            with pytest.raises(kind, match=text):
                vector.step(wrong)
        seen.append(vector.step(valid)[:4])
    assert all(np.array_equal(*pair) for pair in zip(*seen, strict=True))


def test_a_vector_needs_a_reset_before_the_first_step() -> None:
    vector = gymnasium.make_vec("relive/CartPole-v1", num_envs=2)
    with pytest.raises(gymnasium.error.ResetNeeded):
        vector.step([0, 1])
    vector.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(gymnasium.error.ResetNeeded):
        vector.step([0, 1])
    vector.reset(options={"reset_mask": np.array([False, True])})
    assert vector.step([0, 1])[1].tolist() == [1.0, 1.0]


def test_a_reset_leaves_the_seed_of_the_action_space() -> None:
    drawn = []
    for seed in (None, 1):
        made = gymnasium.make("relive/catch-0")
        made.action_space.seed(5)
        made.reset(seed=seed)
        drawn.append([int(made.action_space.sample()) for _ in range(20)])
    assert drawn[0] == drawn[1]


def test_an_action_may_be_a_list() -> None:
    made = gymnasium.make("relive/Pendulum-v1", disable_env_checker=True)
    made.reset(seed=1)
    listed = made.step([0.5])[0]
    made.reset(seed=1)
    assert np.array_equal(listed, made.step(np.array([0.5], np.float32))[0])


@pytest.mark.parametrize("seed", [-1, 1.5])
def test_invalid_seeds_are_the_error_of_gymnasium(seed: Any) -> None:
    with pytest.raises(gymnasium.error.Error, match="Seed must be"):
        gymnasium.make("relive/catch-0").reset(seed=seed)


def test_a_qualified_environment_name_needs_no_import() -> None:
    program = "import gymnasium; print(gymnasium.make('relive.gymnasium:relive/deep_sea-3').unwrapped.environment.name)"
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "deep_sea/3"


def test_the_package_does_not_import_gymnasium() -> None:
    program = "import sys, relive, relive.rl; assert 'gymnasium' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
