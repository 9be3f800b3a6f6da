"""relive.torchrl: compared with torchrl's own storage and sampler, in its buffers."""

from __future__ import annotations

import copy
import pathlib
import pickle
from typing import Any

import numpy as np
import pytest

import torch
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, PrioritizedSampler, RandomSampler, ReplayBuffer, TensorDictReplayBuffer

from relive.torchrl import Sampler, Storage


def steps(count: int, first: int = 0) -> Any:
    numbers = torch.arange(first, first + count)
    following = {"observation": numbers[:, None] + torch.ones(3), "reward": numbers[:, None].float(), "done": numbers[:, None] % 7 == 0}
    return TensorDict({"observation": numbers[:, None] * torch.ones(3), "action": numbers, "next": following}, [count])


def buffer(size: int = 100, **settings: Any) -> Any:
    return TensorDictReplayBuffer(storage=Storage(size, seed=1, **settings), sampler=Sampler(0.5), batch_size=32)


def own(size: int = 100, *, prioritized: bool = False) -> Any:
    sampler = PrioritizedSampler(size, alpha=1.0, beta=0.5, eps=0.0) if prioritized else RandomSampler()
    return TensorDictReplayBuffer(storage=LazyTensorStorage(size), sampler=sampler, batch_size=32)


def test_batches_match_those_of_torchrl() -> None:
    ours, theirs = buffer(), own(prioritized=True)
    for one in (ours, theirs):
        one.extend(steps(50))
        one.add(steps(1, first=50)[0])
    batches = [one.sample() for one in (ours, theirs)]
    looks = [{str(name): (leaf.dtype, leaf.shape) for name, leaf in batch.items(True, True)} for batch in batches]
    assert looks[0] == looks[1] and len(ours) == len(theirs) == 51
    batch = batches[0]
    assert torch.equal(batch["next", "observation"], batch["observation"] + 1)
    assert torch.equal(batch["next", "reward"][:, 0], batch["action"].float())
    assert torch.equal(batch["next", "done"][:, 0], batch["action"] % 7 == 0)


def test_the_oldest_steps_are_evicted_as_in_torchrl() -> None:
    ours, theirs = buffer(20), own(20)
    for first in range(0, 50, 10):
        for one in (ours, theirs):
            one.extend(steps(10, first))
    seen = [{int(action) for _ in range(20) for action in one.sample()["action"]} for one in (ours, theirs)]
    assert seen[0] == seen[1] == set(range(30, 50)) and len(ours) == len(theirs) == 20


def test_priorities_and_weights_match_torchrl() -> None:
    shares, weights = [], []
    for one in (buffer(prioritized=1.0), own(prioritized=True)):
        one.extend(steps(4))
        # Repeats until each item has its own priority.
        for _ in range(8):
            batch = one.sample()
            batch["td_error"] = 1.0 + batch["action"].float()
            one.update_tensordict_priority(batch)
        batches = [one.sample() for _ in range(200)]
        shares.append(torch.bincount(torch.cat(batches)["action"], minlength=4) / (200 * 32))
        # Relive divides weights by the largest weight of the batch, torchrl by the largest weight of the buffer; the
        # results are equal if the batch contains all items.
        batch = next(batch for batch in batches if len(batch["action"].unique()) == 4)
        weights.append([float(batch["priority_weight"][batch["action"] == action][0]) for action in range(4)])
    assert torch.allclose(shares[0], torch.tensor([0.1, 0.2, 0.3, 0.4]), atol=0.03)
    assert torch.allclose(shares[0], shares[1], atol=0.04)
    assert weights[0] == pytest.approx([(1 + action) ** -0.5 for action in range(4)], rel=1e-3)
    assert weights[0] == pytest.approx(weights[1], rel=1e-3)


def test_without_priorities_all_weights_are_equal() -> None:
    one = buffer()
    one.extend(steps(4))
    batch = one.sample()
    batch["td_error"] = batch["action"].float()
    one.update_tensordict_priority(batch)
    batches = torch.cat([one.sample() for _ in range(100)])
    assert torch.allclose(torch.bincount(batches["action"]) / len(batches), torch.full((4,), 0.25), atol=0.04)
    assert batches["priority_weight"].eq(1).all()


