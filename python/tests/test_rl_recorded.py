"""relive.rl.recorded: episodes in folders."""

from __future__ import annotations

import dataclasses
import pathlib
import types
from typing import Any

import numpy as np
import pytest
from relive import rl
from relive.errors import DataLossError
from relive.rl import recorded


def episodes(name: str, count: int, act: Any) -> list[recorded.Episode]:
    environment = rl.make(name, seed=1)
    return [recorded.play(environment, act) for _ in range(count)]


def same(own: recorded.Episode, other: recorded.Episode) -> bool:
    pairs = [(getattr(own, field.name), getattr(other, field.name)) for field in dataclasses.fields(own)]
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)


@pytest.mark.parametrize(
    ("name", "act"), [("catch/0", lambda _: 2), ("CartPole-v1", lambda seen: int(seen[2] > 0)), ("Pendulum-v1", lambda seen: seen[:1] * 2)]
)
def test_saved_recordings_are_loaded(name: str, act: Any, tmp_path: pathlib.Path) -> None:
    saved = episodes(name, 12, act)
    recorded.save(tmp_path / "new", saved)
    loaded = recorded.load(tmp_path / "new")
    assert len(loaded) == 12 and all(same(own, other) for own, other in zip(loaded, saved, strict=True))


def test_an_episode_is_what_was_played() -> None:
    (episode,) = episodes("catch/0", 1, lambda _: 1)
    assert len(episode) == 9 and episode.observations.shape == (10, 10, 5) and (episode.actions == 1).all()
    assert episode.discounts.tolist() == [1] * 8 + [0] and abs(episode.rewards.sum()) == 1
    (cut_off,) = episodes("Pendulum-v1", 1, lambda _: np.zeros(1, np.float32))
    assert len(cut_off) == 200 and (cut_off.discounts == 1).all()


def test_an_episode_of_gymnasium_is_played_as_it_is() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    environment = gymnasium.make("CartPole-v1")
    environment.reset(seed=3)
    episode = recorded.play(environment, lambda _: 1)
    assert episode.observations.shape == (len(episode) + 1, 4) and episode.discounts[-1] == 0
    with pytest.raises(TypeError, match="not an environment"):
        recorded.play("CartPole-v1", lambda _: 1)


class Seen:
    """An agent that stores its batches."""

    experience = rl.Sequences(length=10, batch_size=4, min_size=1)

    def __init__(self) -> None:
        self.batches: list[Any] = []

    def policy(self, spec: Any, context: Any) -> Any:
        return types.SimpleNamespace(act=lambda observations, starts: np.zeros(len(starts), np.int32), load=lambda weights: None)

    def learner(self, spec: Any, seed: int) -> Any:
        return types.SimpleNamespace(learn=self.batches.append, weights=lambda: {"none": np.zeros(1)})


def test_a_run_learns_from_the_given_episodes(tmp_path: pathlib.Path) -> None:
    saved = episodes("catch/0", 6, lambda seen: int(seen[0].argmax()) % 3)
    recorded.save(tmp_path / "data", saved)
    agent = Seen()
    rl.run(agent, "catch/0", data=tmp_path / "data", learner_steps=30)
    assert len(agent.batches) == 30
    expected = {episode.observations.tobytes(): episode for episode in saved}
    for batch in agent.batches:
        for row in range(4):
            episode = expected[batch.data["observation"][row].tobytes()]
            for column, of_episode in (("action", episode.actions), ("reward", episode.rewards), ("discount", episode.discounts)):
                assert batch.data[column][row].tolist() == [*of_episode, 0]


def test_the_table_keeps_all_data() -> None:
    rows = np.arange(60, dtype=np.float32)
    data = {"observations": np.repeat(rows[:, None], 4, axis=1), "actions": rows % 2, "rewards": rows, "terminals": rows % 10 == 9}
    seen: set[float] = set()
    agent = rl.DQN(batch_size=8, min_replay_size=1, max_replay_size=10, n_step=1, hidden=(4,))
    agent.train("CartPole-v1", data=data, learner_steps=100, on_batch=lambda batch, _: seen.update(batch.data["reward"].tolist()))
    assert seen == set(rows.tolist())


