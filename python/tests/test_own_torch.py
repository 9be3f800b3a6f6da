"""relive.rl.torch: shared weights, states, targets and steps."""

from __future__ import annotations

import contextlib
import copy
import math
import pathlib
from typing import Any

import numpy as np
import pytest
import torch
from relive import rl
from relive.rl import _state
from relive.rl import torch as rlt
from torch import nn


class Everything(rlt.Stateful):
    """One attribute of each saved kind, and some attributes that are not saved."""

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
        self.optimizer = torch.optim.Adam(self.module.parameters(), 0.01)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 2)
        self.temperature = nn.Parameter(torch.zeros(()))
        self.of_temperature = torch.optim.SGD([self.temperature], 0.1, momentum=0.9)
        self.rng, self.memory, self.flags = np.random.default_rng(seed), torch.zeros(2), np.zeros(3, np.bool_)
        self.count, self.rate, self.name, self.is_on = 0, 0.5, "first", False
        self.settings, self.function = object(), len

    def step(self) -> float:
        """Everything changes."""
        noise = torch.randn(5, 3) + torch.from_numpy(self.rng.normal(size=(5, 3))).float()
        loss = rlt.step(self.optimizer, self.module(noise).square().mean())
        rlt.step(self.of_temperature, (self.temperature - 1).square())
        self.schedule.step()
        self.memory, self.flags = self.memory + 1, ~self.flags
        self.count, self.rate, self.name, self.is_on = self.count + 1, self.rate / 2, self.name + "!", not self.is_on
        return loss


def test_a_saved_agent_resumes_identically() -> None:
    one, other = Everything(1), Everything(2)
    for _ in range(3):
        one.step()
    saved = _state.encode(one.state())
    expected = [one.step() for _ in range(4)]
    temperature = other.temperature
    other.restore(_state.decode(saved))
    assert (other.count, other.rate, other.name, other.is_on) == (3, 0.0625, "first!!!", True)
    assert other.memory.tolist() == [3, 3] and other.flags.all() and other.optimizer.param_groups[0]["lr"] == pytest.approx(0.001)
    assert [other.step() for _ in range(4)] == expected
    # The optimizer still refers to the same parameter.
    assert other.temperature is temperature and torch.equal(one.temperature, other.temperature)


def test_a_state_of_another_kind_is_refused() -> None:
    state = Everything(1).state()
    state["attributes"]["unknown"] = 3
    with pytest.raises(ValueError, match="the saved Everything has unknown, which this one lacks"):
        Everything(1).restore(_state.decode(_state.encode(state)))


def test_weights_become_the_parameters_without_a_copy() -> None:
    module = nn.Linear(2, 3)
    weights = {"weight": np.ones((3, 2), np.float32), "bias": np.zeros(3, np.float32)}
    rlt.load(module, weights)
    assert module.weight.data_ptr() == weights["weight"].ctypes.data
    assert module(torch.ones(1, 2)).tolist() == [[2, 2, 2]]
    with pytest.raises(RuntimeError, match="bias"):
        rlt.load(module, {"weight": weights["weight"]})


def test_read_only_weights_are_shared_without_warning(recwarn: pytest.WarningsRecorder) -> None:
    weights = {"weight": np.ones((3, 2), np.float32), "bias": np.zeros(3, np.float32)}
    for array in weights.values():
        array.flags.writeable = False
    module = nn.Linear(2, 3)
    rlt.load(module, weights)
    assert module.bias.data_ptr() == weights["bias"].ctypes.data and not recwarn.list
    del weights
    assert module(torch.ones(1, 2)).tolist() == [[2, 2, 2]]


def test_dtypes_that_numpy_lacks_are_reported() -> None:
    class Half(rlt.Learner):
        def __init__(self) -> None:
            self.module = nn.Linear(4, 2).bfloat16()

        def learn(self, batch: Any) -> None:
            raise AssertionError("the first weights are refused")

    class Agent:
        experience = rl.Rollouts(steps=4)

        def policy(self, spec: Any, context: Any) -> Any:
            return Doubling()

        def learner(self, spec: Any, seed: int) -> Any:
            return Half()

    with pytest.raises(TypeError, match=r"Half.weights\(\) has 'weight', but numpy has no torch.bfloat16; convert the tensor first, for "
                                        r"instance to float32"):
        rl.run(Agent(), "CartPole-v1", steps=10)
    with pytest.raises(TypeError, match=r"state\['half'\] is not a numpy array: numpy has no torch.bfloat16"):
        _state.encode({"half": torch.zeros(2, dtype=torch.bfloat16)})


