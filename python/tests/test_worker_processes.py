"""Runs with Python processes as workers."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
import traceback
from typing import Any

import numpy as np
import pytest
from own_agents import TRANSITIONS, Agent, RandomPolicy

import relive.flow
import relive.ray
from relive import rl


class FailingPolicy(RandomPolicy):
    def act(self, observations: Any, starts: Any) -> Any:
        raise LookupError("this policy cannot act")


class FailingAgent(Agent):
    def policy(self, spec: rl.EnvironmentSpec, context: rl.PolicyContext) -> Any:
        return (FailingPolicy if context.of == 2 else RandomPolicy)(context, spec.actions.num_values)


class Catch:
    """Catch as a Python environment that records its process."""

    def __init__(self, seed: int) -> None:
        self._inner = rl.make("catch/0", seed=seed)
        self.observation_spec, self.action_spec = self._inner.observation_spec, self._inner.action_spec

    def reset(self) -> Any:
        return self._inner.reset()

    def step(self, action: Any) -> Any:
        return self._inner.step(action)


class KilledOnce(Catch):
    """An environment that kills its process when episode five ends for the first time."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.seed, self.ended = seed, 0

    def step(self, action: Any) -> Any:
        answer = super().step(action)
        self.ended += answer.last()
        marker = os.environ["KILLED_ONCE"]
        if answer.last() and self.ended == 5:
            is_first = not os.path.exists(marker)
            with open(marker, "a") as seeds:
                print(self.seed, file=seeds)
            if is_first:
                os.kill(os.getpid(), signal.SIGKILL)
        return answer


@pytest.mark.parametrize("experience", [rl.Rollouts(steps=10, environments=2), TRANSITIONS])
@pytest.mark.parametrize("env", ["catch/0", Catch])
def test_workers_act_for_custom_agents(experience: Any, env: Any) -> None:
    agent = Agent(experience)
    result = rl.run(agent, env, steps=300, on="processes", actors=2)
    assert result.is_complete and result.env_steps >= 300 and result.learner_steps == len(agent.batches()) > 0
    # Without waits between workers, the first worker may finish before the second starts.
    assert set(result.episodes.actors) == {0, 1} if isinstance(experience, rl.Rollouts) else set(result.episodes.actors) <= {0, 1}
    # The result's policy is the only policy in this process with weights.
    assert sum(isinstance(made, RandomPolicy) and made.loaded is not None for made in agent.made) == 1


def test_an_on_policy_run_matches_the_results_with_threads() -> None:
    runs = []
    for on in ("threads", "processes"):
        agent = Agent(rl.Rollouts(steps=10, environments=2))
        rl.run(agent, "catch/0", steps=200, on=on, actors=2)  # type: ignore[arg-type]
        runs.append(np.concatenate([rollout.observations for rollout in agent.batches()]))
    assert np.array_equal(*runs)


def test_agents_in_rust_act_in_environments_of_python_in_processes() -> None:
    result = rl.run(rl.DQN(batch_size=16, min_replay_size=50), Catch, steps=300, on="processes")
    assert result.is_complete and set(result.episodes.actors) <= {0, 1}


def test_an_exception_in_a_worker_is_raised_with_its_traceback() -> None:
    with pytest.raises(LookupError, match="this policy cannot act") as caught:
        rl.run(FailingAgent(rl.Rollouts(steps=10, environments=2)), "catch/0", steps=300, on="processes", actors=2)
    assert "in act" in "".join(traceback.format_exception(caught.value))


