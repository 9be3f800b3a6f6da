"""Faults of user-defined agents, and settings of runs and of experience that are refused."""

from __future__ import annotations

import pathlib
import traceback
from typing import Any

import numpy as np
import pytest
from own_agents import TRANSITIONS, Agent, RandomPolicy, SummingLearner

from relive import rl


class Broken:
    """An agent with one part replaced."""

    experience = rl.Rollouts(steps=4)

    def __init__(self, *, act: Any = None, learn: Any = None, weights: Any = None, experience: Any = None) -> None:
        self.replaced = {"act": act, "learn": learn, "weights": weights}
        self.experience = experience or self.experience

    def policy(self, spec: Any, context: rl.PolicyContext) -> Any:
        return self.with_replaced(RandomPolicy(context, 3), "act")

    def learner(self, spec: Any, seed: int) -> Any:
        return self.with_replaced(SummingLearner(), "learn", "weights")

    def with_replaced(self, part: Any, *names: str) -> Any:
        for name in names:
            if self.replaced[name] is not None:
                setattr(part, name, self.replaced[name])
        return part


EXTRAS = {"count": np.zeros(1, np.int64), "state": np.zeros((1, 2), np.float32)}


@pytest.mark.parametrize(
    ("broken", "kind", "text"),
    [
        (Broken(act=lambda *_: (np.zeros(2, np.int32), EXTRAS)), ValueError, r"RandomPolicy.act\(\): action: expected int32 \(1,\), got int32 \(2,\)"),
        (Broken(act=lambda *_: (np.zeros(1, np.float32), EXTRAS)), TypeError, r"action: expected int32 .*float32"),
        (Broken(act=lambda *_: (np.full(1, 7), EXTRAS)), ValueError, r"RandomPolicy.act\(\): action at `row 0`: expected a number from 0 to 2, got 7"),
        (Broken(act=lambda *_: np.zeros(1, np.int32)), TypeError, "RandomPolicy.act.. returned ndarray, but a policy with extras"),
        (Broken(act=lambda *_: (np.zeros(1, np.int32), {"count": EXTRAS["count"]})), ValueError, "returned the extras .'count'., but it has"),
        (
            Broken(act=lambda *_: (np.zeros(1, np.int32), {**EXTRAS, "state": np.array([[-np.inf, np.nan]], np.float32)})), ValueError,
            r"RandomPolicy.act\(\) returned NaN in its extras, element \[1\] of `state` in",
        ),
        (Broken(act=lambda *_: (None, EXTRAS)), TypeError, "RandomPolicy.act.. returned None for the actions"),
        (Broken(learn=lambda _: 3.0), TypeError, "SummingLearner.learn.. returned float"),
        (Broken(learn=lambda _: {"loss": "much"}), TypeError, "SummingLearner.learn.. returned 'much' for 'loss', but it must be a number"),
        (Broken(learn=lambda _: rl.Learnt(priorities=[1.0])), ValueError, "a rollout has none"),
        (
            Broken(learn=lambda _: rl.Learnt(priorities=[1.0]), experience=TRANSITIONS), ValueError,
            r"priorities of the shape \(1,\), but the batch has 8 items",
        ),
        (Broken(weights=lambda: {"a/b": np.zeros(2)}), TypeError, "the name 'a/b', but names must be non-empty strings without slashes"),
        (Broken(weights=lambda: {"a": "text"}), TypeError, "'text' at 'a', but weights must be arrays of numbers"),
        (Broken(weights=lambda: {"a": {"b": np.array([np.nan])}}), ValueError, "NaN or infinite numbers in 'a/b'"),
    ],
)
@pytest.mark.parametrize("actors", [0, 1])
def test_faults_of_an_agent_part_are_reported(broken: Any, kind: type[Exception], text: str, actors: int) -> None:
    with pytest.raises(kind, match=text):
        rl.run(broken, "catch/0", steps=200, actors=actors)


