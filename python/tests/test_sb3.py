"""relive.sb3: compared with Stable-Baselines3's own buffer, and used in its algorithms."""

from __future__ import annotations

import collections
import copy
import pathlib
import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from relive.sb3 import ReplayBuffer
from stable_baselines3 import DQN, SAC, TD3
from stable_baselines3.common import buffers
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.type_aliases import DictReplayBufferSamples, ReplayBufferSamples
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

BOX = spaces.Box(-10.0, 10.0, (3,), np.float32)
BYTES = spaces.Box(0, 255, (4, 4, 1), np.uint8)
DICT = spaces.Dict({"place": BOX, "image": BYTES, "kind": spaces.Discrete(5)})


def steps(space: spaces.Space[Any], actions: spaces.Space[Any], count: int, n_envs: int) -> list[Any]:
    """Returns the arguments that an algorithm adds; each observation follows from the previous one."""
    space.seed(1)
    actions.seed(2)
    rng = np.random.default_rng(3)

    def seen() -> Any:
        found = [space.sample() for _ in range(n_envs)]
        return {name: np.stack([each[name] for each in found]) for name in found[0]} if isinstance(space, spaces.Dict) else np.stack(found)

    observations = [seen() for _ in range(count + 1)]
    return [
        (
            observations[time], observations[time + 1], np.stack([actions.sample() for _ in range(n_envs)]),
            rng.normal(size=n_envs).astype(np.float32), rng.random(n_envs) < 0.3,
            [{"TimeLimit.truncated": bool(rng.random() < 0.5)} for _ in range(n_envs)],
        )
        for time in range(count)
    ]


def rows(sample: Any) -> set[bytes]:
    """Returns each transition of a batch as bytes, in any order."""
    leaves = []
    for part in sample:
        if isinstance(part, dict):
            leaves += [part[name] for name in sorted(part)]
        elif part is not None:
            leaves.append(part)
    count = len(leaves[0])
    return {b"".join(leaf[row].numpy().tobytes() for leaf in leaves) for row in range(count)}


SPACES = {
    "box": (BOX, spaces.Box(-1.0, 1.0, (2,), np.float64)),
    "bytes": (BYTES, spaces.Discrete(4)),
    "choice": (spaces.Discrete(7), spaces.MultiDiscrete([3, 4])),
    "dict": (DICT, spaces.Discrete(4)),
}


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("handles", [True, False])
@pytest.mark.parametrize("kind", sorted(SPACES))
def test_transitions_match_the_sb3_buffer(kind: str, handles: bool, n_envs: int) -> None:
    space, actions = SPACES[kind]
    theirs = (buffers.DictReplayBuffer if kind == "dict" else buffers.ReplayBuffer)(
        10 * n_envs, space, actions, "cpu", n_envs, handle_timeout_termination=handles
    )
    ours = ReplayBuffer(10 * n_envs, space, actions, "cpu", n_envs, handle_timeout_termination=handles)
    for step in steps(space, actions, 14, n_envs):
        theirs.add(*step)
        ours.add(*step)
        # The algorithms overwrite their arrays.
        step[3][:] = 0
    assert (ours.size(), ours.pos, ours.full) == (theirs.size(), theirs.pos, theirs.full) == (10, 4, True)
    expected, found = rows(theirs.sample(2000)), ours.sample(2000)
    assert isinstance(found, DictReplayBufferSamples if kind == "dict" else ReplayBufferSamples)
    assert rows(found) == expected and len(expected) == 10 * n_envs
    sample = theirs.sample(5)
    for name in ("actions", "dones", "rewards"):
        own, other = getattr(ours.sample(5), name), getattr(sample, name)
        assert (own.shape, own.dtype) == (other.shape, other.dtype)


def scaled() -> VecNormalize:
    """Returns an environment that divides rewards by a small number, so that it clips their sums."""
    normalized = VecNormalize(DummyVecEnv([lambda: gymnasium.make("Pendulum-v1")]), norm_obs=False)
    normalized.ret_rms.var = np.array(0.05)
    return normalized


