"""How runs treat environments: which they create, when they close them, and when they stop stepping them."""

from __future__ import annotations

import logging
import os
import pathlib
import signal
import subprocess
import sys
import threading
import types
from typing import Any

import dm_env
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from own_agents import TRANSITIONS, Agent

from relive import rl


class Episodes(gymnasium.Env[Any, Any]):
    """Has episodes of a given length; counts the open environments, and how many there have been at once."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space: spaces.Space[Any] = spaces.Discrete(3)
    made = open = most = 0

    def __init__(self, length: int = 10) -> None:
        self.length, self.steps = length, 0
        Episodes.made, Episodes.open = Episodes.made + 1, Episodes.open + 1
        Episodes.most = max(Episodes.most, Episodes.open)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return np.zeros(2, np.float32), 1.0, self.steps >= self.length, False, {}

    def close(self) -> None:
        Episodes.open -= 1


@pytest.fixture(autouse=True)
def _count_from_zero() -> None:
    Episodes.made = Episodes.open = Episodes.most = 0


def test_a_saved_run_has_one_environment_at_a_time(tmp_path: pathlib.Path) -> None:
    rl.run(Agent(TRANSITIONS), Episodes, steps=100, on="serial", checkpoint_dir=tmp_path, checkpoint_every=20)
    # One for the specs and the first episodes, and one after each of the checkpoints.
    assert (Episodes.made, Episodes.open, Episodes.most) == (6, 0, 1)


@pytest.mark.parametrize("environments", [1, 4])
def test_checkpoints_wait_for_the_ends_of_episodes(environments: int, tmp_path: pathlib.Path) -> None:
    agent = Agent(rl.Rollouts(steps=5, environments=environments))
    options: Any = {"checkpoint_dir": tmp_path, "checkpoint_every": 8 * environments, "progress": False}
    result = rl.run(agent, lambda: Episodes(30), steps=400 * environments, **options)
    # Each environment plays an episode before the next checkpoint.
    assert len(result.episodes) >= 10 * environments and set(result.episodes.lengths.tolist()) == {30}
    assert Episodes.made < 2 + 14 * environments


def test_checkpoints_do_not_wait_for_endless_episodes(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    made: list[Episodes] = []
    agent = Agent(rl.Rollouts(steps=5))
    rl.run(agent, lambda: made.append(Episodes(10**9)) or made[-1], steps=250, checkpoint_dir=tmp_path, checkpoint_every=10, progress=False)
    # One for the specs and the first episode, and one after each checkpoint, which waits for ten intervals.
    assert len(made) == 3
    told = [record.getMessage() for record in caplog.records if "0 episodes have ended since the last checkpoint" in record.getMessage()]
    assert len(told) == 1 and "write checkpoints less often" in told[0]


def test_a_run_whose_actors_are_processes_closes_what_it_made_for_the_specs() -> None:
    at_first_episode: list[int] = []
    rl.run(Agent(TRANSITIONS), Episodes, steps=60, on="processes", actors=1, progress=lambda _: at_first_episode.append(Episodes.open))
    assert (Episodes.made, Episodes.open) == (1, 0)
    assert set(at_first_episode) <= {0}


@pytest.mark.parametrize("options", [{"evaluate_every": 20}, {"on": "threads", "actors": 2}], ids=["evaluator", "actors"])
def test_an_environment_is_used_only_once_at_a_time(options: Any) -> None:
    one = Episodes()
    with pytest.raises(ValueError, match="the function returned Episodes, which is already in use: each actor and the evaluator"):
        rl.run(Agent(TRANSITIONS), lambda: one, steps=100, **options)


def test_an_environment_may_be_used_again(tmp_path: pathlib.Path) -> None:
    one = Episodes()
    # After each checkpoint, the function is called again.
    assert rl.run(Agent(TRANSITIONS), lambda: one, steps=100, checkpoint_dir=tmp_path, checkpoint_every=20).env_steps >= 100


class Unusable(Episodes):
    """Has actions that no agent supports."""

    action_space = spaces.Text(3)


def test_environments_that_cannot_be_used_are_closed() -> None:
    agent = Agent(rl.Rollouts(steps=5, environments=2))
    for unusable in (lambda: rl.run(agent, [Episodes, Unusable], steps=100), lambda: rl.evaluate(lambda _: 0, Unusable)):
        with pytest.raises(TypeError, match="Text"):
            unusable()
        assert Episodes.open == 0


def test_evaluations_close_what_they_made() -> None:
    assert rl.evaluate(lambda _: 0, Episodes, episodes=2).mean_return == 10.0
    assert (Episodes.made, Episodes.open) == (1, 0)
    with pytest.raises(ZeroDivisionError):
        rl.evaluate(lambda _: 1 // 0, lambda seed: Episodes())
    assert Episodes.open == 0
    given = Episodes()
    rl.evaluate(lambda _: 0, given)
    assert Episodes.open == 1, "the given environment stays open"


def test_evaluations_begin_with_other_episodes_than_the_training() -> None:
    seeds: list[int] = []

    def make(seed: int) -> Episodes:
        seeds.append(seed)
        return Episodes()

    trained = rl.run(Agent(TRANSITIONS), make, steps=20)
    rl.evaluate(trained.policy, make, episodes=1)
    assert len(set(seeds)) == 2


def test_endless_evaluations_are_reported(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(TimeoutError, match="the evaluation has not ended within 0.01 s: an episode of the evaluation has .* steps so far .episodes left: 3"):
        rl.evaluate(lambda _: 0, lambda: Episodes(10**9), episodes=3, timeout=0.01)
    assert Episodes.open == 0
    monkeypatch.setattr("relive.rl.evaluation._PATIENCE", 0.0)
    with caplog.at_level(logging.WARNING, "relive"):
        rl.evaluate(lambda _: 0, lambda: Episodes(100), episodes=1)
    assert "has 1 steps so far (episodes left: 1): if episodes may never end, limit their length" in caplog.text


@pytest.mark.parametrize(("evaluate", "text"), [
    (lambda: rl.evaluate(None, Episodes), "policy is None, but it must be a function"),  # type: ignore[arg-type]
    (lambda: rl.evaluate(types.SimpleNamespace(predict=max), Episodes),  # type: ignore[arg-type]
     r"policy is namespace.*Stable-Baselines3, give lambda observation: model\.predict\(observation\)\[0\]$"),
    (lambda: rl.evaluate(lambda _: 0, lambda: None), "the function returned None, which is not an environment"),
    (lambda: rl.evaluate(lambda _: 0, Episodes, reference_scores=5), "reference_scores is 5, but it must be a pair of returns"),
    (lambda: rl.evaluate(lambda _: 0, Episodes, reference_scores=("1", 2)), "reference_scores must be a number, not '1'"),
])  # fmt: skip
def test_invalid_arguments_of_evaluations_are_named(evaluate: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        evaluate()


ENDLESS_EVALUATION = """
import sys
from test_environment_care import Episodes
from own_agents import TRANSITIONS, Agent
from relive import rl

