"""relive.rl.torch: the states of policies and learners keep the kinds of their values."""

from __future__ import annotations

import collections
import dataclasses
import doctest
import logging
import pathlib
import random
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from dm_env import specs
from gymnasium import spaces
import relive
from relive import rl
from relive.rl import _state
from relive.rl import torch as rlt
from relive.rl.torch import _stateful
from torch import nn


pytestmark = pytest.mark.usefixtures("one_thread")


class Pair(NamedTuple):
    mean: Any
    count: int


class Grown(rlt.Learner):
    """A learner with attributes that are filled while it learns."""

    def __init__(self) -> None:
        self.module = nn.Linear(2, 2)
        self.value: Any = None


def restored(value: Any, fresh: Any = None) -> Any:
    """Returns a value after it was saved as bytes and restored into an object that has ``fresh`` instead."""
    first, second = Grown(), Grown()
    first.value, second.value = value, fresh
    second.restore(_state.decode(_state.encode(first.state())))
    return second.value


def equal(one: Any, other: Any) -> bool:
    """Returns whether two values are equal, and of the same kinds at all depths."""
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and one.requires_grad == other.requires_grad and torch.equal(one, other)
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple, collections.deque)):
        return len(one) == len(other) and all(equal(*pair) for pair in zip(one, other, strict=True))
    return bool(one == other)


VALUES = [
    None, True, 3, 0.5, "text", np.float32(0.5), np.int64(3), np.ones(2), np.array(3.0), torch.ones(2), torch.tensor(3.0),
    torch.tensor([True, False]), torch.ones(2, 3, dtype=torch.bfloat16), torch.ones(3, dtype=torch.complex64).conj(),
    nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2), requires_grad=False), torch.ones(2, requires_grad=True),
    [torch.ones(2), 1], (torch.ones(2), 1.0, None), [], (), {}, {"a": torch.ones(2), 3: [None]}, [[(np.ones(1),)]],
    collections.deque([(torch.ones(2), 1.0)], maxlen=5), collections.deque([1]), {1, 2}, {"a"}, set(),
]  # fmt: skip
FRESH = [None, 7, torch.zeros(4), np.zeros(4), [], (), {}, collections.deque(), {7}]


@pytest.mark.parametrize("fresh", FRESH, ids=repr)
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_is_restored_as_the_kind_that_was_saved(value: Any, fresh: Any) -> None:
    found = restored(value, type(fresh)() if isinstance(fresh, (list, dict, collections.deque)) else fresh)
    assert equal(found, value)
    if isinstance(value, collections.deque):
        assert found.maxlen == (None if isinstance(fresh, collections.deque) else value.maxlen)


def test_what_exists_is_changed_in_place() -> None:
    tensor, parameter, parts, named = torch.zeros(2), nn.Parameter(torch.zeros(2)), [torch.zeros(1)], {"a": torch.zeros(1)}
    inner, of_named = parts[0], named["a"]
    assert restored(torch.ones(2), tensor) is tensor and tensor.tolist() == [1, 1]
    assert restored(nn.Parameter(torch.ones(2)), parameter) is parameter and parameter.tolist() == [1, 1]
    assert restored([torch.ones(1), torch.ones(2)], parts) is parts and parts[0] is inner and inner.item() == 1
    assert restored({"b": 1, "a": torch.ones(1)}, named) is named and named["a"] is of_named and list(named) == ["b", "a"]
    counts: Any = collections.defaultdict(int)
    assert restored({"a": 3}, counts) is counts and counts == {"a": 3} and counts["b"] == 0
    assert restored(Pair(torch.ones(2), 3), Pair(None, 0))._fields == ("mean", "count")


def test_states_share_no_memory_with_the_values() -> None:
    learner, other = Grown(), Grown()
    learner.value = [np.zeros(2), torch.zeros(2)]
    state = learner.state()
    for part in learner.value:
        part += 1
    other.restore(state)
    for part in other.value:
        part += 2
    third = Grown()
    third.restore(state)
    assert [part.tolist() for part in third.value] == [[0, 0], [0, 0]]


def test_a_parameter_of_another_shape_is_refused() -> None:
    # Another parameter in its place would not be the optimizer's.
    with pytest.raises(ValueError, match=r"the saved Grown.value is a tensor of the type torch.float32 and the shape \(3,\), but this one has "
                                         r"torch.float32 and \(2,\)"):
        restored(nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2)))


def test_a_module_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Grown.value\[1\] was saved as an object with state_dict\(\), but it is None here"):
        restored([nn.Linear(1, 1), nn.Linear(1, 1)], [nn.Linear(1, 1)])


