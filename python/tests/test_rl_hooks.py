"""Hooks that observe learning, and the breakdown of a run's time."""

from __future__ import annotations

import pathlib
import time
from typing import Any

import numpy as np
import pytest
from own_agents import Agent

from relive import rl

SMALL: dict[str, Any] = {"batch_size": 16, "samples_per_insert": 4.0, "min_replay_size": 50, "hidden": (8,), "n_step": 3}


@pytest.mark.parametrize("actors", [0, 2])
def test_on_step_gets_steps_as_they_are_made(actors: int) -> None:
    seen: list[rl.Rollout] = []
    result = rl.DQN(**SMALL).train("catch/0", steps=300, actors=actors, on_step=seen.append)
    steps = sum(int((~rollout.starts).sum()) for rollout in seen)
    # With actors, some steps may still be in flight.
    assert steps >= result.env_steps if actors else steps == result.env_steps
    assert {rollout.observations.shape for rollout in seen} == {(2, 1, 10, 5)}
    assert sum(rollout.rewards.sum() for rollout in seen) >= result.episodes.returns.sum() - actors
    following = [rollout.observations[0] for rollout in seen[1:]]
    assert actors or all(np.array_equal(rollout.observations[1], first) for rollout, first in zip(seen, following, strict=False))


def test_on_batch_gets_batches_with_learner_metrics() -> None:
    seen: list[tuple[Any, dict[str, float]]] = []
    result = rl.DQN(**SMALL).train("catch/0", steps=300, on_batch=lambda *batch: seen.append(batch))
    assert len(seen) == result.learner_steps > 10
    batch, figures = seen[0]
    assert batch.data["observation"].shape == (16, 10, 5) and batch.weights(0.5).shape == (16,)
    discounts = {round(float(discount), 6) for batch, _ in seen for discount in batch.data["discount"]}
    assert discounts <= {0.0, *(round(0.99**steps, 6) for steps in (1, 2, 3))} and round(0.99**3, 6) in discounts
    assert figures["loss"] > 0


def test_on_batch_gets_discounts_with_all_powers() -> None:
    def discounts_of(agent: Any) -> set[float]:
        seen: list[float] = []
        rl.run(agent, "catch/0", steps=200, on_batch=lambda batch, _: seen.extend(batch.data["discount"].tolist()))
        return {round(discount, 6) for discount in seen}

    expected = {0.0, *(round(0.5**steps, 6) for steps in (1, 2))}
    own = Agent(rl.Transitions(batch_size=32, min_size=50, n_step=2, discount=0.5))
    # Attributes of custom agents have any meaning.
    own.config = {"discount": 0.9}  # type: ignore[attr-defined]
    named = rl.Rainbow(n_step=2, discount=0.5, min_replay_size=50)
    assert discounts_of(own) == discounts_of(named) == expected


def test_agents_without_a_table_show_rollouts() -> None:
    seen: list[Any] = []
    agent = rl.PPO(num_steps=16, num_envs=2)
    result = agent.train("CartPole-v1", steps=100, on_batch=lambda rollout, figures: seen.append((rollout, figures)))
    assert len(seen) == 4 and result.learner_steps > 0
    for rollout, figures in seen:
        assert rollout.observations.shape == (17, 2, 4) and rollout.rewards.shape == (16, 2) and figures


def test_on_batch_gets_sequences_and_mixtures() -> None:
    seen: list[Any] = []
    rl.R2D2(min_replay_size=10, batch_size=4).train("catch/0", steps=300, on_batch=lambda batch, _: seen.append(batch))
    assert "start_of_episode" in seen[0].data and seen[0].lengths is not None
    pairs: list[Any] = []
    demonstrations = {"ratio": 0.25, "folder": None, "episodes": 3}
    agent = rl.DQN(**SMALL, demonstrations=demonstrations)
    agent.train("deep_sea/0", steps=100, on_batch=lambda batch, _: pairs.append(batch))
    assert [len(batch.info.key) for batch in pairs[0]] == [12, 4]


def test_hooks_do_not_change_the_run() -> None:
    def run(**hooks: Any) -> Any:
        return rl.DQN(**SMALL).train("catch/0", steps=400, **hooks).episodes.returns.tolist()

    def spoil(seen: Any, *_: Any) -> None:
        for array in (seen.rewards, seen.observations) if isinstance(seen, rl.Rollout) else seen.data.values():
            array[:] = 0

    assert run() == run(on_step=spoil, on_batch=spoil)


@pytest.mark.parametrize("actors", [0, 2])
@pytest.mark.parametrize("hook", ["on_step", "on_batch"])
def test_an_exception_in_a_hook_ends_the_run(hook: str, actors: int) -> None:
    def fail(*_: Any) -> None:
        raise LookupError("not this one")

    hooks: Any = {hook: fail}
    with pytest.raises(LookupError, match="not this one"):
        rl.DQN(**SMALL).train("catch/0", steps=10_000_000, actors=actors, **hooks)


@pytest.mark.parametrize(
    ("agent", "options", "kind", "text"),
    [
        (rl.DQN(), {"on_step": 3}, TypeError, "on_step is 3, but it must be a function"),
        (rl.A3C(), {"on_batch": print}, ValueError, "on_batch is a function, but it must be none for an agent whose workers learn"),
        (rl.DQN(), {"on_step": print, "on": "processes"}, ValueError, "on_step is a function, but it must be none if the workers are "
                                                                      "processes"),
    ],
)
def test_invalid_hooks_are_refused(agent: Any, options: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        agent.train("catch/0", steps=1_000, **options)


def test_a_run_reports_its_time_by_part(tmp_path: pathlib.Path) -> None:
    begun = time.perf_counter()
    options: Any = {"checkpoint_dir": tmp_path, "evaluate_every": 200, "evaluation_episodes": 2}
    result = rl.DQN(**SMALL, priority_exponent=0.5).train("catch/0", steps=400, checkpoint_every=200, **options)
    parts = {"act", "step", "add", "sample", "learn", "priorities", "weights", "evaluate", "save"}
    assert result.time_by_part.keys() == parts
    assert 0 < sum(result.time_by_part.values()) < time.perf_counter() - begun
    again = result.resume(steps=800)
    assert all(again.time_by_part[part] > result.time_by_part[part] for part in parts)


def test_agents_without_a_table_report_no_table_time() -> None:
    result = rl.PPO(num_steps=16, num_envs=2).train("CartPole-v1", steps=200, actors=2)
    assert result.time_by_part.keys() == {"act", "step", "learn", "weights"}


def test_a3c_counts_the_learner_steps_of_its_workers() -> None:
    assert rl.A3C().train("catch/0", steps=300, actors=2).time_by_part["learn"] > 0