class Endless(Episodes):
    evaluated = 0

    def __init__(self, length):
        super().__init__(length)
        self.is_evaluator = length > 100

    def step(self, action):
        if self.is_evaluator and self.steps == 1000:
            print("evaluating", flush=True)
        return super().step(action)

made = []

def make(seed):
    # The first environment is the actor's.
    made.append(seed)
    return Endless(10 if len(made) == 1 else int(sys.argv[2]))

options = {"steps": 200, "evaluate_every": 50, "evaluation_episodes": 1, "seed": 3}
if sys.argv[1] == "timeout":
    result = rl.run(Agent(TRANSITIONS), make, timeout=5.0, **options)
    print(result.is_complete, len(result.evaluation.returns), flush=True)
else:
    result = rl.run(Agent(TRANSITIONS), make, checkpoint_dir=sys.argv[1], **options)
    print(len(made), len(result.evaluation.returns), flush=True)
"""


def test_an_evaluation_that_never_ends_can_be_stopped(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS_EVALUATION)

    def program(*arguments: str | pathlib.Path) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": os.path.dirname(__file__)}
        return subprocess.Popen(
            [sys.executable, script, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )

    with program("timeout", "1000000000") as timed:
        assert timed.communicate(timeout=60)[0] == "evaluating\nFalse 0\n"
    with program(tmp_path / "saved", "1000000000") as interrupted:
        assert interrupted.stdout is not None and interrupted.stdout.readline() == "evaluating\n"
        interrupted.send_signal(signal.SIGINT)
        errors = interrupted.communicate(timeout=60)[1]
        assert interrupted.returncode == -signal.SIGINT and "KeyboardInterrupt" in errors
    with program(tmp_path / "saved", "10") as resumed:
        # A resumed run acts in another environment than the one that was made for the specs.
        assert resumed.communicate(timeout=60)[0] == "3 4\n", "the incomplete evaluation is repeated"


class Remembering(Episodes):
    """Counts its steps in each thread."""

    memory = threading.local()
    counts: list[int] = []

    def step(self, action: Any) -> Any:
        self.memory.count = getattr(self.memory, "count", 0) + 1
        self.counts.append(self.memory.count)
        return super().step(action)


@pytest.mark.parametrize("actors", [0, 1])
def test_thread_local_data_of_actors_lives_as_long_as_the_run(actors: int) -> None:
    Remembering.counts.clear()
    result = rl.run(Agent(TRANSITIONS), Remembering, steps=100, actors=actors)
    assert result.env_steps >= 100 and max(Remembering.counts) >= 100
    Remembering.counts.clear()
    rl.run(Agent(TRANSITIONS), Remembering, steps=20, actors=actors)
    assert Remembering.counts[0] == 1, "another run has other threads"


class Numbers(Episodes):
    """Observes given numbers, in a given space."""

    def __init__(self, space: spaces.Space[Any], seen: Any) -> None:
        super().__init__()
        self.observation_space, self.seen = space, seen  # type: ignore[misc]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return self.seen, super().reset()[1]

    def step(self, action: Any) -> Any:
        return self.seen, *super().step(action)[1:]


IMAGE = spaces.Box(0, 255, (2,), np.uint8)


@pytest.mark.parametrize("seen, number", [([0.5, 1.0], "0.5"), (np.array([1, 300]), "300"), (np.float32([np.nan, 0]), "nan")])
def test_observations_that_a_conversion_would_change_are_refused(seen: Any, number: str) -> None:
    text = rf"Numbers.reset.. returned an invalid result: .* numbers such as {number} cannot be converted to uint8"
    with pytest.raises(TypeError, match=text):
        rl.run(Agent(TRANSITIONS), lambda seed: Numbers(IMAGE, seen), steps=10)


class Counts(dm_env.Environment):
    """Shows whole numbers of another type than its spec's."""

    def __init__(self, seen: Any) -> None:
        self.seen = np.array(seen, np.int64)

    def reset(self) -> dm_env.TimeStep:
        return dm_env.restart(self.seen)

    def step(self, action: Any) -> dm_env.TimeStep:
        return dm_env.transition(1.0, self.seen)

    def observation_spec(self) -> Any:
        return dm_env.specs.Array((2,), np.uint8)

    def action_spec(self) -> Any:
        return dm_env.specs.DiscreteArray(3)