def test_rust_agents_learn_from_recorded_episodes(tmp_path: pathlib.Path) -> None:
    recorded.save(tmp_path / "data", episodes("catch/0", 20, lambda _: 0))
    policy = rl.BC(batch_size=32).train("catch/0", data=tmp_path / "data", learner_steps=100).policy
    assert {policy(observation) for observation in episodes("catch/0", 1, lambda _: 1)[0].observations} == {0}


def test_datasets_of_minari_become_episodes(tmp_path: pathlib.Path) -> None:
    found = types.SimpleNamespace(
        observations=np.ones((4, 10, 5)), actions=np.array([0, 1, 2]), rewards=np.array([0.0, 0.0, 1.0]),
        terminations=np.array([False, False, True]), truncations=np.zeros(3, np.bool_),
    )
    dataset = types.SimpleNamespace(iterate_episodes=lambda: iter([found, found]))
    spec = rl.make_environment_spec(rl.make("catch/0"))
    converted = list(recorded.from_minari(dataset, spec))
    assert len(converted) == 2 and converted[0].observations.dtype == np.float32 and converted[0].actions.dtype == np.int32
    assert converted[0].discounts.tolist() == [1, 1, 0] and converted[0].rewards.tolist() == [0, 0, 1]
    recorded.save(tmp_path / "data", converted)
    agent = Seen()
    rl.run(agent, "catch/0", data=tmp_path / "data", learner_steps=1)
    assert agent.batches[0].lengths["reward"].tolist() == [4] * 4
    # Actions are counted from 0.
    dataset.action_space, found.actions = pytest.importorskip("gymnasium").spaces.Discrete(3, start=-1), np.array([-1, 1, 0])
    assert next(recorded.from_minari(dataset, spec)).actions.tolist() == [0, 2, 1]
    # Without an environment, values are returned unchanged.
    assert next(recorded.from_minari(dataset)).observations.dtype == np.float64


def test_invalid_recordings_are_not_saved(tmp_path: pathlib.Path) -> None:
    (episode,) = episodes("catch/0", 1, lambda _: 1)
    with pytest.raises(ValueError, match="there are no episodes"):
        recorded.save(tmp_path / "none", [])
    short = dataclasses.replace(episode, observations=episode.observations[:-1])
    with pytest.raises(ValueError, match=r"episode 1 has 9 rewards, but \[8\] steps of its observations"):
        recorded.save(tmp_path / "short", [episode, short])
    empty = recorded.Episode(np.zeros((1, 2)), np.zeros((0,)), np.zeros(0, np.float32), np.zeros(0, np.float32))
    with pytest.raises(ValueError, match="episode 0 has no steps"):
        recorded.save(tmp_path / "empty", [empty])
    with pytest.raises(ValueError, match="observation"):
        recorded.save(tmp_path / "mixed", [episode, *episodes("CartPole-v1", 1, lambda _: 1)])
    for folder in ("short", "mixed"):
        recorded.save(tmp_path / folder, [episode])
        assert len(recorded.load(tmp_path / folder)) == 1
    recorded.save(tmp_path / "once", [episode])
    with pytest.raises(FileExistsError, match="is not empty"):
        recorded.save(tmp_path / "once", [episode])


def test_invalid_recording_folders_are_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing is not a folder"):
        recorded.load(tmp_path / "nothing")
    recorded.save(tmp_path / "data", episodes("catch/0", 1, lambda _: 1))
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="empty has no recorded episodes"):
        recorded.load(tmp_path / "empty")
    for path in (tmp_path / "data").rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataLossError):
        recorded.load(tmp_path / "data")


def test_recordings_of_gymnasium_are_learned_from_in_the_native_environment(tmp_path: pathlib.Path) -> None:
    gymnasium = pytest.importorskip("gymnasium")
    recorded.save(tmp_path / "recorded", [recorded.play(gymnasium.make("CartPole-v1"), lambda _: 1)])
    result = rl.BC().train("CartPole-v1", data=tmp_path / "recorded", learner_steps=10)
    assert result.learner_steps == 10
