"""Rows that a replay buffer leaves out, and Python's numbers in columns of another type."""

from __future__ import annotations

import copy
import pathlib
from typing import Any

import numpy as np
import pytest
from buffers import priorities

from relive import ReplayBuffer


def resetting_steps(environments: int, count: int) -> list[dict[str, Any]]:
    """Returns the steps of a vector that resets an environment in the step after its last step (``NEXT_STEP``), with the
    environments that are reset. An observation is the number of the episode, times 1,000, plus the time in it."""
    random = np.random.default_rng(7)
    seen, is_reset, found = np.zeros(environments, np.int64), np.zeros(environments, bool), []
    for _ in range(count):
        after = np.where(is_reset, (seen // 1_000 + 1) * 1_000, seen + 1)
        terminated = (random.random(environments) < 0.2) & ~is_reset
        truncated = (random.random(environments) < 0.1) & ~is_reset & ~terminated
        found.append({
            "observation": seen, "next_observation": after, "reward": np.where(is_reset, 0.0, random.random(environments)),
            "terminated": terminated, "truncated": truncated, "skip": is_reset,
        })
        seen, is_reset = after, terminated | truncated
    return found


def contents(buffer: ReplayBuffer) -> list[tuple[Any, ...]]:
    """Returns the transitions in a fixed order."""
    client = buffer.server.localhost_client()
    samples = client.get_items("replay", [item.key for item in client.items("replay")])
    data = [sample.data for sample in samples if sample is not None]
    names = sorted(data[0])
    return sorted(tuple(round(float(step[name]), 5) for name in names) for step in data)


@pytest.mark.parametrize("n_step", [1, 2, 3])
def test_rows_of_resets_are_left_out_of_windows(n_step: int) -> None:
    environments, settings = 3, {"n_step": n_step, "discount": 0.9}
    together, apart = ReplayBuffer(1_000, **settings), ReplayBuffer(1_000, **settings)  # type: ignore[arg-type]
    all_steps = resetting_steps(environments, 60)
    for step in all_steps:
        together.add_batch({name: column for name, column in step.items() if name != "skip"}, skip=step["skip"])
    for environment in range(environments):
        for step in all_steps:
            if not step["skip"][environment]:
                apart.add({name: column[environment] for name, column in step.items() if name != "skip"})
        apart.end_episode()
    assert any(step["skip"].any() for step in all_steps)
    together.end_episode()
    assert contents(together) == contents(apart)


def test_without_windows_skipped_rows_are_left_out() -> None:
    buffer = ReplayBuffer(10, prioritized=1.0)
    buffer.add_batch(a=np.arange(3), b={"c": np.arange(6).reshape(3, 2)}, skip=[False, True, False], priority=[1.0, 2.0, 3.0])
    buffer.add_batch(a=np.arange(3, 6), b={"c": np.zeros((3, 2), np.int64)}, skip=np.ones(3, bool))
    buffer.add_batch(a=np.arange(6, 9), b={"c": np.zeros((3, 2), np.int64)}, skip=[True, True, False], priority=7.0)
    assert priorities(buffer) == [1.0, 3.0, 7.0]
    batch = buffer.sample(50)
    assert {(int(a), tuple(c)) for a, c in zip(batch["a"], batch["b"]["c"].tolist())} == {(0, (0, 1)), (2, (4, 5)), (8, (0, 0))}
    one = ReplayBuffer(10, prioritized=1.0, discount=0.9)
    one.add_batch(reward=[1.0, 1.0], done=[True, False], skip=[True, False], priority=[1.0, 2.0])
    assert priorities(one) == [2.0]
    # Nothing is known of the columns yet, and nothing is added.
    empty = ReplayBuffer(10)
    empty.add_batch(a=np.arange(3), skip=[True] * 3)
    assert len(empty) == 0


def test_a_skipped_environment_ends_its_episode() -> None:
    buffer = ReplayBuffer(10, n_step=3, discount=0.5)
    for number, skip in enumerate([[False, False], [False, True], [False, False], [False, False]]):
        numbers = np.array([number, 10 + number])
        buffer.add_batch(observation=numbers, next_observation=numbers + 1, reward=np.ones(2), done=np.zeros(2, bool), skip=skip)
    batch = buffer.sample(100)
    spans = set(zip(batch["observation"].tolist(), batch["next_observation"].tolist(), batch["discount"].tolist()))
    # The window of the second environment ends with the step before the one that was skipped.
    assert spans == {(0, 3, 0.125), (1, 4, 0.125), (10, 11, 0.5)}


def test_a_priority_is_for_each_row_also_with_skip() -> None:
    buffer, rows = ReplayBuffer(10, prioritized=0.6), {"reward": np.ones(3)}
    with pytest.raises(ValueError, match=r"priority must be one number, or a number for each of the 3 rows, but its shape is \(2,\)"):
        buffer.add_batch(rows, priority=[1.0, 2.0], skip=[True, False, False])
    buffer.add_batch(rows, priority=[1.0, 2.0, 4.0], skip=[True, False, False])
    buffer.add_batch(rows, priority=8.0, skip=[False, True, True])
    assert len(buffer) == 3


@pytest.mark.parametrize("settings", [{}, {"discount": 0.9}, {"n_step": 3, "discount": 0.9}])
def test_skip_is_a_bool_for_each_row(settings: dict[str, Any]) -> None:
    buffer = ReplayBuffer(10, **settings)
    rows = {"reward": np.ones(3), "next_observation": np.zeros(3), "done": np.zeros(3, bool)}
    with pytest.raises(ValueError, match=r"skip must have a bool for each row, shape \(3,\), but its shape is \(2,\)"):
        buffer.add_batch(rows, skip=[True, False])
    for bad in ([0, 1, 0], 1.0):
        with pytest.raises(ValueError, match="skip must be an array with a bool for each row, but its data type is"):
            buffer.add_batch(rows, skip=bad)
    with pytest.raises(ValueError, match="leading dimension"):
        buffer.add_batch({**rows, "next_observation": np.zeros(2)}, skip=[True, False, False])
    buffer.add_batch(rows)
    if settings.get("n_step") == 3:
        with pytest.raises(ValueError, match=r"must always get steps of the same environments: .* pass add_batch\(…, skip=mask\)"):
            buffer.add_batch({name: column[:2] for name, column in rows.items()})


@pytest.mark.parametrize("count", [1, 3])
def test_all_columns_have_as_many_rows(count: int) -> None:
    buffer = ReplayBuffer(10)
    for _ in range(2):
        with pytest.raises(ValueError, match=f"the columns have {count}, 5 rows, but all columns of add_batch must have the same"):
            buffer.add_batch(a=np.zeros(count), b={"c": np.zeros(5)})
        with pytest.raises(ValueError, match="must have columns with a leading dimension"):
            buffer.add_batch(a=np.zeros(count), b={"c": 5.0})
        buffer.add_batch(a=np.zeros(count), b={"c": np.zeros(count)})
    assert len(buffer) == 2 * count


@pytest.mark.parametrize("how", ["plain", "loaded", "copied", "discount", "windows"])
def test_whole_numbers_of_python_enter_columns_of_floats(how: str, tmp_path: pathlib.Path) -> None:
    settings = {"discount": {"discount": 0.5}, "windows": {"n_step": 2, "discount": 0.5}}.get(how, {})
    buffer = ReplayBuffer(10, **settings)  # type: ignore[arg-type]
    step = {"observation": {"x": np.float32(1.5)}, "next_observation": 2.5, "action": np.int32(3), "reward": np.float64(0.5), "done": False}
    buffer.add(step)
    if how == "loaded":
        buffer.save(tmp_path)
        buffer = ReplayBuffer.load(tmp_path)
    if how == "copied":
        buffer = copy.deepcopy(buffer)
    for _ in range(2):
        buffer.add({"observation": {"x": True}, "next_observation": 2, "action": 1, "reward": -100, "done": True})
    batch = buffer.sample(100)
    assert (batch["observation"]["x"].dtype, batch["next_observation"].dtype, batch["action"].dtype) == (np.float32, np.float64, np.int32)
    assert -100.0 in batch["reward"] and set(batch["observation"]["x"].tolist()) == {1.0, 1.5} and set(batch["action"].tolist()) == {1, 3}
    # Only Python's numbers have no type of their own, and only those that the column's type has are taken.
    for name, bad in [("next_observation", np.int64(2)), ("next_observation", np.array(2)), ("action", 2**40), ("action", 1.0), ("done", 2)]:
        with pytest.raises(ValueError, match=f"{name}'? "):
            buffer.add({**step, name: bad})
    buffer.add(step)


@pytest.mark.parametrize(("n_step", "is_consecutive", "is_told"), [(3, True, True), (3, False, False), (1, True, False)])
def test_consecutive_steps_as_rows_of_environments_are_told(
    n_step: int, is_consecutive: bool, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    buffer = ReplayBuffer(1_000, n_step=n_step, discount=0.9)
    observations = np.arange(202, dtype=np.float32).reshape(101, 2)
    if not is_consecutive:
        # A vector of environments that all show the same.
        observations[:] = 1.0
    ends = np.arange(100) % 10 == 9
    buffer.add_batch(
        observation=observations[:-1], next_observation=observations[1:], reward=np.ones(100, np.float32), terminated=ends, truncated=ends,
    )  # fmt: skip
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == is_told and all(text.startswith("the 100 rows of add_batch look like consecutive steps") for text in texts)


def test_indices_in_place_of_keys_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    buffer = ReplayBuffer(100, prioritized=1.0, batch_size=8, seed=1)
    for number in range(20):
        buffer.add(value=number)
    for _ in range(2):
        buffer.update(buffer.sample()["keys"], np.ones(8))
    assert not caplog.records
    for _ in range(2):
        buffer.update(np.arange(8), np.ones(8))
    (record,) = caplog.records
    assert record.getMessage().startswith("update: the numbers 0… are not keys of transitions")
