"""relive.rl.DQN: training in Rust and through Python, and its results."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import pickle
import subprocess
import sys
import threading
from typing import Any

import gymnasium
import numpy as np
import pytest
from conftest import PATIENCE_S
from gymnasium import spaces
from rl_environments import BOX, Line, Spaces

import relive
from relive import rl

SMALL = rl.DQNConfig(batch_size=16, min_replay_size=50, samples_per_insert=4.0, hidden=(16,))


def mean_return(policy: rl.Policy, environment: rl.Environment, episodes: int = 20) -> float:
    total = 0.0
    for _ in range(episodes):
        step = environment.reset()
        while not step.last():
            step = environment.step(policy(step.observation))
            total += step.reward
    return total / episodes


def test_logs_of_a_crashed_and_resumed_run_have_each_episode_once(tmp_path: pathlib.Path) -> None:
    class Broken(Exception):
        pass

    def run(folder: pathlib.Path, breaks_after: int | None) -> tuple[list[Any], str]:
        seen = 0

        def count(_: rl.Rollout) -> None:
            nonlocal seen
            seen += 1
            if breaks_after is not None and seen > breaks_after:
                raise Broken

        told = [rl.loggers.JSONL(folder / "log.jsonl"), rl.loggers.CSV(folder)]
        options: Any = {"checkpoint_dir": folder / "run", "checkpoint_every": 200, "evaluate_every": 150, "evaluation_episodes": 2}
        rl.DQN(SMALL).train("catch/0", steps=800, loggers=told, on_step=count, **options)
        lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
        episodes = [line["env_steps"] for line in lines if line["label"] != "learner"]
        return episodes, "".join(line.rsplit(",", 3)[0] for line in (folder / "actor.csv").read_text().splitlines())

    whole = run(tmp_path / "whole", None)
    for breaks_after in (350, 150, 290):
        with pytest.raises(Broken):
            run(tmp_path / "parts", breaks_after)
    assert run(tmp_path / "parts", None) == whole
    # A finished run repeats no reports, and loses none.
    assert run(tmp_path / "parts", None) == whole


def test_dqn_learns_catch_and_saves_its_policy(tmp_path: pathlib.Path) -> None:
    result = rl.DQN().train("catch/0", steps=9_000, seed=1)
    assert result.is_complete and result.env_steps == 9_000 and len(result.episodes) == 1_000
    assert result.mean_return_last_100 >= 0.7
    assert result.episodes.returns[-100:].mean() == pytest.approx(result.mean_return_last_100)
    assert abs(result.samples_per_insert - 32.0) < 0.5 and result.env_steps_per_s > 0.0
    assert result.episodes.env_steps[-1] == 9_000 and result.episodes.lengths.tolist() == [9] * 1_000
    path = tmp_path / "catch.safetensors"
    result.policy.save(path)
    loaded = rl.Policy.load(path)
    assert mean_return(loaded, rl.make("catch/0", seed=5)) >= 0.9
    observation = rl.make("catch/0", seed=8).reset().observation
    for copy in (loaded, pickle.loads(pickle.dumps(result.policy)), rl.Policy.from_bytes(path.read_bytes())):
        np.testing.assert_array_equal(copy.values(observation), result.policy.values(observation))
    assert loaded.num_actions == 3 and "float32[10, 5]" in repr(loaded)
    assert loaded(observation) == int(np.argmax(loaded.values(observation)))


@pytest.mark.parametrize("copies", [1, 2])
def test_an_environment_in_python_gives_the_same_run_as_the_native_one(copies: int) -> None:
    agent = rl.DQN(SMALL)
    native = agent.train("CartPole-v1", steps=400, seed=3)
    given: Any = gymnasium.make("CartPole-v1") if copies == 1 else lambda seed: gymnasium.make("CartPole-v1")
    foreign = agent.train(given, steps=400, seed=3)
    np.testing.assert_array_equal(native.episodes.returns, foreign.episodes.returns)
    observation = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    np.testing.assert_array_equal(native.policy.values(observation), foreign.policy.values(observation))


def test_random_actions_become_fewer(tmp_path: pathlib.Path) -> None:
    def run(steps: int, folder: str | None = None, **settings: Any) -> list[float]:
        agent = rl.DQN(SMALL, epsilon=0.0, min_replay_size=10**6, **settings)
        result = agent.train("bandit/0", steps=steps, seed=3, checkpoint_dir=None if folder is None else tmp_path / folder)
        return [float(value) for value in result.episodes.returns]

    # Nothing is learned, so the greedy action remains the same.
    assert len(set(run(300))) == 1
    decayed = run(600, "whole", epsilon_decay_steps=600)
    assert len(set(decayed[:150])) > 5 and len(set(decayed[300:])) == 1
    run(150, "parts", epsilon_decay_steps=600)
    assert run(600, "parts", epsilon_decay_steps=600) == decayed[150:]


def test_dm_env_nests_are_learned_in() -> None:
    result = rl.DQN(SMALL, n_step=3, epsilon=0.2, max_abs_reward=10.0).train(Line(), steps=3_000, seed=1)
    assert result.mean_return_last_100 > 3.0
    assert mean_return(result.policy, Line(), 1) == 10.0
    assert "place/0: " in repr(result.policy) and "steps: " in repr(result.policy)


def test_a_run_with_actors_and_evaluations() -> None:
    result = rl.DQN(SMALL).train("catch/0", steps=900, actors=2, evaluate_every=300, evaluation_episodes=3)
    assert set(result.episodes.actors) == {0, 1}
    assert len(result.evaluation) >= 3
    through_python = rl.DQN(SMALL).train(lambda seed: rl.make("catch/0", seed=seed), steps=300, actors=2)
    assert through_python.env_steps >= 300


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"environment": "Pendulum-v1"}, ValueError, r"takes one discrete action, but .* has actions of float32 \(1,\) in -2..=2"),
        ({"environment": "Pong-v5"}, ValueError, "expected an id of bsuite such as catch/0"),
        ({"environment": 7}, TypeError, "7 is not an environment; give the name of a native one"),
        ({"environment": Line(), "actors": 2}, TypeError, "several environments are needed"),
        ({"environment": Spaces(BOX, spaces.Text(3))}, TypeError, "^action: .* is not supported"),
        ({"environment": Spaces(BOX, BOX)}, ValueError, r"actions of float32 \(2,\)"),
        ({"timeout": -1.0}, ValueError, "timeout must be a number of seconds"),
        ({"batch_size": 0}, ValueError, "batch_size is 0, but it must be from 1 to 1048576"),
        ({"hidden": (-1,)}, ValueError, "hidden is -1, but it must be at least 0"),
        ({"batch_size": "x"}, TypeError, "batch_size is 'x', but it must be a whole number"),
        ({"learning_rate": float("nan")}, ValueError, "learning_rate is nan, but it must be a finite number"),
        ({"huber_loss_parameter": 0.0}, ValueError, "^huber_loss_parameter is 0, but it must be above 0"),
        ({"steps": -5}, ValueError, "steps is -5, but it must be at least 1"),
        ({"steps": 1e3}, TypeError, "steps is 1000.0, but it must be a whole number"),
        ({"evaluate_every": 0}, ValueError, "evaluate_every is 0, but it must be at least 1"),
    ],
)
def test_invalid_dqn_runs_are_reported(options: dict[str, Any], error: type[Exception], told: str) -> None:
    names = {field.name for field in dataclasses.fields(rl.DQNConfig)}
    settings = {name: value for name, value in options.items() if name in names}
    run = {"environment": "catch/0", "steps": 100, **{k: v for k, v in options.items() if k not in names}}
    with pytest.raises(error, match=told):
        rl.DQN(SMALL, **settings).train(**run)


def test_settings_are_named() -> None:
    with pytest.raises(TypeError, match="batchsize"):
        rl.DQN(batchsize=3)
    assert rl.DQN(SMALL, n_step=1).config == dataclasses.replace(SMALL, n_step=1)
    for unclipped in (None, float("inf")):
        assert rl.DQN(SMALL, max_abs_reward=unclipped).train("bandit/0", steps=60).env_steps == 60
    cart_pole = rl.DQNConfig.for_environment("CartPole-v1")
    assert (cart_pole.loss, cart_pole.hidden) == ("categorical", (64, 64))
    assert rl.DQNConfig.for_environment("catch/0") == rl.DQNConfig()


@pytest.mark.parametrize("agent", [rl.A2C, rl.A3C, rl.DQN, rl.PPO, rl.SAC])
@pytest.mark.parametrize("environment", ["CartPole-v1", "Pendulum-v1", "pixels/catch", "none of ours"])
def test_all_agents_have_tuned_settings(agent: Any, environment: str) -> None:
    tuned = type(agent().config).for_environment(environment)
    assert agent.for_environment(environment).config == tuned
    changed = agent.for_environment(environment, discount=0.5)
    assert type(changed) is agent and changed.config == dataclasses.replace(tuned, discount=0.5)
    for name in ("discaunt", "config"):
        with pytest.raises(TypeError, match=name):
            agent.for_environment(environment, **{name: 0.5})


def test_groups_of_tuned_settings_are_changed_by_name() -> None:
    agent = rl.DQN.for_environment("CartPole-v1", demonstrations={"episodes": 3})
    assert agent.config.demonstrations == {"ratio": 0.0, "folder": None, "episodes": 3}


def test_saved_runs_resume_only_with_the_same_environment_and_settings(tmp_path: pathlib.Path) -> None:
    rl.DQN(SMALL).train("catch/0", steps=200, checkpoint_dir=tmp_path, checkpoint_every=100)
    with pytest.raises(ValueError, match="environment: the checkpoint has catch/0, this run has catch/1"):
        rl.DQN(SMALL).train("catch/1", steps=300, checkpoint_dir=tmp_path)
    with pytest.raises(ValueError, match="n_step: the checkpoint has 5, this run has 1"):
        rl.DQN(SMALL, n_step=1).train("catch/0", steps=300, checkpoint_dir=tmp_path)
    result = rl.DQN(SMALL).train("catch/0", steps=300, checkpoint_dir=tmp_path)
    assert "EpisodeLog(11 episodes)" in repr(result)
    with pytest.raises(ValueError, match="an environment that can save its state"):
        rl.MCTS(num_simulations=2).train(Line(), steps=10, checkpoint_dir=tmp_path / "other")
    with pytest.raises(ValueError, match="is s3://bucket/run, but it must be the path of a folder"):
        rl.DQN(SMALL).train("catch/0", steps=10, checkpoint_dir="s3://bucket/run")


class Broken(Spaces):
    """Fails, or returns another observation, at its tenth step."""

    def __init__(self, observation: Any) -> None:
        super().__init__(BOX, spaces.Discrete(2))
        self._left, self._observation = 10, observation

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._left -= 1
        if self._left:
            return super().step(action)
        if self._observation is None:
            raise KeyError("the tenth step")
        return self._observation, 0.0, False, False, {}


def test_exceptions_of_environments_are_propagated() -> None:
    with pytest.raises(KeyError, match="the tenth step") as caught:
        rl.DQN(SMALL).train(Broken(None), steps=100)
    assert any(entry.name == "step" for entry in caught.traceback), "with their own traceback"
    with pytest.raises(ValueError, match=r"^Broken.step\(\) returned an invalid result: observation: expected float32 \(2,\), got float32 \(3,\)$"):
        rl.DQN(SMALL).train(Broken(np.zeros(3, np.float32)), steps=100)
    with pytest.raises(ValueError, match=r"Broken, step \d+ of episode \d+: the observation at \[1\] is NaN, "):
        rl.DQN(SMALL).train(Broken(np.array([0.0, np.nan], np.float32)), steps=100)


def test_a_deadline_ends_the_run_with_the_result_so_far() -> None:
    result = rl.DQN(SMALL).train("catch/0", steps=10**12, timeout=0.5)
    assert not result.is_complete and result.env_steps > 0 and result.policy.num_actions == 3


def test_progress_is_reported_and_may_end_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[dict[str, Any]] = []
    rl.DQN(SMALL).train("catch/0", steps=2_000, progress=seen.append)
    assert seen and seen[-1]["env_steps"] >= 1_990 and seen[-1]["episode_length"] == 9
    assert 0 < seen[-1]["duration_s"] < seen[-1]["seconds"]
    assert seen[-1]["steps_per_second"] == pytest.approx(9 / seen[-1]["duration_s"])

    def enough(episode: dict[str, Any]) -> None:
        raise StopIteration(episode["episode"])

    with pytest.raises(StopIteration):
        rl.DQN(SMALL).train("catch/0", steps=10**12, progress=enough)
    rl.DQN(SMALL).train("catch/0", steps=504, progress=True)
    line = capsys.readouterr().err
    assert "100 %" in line and "steps/s" in line and line.endswith("\r")
    rl.DQN(SMALL).train("catch/0", steps=500)
    assert capsys.readouterr().err == "", "no line where there is no terminal"


def test_other_threads_run_during_a_run() -> None:
    ticks, over = 0, threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not over.is_set():
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        before = ticks
        rl.DQN(SMALL).train("catch/0", steps=10**12, timeout=0.3)
        assert ticks - before > 1_000
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("environment", ["'catch/0'", "lambda seed: gymnasium.make('CartPole-v1')"])
@pytest.mark.parametrize("actors", [0, 2])
def test_ctrl_c_ends_a_run(environment: str, actors: int) -> None:
    program = f"""
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
import gymnasium
from relive import rl
def interrupt(episode):
    os.kill(os.getpid(), signal.SIGINT)