def test_whole_numbers_of_dm_env_must_fit_the_spec() -> None:
    rl.run(Agent(TRANSITIONS), lambda seed: Counts([7, 255]), steps=10)
    with pytest.raises(TypeError, match=r"Counts.reset.. returned an invalid result: observation: int64 numbers such as 300 cannot be converted to uint8"):
        rl.run(Agent(TRANSITIONS), lambda seed: Counts([300, -1]), steps=10)


def test_whole_numbers_of_another_type_are_converted() -> None:
    adapted = rl.GymEnvironment(Numbers(IMAGE, np.array([7.0, 255.0])))
    observation = adapted.reset().observation
    assert observation.dtype == np.uint8 and observation.tolist() == [7, 255]


def test_discrete_observations_keep_their_numbers() -> None:
    agent = Agent(rl.Rollouts(steps=5))
    rl.run(agent, lambda seed: Numbers(spaces.Discrete(3, start=5), 7), steps=5)
    (learner,) = (made for made in agent.made if hasattr(made, "batches"))
    assert (learner.batches[0].observations == 7).all()


def test_choices_among_several_numbers_may_be_observed() -> None:
    for space in (spaces.MultiDiscrete([3, 4]), spaces.MultiDiscrete([3, 4], start=[1, 2])):
        adapted = rl.GymEnvironment(Numbers(space, np.array([2, 3])))
        assert adapted.reset().observation.tolist() == [2, 3]
