"""Runs in environments that Gymnasium has under a name."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from relive import rl


class Corridor(gymnasium.Env[Any, Any]):
    """Episodes of three steps, each with a reward of 1."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space: spaces.Space[Any] = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self._steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self._steps += 1
        return np.zeros(2, np.float32), 1.0, self._steps == 3, False, {}


gymnasium.register("relive_tests/Corridor-v0", entry_point=Corridor)

NAME = "relive_tests/Corridor-v0"


def agent() -> rl.DQN:
    return rl.DQN(batch_size=4, min_replay_size=8)


@pytest.mark.parametrize("options", [{}, {"on": "threads", "actors": 2, "evaluate_every": 30}], ids=["serial", "threads"])
def test_a_run_creates_the_environments_by_name(options: dict[str, Any]) -> None:
    result = agent().train(NAME, steps=60, **options)
    assert set(result.episodes.returns) == {3.0}
    assert result.env_steps >= 60


def test_worker_processes_import_the_module_in_the_name() -> None:
    result = agent().train(f"{__name__}:{NAME}", steps=60, on="processes", actors=2)
    assert set(result.episodes.returns) == {3.0}


def test_a_resumed_run_recognizes_its_environment(tmp_path: Any) -> None:
    folder = str(tmp_path / "run")
    agent().train(NAME, steps=60, checkpoint_dir=folder)
    assert agent().train(f"{__name__}:{NAME}", steps=120, checkpoint_dir=folder).env_steps >= 120
    assert agent().train(gymnasium.make(NAME), steps=180, checkpoint_dir=folder).env_steps >= 180
    with pytest.raises(ValueError, match="Corridor"):
        agent().train("catch/0", steps=240, checkpoint_dir=folder)


def test_policies_are_evaluated_by_name() -> None:
    evaluation = rl.evaluate(lambda _: 1, NAME, episodes=2)
    assert evaluation.lengths.tolist() == [3, 3]
    assert evaluation.normalized_score is None


def test_a_native_environment_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise AssertionError("CartPole-v1 is native")

    monkeypatch.setattr(gymnasium, "make", fail)
    assert agent().train("CartPole-v1", steps=40).env_steps >= 40


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("CartPole-v77", "Gymnasium has no environment 'CartPole-v77': .*version `v77`.* either: .*got CartPole-v77"),
        ("relive_tests/Coridor-v0", "Did you mean: `Corridor`"),
        ("no_such_module:Corridor-v0", "no_such_module"),
        (".relative:Corridor-v0", "if a module registers it, name the module first"),
        ("catch/99", r"^(environment: )?(?!.*Gymnasium).*catch/0 to catch/19"),
        ("", "expected an id of bsuite"),
    ],
)
def test_unknown_names_are_refused(name: str, reason: str) -> None:
    for use in (lambda: agent().train(name, steps=10), lambda: rl.evaluate(lambda _: 1, name)):
        with pytest.raises(ValueError, match=reason):
            use()


def test_without_gymnasium_only_native_names_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(ValueError, match="expected an id of bsuite") as caught:
        agent().train(NAME, steps=10)
    assert "either" not in str(caught.value)
