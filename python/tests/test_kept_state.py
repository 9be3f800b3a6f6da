"""What agents, environments and files keep: nothing is overwritten, forgotten or written past."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from relive import rl
from relive.rl import _state, loggers, recorded
from relive.rl.specs import bounded_spec
from relive.rl.vector import ProcessVectorEnv
from relive.specs import ArraySpec


class Jerky(gymnasium.Env[Any, Any]):
    """Its reward is the distance of the action from the action before, which it keeps."""

    observation_space = gymnasium.spaces.Box(-9.0, 9.0, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-9.0, 9.0, (1,), np.float32)

    def __init__(self) -> None:
        self._observation, self._previous = np.zeros(1, np.float32), np.zeros(1, np.float32)
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._observation[:], self._previous, self._steps = 0.0, np.zeros(1, np.float32), 0
        return self._observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = float(abs(action - self._previous)[0])
        self._previous, self._steps = action, self._steps + 1
        self._observation += 1.0
        return self._observation, reward, self._steps == 4, False, {}


def test_environments_in_processes_may_keep_actions() -> None:
    environments = ProcessVectorEnv([Jerky, Jerky])
    environments.reset(seed=1)
    rewards = [environments.step(np.full((2, 1), action, np.float32))[1].tolist() for action in (1.0, 3.0, 6.0)]
    environments.close()
    assert rewards == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]


def test_recordings_do_not_share_the_environments_arrays() -> None:
    action = np.zeros(1, np.float32)

    def act(_: Any) -> Any:
        action[:] += 1.0
        return action

    episode = recorded.play(Jerky(), act)
    assert episode.observations.ravel().tolist() == [0, 1, 2, 3, 4] and episode.actions.ravel().tolist() == [1, 2, 3, 4]


class Seeded:
    """An environment with dm_env's interface that only its constructor seeds."""

    begun: list[float] = []

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._steps = 5

    def reset(self) -> Any:
        self._steps, start = 0, self._rng.random()
        self.begun.append(start)
        return rl.TimeStep(rl.StepType.FIRST, None, None, np.array([start], np.float32))

    def step(self, action: Any) -> Any:
        if self._steps == 5:
            return self.reset()
        self._steps += 1
        kind = rl.StepType.LAST if self._steps == 5 else rl.StepType.MID
        return rl.TimeStep(kind, 0.0, 1.0, np.zeros(1, np.float32))

    def observation_spec(self) -> Any:
        return ArraySpec((1,), np.float32)

    def action_spec(self) -> Any:
        return rl.DiscreteArraySpec(2)


def test_environments_begin_other_episodes_after_a_checkpoint(tmp_path: pathlib.Path) -> None:
    Seeded.begun.clear()
    rl.DQN(min_replay_size=20, batch_size=4).train(Seeded, steps=150, checkpoint_dir=tmp_path, checkpoint_every=50, seed=3)
    assert len(Seeded.begun) >= 30 and len(set(Seeded.begun)) == len(Seeded.begun)


def test_a_csv_file_keeps_its_columns(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    first = loggers.CSV(tmp_path)
    first.write("learner", {"steps": 1, "loss": 0.5})
    first.close()
    resumed = loggers.CSV(tmp_path)
    resumed.truncate(resumed.mark())
    for steps in (2, 3):
        resumed.write("learner", {"extra": 9, "steps": steps, "loss": 0.25})
    resumed.write("learner", {"more": 9, "steps": 4})
    resumed.close()
    assert (tmp_path / "learner.csv").read_text().split() == ["steps,loss", "1,0.5", "2,0.25", "3,0.25", "4,"]
    warned = [record.getMessage() for record in caplog.records if record.name == "relive"]
    assert len(warned) == 2 and "['extra']" in warned[0] and "['more']" in warned[1]


def test_values_that_a_csv_file_of_another_run_has_no_column_for_are_reported(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    first = loggers.CSV(tmp_path)
    first.write("learner", {"steps": 1, "loss": 0.5})
    first.close()
    second = loggers.CSV(tmp_path)
    second.write("learner", {"steps": 1, "entropy": 0.5})
    second.close()
    assert (tmp_path / "learner.csv").read_text().split() == ["steps,loss", "1,0.5", "1,"]
    (warned,) = [record.getMessage() for record in caplog.records if record.name == "relive"]
    assert "learner.csv has no columns ['entropy']" in warned and "use another folder" in warned


def test_log_files_are_flushed_once_per_second(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    lines, table = loggers.JSONL(tmp_path / "log.jsonl"), loggers.CSV(tmp_path)

    def written(steps: int) -> list[int]:
        for logger in (lines, table):
            logger.write("actor", {"env_steps": steps})
        return [len((tmp_path / name).read_text().splitlines()) for name in ("log.jsonl", "actor.csv")]

    assert written(1) == [1, 2]
    now[0] = 0.9
    assert written(2) == [1, 2]
    now[0] = 1.0
    assert written(3) == [3, 4]
    for logger in (lines, table):
        logger.close()


def test_infinite_bounds_of_integers_become_those_of_the_type() -> None:
    found = bounded_spec((2,), np.int64, np.array([0.0, -np.inf]), np.array([np.inf, 9.3e18]), None)
    assert found.minimum.tolist() == [0, -(2**63)] and found.maximum.tolist() == [2**63 - 1, 2**63 - 1]


def test_ctrl_c_saves_a_checkpoint_of_a_run_with_loggers(tmp_path: pathlib.Path) -> None:
    program = f"""
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from relive import rl
from relive.rl import loggers
once = [None]
def interrupt(episode):
    if once and once.pop() is None:
        os.kill(os.getpid(), signal.SIGINT)
run = dict(steps=10**9, checkpoint_dir={str(tmp_path / "run")!r}, checkpoint_every=10**8, seed=1)
try:
    rl.DQN(batch_size=16, min_replay_size=50).train("catch/0", loggers=[loggers.JSONL({str(tmp_path / "log.jsonl")!r})], progress=interrupt, **run)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 and done.stdout == "interrupted\n", done.stderr
    assert list((tmp_path / "run").glob("checkpoint-*")), "what was learned is saved"


def test_numpy_numbers_may_be_keys() -> None:
    assert _state.decode(_state.encode({np.int64(3): "a", np.str_("b"): 1.5})) == {3: "a", "b": 1.5}