def test_a_target_moves_by_tau_and_copies_buffers() -> None:
    own, target = nn.BatchNorm1d(2), nn.BatchNorm1d(2)
    with torch.no_grad():
        own.weight.fill_(3.0)
        target.weight.fill_(1.0)
    own.running_mean = torch.full((2,), 7.0)
    rlt.update_target(target, own, 0.25)
    assert target.weight.tolist() == [1.5, 1.5] and target.running_mean.tolist() == [7, 7]  # type: ignore[union-attr]
    assert own.weight.tolist() == [3, 3] and target.weight.requires_grad
    rlt.update_target(target, own)
    assert target.weight.tolist() == [3, 3]
    rlt.update_target(nn.Flatten(), nn.Flatten())


def test_a_step_clips_the_gradient_norm() -> None:
    parameter = nn.Parameter(torch.tensor([3.0, 4.0]))
    optimizer = torch.optim.SGD([parameter], 1.0)
    # The gradient of half the square is the parameter, which has a norm of 5.
    assert rlt.step(optimizer, 0.5 * parameter.square().sum(), max_norm=1.0) == 12.5
    assert parameter.tolist() == pytest.approx([2.4, 3.2], abs=1e-4)
    assert rlt.step(optimizer, 0.5 * parameter.square().sum()) == pytest.approx(8.0, abs=1e-3)
    assert parameter.tolist() == pytest.approx([0, 0])


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, rlt.Adam])
def test_frozen_parameters_stay_as_they_are(optimizer: Any) -> None:
    module = nn.Sequential(nn.Linear(2, 2).requires_grad_(False), nn.Linear(2, 1))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    own = optimizer(module.parameters(), 0.1)
    rlt.step(own, module(torch.ones(1, 2)).sum(), max_norm=1.0)
    moved = {name for name, value in module.state_dict().items() if not torch.equal(value, before[name])}
    assert moved <= {"1.weight", "1.bias"} and "1.bias" in moved


class Doubling(rlt.Policy):
    def __init__(self) -> None:
        super().__init__(nn.Linear(1, 1))
        self.calls = 0

    def act(self, observations: Any, starts: Any) -> Any:
        self.calls += 1
        return self.module(torch.as_tensor(observations))


def test_a_policy_acts_without_gradients_and_pickles_without_its_module() -> None:
    policy = Doubling()
    assert not policy.act(np.ones((2, 1), np.float32), None).requires_grad
    assert policy.state()["attributes"] == {"calls": 1}


def test_a_learner_has_the_weights_of_its_module() -> None:
    learner = rlt.Learner()
    learner.module = nn.Linear(1, 1)
    assert list(learner.weights()) == ["weight", "bias"]


def _two_layers() -> torch.nn.Module:
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))


@pytest.mark.parametrize("max_norm", [None, 0.01])
def test_adam_on_one_vector_matches_pytorch(max_norm: float | None) -> None:
    one, many = _two_layers(), _two_layers()
    ours = rlt.Adam(one.parameters(), 0.01, eps=1e-5)
    theirs = torch.optim.Adam(many.parameters(), 0.01, eps=1e-5, fused=True)
    generator = torch.Generator().manual_seed(1)
    for _ in range(20):
        inputs = torch.randn(7, 3, generator=generator)
        losses = [rlt.step(optimizer, module(inputs).square().mean(), max_norm=max_norm) for module, optimizer in ((one, ours), (many, theirs))]
        assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    for mine, other in zip(one.parameters(), many.parameters(), strict=True):
        assert torch.allclose(mine, other, rtol=1e-5, atol=1e-7)


def test_adam_handles_recreated_gradients() -> None:
    module = _two_layers()
    optimizer = rlt.Adam(module.parameters(), 0.1)
    before = [parameter.detach().clone() for parameter in module.parameters()]
    module.zero_grad(set_to_none=True)
    module[2].bias.sum().backward()
    optimizer.step()
    moved = [not torch.equal(old, new) for old, new in zip(before, module.parameters(), strict=True)]
    assert moved == [False, False, False, True]