def test_functions_are_neither_saved_nor_replaced() -> None:
    assert restored(None, len) is len and restored(len, 3) == 3


@pytest.mark.parametrize("make", [lambda: np.random.default_rng(1), lambda: np.random.Generator(np.random.MT19937(1)),
                                  lambda: torch.Generator().manual_seed(1), lambda: random.Random(1), lambda: np.random.RandomState(1), lambda: np.random.RandomState(np.random.PCG64(1))])
@pytest.mark.parametrize("exists", [True, False])
def test_generators_continue(make: Any, exists: bool) -> None:
    def draw(generator: Any) -> float:
        return torch.rand(1, generator=generator).item() if isinstance(generator, torch.Generator) else float(generator.random())

    generator = make()
    draw(generator)
    found = restored({"a": generator}, {"a": make()} if exists else None)["a"]
    assert type(found) is type(generator) and [draw(found) for _ in range(3)] == [draw(generator) for _ in range(3)]


class Running:
    """Statistics that cannot be saved."""

    def __init__(self) -> None:
        self.mean = np.zeros(2)


class Nested:
    """Keeps statistics two objects and a collection deep."""

    def __init__(self) -> None:
        self.by_name = {"a": Within(Running())}


@dataclasses.dataclass
class Within:
    running: Running


class Noise(Running):
    def __call__(self) -> Any:
        return self.mean


@dataclasses.dataclass(frozen=True)
class Settings:
    low: Any = dataclasses.field(default_factory=lambda: np.zeros(2))


@pytest.mark.parametrize(
    ("value", "is_told"),
    [
        (Running(), True), (Nested(), True), ([Running()], True), ({"a": {Running()}}, True), ({(0, 1)}, True), (Noise(), True),
        (Settings(), False), (spaces.Box(-1.0, 1.0, (2,)), False), (np.random.rand, False), (Running, False),
        (specs.BoundedArray((2,), np.float32, -1.0, 1.0), False),
    ],
)  # fmt: skip
def test_changing_objects_that_are_not_saved_are_told_once(value: Any, is_told: bool, caplog: pytest.LogCaptureFixture) -> None:
    class Fresh(Grown):
        """A class that has not been told about."""

    learner = Fresh()
    learner.value = value
    with caplog.at_level("WARNING", "relive"):
        assert "value" not in learner.state()["attributes"]
        learner.state()
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == is_told and all("Fresh.value cannot be saved" in text for text in told)


def test_a_replay_buffer_is_part_of_the_checkpoint(tmp_path: pathlib.Path) -> None:
    sizes: list[float] = []

    class Collector(rlt.Learner):
        def __init__(self) -> None:
            self.module, self.replay = nn.Linear(1, 3), relive.ReplayBuffer(1_000, seed=1)

        def learn(self, rollout: rl.Rollout) -> Any:
            self.replay.add_batch(reward=rollout.steps(reward=rollout.rewards)["reward"])
            sizes.append(len(self.replay))

    class Still(rlt.Policy):
        def act(self, observations: Any, starts: Any) -> Any:
            return np.zeros(len(starts), np.int64)

    class Agent:
        experience = rl.Rollouts(steps=10)

        def policy(self, spec: rl.EnvironmentSpec, context: rl.PolicyContext) -> Any:
            return Still(nn.Linear(1, 3))

        def learner(self, spec: rl.EnvironmentSpec, seed: int) -> Collector:
            return Collector()

    def run(steps: int, folder: pathlib.Path | None = None) -> list[float]:
        sizes.clear()
        rl.run(Agent(), "catch/0", steps=steps, progress=False, checkpoint_dir=folder, checkpoint_every=20)
        return list(sizes)

    expected = run(100)
    assert expected == sorted(expected) and len(set(expected)) > 5
    assert run(50, tmp_path) == expected[:6]
    assert run(100, tmp_path) == expected[6:]


def test_a_state_that_no_checkpoint_contains_causes_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    class Momentary(Grown):
        """A class that has not been told about."""

    learner = Momentary()
    learner.value = Running()
    with caplog.at_level("WARNING", "relive"):
        with _state.within_a_call():
            learner.state()
        assert not caplog.records
        learner.state()
    (record,) = caplog.records
    assert "Momentary.value cannot be saved" in record.getMessage()


def test_objects_keep_arrays_and_tensors_apart() -> None:
    class Statistics:
        def __init__(self) -> None:
            self.parts: dict[str, Any] = {}

        def state_dict(self) -> Any:
            return self.parts

        def load_state_dict(self, state: Any) -> None:
            self.parts = state

    first = Statistics()
    first.parts = {"mean": np.ones(2), "of": torch.ones(2), "range": (0.0, 1.0)}
    assert equal(restored(first, Statistics()).parts, first.parts)