@pytest.mark.parametrize("part", ["act", "learn", "weights"])
@pytest.mark.parametrize("actors", [0, 2])
def test_exceptions_of_a_part_keep_their_traceback(part: str, actors: int) -> None:
    def fails_here(*_: Any) -> Any:
        raise LookupError("it went wrong")

    with pytest.raises(LookupError, match="it went wrong") as caught:
        rl.run(Broken(**{part: fails_here}, experience=rl.Rollouts(steps=4, environments=2)), "catch/0", steps=100, actors=actors)
    assert "fails_here" in "".join(traceback.format_exception(caught.value))


def test_an_agent_without_a_method_is_refused() -> None:
    class Half:
        experience = rl.Rollouts(steps=4)

        def policy(self, spec: Any, context: Any) -> Any:
            return object()

    with pytest.raises(TypeError, match=r"the agent is the class Half, but it must be an instance, such as Half\(\)"):
        rl.run(Half, "catch/0", steps=10)
    with pytest.raises(TypeError, match=r"Half cannot be an agent, because it has no method learner\(\)"):
        rl.run(Half(), "catch/0", steps=10)
    Half.learner = lambda self, spec, seed: SummingLearner()  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match=r"object cannot be a policy, because it has no method act\(\)"):
        rl.run(Half(), "catch/0", steps=10)
    Half.experience = "replay"  # type: ignore[assignment]
    with pytest.raises(TypeError, match=r"Half.experience is 'replay', but it must be rl.Rollouts"):
        rl.run(Half(), "catch/0", steps=10)


def test_a_learner_that_cannot_be_saved_is_refused_before_the_run(tmp_path: pathlib.Path) -> None:
    class Unsaved:
        learn = SummingLearner.learn
        weights = SummingLearner.weights

    agent = Agent(rl.Rollouts(steps=4))
    agent.learner = lambda spec, seed: Unsaved()  # type: ignore[method-assign]
    with pytest.raises(TypeError, match=r"Unsaved cannot be a learner of a run that is saved, because it has no method state\(\)"):
        rl.run(agent, "catch/0", steps=10, checkpoint_dir=tmp_path)


def test_an_unserializable_state_ends_the_run(tmp_path: pathlib.Path) -> None:
    agent = Broken()
    agent.learner = lambda spec, seed: agent.with_replaced(SummingLearner())  # type: ignore[method-assign]
    SummingLearner_state = SummingLearner.state
    try:
        SummingLearner.state = lambda self: {"a": object()}  # type: ignore[method-assign]
        with pytest.raises(TypeError, match=r"state\['a'\] is <object"):
            rl.run(agent, "catch/0", steps=200, checkpoint_dir=tmp_path, checkpoint_every=50)
    finally:
        SummingLearner.state = SummingLearner_state  # type: ignore[method-assign]
    # No checkpoint was saved, so the run can start after the error is fixed.
    assert rl.run(agent, "catch/0", steps=200, checkpoint_dir=tmp_path, checkpoint_every=50).env_steps >= 200


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"on": "processors"}, "on is 'processors', but it must be"),
        ({"on": "serial", "actors": 2}, "on='serial' does not support actors"),
        ({"on": "threads", "actors": 0}, "needs at least 1"),
    ],
)
def test_the_execution_place_of_a_run_is_checked(options: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        rl.run(Agent(TRANSITIONS), "catch/0", steps=10, **options)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: rl.Rollouts(steps=0), "steps"),
        (lambda: rl.Transitions(discount=1.5), "discount is 1.5, but it must be from 0 to 1"),
        (lambda: rl.Transitions(samples_per_insert=0), "samples_per_insert is 0, but it must be above 0"),
        (lambda: rl.Transitions(min_size=10, max_size=5), "max_size is 5, but it must be at least min_size, 10"),
        (lambda: rl.Transitions(priority_exponent=float("nan")), "priority_exponent is nan"),
        (lambda: rl.Sequences(length=5, period=0), "period"),
    ],
)
def test_settings_of_experience_are_checked(make: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make()
