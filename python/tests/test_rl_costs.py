"""The costs of a run, and its predicted speed on a cluster."""

from __future__ import annotations

import json
import pathlib

import pytest

from relive import rl


def test_costs_are_measured_saved_and_used_for_predictions(tmp_path: pathlib.Path) -> None:
    agent = rl.PPO(num_envs=2, num_steps=16, hidden=(8,))
    costs = rl.Costs.measure(agent, "CartPole-v1", seconds=0.3)
    measured = costs.as_dict()
    assert (measured["agent"], measured["environment"], measured["rows"]) == ("ppo", "CartPole-v1", 2)
    assert measured["learner_s"] > 0.0 and 24.0 <= measured["round"] <= 32.0
    costs.save(tmp_path / "costs.json")
    again = rl.Costs.load(tmp_path / "costs.json")
    assert again.as_dict()["settings"] == measured["settings"]
    # In JSON, seconds have one digit less than full precision.
    assert again.predict(actors=4).env_steps_per_s == pytest.approx(costs.predict(actors=4).env_steps_per_s)
    few, many = (again.predict(actors=actors, envs=64, nodes=actors) for actors in (1, 16))
    assert many.env_steps_per_s > few.env_steps_per_s > 0.0
    assert "rounds" in many.bottleneck and max(many.uses.values()) == pytest.approx(1.0)


def test_invalid_costs_are_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="seconds must be above 0"):
        rl.Costs.measure(rl.PPO(), "CartPole-v1", seconds=0.0)
    with pytest.raises(FileNotFoundError):
        rl.Costs.load(tmp_path / "none.json")
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(ValueError, match="missing field"):
        rl.Costs.load(tmp_path / "other.json")


def test_invalid_clusters_are_refused() -> None:
    acting = [{"rows": 1, "act_s": 1e-5, "step_s": 1e-6}]
    weights = {"bytes": 1e3, "publish_s": 0.0, "fetch_s": 0.0, "serve_s": 0.0, "fetched": 0.0}
    zeros = dict.fromkeys(("send_s", "connection_s", "pause_s", "learner_s", "serve_s", "learner_steps", "round_pause_s", "sent_bytes"), 0.0)
    told = {"version": 1, "agent": "dqn", "environment": "catch/0", "settings": {}, "host": "here", "processors": 2.0, "rows": 1}
    costs = rl.Costs(json.dumps(told | zeros | {"acting": acting, "round": None, "tables": [], "weights": weights}))
    prediction = costs.predict(actors=1)
    assert prediction.env_steps_per_s == pytest.approx(1 / 1.1e-5) and prediction.bottleneck == "the workers"
    with pytest.raises(ValueError, match="envs is 1"):
        costs.predict(actors=2, envs=1)
    with pytest.raises(ValueError, match="network"):
        costs.predict(actors=2, network=0.0)
