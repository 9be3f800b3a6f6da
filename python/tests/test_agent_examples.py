"""The agents of examples/python/agents learn in short runs, and produce the same results when they are resumed."""

from __future__ import annotations

import importlib.util
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from relive import rl
from relive.rl import recorded

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python" / "agents"


def example(name: str) -> Any:
    """Imports an example as a module with a unique name."""
    known = f"example_agent_{name}"
    if known not in sys.modules:
        spec = importlib.util.spec_from_file_location(known, FOLDER / f"{name}.py")
        assert spec is not None and spec.loader is not None
        sys.modules[known] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[known])
    return sys.modules[known]


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pathlib.Path]:
    """Recordings of catch: one by an expert, and one by a random policy."""
    folder, environment, rng = tmp_path_factory.mktemp("data"), rl.make("catch/0", seed=1), np.random.default_rng(1)

    def catch(observation: Any) -> int:
        ball = int(observation[:-1].sum(0).argmax()) if observation[:-1].any() else int(observation[-1].argmax())
        return int(np.sign(ball - int(observation[-1].argmax()))) + 1

    recorded.save(folder / "expert", [recorded.play(environment, catch) for _ in range(30)])
    recorded.save(folder / "random", [recorded.play(environment, lambda _: int(rng.integers(3))) for _ in range(1000)])
    return {"bc": folder / "expert", "decision_transformer": folder / "random"}


SMALL = rl.Transitions(batch_size=64, min_size=300)
EPISODES = rl.Sequences(length=10, batch_size=16, samples_per_insert=16, min_size=50)

# Short runs: the agent, its environment, the steps, and the return to reach.
SHORT: dict[str, tuple[Any, str, int, float]] = {
    "dqn": (lambda m: m.DQN(width=32, epsilon=0.1), "catch/0", 2500, 0.4),
    "ppo": (lambda m: m.PPO(width=32), "CartPole-v1", 16_000, 100.0),
    "ppo_jax": (lambda m: m.PPO(width=32), "CartPole-v1", 16_000, 100.0),
    "sac": (lambda m: m.SAC(width=64, learning_rate=3e-3, experience=SMALL), "Pendulum-v1", 5000, -500.0),
    "r2d2": (lambda m: m.R2D2(width=32), "memory_len/3", 2500, 0.7),
    "bc": (lambda m: m.BC(width=32), "catch/0", 300, 0.8),
    # The world model's actor takes longer to learn; the model has a separate test.
    "world_model": (lambda m: m.Dreamer(width=64, horizon=3, experience=EPISODES), "catch/0", 2500, -1.0),
    "decision_transformer": (lambda m: m.DecisionTransformer(width=32, layers=1), "catch/0", 250, 0.7),
}


def test_every_example_is_tested() -> None:
    assert sorted(SHORT) == sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "command")


def run(name: str, steps: int, data: dict[str, pathlib.Path], **options: Any) -> Any:
    make, environment, *_ = SHORT[name]
    how = {"learner_steps": steps, "data": data[name]} if name in data else {"steps": steps}
    return rl.run(make(example(name)), environment, seed=1, on="serial", **how, **options)


class Losses:
    """A logger that stores the reports from the world model's learner."""

    def __init__(self) -> None:
        self.values: list[float] = []

    def write(self, label: str, values: Any) -> None:
        if label == "learner":
            self.values.append(values["model_loss"])

    def close(self) -> None:
        pass


def test_the_world_model_explains_more_as_it_learns(data: dict[str, pathlib.Path]) -> None:
    losses = Losses()
    run("world_model", 2500, data, loggers=[losses])
    # The learner reports at least once a second, so a slow machine reports more often.
    assert len(losses.values) >= 2 and losses.values[-1] < 0.95 * losses.values[0]


@pytest.mark.parametrize("name", sorted(SHORT.keys() - {"world_model"}))
def test_an_example_agent_learns(name: str, data: dict[str, pathlib.Path]) -> None:
    _, _, steps, least = SHORT[name]
    result = run(name, steps, data, evaluate_every=steps, evaluation_episodes=20)
    # SAC's sampled actions are good earlier than its mean actions.
    returns = result.episodes.returns[-3:] if name == "sac" else result.evaluation.returns
    assert returns.mean() > least


# Numbers of steps: where the run is interrupted, and where it ends.
PARTS = {"ppo": (1100, 3000), "ppo_jax": (1100, 3000), "dqn": (1100, 1300), "sac": (400, 600), "r2d2": (900, 1100), "bc": (15, 40), "world_model": (500, 600)}


@pytest.mark.parametrize("name", sorted(SHORT))
def test_a_resumed_example_gives_identical_results(name: str, data: dict[str, pathlib.Path], tmp_path: pathlib.Path) -> None:
    part, whole = PARTS.get(name, (6, 12))

    def policy(folder: str, *parts: int) -> bytes:
        for steps in parts:
            result = run(name, steps, data, checkpoint_dir=tmp_path / folder, checkpoint_every=part)
            assert result.learner_steps > 0
        return bytes(result.policy.to_bytes())

    one = policy("whole", whole)
    assert one == policy("parts", part, whole) and one == policy("again", whole)


def test_examples_record_episodes_of_environments_of_gymnasium(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    name = "FrozenLake-v1"
    example("bc").record_expert(name, 1, str(tmp_path / "bc"), steps=1000, episodes=2)
    example("decision_transformer").record_anything(name, 1, str(tmp_path / "transformer"), episodes=2)
    assert [len(list(recorded.load(tmp_path / folder))) for folder in ("bc", "transformer")] == [2, 2]


def test_the_help_of_an_example_describes_it() -> None:
    done = subprocess.run([sys.executable, FOLDER / "bc.py", "--help"], capture_output=True, text=True, check=True)
    assert "Behavioral cloning of recorded episodes in PyTorch" in done.stdout and "--data" in done.stdout


def test_a_minibatch_of_one_step_has_an_advantage() -> None:
    ppo = example("ppo")
    made = ppo.Learner(ppo.PPO(width=8), rl.make_environment_spec(rl.make("CartPole-v1")), 1)
    one = {"observations": torch.zeros(1, 4), "drawn": torch.zeros(1), **{name: torch.zeros(1) for name in ("log_prob", "advantages", "returns")}}
    assert np.isfinite(made.minibatch(**one))


def test_the_latents_of_the_world_model_are_mixed_only_once() -> None:
    module = example("world_model")
    made = module.Learner(module.Dreamer(width=8), rl.make_environment_spec(rl.make("catch/0")), 1)
    logits = torch.zeros(1, made.module.groups**2)
    logits[:, :: made.module.groups] = 100.0
    expected, found = made.module.latents(-logits), made.module.latents(logits)
    distance = torch.distributions.kl_divergence(found, expected)
    assert distance > 1.0
    torch.testing.assert_close(made.balanced(expected, found), 0.6 * distance)