try:
    rl.DQN(batch_size=16, min_replay_size=50).train({environment}, steps=10**12, actors={actors}, progress=interrupt)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0 and done.stdout == "interrupted\n", done.stderr


def test_files_that_are_not_policies_are_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "policy.safetensors"
    with pytest.raises(FileNotFoundError, match=str(path)):
        rl.Policy.load(path)
    path.write_bytes(b"nothing")
    with pytest.raises(relive.errors.DataLossError):
        rl.Policy.load(path)
    policy = rl.DQN(SMALL).train("catch/0", steps=90).policy
    with pytest.raises(FileNotFoundError):
        policy.save(tmp_path / "nowhere" / "policy.safetensors")
    with pytest.raises(ValueError, match=r"observation: expected float32 \(10, 5\), got"):
        policy(np.zeros(3, np.float32))
    with pytest.raises(ValueError, match="expected 1 leaves, got 2"):
        policy((np.zeros(3), np.zeros(3)))
    with pytest.raises(TypeError, match=r"^observation: expected float32 \(10, 5\), got complex128"):
        policy(np.zeros((10, 5), np.complex128))


def test_policies_compare_the_keys_of_mappings() -> None:
    policy = rl.DQN(batch_size=4, min_replay_size=8).train(Line, steps=40).policy
    place = (np.zeros(1),)
    assert policy({"steps": 1, "place": place}) == policy({"place": place, "steps": 1}) == policy((place, 1))
    for use in (policy, policy.values):
        with pytest.raises(ValueError, match=r"trained with the parts \['place/0', 'steps'\], but this one has the parts \['place/0', 'stepz'\]"):
            use({"stepz": 1, "place": place})
