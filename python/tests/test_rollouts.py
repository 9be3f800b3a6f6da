"""Rollouts: their arrays, advantages and minibatches."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from own_agents import Agent

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
    whole = list(rl.minibatches(steps, 4, np.random.default_rng(0), drop_last=True))
    assert [part["a"].tolist() for part in whole] == [part["a"].tolist() for part in parts[:2]]
    assert list(rl.minibatches(steps, 11, np.random.default_rng(0), drop_last=True)) == []
    for size, rng, kind, told in (
        (0, np.random.default_rng(0), ValueError, "size is 0, but it must be at least 1"),
        (2.5, np.random.default_rng(0), TypeError, r"size is 2\.5, but it must be a whole number"),
        (4, 7, TypeError, r"rng is 7, but it must be a random generator, such as numpy\.random\.default_rng\(0\)"),
    ):
        with pytest.raises(kind, match=told):
            rl.minibatches(steps, size, rng)  # type: ignore[arg-type]


def advanced(state: Any, observations: Any) -> Any:
    """Returns a recurrent policy's next state ``[N, 2]``, and the log-probabilities of two actions ``[N, 2]``."""
    rows = observations.reshape(len(observations), -1).astype(np.float64)
    state = np.tanh(0.9 * state + np.stack([rows.sum(1), rows[:, 1] - rows[:, 0] + 0.1], 1))
    return state, state - np.logaddexp(state[:, :1], state[:, 1:])


class Recurrent:
    """A policy with memory, which returns its state after any reset."""

    extras = {"state": (np.float64, (2,)), "log_prob": np.float64, "starts": np.bool_}

    def __init__(self, context: rl.PolicyContext) -> None:
        self.rng, self.memory = context.rng(), np.full((context.rows, 2), np.nan)

    def act(self, observations: Any, starts: Any) -> Any:
        self.memory = np.where(starts[:, None], 0.0, self.memory)
        before, (self.memory, log_probs) = self.memory, advanced(self.memory, observations)
        actions = (self.rng.random(len(starts)) > np.exp(log_probs[:, 0])).astype(np.int64)
        return actions, {"state": before, "log_prob": np.take_along_axis(log_probs, actions[:, None], 1)[:, 0], "starts": starts.copy()}

    def load(self, weights: Any) -> None:
        pass


class RecurrentAgent(Agent):
    def policy(self, spec: rl.EnvironmentSpec, context: rl.PolicyContext) -> Any:
        return Recurrent(context)


def short() -> Any:
    return gymnasium.make("CartPole-v1", max_episode_steps=6)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_log_probs_are_recomputed_with_a_reset_where_episodes_begin(mode: AutoresetMode) -> None:
    agent = RecurrentAgent(rl.Rollouts(steps=8, environments=3))
    rl.run(agent, lambda seed: SyncVectorEnv([short] * 3, autoreset_mode=mode), steps=200)
    begun = 0
    for rollout in agent.batches():
        begins, log_probs = rollout.begins, rollout.extras["log_prob"]
        assert begins.shape == rollout.observations.shape[:2] == (9, 3) and not begins[0].any()
        np.testing.assert_array_equal(begins[1:8], rollout.extras["starts"][1:])
        begun += begins[1:8].sum()
        state = rollout.extras["state"][0]
        for time in range(8):
            state = np.where(begins[time][:, None], 0.0, state)
            state, found = advanced(state, rollout.observations[time])
            taken = np.take_along_axis(found, rollout.actions[time][:, None], 1)[:, 0]
            np.testing.assert_array_equal(taken, log_probs[time], f"row {time}")
    assert begun > 20, "episodes begin within rollouts"
