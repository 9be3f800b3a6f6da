"""The results of runs: resumed and plotted."""

from __future__ import annotations

import copy
import dataclasses
import pathlib
import threading
import xml.etree.ElementTree
from typing import Any

import numpy as np
import pytest
from own_agents import TRANSITIONS, Agent, SummingLearner

from relive import rl


@pytest.mark.parametrize("experience", [rl.Rollouts(steps=10, environments=2), TRANSITIONS])
def test_a_resumed_run_gives_identical_results(tmp_path: pathlib.Path, experience: Any) -> None:
    def run(folder: str, *steps: int) -> Any:
        for count in steps:
            result = rl.run(
                Agent(experience), "catch/0", steps=count, checkpoint_dir=tmp_path / folder, checkpoint_every=100
            )
        return result.policy.to_bytes()

    assert run("whole", 500) == run("parts", 200, 300, 500)


def test_a_run_at_its_end_is_told(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    for steps, is_told in [(100, False), (50, True), (200, False), (200, True)]:
        caplog.clear()
        before = rl.run(Agent(TRANSITIONS), "catch/0", steps=steps, checkpoint_dir=tmp_path).env_steps
        texts = [record.getMessage() for record in caplog.records if "nothing left to do" in record.getMessage()]
        assert len(texts) == is_told and all(f"the run in {tmp_path} already has {before} steps" in text for text in texts)


def test_a_learner_that_refuses_a_saved_state_is_told_with_a_way_out(tmp_path: pathlib.Path) -> None:
    class Refusing(SummingLearner):
        def restore(self, state: Any) -> None:
            raise KeyError("network.2.weight")

    class Changed(Agent):
        def learner(self, spec: rl.EnvironmentSpec, seed: int) -> Any:
            return Refusing()

    Changed.__name__ = Agent.__name__
    rl.run(Agent(TRANSITIONS), "catch/0", steps=100, checkpoint_dir=tmp_path)
    with pytest.raises(ValueError, match=r"Refusing.restore\(\) refused the saved state \(KeyError: 'network.2.weight'\).*another checkpoint_dir"):
        rl.run(Changed(TRANSITIONS), "catch/0", steps=200, checkpoint_dir=tmp_path)


def test_a_run_resumes_only_with_the_same_settings(tmp_path: pathlib.Path) -> None:
    rl.run(Agent(TRANSITIONS), "catch/0", steps=100, checkpoint_dir=tmp_path, checkpoint_every=50)
    with pytest.raises(ValueError, match="rate"):
        rl.run(Agent(TRANSITIONS, rate=0.25), "catch/0", steps=200, checkpoint_dir=tmp_path)


def test_object_settings_have_stable_names_across_runs(tmp_path: pathlib.Path) -> None:
    for steps in (60, 120):
        result = rl.run(Agent(TRANSITIONS, rate=[object(), len, Agent]), "catch/0", steps=steps, checkpoint_dir=tmp_path, checkpoint_every=50)  # type: ignore[arg-type]
        assert result.env_steps >= steps


def test_arrays_and_cycles_may_be_settings(tmp_path: pathlib.Path) -> None:
    large, cyclic = np.zeros(200_000), dataclasses.make_dataclass("Cyclic", ["itself"])(None)
    cyclic.itself = cyclic
    for steps, settings in ((60, [large, cyclic]), (120, [large.copy(), cyclic])):
        rl.run(Agent(TRANSITIONS, rate=settings), "catch/0", steps=steps, checkpoint_dir=tmp_path, checkpoint_every=50)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="rate"):
        rl.run(Agent(TRANSITIONS, rate=np.ones(200_000)), "catch/0", steps=200, checkpoint_dir=tmp_path)  # type: ignore[arg-type]


def test_a_result_can_resume_its_run(tmp_path: pathlib.Path) -> None:
    result = rl.run(Agent(TRANSITIONS), "catch/0", steps=200, checkpoint_dir=tmp_path, checkpoint_every=100)
    assert result.resume(steps=400).env_steps >= 400
    whole = rl.run(Agent(TRANSITIONS), "catch/0", steps=400, checkpoint_dir=tmp_path / "other", checkpoint_every=100)
    assert result.resume(steps=400).policy.to_bytes() == whole.policy.to_bytes()
    with pytest.raises(ValueError, match="the run was not saved; give it a checkpoint_dir"):
        rl.run(Agent(TRANSITIONS), "catch/0", steps=100).resume(steps=200)


