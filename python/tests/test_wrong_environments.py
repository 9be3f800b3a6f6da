"""Environments that return invalid values, crash, change, or cannot be closed: every error names the environment."""

from __future__ import annotations

import fractions
import logging
import os
import signal
import time
import traceback
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv
from own_agents import TRANSITIONS, Agent, RandomPolicy

import relive
import relive.rl._workers
from relive import rl
from relive.rl.vector import ProcessVectorEnv

SEEN = np.zeros(3, np.float32)
GOOD = (SEEN, 1.0, False, False, {})


class Odd(gymnasium.Env[Any, Any]):
    """Returns the given values from the third step on."""

    observation_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space: spaces.Space[Any] = spaces.Discrete(3)

    def __init__(self, answer: Any = GOOD, first: Any = (SEEN, {}), wrong_in: str = "") -> None:
        self.answer, self.first, self.steps = answer, first, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return self.first

    def step(self, action: Any) -> Any:
        self.steps += 1
        return GOOD if self.steps < 3 else self.answer


WRONG = [
    ((SEEN, 1.0, False, False), "step.. returned an invalid result: expected 5 values .*, got 4"),
    (None, "step.. returned an invalid result: expected 5 values .*, got NoneType"),
    ((SEEN, None, False, False, {}), "step.. returned an invalid result: .*None"),
    ((np.zeros(4, np.float32), 1.0, False, False, {}), r"step.. returned an invalid result: observation: expected float32 \(3,\), got "
                                                       r"float32 \(4,\)"),
    (("text", 1.0, False, False, {}), "step.. returned an invalid result"),
]


class Make:
    """Creates such environments, also in other processes; with a number, only the environment with this number
    misbehaves."""

    def __init__(self, answer: Any, number: int | None = None) -> None:
        self.answer, self.number = answer, number

    def __call__(self, *_: Any) -> Odd:
        return Odd(self.answer)


def run(env: Any, environments: int = 1, **options: Any) -> Any:
    return rl.run(Agent(rl.Rollouts(steps=5, environments=environments)), env, steps=60, **options)


@pytest.mark.parametrize(("answer", "text"), WRONG)
def test_invalid_results_name_the_environment(answer: Any, text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"Odd.{text}"):
        run(Odd(answer))
    with pytest.raises((TypeError, ValueError), match=rf"Odd \(environment 1\).{text}"):
        run([Odd, Make(answer)], 2)
    with pytest.raises((TypeError, ValueError), match=rf"Odd \(environment 1\).{text}"):
        envs = ProcessVectorEnv([Odd, Make(answer)], workers=1)
        envs.reset(seed=1)
        try:
            for _ in range(9):
                envs.step(np.zeros(2, np.int64))
        finally:
            envs.close()


def test_invalid_reset_results_name_the_environment() -> None:
    with pytest.raises(TypeError, match=r"Odd.reset\(\) returned an invalid result: expected 2 values .*, got ndarray|got 3"):
        run(Odd(first=SEEN))


class Steps:
    """Has dm_env's interface, and returns the given steps one after another."""

    def __init__(self, *steps: Any) -> None:
        self.steps = iter(steps)

    def reset(self) -> Any:
        return rl.restart(SEEN)

    def step(self, action: Any) -> Any:
        return next(self.steps)

    def observation_spec(self) -> Any:
        return relive.ArraySpec((3,), np.float32)

    def action_spec(self) -> Any:
        return rl.DiscreteArraySpec(2)


@pytest.mark.parametrize(("steps", "text"), [
    ([rl.restart(SEEN)], "FIRST follows FIRST: an episode has at least one step"),
    ([rl.TimeStep(9, 1.0, 1.0, SEEN)], r"the step type is 9, but it must be FIRST \(0\), MID \(1\) or LAST \(2\)"),  # type: ignore[arg-type]
    ([rl.transition(1.0, SEEN, 2.0)], "the discount is 2.0, but it must be between 0 and 1"),
    ([rl.transition(1.0, SEEN, -1.0)], "the discount is -1.0, but it must be between 0 and 1"),
    ([rl.transition("1.0", SEEN)], "the reward is '1.0', but it must be a number"),  # type: ignore[arg-type]
])  # fmt: skip
def test_episodes_must_follow_the_order_of_dm_env(steps: list[Any], text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"Steps.step\(\) returned an invalid result: {text}"):
        run(Steps(*steps))


