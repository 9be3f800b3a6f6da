"""Agents with settings that are only listed in Rust, recorded episodes, and policies with memory."""

from __future__ import annotations

import json
import pathlib
import pickle
from typing import Any

import numpy as np
import pytest

from relive import _native, rl

NAMED = [
    rl.APPO,
    rl.ApeX,
    rl.BC,
    rl.BCQ,
    rl.CQL,
    rl.CRR,
    rl.D4PG,
    rl.DDPG,
    rl.DMPO,
    rl.DQfD,
    rl.IMPALA,
    rl.IQL,
    rl.MCTS,
    rl.MPO,
    rl.R2D2,
    rl.R2D3,
    rl.Rainbow,
    rl.TD3,
    rl.TD3BC,
]


@pytest.mark.parametrize("agent", NAMED)
def test_settings_match_rust(agent: type[rl.agents.NamedAgent]) -> None:
    made = agent(batch_size=7)
    expected = json.loads(_native.agent_for_environment(agent._name, "none of ours"))
    assert {**expected, "batch_size": 7} == dict(made.settings) and "batch_size=7" in repr(made)
    with pytest.raises(ValueError, match="batch_sise"):
        agent(batch_sise=7)
    with pytest.raises(ValueError, match="batch_size"):
        agent(batch_size=0)


@pytest.mark.parametrize("agent", [*NAMED, rl.A2C, rl.A3C, rl.DQN, rl.PPO, rl.SAC])
def test_settings_are_copies_that_can_be_written_as_json(agent: type[rl.agents.NamedAgent]) -> None:
    made = agent(hidden=[8, 4])
    settings = json.loads(json.dumps(made.settings))
    again = agent(**settings)
    assert again == made and hash(again) == hash(made) and len({made, again, agent(hidden=(8, 4))}) == 1
    assert made not in (agent(hidden=[8]), settings, rl.DQfD(hidden=[8, 3]))
    made.settings["hidden"] = [7]
    made.settings.clear()
    assert again == made and list(made.settings["hidden"]) == [8, 4]


def test_agents_of_different_classes_are_not_equal() -> None:
    class Other(rl.DQN):
        pass

    assert Other() == Other() and Other() != rl.DQN()


def test_groups_of_settings_are_changed_by_name() -> None:
    agent = rl.DQfD(demonstrations={"episodes": 3})
    assert agent.settings["demonstrations"] == {"ratio": 0.5, "folder": None, "episodes": 3}
    assert rl.R2D2.for_environment("memory_len/3", epsilon=0.5).settings["burn_in_length"] == 5


def test_groups_of_presets_are_changed_by_name() -> None:
    agent = rl.DQfD.for_environment("deep_sea_stochastic/0", demonstrations={"ratio": 0.25})
    assert agent.settings["demonstrations"] == {"ratio": 0.25, "folder": None, "episodes": 100}


@pytest.mark.parametrize("unbounded", [None, float("inf"), np.float32("inf")], ids=["none", "inf", "numpy"])
@pytest.mark.parametrize("agent", [rl.Rainbow, rl.ApeX, rl.DQfD, rl.IMPALA, rl.APPO])
def test_returns_may_be_unclipped(agent: type[rl.agents.NamedAgent], unbounded: Any) -> None:
    made = agent(max_abs_reward=unbounded)
    assert made.settings["max_abs_reward"] in (None, pytest.approx(3.4028235e38))
    assert pickle.loads(pickle.dumps(made)).settings == made.settings


SMALL: Any = {"batch_size": 8, "min_replay_size": 20}
ATOMS: Any = {**SMALL, "loss": "categorical", "max_abs_reward": None}
NARROW: Any = {**SMALL, "hidden": [8], "critic_hidden": [8], "value_range": [-1, 1]}


