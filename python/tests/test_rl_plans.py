"""relive.rl.PPO, A2C and SAC: training in Rust and through Python, and its results."""

from __future__ import annotations

import dataclasses
import json
import logging
import pathlib
import pickle
import re
import threading
from typing import Any

import gymnasium
import numpy as np
import pytest
from rl_environments import Line

from relive import _native, rl

SMALL = rl.PPOConfig(num_envs=2, num_steps=16, minibatch_size=8, epochs=2, hidden=(16,))


def returned(policy: rl.Policy, name: str, seed: int) -> float:
    environment, total = rl.make(name, seed=seed), 0.0
    step = environment.reset()
    while not step.last():
        step = environment.step(policy(step.observation))
        total += step.reward
    return total


def weights(policy: rl.Policy) -> bytes:
    """Returns the numbers in a policy's file, without metadata."""
    file = policy.to_bytes()
    return file[8 + int.from_bytes(file[:8], "little") :]


@pytest.mark.parametrize("config", [rl.DQNConfig, rl.PPOConfig, rl.A2CConfig, rl.A3CConfig, rl.SACConfig])
def test_defaults_match_rust(
    config: type[rl.DQNConfig | rl.PPOConfig | rl.A2CConfig | rl.A3CConfig | rl.SACConfig],
) -> None:
    there = json.loads(_native.agent_for_environment(config.agent, "none of ours"))
    here = json.loads(config()._json())
    assert here.keys() == there.keys()
    for name, value in here.items():
        assert value == pytest.approx(there[name]), name


def test_ppo_learns_cart_pole_and_saves_its_policy(tmp_path: pathlib.Path) -> None:
    result = rl.PPO(rl.PPOConfig.for_environment("CartPole-v1")).train("CartPole-v1", steps=20_000, seed=1)
    assert result.is_complete and result.env_steps >= 20_000 and result.mean_return_last_100 > 60.0
    path = tmp_path / "policy.safetensors"
    result.policy.save(path)
    loaded = rl.Policy.load(path)
    assert loaded.agent == "ppo" and repr(loaded) == "Policy(agent='ppo', observations=(float32[4]), actions=2)"
    observation = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    for copy in (loaded, pickle.loads(pickle.dumps(result.policy)), rl.Policy.from_bytes(path.read_bytes())):
        assert isinstance(copy(observation), int) and copy(observation) == result.policy(observation)
        assert returned(copy, "CartPole-v1", 3) == returned(result.policy, "CartPole-v1", 3)


SMALL_SAC = rl.SACConfig(batch_size=16, samples_per_insert=8.0, hidden=(16,))


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        (rl.PPO(SMALL), "CartPole-v1"),
        (rl.A2C(num_envs=2, hidden=(16,)), "CartPole-v1"),
        (rl.A3C(num_envs=2, hidden=(16,)), "CartPole-v1"),
        (rl.SAC(SMALL_SAC), "Pendulum-v1"),
    ],
)
def test_an_environment_in_python_gives_the_same_run_as_the_native_one(
    agent: rl.PPO | rl.A2C | rl.A3C | rl.SAC, name: str
) -> None:
    native = agent.train(name, steps=400, seed=3)
    foreign = agent.train(lambda seed: gymnasium.make(name), steps=400, seed=3)
    np.testing.assert_array_equal(native.episodes.returns, foreign.episodes.returns)
    assert weights(native.policy) == weights(foreign.policy)


def test_a_run_does_not_depend_on_the_number_of_actors() -> None:
    alone, two = (rl.PPO(SMALL).train("CartPole-v1", steps=400, actors=actors) for actors in (0, 2))
    assert alone.policy.to_bytes() == two.policy.to_bytes()


def test_actions_may_be_continuous() -> None:
    result = rl.PPO(SMALL, normalize_observations=True).train("Pendulum-v1", steps=400)
    action = result.policy(np.array([1.0, 0.0, 0.5], np.float32))
    assert action.shape == (1,) and action.dtype == np.float32 and -2.0 <= action[0] <= 2.0


