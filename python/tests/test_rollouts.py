"""Rollouts: their arrays, advantages and minibatches."""

from __future__ import annotations

import numpy as np
import pytest

from relive import rl


def test_arrays_beside_a_rollout_have_its_steps() -> None:
    flags = np.zeros((5, 2), np.bool_)
    zeros = np.zeros((5, 2), np.float32)
    rollout = rl.Rollout(np.zeros((6, 2, 3)), zeros, {}, rewards=zeros, discounts=zeros, starts=flags, ends=flags)
    assert rollout.steps(returns=zeros)["returns"].shape == (10,)
    with pytest.raises(ValueError, match=r"returns must have the leading dimensions \(5, 2\), for steps and environments, but it has \(6, 2\)"):
        rollout.steps(returns=np.zeros((6, 2)))


def test_advantages_match_their_definition() -> None:
    rng = np.random.default_rng(0)
    steps, rows = 9, 3
    starts, ends = np.zeros((steps, rows), bool), np.zeros((steps, rows), bool)
    ends[3, 0], starts[4, 0], ends[8, 1] = True, True, True
    discounts = np.ones((steps, rows), np.float32)
    discounts[3, 0] = 0
    rollout = rl.Rollout(
        observations=None, actions=None, extras={}, rewards=rng.normal(size=(steps, rows)).astype(np.float32),
        discounts=discounts, starts=starts, ends=ends,
    )
    values = rng.normal(size=(steps + 1, rows)).astype(np.float32)
    advantages, returns = rollout.advantages(values, discount=0.9, gae_lambda=0.8)
    for row in range(rows):
        for time in range(steps):
            expected, weight, at = 0.0, 1.0, time
            while at < steps and not starts[at, row]:
                expected += weight * (rollout.rewards[at, row] + 0.9 * discounts[at, row] * values[at + 1, row] - values[at, row])
                weight *= 0.9 * 0.8 * discounts[at, row]
                if ends[at, row]:
                    break
                at += 1
            assert advantages[time, row] == pytest.approx(expected, abs=1e-5)
    assert np.allclose(returns, advantages + values[:-1])
    with pytest.raises(ValueError, match=r"values have the shape \(9, 3\), but those of the observations have \(10, 3\)"):
        rollout.advantages(values[1:])


def test_minibatches_have_every_step_once() -> None:
    steps = {"a": np.arange(10), "b": [np.arange(10) * 2]}
    parts = list(rl.minibatches(steps, 4, np.random.default_rng(0)))
    assert [len(part["a"]) for part in parts] == [4, 4, 2]
    assert sorted(np.concatenate([part["a"] for part in parts])) == list(range(10))
    assert all((part["b"][0] == 2 * part["a"]).all() for part in parts)
    for size, rng, kind, told in (
        (0, np.random.default_rng(0), ValueError, "size is 0, but it must be at least 1"),
        (2.5, np.random.default_rng(0), TypeError, r"size is 2\.5, but it must be a whole number"),
        (4, 7, TypeError, r"rng is 7, but it must be a random generator, such as numpy\.random\.default_rng\(0\)"),
    ):
        with pytest.raises(kind, match=told):
            rl.minibatches(steps, size, rng)  # type: ignore[arg-type]
