"""Agents learn from a store: Python agents from the batches of its loader, Rust agents from its trajectories as a data
set."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
from relive import errors, gpu, rl
from relive.rl import recorded


def expert(observation: Any) -> int:
    """Moves the paddle, which is in the last row, below the ball."""
    ball = int(observation[:-1].sum(0).argmax()) if observation[:-1].any() else int(observation[-1].argmax())
    return int(np.sign(ball - int(observation[-1].argmax()))) + 1


def store(**options: Any) -> gpu.Store:
    environment = rl.make("catch/0", seed=1)
    return gpu.Store.of_dataset([recorded.play(environment, expert) for _ in range(40)], weight="length", **options)


NOW = {"observations": gpu.Window(), "actions": gpu.Window()}


class Policy:
    def __init__(self) -> None:
        self.matrix = np.zeros((51, 3))

    def act(self, observations: Any, starts: Any) -> Any:
        return (features(observations) @ self.matrix).argmax(1)

    def load(self, weights: Any) -> None:
        self.matrix = weights["matrix"]


def features(observations: Any) -> Any:
    flat = observations.reshape(len(observations), -1).astype(np.float64)
    return np.concatenate([flat, np.ones((len(flat), 1))], 1)


class Cloning:
    """Logistic regression on the recorded actions, which is enough to catch some balls."""

    def __init__(self, priorities: bool = False) -> None:
        self.priorities, self.batches = priorities, []
        self.matrix = np.zeros((51, 3))

    def policy(self, spec: Any, context: Any) -> Policy:
        return Policy()

    def learner(self, spec: Any, seed: int) -> Cloning:
        self.matrix = np.zeros((51, 3))
        return self

    def learn(self, batch: gpu.Batch) -> Any:
        self.batches.append((batch.indices.tolist(), batch.steps.tolist()))
        inputs, actions = features(batch.data["observations"][:, 0]), batch.data["actions"][:, 0]
        logits = inputs @ self.matrix
        chances = np.exp(logits - logits.max(1, keepdims=True))
        chances /= chances.sum(1, keepdims=True)
        loss = -np.log(chances[np.arange(len(actions)), actions])
        chances[np.arange(len(actions)), actions] -= 1
        self.matrix = self.matrix - 0.5 * inputs.T @ chances / len(actions)
        metrics = {"loss": float(loss.mean())}
        return rl.Learnt(metrics, priorities=np.full(len(actions), 7.0)) if self.priorities else metrics

    def weights(self) -> Any:
        return {"matrix": self.matrix}

    def state(self) -> Any:
        return {"matrix": self.matrix}

    def restore(self, state: Any) -> None:
        self.matrix = state["matrix"]


def test_an_agent_learns_from_a_loader() -> None:
    with store() as made, made.loader(64, NOW, sampling="weighted", seed=3) as loader:
        agent = Cloning()
        result = rl.run(agent, "catch/0", data=loader, learner_steps=400, evaluate_every=400, evaluation_episodes=50, progress=False)
        assert len(agent.batches) == result.learner_steps == 400
        assert result.evaluation.returns[-50:].mean() > 0.5
        assert result.env_steps == 0


def test_priorities_are_written_back_to_the_store() -> None:
    with store() as made, made.loader(8, NOW, sampling="prioritized", seed=3, prefetch=0) as loader:
        agent = Cloning(priorities=True)
        rl.run(agent, "catch/0", data=loader, learner_steps=5, progress=False)
        drawn = sorted({index for indices, _ in agent.batches for index in indices})
        assert np.flatnonzero(made.weights() == 7.0).tolist() == drawn


def test_a_run_resumes_with_the_same_batches(tmp_path: pathlib.Path) -> None:
    with store() as made:
        straight, first, second = Cloning(), Cloning(), Cloning()
        for agent, steps, folder in ((straight, 40, "a"), (first, 25, "b"), (second, 40, "b")):
            with made.loader(16, NOW, seed=4) as loader:
                rl.run(agent, "catch/0", data=loader, learner_steps=steps, checkpoint_dir=tmp_path / folder, progress=False)
        assert first.batches + second.batches == straight.batches
        np.testing.assert_array_equal(second.matrix, straight.matrix)


class ByLoss(Cloning):
    """Sets the priority of each trajectory to the loss of its step."""

    def learn(self, batch: gpu.Batch) -> Any:
        before = self.matrix
        metrics = super().learn(batch)
        changed = np.abs(self.matrix - before).sum()
        return rl.Learnt(metrics, priorities=batch.steps + 1.0 + changed)


def test_a_prioritized_run_resumes_identically_on_a_new_store(tmp_path: pathlib.Path) -> None:
    straight, first, second = ByLoss(), ByLoss(), ByLoss()
    ends = []
    for agent, steps, folder in ((straight, 40, "a"), (first, 25, "b"), (second, 40, "b")):
        # As in a new process, the store is recreated with its initial weights.
        with store() as made, made.loader(16, NOW, sampling="prioritized", seed=4) as loader:
            rl.run(agent, "catch/0", data=loader, learner_steps=steps, checkpoint_dir=tmp_path / folder, progress=False)
            ends.append(made.weights())
    assert first.batches + second.batches == straight.batches
    np.testing.assert_array_equal(second.matrix, straight.matrix)
    np.testing.assert_array_equal(ends[2], ends[0])


def test_restoring_a_state_on_other_trajectories_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    columns = {"x": "float32"}
    with gpu.Store(columns, capacity=4, max_steps=1) as made, gpu.Store(columns, capacity=4, max_steps=1) as other:
        for number in range(3):
            made.insert({"x": np.ones(1, np.float32)}, weight=number)
        with made.loader(2, {"x": gpu.Window()}, sampling="weighted", prefetch=0) as loader:
            state = loader.state()
            made.update_weights([0, 1, 2], [5.0, 6.0, 7.0])
            loader.restore(state)
        assert made.weights().tolist() == [0, 1, 2, 0] and not caplog.records, "a weight of 0 is one, too"
        for weight in (7.0, 7.0):
            other.insert({"x": np.ones(1, np.float32)}, weight)
        with other.loader(2, {"x": gpu.Window()}, sampling="weighted", prefetch=0) as loader:
            loader.restore(state)
        assert other.weights().tolist() == [0, 1, 0, 0]
        assert "of the 3 trajectories in its state, the store has 2, and it has 0 others" in caplog.text


def test_negative_priorities_are_refused() -> None:
    class Negative(Cloning):
        def learn(self, batch: gpu.Batch) -> Any:
            return rl.Learnt({}, priorities=np.full(8, -0.5))

    with store() as made, made.loader(8, NOW, sampling="prioritized") as loader:
        with pytest.raises(ValueError, match="the weight is -0.5"):
            rl.run(Negative(), "catch/0", data=loader, learner_steps=5, progress=False)
        assert (made.weights() == 9).all()


def test_incompatible_run_options_are_refused(tmp_path: pathlib.Path) -> None:
    with store() as made, made.loader(8, NOW) as loader:
        with pytest.raises(TypeError, match="give a data set, such as a relive.gpu.Store"):
            rl.run(rl.DQN(), "catch/0", data=loader, learner_steps=1)
        with pytest.raises(ValueError, match="on_batch"):
            rl.run(Cloning(), "catch/0", data=loader, learner_steps=1, on_batch=print)
        with pytest.raises(TypeError, match=r"without state\(\) and restore\(\)"):
            rl.run(Cloning(), "catch/0", data=iter([]), learner_steps=1, checkpoint_dir=tmp_path)
        with pytest.raises(ValueError, match="batches of a map have none"):
            rl.run(Cloning(priorities=True), "catch/0", data=map(lambda pair: pair[0], zip(loader, range(9))), learner_steps=1)


def test_an_error_of_the_store_ends_the_run() -> None:
    with store() as made, made.loader(8, NOW) as loader:
        made.update_weights(np.arange(40), np.zeros(40))
        with pytest.raises(errors.UnavailableError, match="0 have a weight above 0"):
            rl.run(Cloning(), "catch/0", data=loader, learner_steps=1)


def test_a_store_is_a_data_set() -> None:
    with store() as made:
        arrays = rl.arrays_of(made)
        assert arrays["terminals"].sum() == 40 and not arrays["timeouts"].any()
        assert len(arrays["actions"]) == sum(made.status(index).length for index in range(40))
        result = rl.run(rl.DQN(), "catch/0", data=made, learner_steps=50, progress=False)
        assert result.learner_steps == 50


def test_an_unterminated_trajectory_ends_by_truncation() -> None:
    columns = {"observations": "float32", "actions": "int64", "rewards": "float32", "terminals": "bool"}
    with gpu.Store(columns, capacity=100, max_steps=4) as made:
        for number in range(100):
            length = 1 + number % 4
            steps = np.full(length, number)
            made.insert({
                "observations": steps.astype("float32"), "actions": steps, "rewards": steps.astype("float32"),
                "terminals": (np.arange(length) == length - 1) & (number % 3 == 0),
            }, weight=number % 2)
        arrays = made.all_steps()
        expected = [number for number in range(100) if number % 2 for _ in range(1 + number % 4)]
        assert arrays["actions"].tolist() == expected
        ends = np.flatnonzero(np.append(np.diff(arrays["actions"]) != 0, True))
        assert np.flatnonzero(arrays["timeouts"] | arrays["terminals"]).tolist() == ends.tolist()
        made.update_weights(np.arange(100), np.zeros(100))
        with pytest.raises(errors.UnavailableError):
            made.all_steps()