def targets(buffer: Any, env: VecNormalize | None) -> dict[bytes, Any]:
    """Returns the reward, the discount and the next observation of each transition by its observation."""
    found = buffer.sample(3000, env)
    follows = (1 - found.dones) * found.discounts
    return {
        bytes(obs.numpy()): (reward.item(), share.item(), bytes(after.numpy()) if share else b"")
        for obs, reward, share, after in zip(found.observations, found.rewards, follows, found.next_observations, strict=True)
    }


@pytest.mark.parametrize("env", [None, scaled()], ids=["plain", "normalized"])
def test_n_step_transitions_match_the_sb3_buffer(env: VecNormalize | None) -> None:
    theirs = buffers.NStepReplayBuffer(100, BOX, spaces.Discrete(2), "cpu", 1, n_steps=3, gamma=0.9)
    ours = ReplayBuffer(100, BOX, spaces.Discrete(2), "cpu", 1, n_steps=3, gamma=0.9)
    for obs, following, action, reward, done, _ in steps(BOX, spaces.Discrete(2), 60, 1):
        for buffer in (theirs, ours):
            buffer.add(obs, following, action, reward + 1, done, [{}])
    expected, found = targets(theirs, env), targets(ours, env)
    # Stable-Baselines3's buffer also returns the last steps, which have incomplete windows.
    assert len(found) >= 57 and found.keys() <= expected.keys()
    for observation, (reward, share, after) in found.items():
        assert (reward, share) == pytest.approx(expected[observation][:2], rel=1e-5, abs=1e-6) and after == expected[observation][2]
    assert env is None or max(reward for reward, _, _ in found.values()) > env.clip_reward


@pytest.mark.parametrize("env", [None, scaled()], ids=["plain", "normalized"])
def test_until_a_window_is_complete_shortened_ones_are_sampled(env: VecNormalize | None) -> None:
    def filled(kind: Any, count: int) -> Any:
        buffer = kind(100, BOX, spaces.Discrete(2), "cpu", 2, n_steps=5, gamma=0.9)
        for obs, following, action, reward, _, _ in steps(BOX, spaces.Discrete(2), count, 2):
            buffer.add(obs, following, action, reward, np.zeros(2, bool), [{}, {}])
        return buffer

    for count in range(1, 5):
        expected, found = targets(filled(buffers.NStepReplayBuffer, count), env), targets(filled(ReplayBuffer, count), env)
        assert found.keys() == expected.keys() and len(found) == 2 * count
        for observation, (reward, share, after) in found.items():
            assert (reward, share) == pytest.approx(expected[observation][:2], rel=1e-5, abs=1e-6) and after == expected[observation][2]
    one, other = (filled(ReplayBuffer, 4) for _ in range(2))
    other.replay._random = np.random.default_rng(1)
    one.replay._random = np.random.default_rng(1)
    assert rows(one.sample(50)) == rows(other.sample(50))
    # Whole windows only.
    assert len(targets(filled(ReplayBuffer, 5), env)) == 2


@pytest.mark.parametrize("kind", ["box", "dict"])
def test_no_window_spans_a_reset_without_a_last_step(kind: str) -> None:
    space, actions = SPACES[kind]
    buffer = ReplayBuffer(100, space, actions, "cpu", 2, n_steps=3, gamma=0.5)
    before, after = steps(space, actions, 3, 2), steps(space, actions, 9, 2)[6:]
    # The second environment is not reset.
    for part, last in leaves(after[0][0], before[-1][1]):
        part[1] = last[1]
    for obs, following, action, *_ in [*before, *after]:
        buffer.add(obs, following, action, np.ones(2, np.float32), np.zeros(2, np.bool_), [{}, {}])
    found = buffer.sample(3000)
    counts = {round(float(reward), 3) for reward in found.rewards}
    assert counts == {1.0, 1.5, 1.75}, "of windows of one, two and three steps"
    # The first environment's episodes have three windows and one complete window, the second one's episode has four.
    assert len(buffer.replay) == 3 + 1 + 4
    assert float(found.discounts.max()) == 0.5


def leaves(one: Any, other: Any) -> list[tuple[Any, Any]]:
    return [(one[name], other[name]) for name in one] if isinstance(one, dict) else [(one, other)]