def test_sac_keeps_to_its_ratio_with_and_without_actors() -> None:
    for actors in (0, 2):
        result = rl.SAC(SMALL_SAC).train("Pendulum-v1", steps=3_000, actors=actors)
        assert result.samples_per_insert == pytest.approx(8.0, rel=0.1) and result.learner_steps > 1_000
        assert result.policy.agent == "sac"
    with pytest.raises(ValueError, match="actions that are one array of float32 between bounds"):
        rl.SAC(SMALL_SAC).train("CartPole-v1", steps=100)


def test_a_given_environment_is_used_if_one_suffices() -> None:
    result = rl.PPO(SMALL, num_envs=1).train(Line(), steps=200)
    assert result.env_steps >= 200 and len(result.episodes) > 0
    with pytest.raises(TypeError, match="several environments are needed"):
        rl.PPO(SMALL).train(Line(), steps=200)


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"environment": "Pong-v5"}, ValueError, "expected an id of bsuite such as catch/0"),
        ({"environment": 7}, TypeError, "7 is not an environment; give the name of a native one"),
        ({"epochs": 0}, ValueError, "epochs is 0, but it must be at least 1"),
        ({"epochs": 1.5}, TypeError, "epochs is 1.5, but it must be a whole number"),
        ({"clip": -0.1}, ValueError, "clip is -0.1, but it must be above 0"),
        ({"target_kl": float("inf")}, ValueError, "target_kl is inf, but it must be a finite number"),
        ({"gae_lambda": 1.5}, ValueError, "gae_lambda is 1.5, but it must be"),
        ({"actors": 3}, ValueError, "actors is 3"),
        ({"steps": 0}, ValueError, "steps is 0, but it must be at least 1"),
    ],
)
def test_invalid_plan_runs_are_reported(options: dict[str, Any], error: type[Exception], told: str) -> None:
    names = {field.name for field in dataclasses.fields(rl.PPOConfig)}
    settings = {name: value for name, value in options.items() if name in names}
    run = {"environment": "catch/0", "steps": 100, **{k: v for k, v in options.items() if k not in names}}
    with pytest.raises(error, match=told):
        rl.PPO(SMALL, **settings).train(**run)


def test_settings_are_named() -> None:
    with pytest.raises(TypeError, match="epoch"):
        rl.PPO(epoch=3)
    assert rl.A2C(num_steps=7).config == rl.A2CConfig(num_steps=7)
    assert rl.PPOConfig.for_environment("CartPole-v1").num_steps == 32


def test_runs_are_saved_and_resumed(tmp_path: pathlib.Path) -> None:
    agent = rl.PPO(SMALL)
    whole = agent.train("CartPole-v1", steps=600)
    agent.train("CartPole-v1", steps=300, checkpoint_dir=tmp_path, checkpoint_every=100)
    resumed = agent.train("CartPole-v1", steps=600, checkpoint_dir=tmp_path, checkpoint_every=100)
    assert resumed.policy.to_bytes() == whole.policy.to_bytes()
    with pytest.raises(ValueError, match="epochs: the checkpoint has 2, this run has 3"):
        rl.PPO(SMALL, epochs=3).train("CartPole-v1", steps=700, checkpoint_dir=tmp_path)


