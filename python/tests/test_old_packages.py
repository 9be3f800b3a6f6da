"""Errors that name packages which are too old or not installed, and names that packages refuse."""

from __future__ import annotations

import sys
import types
from typing import Any

import gymnasium
import pytest

from relive import rl
from relive.rl import loggers, vector


class UndeclaredVector:
    """A vector that does not say how it resets, as in old versions of Gymnasium."""

    num_envs, metadata = 2, {"render_modes": []}

    def __init__(self) -> None:
        self.single_observation_space = self.observation_space = gymnasium.spaces.Box(0, 1, (1,))
        self.single_action_space = self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, **_: Any) -> Any: ...

    def step(self, _: Any) -> Any: ...

    def close(self) -> None: ...


def test_an_old_gymnasium_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gymnasium, "__version__", "1.1.1")
    told = "^Gymnasium 1.1.1 is installed, but vectors and native environments require 1.2.2 or newer"
    with pytest.raises(ImportError, match=told):
        rl.as_gymnasium(rl.make("catch/0"))
    with pytest.raises(ImportError, match=told):
        vector.ProcessVectorEnv([lambda: gymnasium.make("CartPole-v1")])
    with pytest.raises(ImportError, match=told):
        rl.run(rl.DQN(), lambda seed: UndeclaredVector(), steps=10)
    for newer in ("1.2.2", "1.10.0a1", "2.0"):
        monkeypatch.setattr(gymnasium, "__version__", newer)
        rl.as_gymnasium(rl.make("catch/0"))


def test_names_of_gymnasiums_environments_require_gymnasium(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(ValueError, match="LunarLander-v3.*Gymnasium is not installed: pip install gymnasium"):
        rl.DQN().train("LunarLander-v3", steps=10)


def test_names_of_metrics_are_names_for_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    logged: dict[str, float] = {}
    module = types.ModuleType("mlflow")
    monkeypatch.setattr(module, "log_metrics", lambda metrics, step: logged.update(metrics), raising=False)
    monkeypatch.setitem(sys.modules, "mlflow", module)
    loggers.MLflow().write("learner", {"env_steps": 3, "q[0]": 1.0, "a%": 2.0, "mean-q.ä /:": 3.0})
    assert list(logged) == ["learner/env_steps", "learner/q_0_", "learner/a_", "learner/mean-q.ä /:"]