def test_windows_continue_over_observations_that_are_nan() -> None:
    buffer, nothing = ReplayBuffer(100, BOX, spaces.Discrete(2), "cpu", 1, n_steps=3), np.full((1, 3), np.nan, np.float32)
    for _ in range(4):
        buffer.add(nothing, nothing, np.zeros(1, np.int64), np.ones(1), np.zeros(1, np.bool_), [{}])
    assert len(buffer.replay) == 2


def test_a_second_call_of_learn_ends_open_windows() -> None:
    windows = {"n_steps": 3, "gamma": 0.5}
    model = DQN("MlpPolicy", Endless(), replay_buffer_class=ReplayBuffer, replay_buffer_kwargs=windows, **{**small(), "learning_starts": 1000})
    buffer = model.learn(8).replay_buffer
    assert isinstance(buffer, ReplayBuffer) and len(buffer.replay) == 6
    model.learn(4, reset_num_timesteps=False)
    assert len(buffer.replay) == 10
    model.learn(8)
    assert len(buffer.replay) == 18, "the first 12 steps have 12 windows"
    found = buffer.sample(2000)
    assert {round(float(after[0] - before[0])) for before, after in zip(found.observations, found.next_observations, strict=True)} == {1, 2, 3}


class Endless(gymnasium.Env[Any, Any]):
    """Counts its steps in observations, and never ends an episode."""

    observation_space: Any = spaces.Box(0.0, 1000.0, (1,), np.float32)
    action_space: Any = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.at = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.at += 1
        return np.full(1, self.at, np.float32), 1.0, False, False, {}


def test_sb3_algorithms_learn_before_a_window_is_complete() -> None:
    environments = make_vec_env("CartPole-v1", 16, seed=1)
    windows = {"n_steps": 3, "gamma": 0.99}
    model = DQN("MlpPolicy", environments, replay_buffer_class=ReplayBuffer, replay_buffer_kwargs=windows, **{**small(), "learning_starts": 0})
    assert model.learn(64)._n_updates > 0


def test_a_buffer_is_pickled_with_its_transitions() -> None:
    buffer = ReplayBuffer(20, DICT, spaces.Discrete(4), "cpu", 2)
    assert pickle.loads(pickle.dumps(buffer)).size() == 0
    for step in steps(DICT, spaces.Discrete(4), 7, 2):
        buffer.add(*step)
    again = pickle.loads(pickle.dumps(buffer))
    assert again.size() == buffer.size() == 7 and rows(again.sample(1000)) == rows(buffer.sample(1000))
    again.add(*steps(DICT, spaces.Discrete(4), 1, 2)[0])
    assert len(again.replay) == 16
    again.reset()
    assert again.size() == len(again.replay) == 0


def test_pickled_windows_are_complete() -> None:
    buffer = ReplayBuffer(20, BOX, spaces.Discrete(2), "cpu", 1, n_steps=3)
    for number, step in enumerate(steps(BOX, spaces.Discrete(2), 8, 1)):
        buffer.add(*step[:4], np.array([number == 4]), [{}])
    again = copy.deepcopy(buffer)
    assert len(again.replay) == 6 and rows(again.sample(500)) == rows(buffer.sample(500))
    again.add(*steps(BOX, spaces.Discrete(2), 1, 1)[0][:4], np.array([True]), [{}])
    assert len(again.replay) == 7


def test_unsupported_buffer_options_are_refused() -> None:
    with pytest.raises(ValueError, match=r"optimize_memory_usage=True is not supported by relive\.sb3\.ReplayBuffer"):
        ReplayBuffer(20, BOX, spaces.Discrete(4), optimize_memory_usage=True)
    with pytest.raises(ValueError, match="n_step"):
        ReplayBuffer(20, BOX, spaces.Discrete(4), n_steps=0)
    with pytest.raises(ValueError, match="the buffer is empty"):
        ReplayBuffer(20, BOX, spaces.Discrete(4)).sample(3)
    with pytest.raises(NotImplementedError, match=r"use sample\(\)"):
        ReplayBuffer(20, BOX, spaces.Discrete(4))._get_samples(np.arange(3))