def test_a_killed_worker_is_restarted_with_other_seeds(tmp_path: Any, monkeypatch: Any, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("KILLED_ONCE", str(tmp_path / "marker"))
    result = rl.run(Agent(TRANSITIONS), KilledOnce, steps=400, on="processes", actors=1)
    assert result.is_complete and result.env_steps >= 400
    assert "worker 0 ended with signal 9: restarting it" in caplog.text
    seed, seed_after_restart = (tmp_path / "marker").read_text().split()
    assert seed == "1" and seed_after_restart != seed


def test_no_worker_outlives_its_run(capfd: Any) -> None:
    import multiprocessing

    started = time.monotonic()
    rl.run(Agent(TRANSITIONS), "catch/0", steps=100, on="processes", actors=2)
    assert multiprocessing.active_children() == [] and time.monotonic() - started < 60
    # A worker does not report a loss because the run is over.
    assert "confirmed" not in capfd.readouterr().err


class Recording(Agent):
    """An agent that records the processes of its learners."""

    def learner(self, spec: rl.EnvironmentSpec, seed: int) -> Any:
        with open(os.environ["LEARNERS"], "a") as processes:
            print(os.getpid(), file=processes)
        return super().learner(spec, seed)


@pytest.mark.parametrize("experience", [rl.Rollouts(steps=10, environments=2), TRANSITIONS])
def test_workers_create_no_learner(experience: Any, tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("LEARNERS", str(tmp_path / "learners"))
    rl.run(Recording(experience), "catch/0", steps=100, on="processes", actors=2)
    assert set((tmp_path / "learners").read_text().split()) == {str(os.getpid())}


@pytest.mark.parametrize("agent", [rl.PPO(num_envs=4, num_steps=8), rl.DQN(min_replay_size=20, batch_size=8)], ids=repr)
def test_a_serial_run_is_resumed_in_threads_and_back(agent: Any, tmp_path: Any) -> None:
    result = rl.run(agent, "catch/0", steps=100, checkpoint_dir=str(tmp_path))
    for steps, options in ((200, {"on": "threads", "actors": 2}), (300, {"on": "serial", "actors": 0})):
        result = result.resume(steps, **options)
        assert result.is_complete and result.env_steps >= steps


@pytest.mark.parametrize(
    ("agent", "env", "what"),
    [(Agent(TRANSITIONS), lambda seed: Catch(seed), "environment"), (Agent(TRANSITIONS, made=[lambda: None]), Catch, "agent")],
)
def test_unpicklable_arguments_are_refused(agent: Any, env: Any, what: str) -> None:
    with pytest.raises(TypeError, match=f"on='processes' sends the {what} to other processes, but it cannot be pickled"):
        rl.run(agent, env, steps=100, on="processes")


def test_a_run_on_ray_requires_ray(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match="on='ray' requires Ray: pip install ray"):
        rl.run(Agent(TRANSITIONS), "catch/0", steps=100, on="ray", actors=1)


def test_shards_of_a_flow_are_not_grouped_into_nodes() -> None:
    for workers in (relive.ray.Workers(workers_per_node=4), relive.ray.Workers(workers_per_node=4, strategy="PACK")):
        with pytest.raises(ValueError, match="workers_per_node is 4, but each shard is its own Ray actor"):
            relive.flow.from_items([1], on=workers)


def test_invalid_execution_places_are_refused() -> None:
    with pytest.raises(ValueError, match="'learner' does not appear to be an IPv4 or IPv6 address"):
        relive.ray.Workers(host="learner")
    with pytest.raises(ValueError, match=r"must be 'serial', 'threads', 'processes', 'ray' or a relive\.ray\.Workers"):
        rl.run(Agent(TRANSITIONS), "catch/0", steps=100, on="cluster")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="on='ray' needs at least 1"):
        rl.run(Agent(TRANSITIONS), "catch/0", steps=100, on="ray", actors=0)


@pytest.mark.parametrize("agent", [rl.IMPALA(), rl.R2D2(), rl.TD3(), rl.ApeX(n_step=2)], ids=repr)
def test_agents_created_by_name_can_be_pickled(agent: Any) -> None:
    again = pickle.loads(pickle.dumps(agent))
    assert type(again) is type(agent) and dict(again.settings) == dict(agent.settings)


def test_a_named_agent_acts_in_processes() -> None:
    assert rl.run(rl.IMPALA(), "catch/0", steps=500, on="processes", actors=1).is_complete
