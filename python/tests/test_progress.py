"""Display of a run's progress: a line, progress bars of other packages, a curve in a notebook."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Mapping
from typing import Any

import nbclient
import nbformat
import numpy as np
import pytest

from relive import rl
from relive.rl._curve import Curve, _evaluated
from relive.rl._episodes import EpisodeLog
from relive.rl._live_curve import LiveCurve
from relive.rl._progress import Shown

SMALL = rl.DQNConfig(batch_size=16, min_replay_size=50)


def test_a_line_shows_the_progress_of_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    rl.DQN(SMALL).train("catch/0", steps=504, progress="line", evaluate_every=250, evaluation_episodes=2)
    told = capsys.readouterr().err
    assert re.search(r"100 %  \d+ steps/s, return -?\d\.\d\d, evaluation -?\d\.\d\d, learner steps \d+", told), told
    assert told.endswith("\r"), "the line is taken away"


def test_the_evaluation_that_is_shown_is_the_newest() -> None:
    class Bar:
        figures: Mapping[str, str] = {}

        def show(self, done: int, seconds: float, figures: Mapping[str, str]) -> None:
            self.figures = figures

        def close(self) -> None:
            pass

    bar = Bar()
    shown = Shown(bar, "env_steps")
    for step, returns in ((100, (0.0, 0.0)), (200, (1.0, 2.0))):
        for episode_return in returns:
            shown.write("evaluator", {"env_steps": step, "learner_steps": 0, "seconds": 1.0, "episode_return": episode_return})
    shown.close()
    assert bar.figures["evaluation"] == "1.50"


def test_a_run_without_stderr_shows_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    rl.DQN(SMALL).train("catch/0", steps=504, progress="line")


def test_the_progress_of_an_offline_run_shows_learner_steps(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    data = {"observations": np.zeros((64, 10, 5), np.float32), "actions": np.arange(64) % 3, "rewards": np.ones(64, np.float32),
            "terminals": np.arange(64) % 8 == 7}  # fmt: skip
    rl.run(rl.BC(), "catch/0", data=data, learner_steps=300, progress=True)
    assert re.search(r"100 %  \d+ learner steps/s", capsys.readouterr().err)


def test_tqdm_and_rich_bars_reach_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    # The last episode ends before the last step.
    rl.DQN(SMALL).train("catch/0", steps=508, progress="tqdm")
    told = capsys.readouterr().err
    assert "100%" in told and "return=" in told and "learner steps=" in told
    rl.DQN(SMALL).train("catch/0", steps=508, progress="rich")
    told = capsys.readouterr().out
    assert "100%" in told and "steps/s" in told


def test_a_bar_is_closed_when_a_run_fails(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(rollout: rl.Rollout) -> None:
        raise RuntimeError("enough")

    for display in ("tqdm", "rich", "line"):
        with pytest.raises(RuntimeError, match="enough"):
            rl.DQN(SMALL).train("catch/0", steps=10**9, progress=display, on_step=fail)  # type: ignore[arg-type]
    # rich would refuse a second live display while the first still exists.
    rl.DQN(SMALL).train("catch/0", steps=100, progress="rich")


def test_unknown_progress_displays_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    known = "True, False, a function, or one of 'line', 'tqdm', 'rich', 'notebook'"
    with pytest.raises(ValueError, match=re.escape(f"progress is 'bar', but it must be {known}")):
        rl.DQN(SMALL).train("catch/0", steps=100, progress="bar")  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError, match="progress='tqdm' requires the package tqdm: pip install tqdm"):
        rl.DQN(SMALL).train("catch/0", steps=100, progress="tqdm")


def test_a_notebook_shows_a_live_curve_updated_in_place() -> None:
    program = (
        "from relive import rl\n"
        "config = rl.DQNConfig(batch_size=16, min_replay_size=50)\n"
        "result = rl.DQN(config).train('catch/0', steps=20_000, evaluate_every=5_000, evaluation_episodes=2)\n"
        "result.episodes"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(program)])
    client = nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3")
    client.execute()
    outputs: list[Mapping[str, Any]] = notebook.cells[0].outputs
    shown = [output for output in outputs if output["output_type"] == "display_data"]
    assert len(shown) == 1, "the curve is drawn over"
    svg = shown[0]["data"]["image/svg+xml"]
    assert ">training<" in svg and ">evaluation<" in svg and "<polyline" in svg
    assert "stderr" not in [output.get("name") for output in outputs], "there is no line beside the curve"


class Display:
    """Stands for the module IPython.display."""

    def __init__(self) -> None:
        self.shown: list[Curve] = []

    def display(self, curve: Curve, display_id: bool) -> Display:
        self.shown.append(curve)
        return self

    update = display


def test_a_live_curve_without_episodes_draws_nothing() -> None:
    display = Display()
    curve = LiveCurve(display)
    curve.write("learner", {"loss": 1.0, "env_steps": 1, "learner_steps": 1, "seconds": 0.1})
    curve.close()
    assert display.shown == []


def test_a_live_curve_shows_all_episodes() -> None:
    display = Display()
    curve = LiveCurve(display)
    for number in range(3):
        values = {"episode_return": float(number), "episode_length": 5, "actor": 0, "env_steps": 10 * number, "learner_steps": 0, "seconds": 0.1}
        curve.write("actor", values)
    curve.close()
    zeros, numbers = np.zeros(3, np.int64), np.arange(3)
    none = np.zeros(0, np.int64)
    expected = Curve.of(
        EpisodeLog(numbers.astype(float), zeros, zeros, 10 * numbers, zeros, zeros.astype(float)),
        EpisodeLog(none.astype(float), none, none, none, none, none.astype(float)),
    )
    assert [shown.svg for shown in display.shown] == [expected.svg]


def test_a_curve_of_many_evaluations_is_small_and_shows_their_means() -> None:
    evaluations, episodes = 20_000, 10
    zeros, numbers = np.zeros(evaluations * episodes, np.int64), np.repeat(np.arange(evaluations), episodes)
    # The mean of each evaluation is the square of its number of steps.
    returns = numbers.astype(float) ** 2 + np.tile([-7.0, 7.0], evaluations * episodes // 2)
    log = EpisodeLog(returns, zeros, zeros, numbers, zeros, zeros.astype(float))
    begun = time.process_time()
    steps, means = _evaluated(log, True)
    # A scan of all episodes for each evaluation takes minutes.
    assert time.process_time() - begun < 10.0
    assert len(steps) == len(means) == 2_000 and (steps[0], steps[-1]) == (0.0, 19_999.0)
    np.testing.assert_allclose(means, steps**2, atol=1e-6)
    none = np.zeros(0, np.int64)
    assert len(Curve.of(EpisodeLog(none.astype(float), none, none, none, none, none.astype(float)), log).svg) < 50_000


def test_a_curve_of_evaluations_of_different_sizes_shows_their_means() -> None:
    zeros, numbers = np.zeros(4, np.int64), np.array([5, 3, 5, 5])
    steps, means = _evaluated(EpisodeLog(np.array([1.0, 7.0, 2.0, 6.0]), zeros, zeros, zeros, numbers, zeros.astype(float)), False)
    assert steps.tolist() == [3.0, 5.0] and means.tolist() == [7.0, 3.0]


def test_a_curve_of_many_episodes_is_small() -> None:
    count = 300_000
    zeros, numbers = np.zeros(count, np.int64), np.arange(count)
    log = EpisodeLog(numbers.astype(float), zeros, zeros, numbers, zeros, zeros.astype(float))
    none = np.zeros(0, np.int64)
    svg = Curve.of(log, EpisodeLog(none.astype(float), none, none, none, none, none.astype(float))).svg
    assert len(svg) < 50_000
    # From the first episode at the bottom left to the last one at the top right.
    points = re.search('points="([^"]*)"', svg)
    assert points is not None and points[1].split(" ")[0] == "48.0,272.0" and points[1].endswith(" 624.0,16.0")