def test_without_priorities_columns_may_be_named_weights_and_keys() -> None:
    one = buffer()
    one.extend(TensorDict({"weights": torch.full((4,), 3.0), "keys": torch.full((4,), 5)}, [4]))
    batch = one.sample()
    assert batch["weights"].eq(3).all() and batch["keys"].eq(5).all() and batch["priority_weight"].eq(1).all()
    with pytest.raises(ValueError, match="'weights' and 'keys' are extra columns of a prioritized buffer; rename your columns"):
        buffer(prioritized=1.0).extend(TensorDict({"weights": torch.ones(4)}, [4]))


def test_a_plain_buffer_returns_keys_in_its_info() -> None:
    one = ReplayBuffer(storage=Storage(100, prioritized=1.0, seed=1), sampler=Sampler(), batch_size=8)
    one.extend(steps(3))
    batch, info = one.sample(return_info=True)
    one.update_priority(info["index"][batch["action"] == 0], 0.0)
    one.update_priority(torch.tensor([12345]), 3.0)
    assert {int(action) for _ in range(20) for action in one.sample()["action"]} == {1, 2}


def test_priorities_of_transitions_that_were_not_drawn_have_no_effect() -> None:
    one = buffer(prioritized=1.0)
    for first, error in ((0, 100.0), (20, 0.001)):
        new = steps(20, first)
        new["td_error"] = torch.full((20,), error)
        positions = one.extend(new)
        one.update_priority(positions, 50.0)
    weights = torch.cat([one.sample()["priority_weight"] for _ in range(10)])
    assert weights.eq(1).all()


def test_ignored_positions_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    one = buffer(prioritized=1.0)
    positions = one.extend(steps(20))
    one.add(steps(1, first=20)[0])
    batch = one.sample()
    batch["td_error"] = 1.0 + batch["action"].float()
    one.update_tensordict_priority(batch)
    assert not caplog.records
    for _ in range(2):
        one.update_priority(positions, 50.0)
    (record,) = caplog.records
    assert "positions that extend() and add() return are not keys" in record.getMessage() and 'by their "index"' in record.getMessage()


def test_transitions_can_span_several_steps() -> None:
    one = buffer(n_step=2, discount=0.5)
    for number in range(4):
        step = {"observation": [float(number)], "next_observation": [number + 1.0], "reward": [1.0], "terminated": [number == 3], "truncated": [False]}
        one.extend(TensorDict({name: torch.tensor(value) for name, value in step.items()}, [1]))
    batch = one.sample()
    rewards = {(float(seen), float(reward), float(discount)) for seen, reward, discount in zip(batch["observation"], batch["reward"], batch["discount"], strict=True)}
    assert rewards == {(0.0, 1.5, 0.25), (1.0, 1.5, 0.25), (2.0, 1.5, 0.0), (3.0, 1.0, 0.0)}


def test_abandoned_episodes_are_ended() -> None:
    one = buffer(n_step=2, discount=0.5)
    for number in (0.0, 1.0, 10.0, 11.0):
        if number == 10.0:
            one.storage.end_episode()
        step = {"observation": [number], "next_observation": [number + 1.0], "reward": [1.0], "terminated": [False]}
        one.extend(TensorDict({name: torch.tensor(value) for name, value in step.items()}, [1]))
    batch = one.sample()
    spans = {(float(seen), float(after)) for seen, after in zip(batch["observation"], batch["next_observation"], strict=True)}
    assert spans == {(0.0, 2.0), (1.0, 2.0), (10.0, 12.0)}


def test_buffers_are_saved_emptied_and_loaded(tmp_path: pathlib.Path) -> None:
    one, other = buffer(prioritized=1.0), buffer(prioritized=1.0)
    one.extend(steps(30))
    one.dumps(tmp_path / "buffer")
    one.empty()
    assert len(one) == 0
    other.loads(tmp_path / "buffer")
    assert len(other) == 30 and set(other.sample()["action"].tolist()) <= set(range(30))


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ({"size": 20, "prioritized": 1.0}, "with max_size=100, but this one has max_size=20"),
        ({}, "with prioritized=1.0, but this one has prioritized=None"),
        ({"prioritized": 1.0, "discount": 0.5}, "with discount=None, but this one has discount=0.5"),
    ],
)
def test_transitions_of_another_kind_of_storage_are_not_loaded(other: Any, text: str, tmp_path: pathlib.Path) -> None:
    one = buffer(prioritized=1.0)
    one.extend(steps(30))
    one.dumps(tmp_path / "buffer")
    with pytest.raises(ValueError, match=text):
        buffer(**other).loads(tmp_path / "buffer")