def test_a_reward_of_several_numbers_is_refused() -> None:
    # Not imported by the module: workers import it, too.
    import torch

    with pytest.raises((TypeError, ValueError), match=r"Steps.step\(\) returned an invalid result: the environment's reward has the shape .*3.*, but only a single number"):
        run(Steps(rl.transition(torch.ones(3), SEEN)))  # type: ignore[arg-type]


def test_environments_that_do_not_reset_themselves_are_reset() -> None:
    steps = [rl.transition(1.0, SEEN), rl.termination(2.0, SEEN)] * 60
    result = run(Steps(*steps))
    assert len(result.episodes) > 10 and set(result.episodes.returns.tolist()) == {3.0}


@pytest.mark.parametrize("reward", [np.array([2.0], np.float32), np.float16(2), fractions.Fraction(2), "tensor", [2.0]])
def test_every_kind_of_number_is_a_reward(reward: Any) -> None:
    import torch

    answer = SEEN, torch.tensor([2.0]) if isinstance(reward, str) else reward, False, True, {}
    assert run(lambda seed: Odd(answer)).episodes.returns[0] == 4.0


def test_a_check_names_the_rule_for_discounts() -> None:
    def make(seed: int) -> Any:
        return Steps(*[rl.transition(1.0, SEEN, 2.0)] * 9)

    with pytest.raises(rl.ContractError, match="discount"):
        rl.check_environment(make)


def test_invalid_results_in_workers_name_the_environment() -> None:
    with pytest.raises(TypeError, match="Odd.*expected 5 values") as caught:
        rl.run(Agent(TRANSITIONS), Make(None), steps=200, on="processes", actors=1)
    assert "in worker 0" in "".join(traceback.format_exception(caught.value))


def test_invalid_results_of_vectors_name_the_vector() -> None:
    class Short(SyncVectorEnv):
        def step(self, actions: Any) -> Any:
            observations, rewards, terminated, truncated, infos = super().step(actions)
            return observations[:1], rewards, terminated, truncated, infos

    with pytest.raises(ValueError, match=r"Short.step\(\) returned an invalid result: observation: expected float32 \(2, 3\), got float32 \(1, 3\)"):
        run(lambda seed: Short([Odd] * 2), 2)


def test_an_environment_exception_keeps_its_type() -> None:
    class Raises(Odd):
        def step(self, action: Any) -> Any:
            raise TypeError("mine")

    with pytest.raises(TypeError, match="^mine$"):
        run(Raises())