@pytest.mark.parametrize("actors", [0, 2])
@pytest.mark.parametrize("agent", [Agent(TRANSITIONS), rl.DQN(hidden=[8], batch_size=8, min_replay_size=20)], ids=["own", "DQN"])
def test_an_interrupted_run_keeps_its_result(tmp_path: pathlib.Path, agent: Any, actors: int) -> None:
    def interrupt(episode: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        rl.run(agent, "catch/0", steps=10**9, actors=actors, progress=interrupt, checkpoint_dir=tmp_path / "run")
    result: rl.TrainingResult = caught.value.result  # type: ignore[attr-defined]
    assert not result.is_complete and result.env_steps >= 9 and len(result.episodes)
    result.policy.save(tmp_path / "policy")
    resumed = result.resume(steps=result.env_steps + 100, progress=False)
    assert resumed.env_steps > result.env_steps


def test_an_interrupt_during_a_display_is_not_raised_twice() -> None:
    interrupted, ends = threading.Event(), 0

    def interrupt(episode: Any) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    def end_another_episode(rollout: rl.Rollout) -> None:
        nonlocal ends
        ends += int(rollout.ends.sum())
        assert ends < 2 or interrupted.wait(30)

    with pytest.raises(KeyboardInterrupt) as caught:
        rl.run(Agent(TRANSITIONS), "catch/0", steps=10**9, progress=interrupt, on_step=end_another_episode)
    assert len(caught.value.result.episodes) >= 2  # type: ignore[attr-defined]


class Faulty:
    """A logger that fails at a call."""

    def __init__(self, call: str) -> None:
        self._call, self._rows = call, 0

    def write(self, label: str, values: Any) -> None:
        self._rows += 1
        self._reached("write", self._rows == 20)

    def close(self) -> None:
        self._reached("close", True)

    def _reached(self, call: str, is_due: bool) -> None:
        if is_due and call == self._call:
            raise OSError("no space left")


@pytest.mark.parametrize("call", ["write", "close", "progress"])
def test_a_run_whose_logger_fails_keeps_its_result(tmp_path: pathlib.Path, call: str) -> None:
    faulty = Faulty(call)

    def progress(episode: Any) -> None:
        faulty._reached("progress", True)

    with pytest.raises(OSError, match="no space left") as caught:
        rl.run(Agent(TRANSITIONS), "catch/0", steps=900, loggers=[faulty], progress=progress, checkpoint_dir=tmp_path / "run")
    result: rl.TrainingResult = caught.value.result  # type: ignore[attr-defined]
    assert result.is_complete == (call == "close") and result.env_steps >= 9 and len(result.episodes)
    assert result.resume(steps=1000, progress=False).env_steps >= 1000


def test_an_exception_within_the_run_has_no_result() -> None:
    class Interrupt(KeyboardInterrupt):
        result = {"policy": "the exception's own"}

    def interrupt(episode: Any) -> None:
        raise Interrupt

    def fail(rollout: Any) -> None:
        raise ValueError("the hook fails")

    with pytest.raises(Interrupt) as caught:
        rl.run(Agent(TRANSITIONS), "catch/0", steps=10**9, progress=interrupt)
    assert caught.value.result != Interrupt.result, "the run's result replaces the attribute of the class"
    with pytest.raises(ValueError, match="the hook fails") as failed:
        rl.run(Agent(TRANSITIONS), "catch/0", steps=10**9, on_step=fail)
    assert not hasattr(failed.value, "result")


def test_a_result_is_plotted(tmp_path: pathlib.Path) -> None:
    result = rl.run(Agent(TRANSITIONS), "catch/0", steps=300, evaluate_every=100, evaluation_episodes=2)
    result.plot().save(tmp_path / "curve.svg")
    picture = (tmp_path / "curve.svg").read_text()
    assert xml.etree.ElementTree.fromstring(picture).tag.endswith("svg") and picture.count("<polyline") == 2
    assert "steps in the environment" in result.plot()._repr_svg_()


def test_a_run_without_episodes_has_no_mean_return() -> None:
    result = rl.run(Agent(TRANSITIONS), "catch/0", steps=5)
    assert not len(result.episodes) and np.isnan(result.mean_return_last_100)
    assert xml.etree.ElementTree.fromstring(result.plot().svg).tag.endswith("svg")


def test_several_runs_are_plotted_in_one_figure() -> None:
    results = [rl.run(Agent(TRANSITIONS), "catch/0", steps=300, seed=seed, evaluate_every=100, evaluation_episodes=2) for seed in (1, 2)]
    seeds = rl.plot({"two <seeds>": results, "one": results[0]}).svg
    assert xml.etree.ElementTree.fromstring(seeds).tag.endswith("svg")
    assert (seeds.count("<polyline"), seeds.count("<polygon")) == (2, 1) and "two &lt;seeds&gt;" in seeds
    assert rl.plot(results, of="evaluation").svg.count("<polygon") == 1
    with pytest.raises(ValueError, match="the runs of 'none' have no episodes of evaluation"):
        rl.plot({"none": rl.run(Agent(TRANSITIONS), "catch/0", steps=30)}, of="evaluation")
    with pytest.raises(ValueError, match="there are no runs of 'none'"):
        rl.plot({"none": []})
    with pytest.raises(ValueError, match='of must be "training" or "evaluation", not \'eval\''):
        rl.plot(results, of="eval")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a curve is saved as SVG, but curve.png ends in .png; name it curve.svg"):
        rl.plot(results).save("curve.png")


def test_runs_without_common_steps_are_not_plotted_as_one_line(tmp_path: pathlib.Path) -> None:
    first = rl.run(Agent(TRANSITIONS), "catch/0", steps=100, checkpoint_dir=tmp_path)
    second = first.resume(steps=200)
    with pytest.raises(ValueError, match=r"the runs of 'both' have no steps in common: one begins at step 1\d\d, and another ends at step 9\d"):
        rl.plot({"both": [first, second]})
    assert rl.plot({"first": first, "second": second}).svg.count("<polyline") == 2
    for wrong in (None, "first", [first.episodes]):
        with pytest.raises(TypeError, match="plot: .* is not the result of a run"):
            rl.plot(wrong)  # type: ignore[arg-type]


def test_results_with_arrays_are_compared_and_hashed() -> None:
    result = rl.run(Agent(TRANSITIONS), "catch/0", steps=100)
    evaluation = rl.evaluate(result.policy, "catch/0", episodes=2)
    for value in (result.episodes, result.evaluation, evaluation):
        copied = copy.deepcopy(value)
        assert value == copied and hash(value) == hash(copied) and value in [copied]
    assert result.episodes != result.evaluation and result.episodes != evaluation
    assert evaluation != dataclasses.replace(evaluation, returns=evaluation.returns + 1)
    assert result != dataclasses.replace(result) and len({result, result}) == 1


def test_experience_is_compared_by_identity() -> None:
    zeros, flags = np.zeros((2, 2), np.float32), np.zeros((2, 2), bool)
    rollout = rl.Rollout(np.zeros((3, 2)), zeros, {}, rewards=zeros, discounts=zeros, starts=flags, ends=flags)
    episode = rl.recorded.Episode(np.zeros(3), zeros[0], zeros[0], zeros[0])
    for value in (rollout, episode):
        copied = copy.deepcopy(value)
        assert [copied, value].index(value) == 1 and len({value, copied}) == 2


def test_a_run_whose_checkpoints_cannot_be_written_keeps_its_result(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    folder, steps = tmp_path / "run", []

    def obstruct(rollout: rl.Rollout) -> None:
        steps.append(rollout)
        if len(steps) == 30:
            folder.rename(tmp_path / "moved")
            folder.write_text("not a folder")

    def train() -> Any:
        steps.clear()
        return rl.run(Agent(TRANSITIONS), "catch/0", steps=200, checkpoint_dir=folder, checkpoint_every=50, on_step=obstruct, progress=False)

    with pytest.raises((OSError, RuntimeError)) as raised:
        train()
    result: Any = raised.value.result  # type: ignore[attr-defined]
    assert result.env_steps >= 200 and len(result.episodes) > 10 and result.is_complete
    told = [record.getMessage() for record in caplog.records if "continues without this checkpoint" in record.getMessage()]
    assert len(told) >= 2 and "run" in told[0]