def test_adam_is_saved_and_restored_with_its_module() -> None:
    def stepped(module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> list[float]:
        return [rlt.step(optimizer, module(torch.ones(2, 3)).square().mean()) for _ in range(3)]

    module = _two_layers()
    optimizer = rlt.Adam(module.parameters(), 0.05)
    stepped(module, optimizer)
    saved = copy.deepcopy((module.state_dict(), optimizer.state_dict()))
    following = stepped(module, optimizer)
    other = _two_layers()
    again = rlt.Adam(other.parameters(), 0.05)
    other.load_state_dict(saved[0])
    again.load_state_dict(saved[1])
    assert stepped(other, again) == following


def test_states_of_adam_match_pytorch(tmp_path: pathlib.Path) -> None:
    def stepped(module: torch.nn.Module, optimizer: torch.optim.Optimizer, times: int) -> list[float]:
        return [rlt.step(optimizer, module(torch.ones(2, 3)).square().mean()) for _ in range(times)]

    def ours(module: torch.nn.Module) -> torch.optim.Optimizer:
        return rlt.Adam(module.parameters(), 0.05)

    def theirs(module: torch.nn.Module) -> torch.optim.Optimizer:
        return torch.optim.Adam(module.parameters(), 0.05)

    for first, second in ((ours, theirs), (theirs, ours)):
        module = _two_layers()
        optimizer = first(module)
        stepped(module, optimizer, 3)
        torch.save((module.state_dict(), optimizer.state_dict()), tmp_path / "saved.pt")
        following = stepped(module, optimizer, 3)
        other = _two_layers()
        again = second(other)
        weights, state = torch.load(tmp_path / "saved.pt")
        other.load_state_dict(weights)
        again.load_state_dict(state)
        assert stepped(other, again, 3) == pytest.approx(following, rel=1e-4)
    with pytest.raises(ValueError, match="the state belongs to parameters of the shapes"):
        rlt.Adam(nn.Linear(2, 2).parameters()).load_state_dict(state)
    amsgrad = torch.optim.Adam(_two_layers().parameters(), amsgrad=True)
    with pytest.raises(ValueError, match="the state is of Adam with amsgrad"):
        rlt.Adam(_two_layers().parameters()).load_state_dict(amsgrad.state_dict())


def test_adam_handles_replaced_parameter_storage() -> None:
    one, many = _two_layers(), _two_layers()
    ours, theirs = rlt.Adam(one.parameters(), 0.01), torch.optim.Adam(many.parameters(), 0.01)
    head = nn.Linear(2, 1)
    shared = rlt.Adam([*one.parameters(), *head.parameters()], 0.01)
    inputs = torch.ones(2, 3)
    for change in (lambda module: module.double().float(), lambda module: None):
        for module, optimizer in ((one, ours), (many, theirs)):
            change(module)
            rlt.step(optimizer, module(inputs).square().mean())
    for mine, other in zip(one.parameters(), many.parameters(), strict=True):
        assert torch.allclose(mine, other, rtol=1e-5, atol=1e-7)
    before = one[0].weight.detach().clone()
    rlt.step(shared, head(one(inputs)).square().mean())
    assert not torch.equal(one[0].weight, before), "the other optimizer moves what both have"
    rlt.step(ours, one(inputs).square().mean())
    assert torch.equal(one[0].weight, ours.parts[0]) and not torch.equal(one[0].weight, before)


def test_adam_calls_hooks_and_closures_once() -> None:
    module = _two_layers()
    optimizer = rlt.Adam(module.parameters(), 0.1)
    calls = []
    optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))

    def closure() -> float:
        optimizer.zero_grad()
        loss = module(torch.ones(1, 3)).square().mean()
        loss.backward()
        calls.append("closure")
        return float(loss.detach())

    losses = [optimizer.step(closure) for _ in range(2)]
    assert calls == ["before", "closure", "after"] * 2
    assert losses[1] < losses[0]


def test_adam_steps_with_a_gradient_scaler() -> None:
    one, many = _two_layers(), _two_layers()
    optimizers = (rlt.Adam(one.parameters(), 0.01), torch.optim.Adam(many.parameters(), 0.01, fused=True))
    for inputs in (torch.ones(2, 3), torch.full((2, 3), math.nan), torch.full((2, 3), 2.0)):
        for module, optimizer in zip((one, many), optimizers, strict=True):
            scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
            optimizer.zero_grad()
            scaler.scale(module(inputs).square().mean()).backward()
            scaler.step(optimizer)
    for mine, other in zip(one.parameters(), many.parameters(), strict=True):
        assert torch.isfinite(mine).all(), "a step with gradients that are not finite was taken"
        assert torch.allclose(mine, other, rtol=1e-5, atol=1e-7)


def test_minibatches_of_tensors_have_the_rows_of_minibatches_of_arrays() -> None:
    steps = {"a": np.arange(10), "b": [np.arange(20.0).reshape(10, 2)]}
    for drop_last in (False, True):
        arrays, tensors, mixed = (
            list(rl.minibatches(given, 4, np.random.default_rng(0), drop_last=drop_last))
            for given in (steps, rlt.tensors(steps), {**steps, "b": rlt.tensors(steps["b"])})
        )
        assert len(tensors) == len(mixed) == len(arrays) == 3 - drop_last
        for array, tensor, both in zip(arrays, tensors, mixed, strict=True):
            assert isinstance(tensor["a"], torch.Tensor) and isinstance(both["a"], np.ndarray)
            for of in (tensor, both):
                np.testing.assert_array_equal(of["a"], array["a"])
                np.testing.assert_array_equal(of["b"][0], array["b"][0])


