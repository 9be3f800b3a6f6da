"""Settings of runs, agents and experience: wrong ones are refused with their name, their value and what is accepted."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import pathlib
import pickle
import re
from typing import Any

import numpy as np
import pytest
from own_agents import TRANSITIONS, Agent

from relive import rl
from relive.rl import torch as rlt
from relive.rl._setting_names import MEANINGS

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: rl.PPO(anneal="false"), "anneal is 'false', but it must be True or False"),  # type: ignore[arg-type]
        (lambda: rl.PPO(normalize_advantages=None), "normalize_advantages is None, but it must be True or False"),  # type: ignore[arg-type]
        (lambda: rl.PPO(anneal=1), "anneal is 1, but it must be True or False"),  # type: ignore[arg-type]
        (lambda: rl.PPO(num_envs=True), "num_envs is True, but it must be a whole number"),
        (lambda: rl.PPO(num_envs=np.True_), "num_envs is (np.)?True_?, but it must be a whole number"),
        (lambda: rl.PPO(hidden=64), "hidden is 64, but it must be a sequence of numbers"),  # type: ignore[arg-type]
        (lambda: rl.PPO(learning_rate="0.1"), "learning_rate is '0.1', but it must be a number"),  # type: ignore[arg-type]
        (lambda: rl.PPO(discount=True), "discount is True, but it must be a number"),
        (lambda: rl.Rollouts(steps=True), "steps is True, but it must be a whole number"),
        (lambda: rl.Transitions(discount="0.9"), "discount is '0.9', but it must be a number"),  # type: ignore[arg-type]
        (lambda: rl.Transitions(samples_per_insert="3"), "samples_per_insert is '3', but it must be a number"),  # type: ignore[arg-type]
        (lambda: rl.Sequences(length=5, priority_exponent=[1]), r"priority_exponent is \[1\], but it must be a number"),  # type: ignore[arg-type]
    ],
)
def test_settings_of_a_wrong_type_are_refused(make: Any, text: str) -> None:
    with pytest.raises(TypeError, match=f"^{text}"):
        make()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: rl.DQN(gamma=0.9, learning_starts=9, n_steps=3, train_freq=4),
            "DQN has no setting 'gamma' (use discount), 'learning_starts' (use min_replay_size), 'n_steps' (use n_step), 'train_freq' (use "
            "samples_per_insert: batch_size * gradient_steps / train_freq)",
        ),
        (lambda: rl.DQN.for_environment("CartPole-v1", gamma=0.9), "DQN has no setting 'gamma' (use discount)"),
        (lambda: rl.DQNConfig(gamma=0.9), "DQNConfig has no setting 'gamma' (use discount)"),  # type: ignore[call-arg]
        (lambda: rl.TD3(gamma=0.9), "TD3 has no setting 'gamma' (use discount)"),
        (lambda: rl.TD3.for_environment("Pendulum-v1", gamma=0.9), "TD3 has no setting 'gamma' (use discount)"),
        (lambda: rl.PPO(n_steps=3, batch_size=8), "PPO has no setting 'n_steps' (use num_steps), 'batch_size' (use minibatch_size)"),
        (lambda: rl.PPO(steps=9), "PPO has no setting 'steps' (steps= is an argument of train() and run())"),
        (lambda: rl.PPO(total_timesteps=9), "PPO has no setting 'total_timesteps' (steps= is an argument of train() and run())"),
        (lambda: rl.IMPALA(n_steps=3), "IMPALA has no setting 'n_steps' (use sequence_length)"),
        (
            lambda: rl.BC(learning_rat=0.1, rate=3),
            "BC has no setting 'learning_rat' (did you mean learning_rate?), 'rate'; its settings are batch_size, hidden, learning_rate, "
            "normalize_observations",
        ),
        (lambda: rl.Rollouts(n_steps=3), "Rollouts has no setting 'n_steps' (use steps)"),  # type: ignore[call-arg]
        (lambda: rl.Transitions(min_replay_size=3), "Transitions has no setting 'min_replay_size' (use min_size)"),  # type: ignore[call-arg]
        (lambda: rl.Sequences(length=3, buffer_size=3), "Sequences has no setting 'buffer_size' (use max_size)"),  # type: ignore[call-arg]
        (lambda: rlt.DQN(noisy=True, lr=0.1), "DQN has no setting 'noisy' (rl.DQN has it), 'lr' (use learning_rate)"),  # type: ignore[call-arg]
        (lambda: rlt.PPO(target_kl=0.1), "PPO has no setting 'target_kl' (rl.PPO has it)"),  # type: ignore[call-arg]
        (lambda: rlt.SAC(ent_coef=0.1), "SAC has no setting 'ent_coef' (use initial_temperature: the initial value; the temperature is "
                                        "learned)"),  # type: ignore[call-arg]
    ],
)
def test_settings_that_do_not_exist_are_refused_with_the_ones_that_may_be_meant(make: Any, text: str) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        make()
    assert str(raised.value) == text
    # The agents whose settings are defined in Rust raise the same error as for a wrong type.
    assert isinstance(raised.value, ValueError) == text.startswith(("TD3", "IMPALA", "BC"))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"total_timesteps": 9, "callback": None}, "'total_timesteps' (use steps), 'callback' (use on_step)"),
        ({"gamma": 0.9, "epochs": 3}, "'gamma' (it is a setting: PPO(discount=…)), 'epochs' (it is a setting: PPO(epochs=…))"),
        ({"evaluate_evry": 9}, "'evaluate_evry' (did you mean evaluate_every or evaluation_env?); besides the environment, its arguments "
                               "are steps, on, actors, "),
        ({"log_interval": 9}, "'log_interval'; besides the environment, its arguments are steps, on, actors, "),
    ],
)
def test_options_that_do_not_exist_are_refused_with_the_ones_that_may_be_meant(options: Any, text: str) -> None:
    with pytest.raises(TypeError) as raised:
        rl.PPO().train("catch/0", **options)
    told = str(raised.value)
    assert told == f"train() has no argument {text}" if text.endswith(")") else told.startswith(f"train() has no argument {text}")


def test_the_options_of_agents_whose_settings_are_defined_in_rust_are_checked_too() -> None:
    with pytest.raises(TypeError, match=r"^train\(\) has no argument 'gamma' \(it is a setting: TD3\(discount=…\)\)$"):
        rl.TD3().train("catch/0", gamma=0.9)  # type: ignore[call-arg]


@pytest.mark.parametrize("agent", [rlt.PPO(), rlt.SAC(), rlt.DQN()], ids=lambda agent: type(agent).__name__)
def test_the_options_of_agents_in_pytorch_are_checked_too(agent: Any) -> None:
    name = type(agent).__name__
    for options, text in (
        ({"total_timesteps": 9, "verbose": 1}, "'total_timesteps' (use steps), 'verbose' (use progress)"),
        ({"gamma": 0.9}, f"'gamma' (it is a setting: {name}(discount=…))"),
        ({"network": None}, f"'network' (it is a setting: {name}(network=…))"),
    ):
        with pytest.raises(TypeError) as raised:
            agent.train("catch/0", **options)
        assert str(raised.value) == f"train() has no argument {text}"


def test_agents_whose_settings_are_defined_in_rust_take_only_names() -> None:
    for wrong in (("MlpPolicy",), ("MlpPolicy", "CartPole-v1"), ({"hidden": [8]},), (None,)):
        with pytest.raises(TypeError) as raised:
            rl.IMPALA(*wrong)
        assert str(raised.value) == (
            f"the first argument of IMPALA is {wrong[0]!r}, but all arguments of IMPALA have names; give settings by name, also those of the "
            "network: IMPALA(hidden=(64, 64)); give the environment to train()"
        )


@pytest.mark.parametrize("kind", [rl.DQN, rl.PPO, rl.SAC, rl.A2C, rl.A3C, rl.TD3], ids=lambda kind: kind.__name__)
def test_agents_have_all_their_settings(kind: Any) -> None:
    agent = kind(discount=0.5, hidden=(8,))
    assert agent.settings["discount"] == 0.5 and list(agent.settings["hidden"]) == [8]
    assert kind(**agent.settings).settings == agent.settings
    agent.settings["discount"] = 0.9
    assert agent.settings["discount"] == 0.5, "the settings are a copy"
    with pytest.raises(AttributeError):
        agent.settings = {}


def test_the_first_argument_of_an_agent_is_its_config() -> None:
    assert rl.DQN(rl.DQNConfig(hidden=(8,)), discount=0.5).config == rl.DQNConfig(hidden=(8,), discount=0.5)
    for wrong in ("MlpPolicy", rl.PPOConfig()):
        with pytest.raises(TypeError) as raised:
            rl.DQN(wrong)  # type: ignore[arg-type]
        assert str(raised.value) == (
            f"the first argument of DQN is {wrong!r}, but it must be a DQNConfig, or be omitted; give settings by name, also those of the "
            "network: DQN(hidden=(64, 64)); give the environment to train()"
        )


def test_the_names_of_other_libraries_are_documented() -> None:
    section = (DOCS / "agents.md").read_text().split("### Settings under other names", 1)[1].split("\n## ", 1)[0]
    names = set(re.findall(r"`(\w+)`", section))
    for meaning in MEANINGS:
        assert not {*meaning.here, *meaning.elsewhere} - names


def test_numbers_and_bools_of_numpy_are_accepted() -> None:
    config = rl.PPO(anneal=np.True_, num_envs=np.int32(3), learning_rate=np.float32(0.5), hidden=np.array([8, 8])).config  # type: ignore[arg-type]
    assert (config.anneal, config.num_envs, config.learning_rate, config.hidden) == (True, 3, 0.5, (8, 8))
    assert type(config.anneal) is bool
    assert rl.Transitions(discount=np.float64(0.5), samples_per_insert=4).samples_per_insert == 4.0


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"steps": True}, "steps is True, but it must be a whole number"),
        ({"evaluate_every": True}, "evaluate_every is True, but it must be a whole number"),
        ({"steps": 1e3}, r"steps is 1000\.0, but it must be a whole number: write 1_000, or convert it with int\(…\)$"),
        ({"checkpoint_every": np.float64(2e6)}, r"checkpoint_every is 2000000\.0, but it must be a whole number: write 2_000_000, or "),
        ({"steps": 10.5}, r"steps is 10\.5, but it must be a whole number$"),
        ({"timeout": "5"}, "timeout is '5', but it must be a number of seconds, or None"),
        ({"timeout": True}, "timeout is True, but it must be a number of seconds, or None"),
        ({"checkpoint_dir": 5}, "checkpoint_dir is 5, but it must be the path of a folder, or None"),
        ({"checkpoint_dir": b"run"}, "checkpoint_dir is b'run', but it must be the path of a folder, or None"),
    ],
)
def test_options_of_a_wrong_type_are_refused(options: Any, text: str) -> None:
    with pytest.raises(TypeError, match=f"^{text}"):
        rl.run(Agent(TRANSITIONS), "catch/0", **{"steps": 10, **options})


def test_a_run_is_not_saved_in_the_current_folder_by_accident(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="checkpoint_dir is '', but it must be the path of a folder; '.' is the current folder"):
        rl.run(Agent(TRANSITIONS), "catch/0", steps=10, checkpoint_dir="")
    assert not list(tmp_path.iterdir())


def test_a_run_that_learns_from_data_resumes_with_learner_steps(tmp_path: pathlib.Path) -> None:
    rows = {"observations": np.zeros((20, 4), np.float32), "actions": np.zeros(20, np.int64), "rewards": np.zeros(20)}
    np.savez(tmp_path / "data.npz", terminals=np.arange(20) % 10 == 9, **rows)  # type: ignore[arg-type]
    result = rl.run(rl.BC(batch_size=4), "CartPole-v1", data=tmp_path / "data.npz", learner_steps=5, checkpoint_dir=tmp_path / "run")
    assert result.resume(learner_steps=8).learner_steps == 8
    with pytest.raises(TypeError, match="give the steps in total after which the resumed run ends: steps or, if the run learns from data, "
                                        "learner_steps"):
        result.resume()
    with pytest.raises(ValueError, match="give learner_steps instead of steps"):
        result.resume(steps=8)


def test_settings_with_a_group_are_hashed_and_read_only() -> None:
    demonstrations = {"ratio": 0.25, "folder": None, "episodes": 2}
    config = rl.DQNConfig(demonstrations=demonstrations)
    demonstrations["ratio"] = 0.5
    assert config.demonstrations == {"ratio": 0.25, "folder": None, "episodes": 2}
    for change in (
        lambda group: group.update(ratio=0.5),
        lambda group: group.__setitem__("ratio", 0.5),
        lambda group: group.pop("ratio"),
        lambda group: group.clear(),
        lambda group: group.__ior__({"ratio": 0.5}),
    ):
        with pytest.raises(TypeError, match="settings are read-only; create a changed copy with dataclasses.replace"):
            change(config.demonstrations)
    same = [copy.copy(config), copy.deepcopy(config), pickle.loads(pickle.dumps(config)), dataclasses.replace(config)]
    same.append(eval(repr(config), {"DQNConfig": rl.DQNConfig}))
    for other in same:
        assert other == config and hash(other) == hash(config) and repr(other) == repr(config)
        with pytest.raises(TypeError, match="read-only"):
            other.demonstrations["ratio"] = 0.5
    values = dataclasses.asdict(config)
    values["demonstrations"]["ratio"] = 0.5
    assert rl.DQNConfig(**values).demonstrations["ratio"] == 0.5 and config.demonstrations["ratio"] == 0.25
    assert json.loads(json.dumps(config.demonstrations)) == dict(config.demonstrations)
    assert len({rl.DQNConfig(), rl.DQNConfig(), config}) == 2


@pytest.mark.parametrize("agent", [rl.DQN, rl.SAC, rl.PPO, rl.A2C, rl.A3C])
def test_signatures_of_agents_show_their_settings(agent: Any) -> None:
    shown = inspect.signature(agent).parameters
    settings = agent().settings
    assert list(shown) == ["config", *settings] and agent._config_type.__name__ in agent.__doc__
    for name, parameter in shown.items():
        assert name in ("config", "demonstrations") or parameter.default == settings[name]


def test_other_agents_tell_where_their_settings_are() -> None:
    assert "rl.ApeX().settings" in (rl.ApeX.__doc__ or "")