@pytest.mark.parametrize(
    ("agent", "environment", "told"),
    [
        (rl.DQN(**SMALL), "CartPole-v1", "clips to max_abs_reward = 1:"),
        (rl.DQN(**ATOMS, value_range=(-1, 1)), "CartPole-v1", "outside value_range = [-1, 1]:"),
        (rl.DQN(**ATOMS, value_range=(0, 100)), "CartPole-v1", None),
        (rl.DQN(**SMALL), "catch/0", None),
        (rl.D4PG(**NARROW), "Pendulum-v1", "outside value_range = [-1, 1]:"),
        (rl.DMPO(**NARROW), "Pendulum-v1", "outside value_range = [-1, 1]:"),
        (rl.D4PG.for_environment("Pendulum-v1", **SMALL), "Pendulum-v1", None),
    ],
    ids=["clipped", "range", "fitting-range", "fitting-rewards", "D4PG", "DMPO", "D4PG-preset"],
)
def test_settings_that_do_not_fit_the_environment_are_logged_once(
    agent: rl.Agent, environment: str, told: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    agent.train(environment, steps=100, seed=1)
    _native.flush_logs()
    warnings = [record.getMessage() for record in caplog.records if record.name == "relive.agents.misfit"]
    if told is None:
        assert not warnings
    else:
        [warning] = warnings
        assert told in warning


@pytest.mark.parametrize("agent", NAMED)
def test_settings_may_be_numbers_of_numpy(agent: type[rl.agents.NamedAgent]) -> None:
    name = next(name for name in ("learning_rate", "policy_learning_rate") if name in agent().settings)
    made = agent(batch_size=np.int64(7), hidden=np.array([8, 4]), **{name: np.float32(0.5)})
    assert (made.settings["batch_size"], made.settings["hidden"], made.settings[name]) == (7, [8, 4], 0.5)


def test_settings_may_be_paths(tmp_path: pathlib.Path) -> None:
    group: Any = {"folder": tmp_path, "ratio": np.float64(0.5)}
    assert rl.DQfD(demonstrations=group).settings["demonstrations"]["folder"] == str(tmp_path)
    assert rl.DQN(demonstrations=group).config.demonstrations == group


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), object, b"a", {1: {2}}], ids=["nan", "inf", "class", "bytes", "set"])
def test_settings_without_a_representation_are_named(value: Any) -> None:
    with pytest.raises(ValueError, match="^(policy_)?learning_rate is .*, but it must consist of finite numbers"):
        rl.TD3(policy_learning_rate=value)


def test_a_recurrent_agent_learns_and_saves_a_memory_policy(tmp_path: pathlib.Path) -> None:
    agent = rl.R2D2.for_environment("memory_len/3")
    result = agent.train("memory_len/3", steps=3_500, seed=1)
    assert result.mean_return_last_100 > 0.8
    path = tmp_path / "policy.safetensors"
    result.policy.save(path)
    policy = rl.Policy.load(path)
    environment, returns = rl.make("memory_len/3", seed=5), []
    for _ in range(50):
        step, total = environment.reset(), 0.0
        policy.reset()
        while not step.last():
            step = environment.step(policy(step.observation))
            total += step.reward
        returns.append(total)
    assert np.mean(returns) > 0.8


def test_demonstrations_and_data(tmp_path: pathlib.Path) -> None:
    result = rl.DQfD.for_environment("deep_sea/0").train("deep_sea/0", steps=5_000, seed=1)
    assert result.mean_return_last_100 > 0.4
    with pytest.raises(ValueError, match="learner_steps"):
        rl.DQN().train("deep_sea/0", steps=10, data=tmp_path)
    with pytest.raises(TypeError, match="steps"):
        rl.DQN().train("deep_sea/0")
    with pytest.raises(Exception, match=str(tmp_path)):
        rl.DQN().train("deep_sea/0", data=tmp_path, learner_steps=10)
    with pytest.raises(ValueError, match="relive rl record"):
        rl.DQfD().train("catch/0", steps=100)


def test_impala_acts_in_python_environments() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    agent = rl.IMPALA(num_envs=2, batch_size=2, sequence_length=8, hidden=(8,), lstm_units=4)
    result = agent.train(lambda seed: gymnasium.make("CartPole-v1"), steps=300)
    assert result.env_steps >= 300 and result.learner_steps > 0