def test_a_categorical_distribution_matches_pytorch() -> None:
    logits = torch.randn(5, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    logits[0, 2] = -math.inf
    values = torch.tensor([3, 0, 2, 1, 1])
    of_each = []
    for make in (rlt.Categorical, lambda given: torch.distributions.Categorical(logits=given)):
        given = logits.clone().requires_grad_()
        distribution = make(given)
        loss = (distribution.log_prob(values) + distribution.entropy()).sum()
        loss.backward()
        wide = distribution.expand((2, 5))
        of_each.append([
            distribution.logits, distribution.probs, distribution.mode, distribution.entropy(), distribution.log_prob(values),
            distribution.log_prob(torch.stack([values, values])), wide.log_prob(values.expand(2, 5)), given.grad,
            torch.distributions.kl_divergence(make(logits[1:]), torch.distributions.Categorical(torch.ones(4))),
        ])  # fmt: skip
    for ours, theirs in zip(*of_each, strict=True):
        torch.testing.assert_close(ours, theirs)
    torch.manual_seed(0)
    drawn = rlt.Categorical(logits).sample((2_000,))
    assert drawn.shape == (2_000, 5) and not (drawn[:, 0] == 2).any()
    torch.testing.assert_close((drawn == 1).double().mean(0), of_each[0][1][:, 1], atol=0.05, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_a_categorical_distribution_draws_with_a_generator(dtype: torch.dtype) -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0, -math.inf], [-2e4, 2e4, 0.0, 1.0]], dtype=dtype, requires_grad=True)
    distribution = rlt.Categorical(logits)
    first, second = (distribution.sample((50_000,), torch.Generator().manual_seed(1)) for _ in range(2))
    assert first.dtype == torch.int64 and torch.equal(first, second) and not torch.equal(first, distribution.sample((50_000,)))
    counts = torch.stack([torch.bincount(row, minlength=4) for row in first.T]) / 50_000
    torch.testing.assert_close(counts, distribution.probs.detach().float(), atol=0.01, rtol=0)
    generator = torch.Generator().manual_seed(2)
    assert distribution.sample(generator=generator).shape == (2,)
    assert not torch.equal(generator.get_state(), torch.Generator().manual_seed(2).get_state())


@pytest.mark.parametrize("row", [[math.nan, 0.0], [-math.inf, -math.inf], [math.inf, 0.0]])
def test_a_categorical_distribution_draws_from_no_other_logits(row: list[float]) -> None:
    with pytest.raises(ValueError, match="^cannot draw a value: each row of logits needs finite numbers"):
        rlt.Categorical(torch.tensor([[0.0, 1.0], row])).sample()


@pytest.mark.parametrize("is_frozen", [False, True])
def test_a_network_of_both_policy_and_learner_is_refused(is_frozen: bool) -> None:
    network = nn.Linear(50, 3).requires_grad_(not is_frozen)

    class Acts(rlt.Policy):
        def act(self, observations: Any, starts: Any) -> Any:
            return self.module(torch.as_tensor(observations).flatten(1)).argmax(1)

    class Learns(rlt.Learner):
        module = nn.Sequential(network)

        def learn(self, rollout: rl.Rollout) -> None:
            pass

    class Shares:
        experience = rl.Rollouts(steps=10)

        def policy(self, spec: rl.EnvironmentSpec, context: rl.PolicyContext) -> Acts:
            return Acts(nn.Sequential(network))

        def learner(self, spec: rl.EnvironmentSpec, seed: int) -> Learns:
            return Learns()

    with contextlib.nullcontext() if is_frozen else pytest.raises(ValueError, match="Acts acts with the learner's network"):
        rl.run(Shares(), "catch/0", steps=20)


def test_adam_refuses_unsupported_options() -> None:
    optimizer = rlt.Adam(_two_layers().parameters())
    with pytest.raises(ValueError, match="this Adam has one group of parameters"):
        optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(1))]})
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        copy.deepcopy(optimizer)
    with pytest.raises(TypeError, match="got dict; for groups, use torch.optim.Adam"):
        rlt.Adam([{"params": [nn.Parameter(torch.zeros(1))]}])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="but got none that needs a gradient"):
        rlt.Adam([torch.zeros(2)])


def test_adam_needs_parameters_of_one_kind() -> None:
    with pytest.raises(ValueError, match="Adam needs parameters of one device and one type, but got none"):
        rlt.Adam([])
    with pytest.raises(ValueError, match=r"got torch.float32 on cpu, torch.float64 on cpu"):
        rlt.Adam([torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))])
