"""Loggers of runs."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import pathlib
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from own_agents import TRANSITIONS, Agent

from relive import rl
from relive.rl import loggers
from relive.rl._reports import Reports


def test_loggers_get_episodes_evaluations_and_learner_metrics(tmp_path: pathlib.Path) -> None:
    jsonl, table = loggers.JSONL(tmp_path / "new" / "log.jsonl"), loggers.CSV(tmp_path)
    rl.run(Agent(TRANSITIONS), "catch/0", steps=300, evaluate_every=100, evaluation_episodes=2, loggers=[jsonl, table])
    lines = [json.loads(line) for line in (tmp_path / "new" / "log.jsonl").read_text().splitlines()]
    assert {line["label"] for line in lines} == {"actor", "evaluator", "learner"}
    assert all("reward" in line and line["learner_steps"] % 100 == 0 for line in lines if line["label"] == "learner")
    rows = (tmp_path / "actor.csv").read_text().splitlines()
    assert len(rows) == 1 + sum(line["label"] == "actor" for line in lines)


class Closed:
    """A logger that knows whether it is closed."""

    is_closed = False

    def write(self, label: str, values: Any) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("wrong", [{"on": "processes"}, {"seed": -1}, {"steps": 0}, {"progress": "bars"}], ids=str)
def test_loggers_are_closed_if_a_run_cannot_start(wrong: Any) -> None:
    logger = Closed()
    with pytest.raises((TypeError, ValueError)):
        rl.run(Agent(TRANSITIONS), lambda seed: rl.make("catch/0", seed=seed), loggers=[logger], **{"steps": 10, **wrong})
    assert logger.is_closed


@pytest.mark.parametrize("wrong", ["runs", 3, None, ["runs"], loggers.JSONL])
def test_values_that_are_no_loggers_are_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"loggers must be a list of loggers, such as \[loggers.JSONL\(path\)\], but got"):
        rl.run(Agent(TRANSITIONS), "catch/0", steps=10, loggers=wrong)


def test_a_single_logger_is_refused(tmp_path: pathlib.Path) -> None:
    with contextlib.closing(loggers.JSONL(tmp_path / "log.jsonl")) as logger, pytest.raises(TypeError, match="must be a list of loggers"):
        rl.run(Agent(TRANSITIONS), "catch/0", steps=10, loggers=logger)  # type: ignore[arg-type]


def test_tensorboard_shows_each_value_of_a_resumed_run_once(tmp_path: pathlib.Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")

    def run(steps: int, on_step: Any = None) -> None:
        options: dict[str, Any] = {"checkpoint_dir": tmp_path / "run", "checkpoint_every": 100, "loggers": [loggers.TensorBoard(tmp_path / "board")]}
        rl.run(Agent(TRANSITIONS), "catch/0", steps=steps, on_step=on_step, **options)

    left = iter(range(250))

    def killed(_: Any) -> None:
        next(left)

    with pytest.raises(StopIteration):
        run(400, killed)
    run(400)
    events = accumulator.EventAccumulator(str(tmp_path / "board"), size_guidance={"scalars": 0})
    events.Reload()
    steps = [event.step for event in events.Scalars("actor/episode_return")]
    assert steps == sorted(set(steps)) and steps[-1] > 300


def test_tensorboard_shows_runs_that_learn_from_data_by_learner_steps(tmp_path: pathlib.Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    ends = np.arange(90) % 9 == 8
    data = {"observations": np.zeros((90, 10, 5), np.float32), "actions": np.ones(90, np.int32), "rewards": np.zeros(90), "terminals": ends}

    def run(learner_steps: int) -> None:
        options: dict[str, Any] = {"checkpoint_dir": tmp_path / "run", "evaluate_every": 100, "evaluation_episodes": 1}
        logger = loggers.TensorBoard(tmp_path / "board")
        rl.BC(batch_size=8, hidden=(8,)).train("catch/0", data=data, learner_steps=learner_steps, loggers=[logger], **options)

    run(200)
    run(400)
    events = accumulator.EventAccumulator(str(tmp_path / "board"), size_guidance={"scalars": 0})
    events.Reload()
    assert [event.step for event in events.Scalars("evaluator/episode_return")] == [100, 200, 300, 400]


class Warned(logging.Handler):
    """Notes that a run has warned about its loggers."""

    def __init__(self) -> None:
        super().__init__()
        self.is_noted = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "the loggers are slower than the run" in record.getMessage():
            self.is_noted.set()


def test_a_run_waits_for_slow_loggers() -> None:
    warned, log = Warned(), logging.getLogger("relive")

    class Slow(Closed):
        def __init__(self) -> None:
            self.episodes: list[int] = []

        def write(self, label: str, values: Mapping[str, float]) -> None:
            assert warned.is_noted.wait(60)
            self.episodes.append(int(values["episode"]))

    log.addHandler(warned)
    try:
        slow = Slow()
        # Too few steps to begin to learn, and more episodes than may wait.
        result = rl.DQN(min_replay_size=200_000, hidden=(8,)).train("catch/0", steps=120_000, loggers=[slow])
    finally:
        log.removeHandler(warned)
    assert slow.episodes == list(range(1, len(result.episodes.returns) + 1))


def written(logger: Any, *entries: dict[str, float]) -> None:
    for values in entries:
        logger.write("actor", values)
    logger.close()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    told = [record.getMessage() for record in caplog.records if record.name == "relive"]
    caplog.clear()
    return told


def test_a_table_without_its_beginning_gets_a_new_header(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    table = tmp_path / "actor.csv"
    first = loggers.CSV(tmp_path)
    first.write("actor", {"env_steps": 1, "loss": 0.5})
    first.mark()
    # As by logrotate's copytruncate.
    os.truncate(table, 0)
    written(first, {"env_steps": 2, "loss": math.nan}, {"env_steps": 3})
    assert not warnings(caplog)
    written(loggers.CSV(tmp_path), {"env_steps": 4, "entropy": 0.25})
    rows = ["2,nan", "3,", "env_steps,entropy", "4,0.25"]
    assert table.read_text().split() == rows
    (told,) = warnings(caplog)
    assert "actor.csv does not begin with a header: its beginning was removed" in told
    # Later runs use the columns of the newest header.
    written(loggers.CSV(tmp_path), {"entropy": 0.125, "env_steps": 5})
    assert table.read_text().split() == [*rows, "5,0.125"] and not warnings(caplog)


def test_a_table_with_rows_of_empty_cells_gets_a_new_header(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "actor.csv").write_text("7,0.5\n,\n,\n")
    written(loggers.CSV(tmp_path), {"env_steps": 8, "loss": 0.5})
    assert (tmp_path / "actor.csv").read_text().split() == ["7,0.5", ",", ",", "env_steps,loss", "8,0.5"]
    assert len(warnings(caplog)) == 1


def test_a_table_with_a_part_of_a_header_begins_again(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "actor.csv").write_text("env_steps,lo")
    written(loggers.CSV(tmp_path), {"env_steps": 8, "loss": 0.5})
    assert (tmp_path / "actor.csv").read_text().split() == ["env_steps,loss", "8,0.5"]
    (told,) = warnings(caplog)
    assert "actor.csv contained only a part of a header" in told


def test_new_lines_are_not_appended_to_an_incomplete_line(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "log.jsonl").write_text('{"label": "actor", "env_st')
    (tmp_path / "actor.csv").write_text("env_steps,loss\n7,0.5\n8,0.")
    for logger, name in ((loggers.JSONL(tmp_path / "log.jsonl"), "log.jsonl"), (loggers.CSV(tmp_path), "actor.csv")):
        written(logger, {"env_steps": 7, "loss": 0.5}, {"env_steps": 8, "loss": 0.25})
        (told,) = warnings(caplog)
        assert f"the last line of {tmp_path / name} is incomplete" in told
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert lines[0] == '{"label": "actor", "env_st' and [json.loads(line)["env_steps"] for line in lines[1:]] == [7, 8]
    assert (tmp_path / "actor.csv").read_text().split() == ["env_steps,loss", "7,0.5", "8,0.", "7,0.5", "8,0.25"]


def test_lines_that_a_resumed_run_removes_are_not_reported(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "log.jsonl"
    first = loggers.JSONL(path)
    written(first, {"env_steps": 1})
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b'{"label"')
    resumed = loggers.JSONL(path)
    resumed.truncate({path.name: size})
    written(resumed, {"env_steps": 2})
    assert [json.loads(line)["env_steps"] for line in path.read_text().splitlines()] == [1, 2] and not warnings(caplog)


def test_a_log_may_be_a_pipe(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        written(loggers.JSONL(path), {"env_steps": 1})
        assert json.loads(os.read(reader, 1000)) == {"label": "actor", "env_steps": 1}
    finally:
        os.close(reader)


def test_a_resumed_run_keeps_its_folders_if_the_working_directory_changes(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    monkeypatch.chdir(here)
    result = rl.run(Agent(TRANSITIONS), "catch/0", steps=100, checkpoint_dir="run")
    monkeypatch.chdir(there)
    assert result.resume(steps=200).env_steps == 200
    assert not list(there.iterdir()) and list((here / "run").iterdir())


@pytest.fixture(params=["JSONL", "CSV"])
def logged(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Any:
    """A function that trains DQN to this number of steps, with a log in the given folder."""

    def train(run: str, steps: int, folder: str = "logs", **options: Any) -> Any:
        path = tmp_path / folder
        logger = loggers.JSONL(path / "log.jsonl") if request.param == "JSONL" else loggers.CSV(path)
        agent = rl.DQN(min_replay_size=100, samples_per_insert=1)
        options = {"evaluate_every": 500, "evaluation_episodes": 2, "loggers": [logger], "progress": False, **options}
        return agent.train("CartPole-v1", steps=steps, checkpoint_dir=tmp_path / run, **options)

    return train


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_resumed_run_does_not_remove_rows_of_another_run(logged: Any, tmp_path: pathlib.Path) -> None:
    logged("a", 2000)
    logged("b", 4000)
    before, state = contents(tmp_path / "logs"), contents(tmp_path / "a")
    with pytest.raises(ValueError, match=r"logs.*has rows of another run after.*nothing was removed\. Give each run files of its own"):
        logged("a", 3000)
    assert contents(tmp_path / "logs") == before and contents(tmp_path / "a") == state
    # The newest run may be resumed, and the other one with files of its own.
    assert logged("b", 4500).env_steps == 4500
    assert all(now.startswith(before[name]) for name, now in contents(tmp_path / "logs").items())
    assert logged("a", 3000, "others").env_steps == 3000


def test_a_run_whose_file_begins_with_rows_of_another_run_resumes(logged: Any, tmp_path: pathlib.Path) -> None:
    logged("b", 4000)
    before = contents(tmp_path / "logs")
    left = iter(range(1300))
    with pytest.raises(StopIteration):
        # The last checkpoint is older than this run's first evaluation.
        logged("a", 2000, checkpoint_every=400, evaluate_every=1250, on_step=lambda _: next(left))
    logged("a", 2000, checkpoint_every=400, evaluate_every=1250)
    for name, now in contents(tmp_path / "logs").items():
        assert now.startswith(before[name]) and len(now) > len(before[name])


def test_all_files_are_checked_before_one_is_truncated(tmp_path: pathlib.Path) -> None:
    with contextlib.closing(loggers.JSONL(tmp_path / "own.jsonl")) as own, contextlib.closing(loggers.CSV(tmp_path)) as shared:
        reports = Reports([own, shared])
        reports("actor", {"env_steps": 20, "learner_steps": 5})
        sizes = reports.mark()
        reports("actor", {"env_steps": 30, "learner_steps": 5})
        reports.mark()
        with (tmp_path / "actor.csv").open("a") as table:
            table.write("25,1\n")
        before = contents(tmp_path)
        with pytest.raises(ValueError, match=r"actor.csv has rows of another run .* at least 20 .* 5 learner steps: a later row has 25 and 1"):
            reports.truncate(sizes)
        assert contents(tmp_path) == before


@pytest.mark.parametrize("kind", ["JSONL", "CSV", "TensorBoard"])
def test_each_run_needs_a_logger_of_its_own(kind: str, tmp_path: pathlib.Path) -> None:
    if kind == "TensorBoard":
        pytest.importorskip("tensorboard")
    logger = getattr(loggers, kind)(tmp_path / "log")
    agent = rl.DQN(min_replay_size=100, samples_per_insert=1)
    agent.train("catch/0", steps=100, loggers=[logger])
    with pytest.raises(ValueError, match=r"the logger for .*log was closed at the end of its run; each run needs a logger of its own"):
        agent.train("catch/0", steps=100, loggers=[logger])