class Changes(Odd):
    """Has a different number of actions from its second episode on."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.action_space = spaces.Discrete(3 if self.steps == 0 else 4)
        return self.first

    def step(self, action: Any) -> Any:
        self.steps += 1
        return SEEN, 1.0, self.steps % 4 == 0, False, {}


def test_changed_spaces_are_detected() -> None:
    text = r"its action_space was Discrete\(3\) and is Discrete\(4\) now"
    with pytest.raises(ValueError, match=f"Changes: {text}"):
        run(Changes())
    envs = ProcessVectorEnv([Odd, Changes], workers=1)
    envs.reset(seed=1)
    with pytest.raises(ValueError, match=rf"Changes \(environment 1\): {text}"):
        for _ in range(9):
            envs.step(np.zeros(2, np.int64))
    envs.close()


class Unclosable(Odd):
    def close(self) -> None:
        raise OSError("the window is gone")


def test_a_run_closes_its_environments_and_logs_failures(caplog: pytest.LogCaptureFixture) -> None:
    def told() -> list[str]:
        # Other threads, such as those of waiting calls, also write to the log.
        return [text for text in (record.getMessage() for record in caplog.records) if "close()" in text]

    with caplog.at_level(logging.WARNING, "relive"):
        run(lambda seed: Unclosable())
        assert told() == ["Unclosable.close() failed: OSError: the window is gone"]
        caplog.clear()
        run(Unclosable())
        assert not told(), "what is given ready-made is not closed"
        envs = ProcessVectorEnv([Odd, Unclosable], workers=1)
        envs.reset(seed=1)
        envs.close()
        (text,) = told()
        assert text.startswith("Unclosable (environment 1).close() failed: OSError: the window is gone\nTraceback")


class Ends(RandomPolicy):
    def act(self, observations: Any, starts: Any) -> Any:
        raise SystemExit("this policy leaves")


class EndsAgent(Agent):
    def policy(self, spec: rl.EnvironmentSpec, context: rl.PolicyContext) -> Any:
        return (Ends if context.explores and context.rows else RandomPolicy)(context, spec.actions.num_values)


def test_a_policy_that_exits_in_a_worker_is_reported_with_its_traceback() -> None:
    with pytest.raises(RuntimeError, match="SystemExit: this policy leaves") as caught:
        rl.run(EndsAgent(TRANSITIONS), "catch/0", steps=300, on="processes", actors=1)
    assert "in act" in "".join(traceback.format_exception(caught.value))


class Crashes(Odd):
    """Ends its process at its first step."""

    def step(self, action: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)


class Leaves(Odd):
    """Ends its process at its first step, as if it had succeeded."""

    def step(self, action: Any) -> Any:
        os._exit(0)


def test_workers_that_end_with_code_0_during_a_run_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relive.rl._workers, "_MAX_ENDS", 1)
    with pytest.raises(RuntimeError, match="worker 0 ended 2 times in a row .* with exit code 0"):
        rl.run(Agent(TRANSITIONS), Leaves, steps=300, on="processes", actors=1)


def test_workers_that_end_before_working_are_not_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    # Simulates a process that takes a minute to start.
    begun = time.monotonic()
    monkeypatch.setattr(relive.rl._workers, "_MAX_ENDS", 1)
    with pytest.raises(RuntimeError, match=r"worker 0 ended 2 times in a row within 10 s of its start, the last time with signal 9"):
        rl.run(Agent(TRANSITIONS), MakeCrashing(), steps=300, on="processes", actors=1)
    assert time.monotonic() - begun < 120


class MakeCrashing:
    def __call__(self, *_: Any) -> Any:
        return Crashes()


class NanLearner:
    def __init__(self, name: str, at: int) -> None:
        self.name, self.at, self.calls = name, at, 0

    def learn(self, batch: Any) -> Any:
        self.calls += 1
        return {self.name: np.nan if self.calls == self.at else 1.0}

    def weights(self) -> Any:
        return {"sum": np.zeros(1)}


class NanAgent(Agent):
    metric = "actor_loss"

    def learner(self, spec: Any, seed: int) -> Any:
        return NanLearner(self.metric, 3)


@pytest.mark.parametrize("actors", [0, 1])
def test_a_nan_loss_ends_the_run(actors: int) -> None:
    with pytest.raises(RuntimeError, match=r'NanLearner.learn\(\) returned NaN for "actor_loss" at learner step 3: learning has diverged'):
        rl.run(NanAgent(rl.Rollouts(steps=5, environments=1)), "catch/0", steps=200, actors=actors)
    other = NanAgent(rl.Rollouts(steps=5, environments=1))
    other.metric = "explained_variance"
    assert rl.run(other, "catch/0", steps=50).is_complete


def test_checkpoints_of_another_run_are_refused_naming_the_argument(tmp_path: Any) -> None:
    class Saved(Agent):
        pass

    rl.run(Saved(TRANSITIONS), "catch/0", steps=50, checkpoint_dir=tmp_path / "run")
    with pytest.raises(ValueError, match=r"another folder for checkpoints to begin a new run \(checkpoint_dir=\)$"):
        rl.run(Saved(TRANSITIONS), "catch/0", steps=50, seed=7, checkpoint_dir=tmp_path / "run")
