"""Steps and priorities that a replay buffer accepts, and those that it refuses."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
from buffers import priorities, rewards, step

from relive import ReplayBuffer, _buffer_table


def started(how: str, folder: pathlib.Path, **arguments: Any) -> ReplayBuffer:
    """Returns an empty buffer whose server was started before the first step."""
    buffer = ReplayBuffer(10, batch_size=4, **arguments)
    if how == "served":
        buffer.serve()
        return buffer
    buffer.save(folder)
    return buffer if how == "saved" else ReplayBuffer.load(folder)


@pytest.mark.parametrize("how", ["served", "saved", "loaded"])
def test_a_buffer_that_is_started_before_the_first_step_checks_all_steps(how: str, tmp_path: pathlib.Path) -> None:
    buffer = started(how, tmp_path, prioritized=1.0)
    with pytest.raises(ValueError, match="rename your columns"):
        buffer.add(weights=5.0, keys=7)
    # A refused first step determines nothing.
    with pytest.raises(TypeError):
        buffer.add(observation=object())
    buffer.add(observation={"place": np.zeros(3, np.float32)})
    for bad, told in [
        ({"observation": {"place": np.zeros((2, 4), np.float32)}}, r"'observation/place' is float32 \(4,\), but was float32 \(3,\)"),
        ({"observation": {"place": np.zeros((2, 3))}}, "is float64 .*np.float32"),
        ({"observation": {"place": np.zeros((2, 3), np.float32), "kind": np.zeros(2)}}, "the values"),
        ({"place": np.zeros((2, 3), np.float32)}, "columns"),
    ]:
        with pytest.raises(ValueError, match=told):
            buffer.add_batch(bad)
        with pytest.raises(ValueError, match=told):
            buffer.add({name: part[0] if name == "place" else {key: of[0] for key, of in part.items()} for name, part in bad.items()})  # type: ignore[attr-defined]
    buffer.add_batch(observation={"place": np.ones((2, 3), np.float32)})
    assert len(buffer) == 3 and buffer.sample()["observation"]["place"].shape == (4, 3)
    buffer.save(tmp_path)
    loaded = ReplayBuffer.load(tmp_path)
    with pytest.raises(ValueError, match="is float64"):
        loaded.add(observation={"place": np.zeros(3)})
    loaded.add(observation={"place": np.zeros(3, np.float32)})
    assert len(loaded) == 4


def test_after_a_step_with_other_nested_names_good_steps_are_added() -> None:
    buffer = ReplayBuffer(10)
    good: dict[str, Any] = {"action": 1, "seen": {"x": 1.0}}
    buffer.add(good)
    for seen in ({"x": 1.0, "y": 2.0}, {"y": 2.0}):
        with pytest.raises(ValueError, match=r"\['action', 'seen/x'\], but this one has"):
            buffer.add({**good, "seen": seen})
        with pytest.raises(ValueError, match=r"\['action', 'seen/x'\], but this one has"):
            buffer.add_batch(action=[1, 1], seen={name: [number] * 2 for name, number in seen.items()})
    buffer.add(good)
    buffer.add_batch(action=[1, 1], seen={"x": [1.0, 2.0]})
    assert len(buffer) == 4


def test_refused_values_are_named() -> None:
    buffer = ReplayBuffer(10)
    with pytest.raises(TypeError, match="column 'a/b' is None"):
        buffer.add(a={"b": None}, reward=1)
    buffer.add(a={"b": 1}, reward=1)
    with pytest.raises(TypeError, match="column 'a/b' is None"):
        buffer.add(a={"b": None}, reward=1)
    with pytest.raises(ValueError, match=r"'reward' is float64, but was int64 in the first step .* np\.float64\(reward\)"):
        buffer.add(a={"b": 1}, reward=0.5)
    buffer.add(a={"b": 1}, reward=2)
    assert len(buffer) == 2


def test_tensors_of_any_kind_are_added() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("ml_dtypes")
    for number, kind in enumerate([torch.bfloat16, torch.float32]):
        tensor = torch.ones(3, 2, dtype=kind, requires_grad=True)
        buffer = ReplayBuffer(10, prioritized=1.0, n_step=1 + number, discount=None if number == 0 else 0.9)
        more = {"reward": torch.ones(3), "next_observation": tensor, "done": torch.ones(3, dtype=torch.bool)}
        for _ in range(2):
            buffer.add_batch(observation=tensor, **more)
        single = ReplayBuffer(10)
        for _ in range(2):
            single.add(observation=tensor[0], reward=1.0)
        for batch in (buffer.sample(4, to="torch"), single.sample(4, to="torch")):
            assert batch["observation"].dtype == kind and batch["observation"].eq(1).all()
        batch = buffer.sample(4)
        buffer.update(batch["keys"], torch.full((4,), 3.0, dtype=torch.bfloat16, requires_grad=True))
        assert max(priorities(buffer)) == 3.0


def test_each_row_can_have_a_priority() -> None:
    buffer = ReplayBuffer(10, prioritized=1.0)
    buffer.add_batch(a=np.arange(3), priority=[3.0, 1.0, 2.0])
    buffer.add(a=3)
    assert priorities(buffer) == [3.0, 1.0, 2.0, 3.0]
    for bad, told in [([1.0], r"for each of the 3 steps, but its shape is \(1,\)"), ([1.0, -1.0, 1.0], "at least 0, and finite")]:
        with pytest.raises(ValueError, match=told):
            buffer.add_batch(a=np.arange(3), priority=bad)
    windows = ReplayBuffer(10, prioritized=1.0, n_step=3, discount=0.9)
    for given, done in ((9.0, False), (1.0, False), (3.0, True)):
        windows.add(reward=1.0, next_observation=2, done=done, priority=given)
    assert priorities(windows) == [3.0] * 3
    with pytest.raises(ValueError, match="with n_step, priority must be one number"):
        windows.add_batch(reward=[1.0], next_observation=[2], done=[True], priority=[1.0])
    one = ReplayBuffer(10, prioritized=1.0, discount=0.9)
    one.add_batch(reward=[1.0, 1.0], done=[True, False], priority=[1.0, 2.0])
    assert priorities(one) == [1.0, 2.0]


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf"), 1e200])
def test_an_update_with_an_invalid_priority_changes_nothing(bad: float) -> None:
    buffer = ReplayBuffer(10, prioritized=2.0)
    buffer.add_batch(a=np.arange(2))
    keys = np.unique(buffer.sample(50)["keys"])
    with pytest.raises(ValueError, match="at least 0, and finite even to the power of 2"):
        buffer.update(keys, [9.0, bad])
    buffer.add(a=2)
    assert priorities(buffer) == [1.0] * 3


@pytest.mark.parametrize("discount", [None, 0.9])
def test_invalid_steps_and_priorities_leave_the_buffer_as_it_was(discount: float | None) -> None:
    buffer = ReplayBuffer(10, prioritized=2.0, discount=discount)
    for priority in (-1.0, float("nan"), float("inf"), 1e200):
        with pytest.raises(ValueError, match=r"priority must be at least 0, and finite even to the power of 2"):
            buffer.add(step(0), priority=priority)
    for bad in ({}, {**step(0), "observation": object()}):
        with pytest.raises((ValueError, TypeError)):
            buffer.add(bad, priority=500.0)
    rows = {name: np.stack([column] * 4) for name, column in step(0).items()}
    if discount is not None:
        with pytest.raises(ValueError, match="column 'observation' has the leading dimensions"):
            buffer.add_batch({**rows, "observation": rows["observation"][:3]})
        with pytest.raises(ValueError, match="needs a reward"):
            buffer.add_batch({})
    buffer.add_batch({**rows, "done": np.ones(4, bool)}, priority=100.0)
    assert len(buffer) == 4
    with pytest.raises(ValueError, match="columns"):
        buffer.add_batch({name: column for name, column in rows.items() if name != "observation"})
    buffer.add_batch({**rows, "done": np.ones(4, bool)})
    # New transitions get the highest priority so far.
    assert {item.priority for item in buffer.server.localhost_client().items("replay")} == {100.0}
    buffer.close()


@pytest.mark.parametrize("discount", [None, 0.9])
def test_a_buffer_without_priorities_refuses_them(discount: float | None) -> None:
    rows = {name: np.stack([column]) for name, column in step(0).items()}
    with ReplayBuffer(10, discount=discount) as buffer:
        for call in (lambda: buffer.add(step(0), priority=3.0), lambda: buffer.add_batch(rows, priority=3.0)):
            with pytest.raises(ValueError, match=r"the buffer has no priorities; create it with, for example, prioritized=0\.6"):
                call()
        assert len(buffer) == 0


def test_the_writer_of_a_buffer_ends_its_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_buffer_table, "_EPISODE_STEPS", 8)
    buffer = ReplayBuffer(100, batch_size=4, prioritized=1.0)
    table = buffer._table
    for number in range(20):
        buffer.add(reward=float(number), priority=number + 1)
        assert table._writer.episode_steps == number % 8 + 1
    # Batches are not divided among episodes, even if they are larger than one.
    for start, count in ((20, 3), (23, 1), (24, 10), (34, 5)):
        buffer.add_batch(reward=np.arange(start, start + count, dtype=float), priority=np.arange(start, start + count) + 1.0)
        assert count <= table._writer.episode_steps < 8 + count
    # A flush ends an episode, too.
    len(buffer)
    buffer.add_batch(reward=np.arange(39, 50, dtype=float), priority=np.arange(40, 51.0))
    assert rewards(buffer) == list(range(50)) and priorities(buffer) == list(range(1, 51))
    buffer.add(reward=50, priority=51)
    assert table._writer.episode_steps == 1
    # The columns are still those of the first step.
    for bad in (np.float32(1), np.zeros(2)):
        with pytest.raises(ValueError, match="column 'reward'"):
            buffer.add(reward=bad)
    assert len(buffer) == 51