class Recent(rlt.Learner):
    """A learner that collects tensors, and whose schedule depends on the length of the run."""

    unsaved = ("length",)

    def __init__(self, module: nn.Module, length: int) -> None:
        self.module, self.optimizer = module, torch.optim.SGD(module.parameters(), 0.1)
        self.recent: list[torch.Tensor] = []
        self.baseline: Any = None
        self.steps, self.length = 0, length

    def learn(self, rollout: Any) -> dict[str, Any]:
        self.steps += rollout.env_steps
        if self.baseline is None:
            self.baseline = torch.as_tensor(rollout.rewards).mean()
        loss = (self.module(torch.ones(1, 50)).mean() - self.baseline).square()
        rlt.step(self.optimizer, loss)
        self.recent = [*self.recent, loss.detach()][-5:]
        fractions.append(self.steps / self.length)
        return {"mean": torch.stack(self.recent).mean()}


fractions: list[float] = []


class Still(rlt.Policy):
    def act(self, observations: Any, starts: Any) -> Any:
        return np.zeros(len(starts), np.int32)


class Agent:
    """An agent that may be resumed with another length."""

    experience = rl.Rollouts(steps=10)
    settings: dict[str, Any] = {}

    def __init__(self, length: int) -> None:
        self.length = length

    def policy(self, spec: Any, context: Any) -> Any:
        return Still(nn.Linear(50, 3))

    def learner(self, spec: Any, seed: int) -> Any:
        torch.manual_seed(seed)
        return Recent(nn.Linear(50, 3), self.length)


def test_a_resumed_run_keeps_its_tensors_and_uses_its_own_length(tmp_path: pathlib.Path) -> None:
    def run(length: int) -> list[float]:
        fractions.clear()
        assert rl.run(Agent(length), "catch/0", steps=length, checkpoint_dir=tmp_path).learner_steps > 1
        return fractions

    first = run(100)[:]
    assert first[-1] >= 1.0
    then = run(400)
    assert 0.25 < then[0] < 0.35 and then[-1] >= 1.0


def test_a_name_in_unsaved_is_not_restored_from_older_states() -> None:
    class Older(Recent):
        unsaved = ()

    learner = Recent(nn.Linear(2, 2), 200)
    learner.restore(Older(nn.Linear(2, 2), 100).state())
    assert learner.length == 200


def test_the_example_in_the_documentation() -> None:
    result = doctest.testmod(_stateful)
    assert result.attempted > 0 and result.failed == 0


class Kept(rlt.Stateful):
    def __init__(self) -> None:
        self.critics = [torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)]
        self.optimizers = {"first": torch.optim.Adam(self.critics[0].parameters())}
        self.seen, self.recent = np.int64(0), collections.deque([1.0], maxlen=3)
        self.noise, self.dice = torch.Generator().manual_seed(1), random.Random(1)
        self.pair, self.nothing, self.sizes = (np.zeros(2), torch.zeros(2)), [None, 3], (64, 64)
        self.function = max


def test_collections_generators_and_numpy_numbers_are_saved() -> None:
    first, second = Kept(), Kept()
    for critic in first.critics:
        critic(torch.ones(1, 2)).sum().backward()
    first.optimizers["first"].step()
    first.seen += 7
    first.recent.extend([2.0, 3.0, 4.0])
    first.pair[0][:] = 5.0
    first.pair[1][:] = 6.0
    torch.rand(3, generator=first.noise), first.dice.random()
    second.restore(_state.decode(_state.encode(first.state())))
    assert all(torch.equal(one.weight, other.weight) for one, other in zip(first.critics, second.critics, strict=True))
    assert second.optimizers["first"].state_dict()["state"].keys() == first.optimizers["first"].state_dict()["state"].keys()
    assert second.seen == 7 and second.recent == first.recent and second.recent.maxlen == 3 and second.nothing == [None, 3]
    assert second.pair[0].tolist() == [5.0, 5.0] and second.pair[1].tolist() == [6.0, 6.0] and second.sizes == (64, 64)
    assert torch.equal(torch.rand(3, generator=first.noise), torch.rand(3, generator=second.noise))
    assert first.dice.random() == second.dice.random()


def test_collections_that_cannot_be_saved_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    class Mixed(rlt.Stateful):
        def __init__(self) -> None:
            self.parts = [torch.nn.Linear(1, 1), max]
            self.functions = [max, min]

    with caplog.at_level(logging.WARNING, "relive"):
        assert not Mixed().state()["attributes"]
    assert "Mixed.parts cannot be saved" in caplog.text and "functions" not in caplog.text