def test_a_folder_of_another_storage_is_refused_with_a_way_out(tmp_path: pathlib.Path) -> None:
    other = ReplayBuffer(storage=LazyTensorStorage(50), batch_size=8)
    other.extend(steps(30))
    other.dumps(tmp_path)
    mine = buffer()
    with pytest.raises(FileNotFoundError, match="has no transitions of a relive.torchrl.Storage; to move the transitions of another storage"):
        mine.loads(tmp_path)
    mine.extend(other[:].exclude("index"))
    assert len(mine) == 30


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_buffers_are_shown_and_copied(copied: Any) -> None:
    one = buffer(prioritized=1.0)
    assert "Storage(max_size=100, prioritized=1.0, size=0)" in repr(one)
    assert "Sampler(beta=0.5)" in repr(one)
    one.extend(steps(30))
    again = copied(one)
    one.empty()
    assert repr(again._storage) == "Storage(max_size=100, prioritized=1.0, size=30)"
    again.extend(steps(10, first=30))
    batch = again.sample()
    assert len(again) == 40 and set(batch["action"].tolist()) <= set(range(40))
    again.update_priority(batch["index"], torch.ones(32))


def test_priorities_may_be_columns_and_of_bfloat16() -> None:
    one = buffer(prioritized=1.0)
    one.extend(steps(3))
    batch = one.sample()
    one.update_priority(batch["index"][:, None], (batch["action"] != 0)[:, None].bfloat16())
    assert {int(action) for _ in range(20) for action in one.sample()["action"]} == {1, 2}


def test_tensors_of_any_kind_are_stored() -> None:
    pytest.importorskip("ml_dtypes")
    one = buffer()
    one.extend(TensorDict({"x": torch.ones(4, 2).bfloat16(), "of": {"y": torch.ones(4, requires_grad=True)}}, [4]))
    batch = one.sample()
    assert batch["x"].dtype == torch.bfloat16 and batch["x"].eq(1).all() and batch["of", "y"].eq(1).all()


@pytest.mark.parametrize(
    ("misuse", "kind", "text"),
    [
        (lambda one: one[3], IndexError, "cannot be read by index"),
        (lambda one: one.__setitem__(0, steps(1)), IndexError, "are immutable; add new ones"),
        (lambda one: one.state_dict(), RuntimeError, r"save the buffer with dumps\(path\)"),
        (lambda one: one._storage.set(range(2), [1, 2]), TypeError, "takes tensordicts, got list"),
        (lambda one: one.extend(steps(2).set("name", "hello")), TypeError, "'name' is of the type str, but a relive.torchrl.Storage takes only tensors"),
        (lambda one: one._sampler.sample(LazyTensorStorage(3), 2), TypeError, "draws from a relive.torchrl.Storage, but the buffer has LazyTensorStorage"),
        (lambda one: buffer().sample(), ValueError, "the buffer is empty"),
    ],
)
def test_misuse_is_reported(misuse: Any, kind: type[Exception], text: str) -> None:
    one = buffer()
    one.extend(steps(5))
    with pytest.raises(kind, match=text):
        misuse(one)


@pytest.mark.parametrize(("beta", "kind"), [(float("nan"), ValueError), (float("inf"), ValueError), (-1.0, ValueError), ("0.4", TypeError)])
def test_the_exponent_of_the_weights_is_checked(beta: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=f"^beta .*{beta}"):
        Sampler(beta)
    sampler = Sampler(0.5)
    for misuse in (lambda: setattr(sampler, "beta", beta), lambda: sampler.load_state_dict({"beta": beta})):
        with pytest.raises(kind, match="^beta "):
            misuse()
    sampler.beta = torch.tensor(0.75)  # type: ignore[assignment]
    assert sampler.state_dict() == {"beta": 0.75} and pickle.loads(pickle.dumps(sampler)).beta == 0.75


def test_the_same_seed_gives_the_same_batches() -> None:
    def actions() -> Any:
        one = buffer()
        one.extend(steps(50))
        return [one.sample()["action"].tolist() for _ in range(3)]

    assert np.array_equal(actions(), actions())