def test_a_run_in_threads_resumes_in_one_thread_and_back(tmp_path: pathlib.Path) -> None:
    agent = rl.DQN(min_replay_size=50, batch_size=8, hidden=(8,))
    threads = agent.train("catch/0", steps=200, on="threads", actors=3, checkpoint_dir=tmp_path)
    serial = threads.resume(400, on="serial")
    again = serial.resume(600, on="threads")
    assert 400 <= serial.env_steps < 600 <= again.env_steps
    for given, told in [({"on": "serial", "actors": 2}, "omit actors, or give on='threads'"), ({"actors": 0}, "omit actors for the default, or give on='serial'")]:
        with pytest.raises(ValueError, match=told):
            again.resume(800, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("agent", [rl.DQN(min_replay_size=50, batch_size=16), rl.R2D2(min_replay_size=10, batch_size=4)])
def test_a_run_in_threads_ends_without_warnings(agent: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Its workers used to warn that the table had not taken their last items, which nobody needs."""
    with caplog.at_level(logging.WARNING, "relive"):
        agent.train("catch/0", steps=3_000, actors=2)
        _native.flush_logs()
    assert not caplog.records, caplog.text


def test_a_logger_that_marks_its_files_must_be_able_to_truncate_them() -> None:
    class Marking:
        def write(self, label: str, values: Any) -> None: ...

        def mark(self) -> dict[str, int]:
            return {}

        def close(self) -> None: ...

    with pytest.raises(TypeError, match="Marking has the method mark, but lacks truncate"):
        rl.PPO(SMALL).train("catch/0", steps=100, loggers=[Marking()])


class Broken(Line):
    """Fails at its tenth step."""

    left = 10

    def step(self, action: Any) -> Any:
        self.left -= 1
        if not self.left:
            raise KeyError("the tenth step")
        return super().step(action)


@pytest.mark.parametrize("actors", [0, 2])
def test_exceptions_of_environments_are_propagated(actors: int) -> None:
    with pytest.raises(KeyError, match="the tenth step") as caught:
        rl.PPO(SMALL).train(lambda seed: Broken(), steps=1_000, actors=actors)
    assert any(entry.name == "step" for entry in caught.traceback), "with their own traceback"


def test_a_deadline_ends_the_run_with_the_result_so_far() -> None:
    result = rl.PPO(SMALL).train("CartPole-v1", steps=10**12, timeout=0.5)
    assert not result.is_complete and result.env_steps > 0


class Hanging(Line):
    """Hangs at its third step, until it is released."""

    def __init__(self, is_free: threading.Event) -> None:
        super().__init__()
        self.is_free, self.count = is_free, 0

    def step(self, action: Any) -> Any:
        self.count += 1
        if self.count == 3:
            assert self.is_free.wait(60)
        return super().step(action)


@pytest.mark.parametrize("actors", [0, 1])
def test_a_hanging_step_is_reported_when_the_run_should_end(actors: int) -> None:
    is_free, told = threading.Event(), []

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.append(record.getMessage())
            if "the run is stopping" in told[-1]:
                is_free.set()

    handler = Listening()
    logging.getLogger("relive").addHandler(handler)
    try:
        result = rl.PPO(SMALL, num_envs=1).train(Hanging(is_free), steps=10**12, timeout=0.1, actors=actors)
    finally:
        logging.getLogger("relive").removeHandler(handler)
    assert not result.is_complete
    found = next(text for text in told if "the run is stopping" in text)
    # On a busy machine, the message is logged later.
    assert re.search(r"is waiting for Hanging\.step\(\) for \d+ s; press Ctrl-C again", found)


def test_an_evaluation_is_logged_once_when_a_run_is_resumed(tmp_path: pathlib.Path) -> None:
    def run(folder: str, steps: int) -> Any:
        return rl.PPO(SMALL).train(
            "CartPole-v1", steps=steps, evaluate_every=200, evaluation_episodes=2, checkpoint_dir=tmp_path / folder, checkpoint_every=200
        )

    whole = run("whole", 800)
    parts = [run("parts", steps) for steps in (400, 400, 800)]
    assert len(parts[1].evaluation) == 0, "nothing was done since the last"
    for name in ("returns", "env_steps"):
        together = np.concatenate([getattr(part.evaluation, name) for part in parts])
        np.testing.assert_array_equal(together, getattr(whole.evaluation, name))


def test_only_agents_of_values_have_values() -> None:
    policy = rl.A2C(num_envs=1).train("CartPole-v1", steps=20).policy
    with pytest.raises(ValueError, match="a policy of a2c has no action values"):
        policy.values(np.zeros(4, np.float32))
    with pytest.raises(ValueError, match=r"observation: expected float32 \(4,\), got"):
        policy(np.zeros(3, np.float32))