def test_windows_need_batches_with_discounts(monkeypatch: pytest.MonkeyPatch) -> None:
    earlier = collections.namedtuple("ReplayBufferSamples", ["observations", "actions", "next_observations", "dones", "rewards"])
    monkeypatch.setattr("relive.sb3.ReplayBufferSamples", earlier)
    ReplayBuffer(20, BOX, spaces.Discrete(4))
    with pytest.raises(ValueError, match="n_steps=3 needs Stable-Baselines3 2.7 or later"):
        ReplayBuffer(20, BOX, spaces.Discrete(4), n_steps=3)


def small() -> Any:
    """Arguments of an algorithm, which writes to them."""
    return {"policy_kwargs": {"net_arch": [16]}, "learning_starts": 20, "batch_size": 16, "buffer_size": 500, "device": "cpu", "seed": 1}


@pytest.mark.parametrize(
    ("algorithm", "environment", "n_envs", "more"),
    [
        (DQN, "CartPole-v1", 4, {}), (SAC, "Pendulum-v1", 1, {"replay_buffer_kwargs": {"n_steps": 3, "gamma": 0.99}}), (TD3, "Pendulum-v1", 2, {}),
    ],
)
def test_sb3_algorithms_learn_from_the_buffer(algorithm: Any, environment: str, n_envs: int, more: Any, tmp_path: pathlib.Path) -> None:
    def trained() -> Any:
        made = make_vec_env(environment, n_envs, seed=1)
        return algorithm("MlpPolicy", made, replay_buffer_class=ReplayBuffer, **small(), **more).learn(80)

    first, second = trained(), trained()
    assert isinstance(first.replay_buffer, ReplayBuffer) and first._n_updates > 0
    for own, other in zip(first.policy.parameters(), second.policy.parameters(), strict=True):
        assert torch.equal(own, other)
    first.save_replay_buffer(tmp_path / "replay.pkl")
    second.load_replay_buffer(tmp_path / "replay.pkl")
    assert second.replay_buffer.size() == 80 // n_envs
    second.learn(40, reset_num_timesteps=False)


class Pictured(gymnasium.Env[Any, Any]):
    """An environment with dict observations and no task."""

    observation_space: Any = spaces.Dict({"place": BOX, "kind": spaces.Discrete(5)})
    action_space: Any = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return {"place": np.zeros(3, np.float32), "kind": 2}, {}

    def step(self, action: Any) -> Any:
        ended = bool(self.np_random.random() < 0.2)
        return {"place": np.ones(3, np.float32), "kind": 3}, 1.0, ended, False, {}


def test_dict_observations_are_learned_from() -> None:
    model = DQN("MultiInputPolicy", Pictured(), replay_buffer_class=ReplayBuffer, **small()).learn(60)
    assert model._n_updates > 0 and sorted(model.replay_buffer.sample(2).observations) == ["kind", "place"]  # type: ignore[union-attr]


def test_normalization_matches_the_environment() -> None:
    normalized = VecNormalize(DummyVecEnv([lambda: gymnasium.make("Pendulum-v1")]))
    model = SAC("MlpPolicy", normalized, replay_buffer_class=ReplayBuffer, **small()).learn(60)
    buffer = model.replay_buffer
    assert buffer is not None
    assert float(buffer.sample(400).observations.abs().max()) != float(buffer.sample(400, normalized).observations.abs().max())
    assert buffer.sample(5, normalized).rewards.dtype == torch.float32


def test_the_buffer_supports_the_calls_of_cleanrl() -> None:
    envs = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")])
    buffer = ReplayBuffer(100, envs.single_observation_space, envs.single_action_space, "cpu", handle_timeout_termination=False)
    seen, _ = envs.reset(seed=1)
    for _ in range(40):
        actions = np.array([envs.single_action_space.sample()])
        following, rewards, terminations, truncations, infos = envs.step(actions)
        real_next_obs = following.copy()
        buffer.add(seen, real_next_obs, actions, rewards, terminations, infos)
        seen = following
    data = buffer.sample(8)
    assert data.observations.shape == data.next_observations.shape == (8, 4)
    assert data.actions.shape == data.rewards.shape == data.dones.shape == (8, 1)
    assert set(data.rewards.flatten().tolist()) <= {0.0, 1.0}
