"""relive.rl: wrappers, Atari games, and the rules that environments must follow."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import ale_py
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from rl_environments import BOX, Line, Spaces

from relive import rl
from relive.rl.atari import resized

gymnasium.register_envs(ale_py)


class Film:
    """A dm_env environment with frames of one color: frame t is 10·t. Ends after `length` frames; a life is lost every
    6 frames."""

    def __init__(self, length: int = 1_000) -> None:
        self._length = length
        self._frame = 0
        self.actions: list[int] = []
        self.info: dict[str, Any] = {}

    def _step(self, kind: rl.StepType, reward: Any, discount: Any) -> rl.TimeStep:
        self.info = {"lives": 9 - self._frame // 6}
        pixels = np.full((4, 4, 3), 10 * self._frame, np.uint8)
        if self._frame % 2:
            pixels[0] = 255
        return rl.TimeStep(kind, reward, discount, pixels)

    def reset(self) -> rl.TimeStep:
        self._frame = 0
        return self._step(rl.StepType.FIRST, None, None)

    def step(self, action: int) -> rl.TimeStep:
        self.actions.append(action)
        self._frame += 1
        last = self._frame == self._length
        return self._step(rl.StepType.LAST if last else rl.StepType.MID, 1.5, 0.0 if last else 1.0)

    def observation_spec(self) -> Any:
        return rl.make_environment_spec(Spaces(spaces.Box(0, 255, (4, 4, 3), np.uint8), BOX)).observations

    def action_spec(self) -> Any:
        return rl.DiscreteArraySpec(3)


def test_atari_repeats_pools_and_stacks() -> None:
    film = Film()
    environment = rl.Atari(film, size=(4, 4), max_abs_reward=5.0)
    first = environment.reset()
    assert first.first() and first.observation.shape == (4, 4, 4) and not first.observation.any()
    step = environment.step(2)
    assert film.actions == [2, 2, 2, 2] and (step.reward, step.discount) == (5.0, 1.0)
    # The pixelwise maximum of frames 3 and 4, which are gray already.
    assert step.observation[0, 0].tolist() == [0, 0, 0, 255] and step.observation[1, 1].tolist() == [0, 0, 0, 40]
    before, step = step, environment.step(1)
    assert step.observation[1, 1].tolist() == [0, 0, 40, 80] and before.observation[1, 1, -1] == 40
    assert environment.observation_spec().shape == (4, 4, 4) and environment.observation_spec().dtype == np.uint8


def test_atari_ends_with_the_last_frame() -> None:
    environment = rl.Atari(Film(length=6), size=(4, 4))
    steps = [environment.reset(), environment.step(0), environment.step(0)]
    assert steps[-1].last() and steps[-1].discount == 0.0 and steps[-1].reward == 3.0, "two frames were left"
    assert environment.step(0).first()
    environment = rl.Atari(Film(), size=(4, 4), max_episode_frames=6)
    environment.reset()
    steps = [environment.step(0), environment.step(0)]
    assert steps[0].mid() and steps[1].last() and steps[1].discount == 1.0, "cut short"


class WithoutLives(Film):
    """A game that does not report lives."""

    def __init__(self) -> None:
        super().__init__()
        del self.info

    def _step(self, kind: rl.StepType, reward: Any, discount: Any) -> rl.TimeStep:
        step = super()._step(kind, reward, discount)
        del self.info
        return step


@pytest.mark.parametrize("make", [Film, lambda: rl.NoopStarts(Film(), noop_max=0)], ids=["game", "wrapped"])
def test_life_loss_may_zero_the_discount(make: Any) -> None:
    environment = rl.Atari(make(), size=(4, 4), zero_discount_on_life_loss=True)
    environment.reset()
    steps = [environment.step(0) for _ in range(4)]
    assert [step.discount for step in steps] == [1.0, 0.0, 0.0, 1.0] and all(step.mid() for step in steps)
    with pytest.raises(TypeError, match="does not report lives"):
        rl.Atari(rl.NoopStarts(WithoutLives()), zero_discount_on_life_loss=True)


class Lives(Film):
    """A game with a given number of lives in each frame, counted from the reset."""

    def __init__(self, lives: list[int], *, is_cut: bool = False) -> None:
        super().__init__(len(lives) - 1 if is_cut else 1_000)
        self._lives = lives

    def _step(self, kind: rl.StepType, reward: Any, discount: Any) -> rl.TimeStep:
        step = super()._step(kind, reward, discount)
        self.info = {"lives": self._lives[min(self._frame, len(self._lives) - 1)]}
        return step._replace(discount=None if kind == rl.StepType.FIRST else 1.0)


def test_lives_are_compared_in_each_frame() -> None:
    extra_life = rl.Atari(Lives([3, 3, 2, 2, 3]), size=(4, 4), zero_discount_on_life_loss=True)
    extra_life.reset()
    assert [extra_life.step(0).discount for _ in range(2)] == [0.0, 1.0]
    cut = rl.Atari(Lives([3, 3, 2], is_cut=True), size=(4, 4), zero_discount_on_life_loss=True)
    cut.reset()
    step = cut.step(0)
    assert step.last() and step.discount == 1.0, "a truncation stays a truncation"


def test_the_number_of_lives_may_be_part_of_the_observation() -> None:
    environment = rl.Atari(Lives([3, 3, 2, 2, 2]), size=(4, 4), expose_lives_observation=True)
    pixels, lives = environment.observation_spec()
    assert pixels.shape == (4, 4, 4) and (lives.shape, lives.dtype) == ((), np.int32)
    for step, left in ((environment.reset(), 3), (environment.step(0), 2)):
        assert step.observation[0].shape == (4, 4, 4) and step.observation[1] == left
        assert step.discount in (None, 1.0)
    with pytest.raises(TypeError, match="does not report lives"):
        rl.Atari(WithoutLives(), expose_lives_observation=True)


def test_wrappers_have_the_attributes_of_their_environment() -> None:
    wrapped = rl.StepLimit(rl.NoopStarts(Film(length=7), noop_max=0), 20)
    assert wrapped.actions == [] and not hasattr(wrapped, "_frame") and not hasattr(wrapped, "lives")
    copied = copy.deepcopy(wrapped)
    copied.reset()
    copied.step(2)
    assert copied.actions == [2] and wrapped.actions == [] and pickle.loads(pickle.dumps(copied)).actions == [2]


def test_wrappers_take_gymnasiums_environments_as_they_are() -> None:
    game = gymnasium.make("ALE/Pong-v5", frameskip=1)
    atari = rl.Atari(game, expose_lives_observation=True)
    assert atari.reset().observation[0].shape == (84, 84, 4) and "lives" in atari.info
    game.close()
    for wrap in (rl.SinglePrecision, rl.CanonicalSpec, rl.FrameStacking, rl.ConcatObservation, rl.StepLimit, rl.ObservationActionReward):
        environment: Any = wrap(gymnasium.make("Pendulum-v1"))
        assert environment.reset().first() and environment.step(np.zeros(1, np.float32)).mid()
    result = rl.PPO(num_envs=1, num_steps=16).train(lambda: rl.SinglePrecision(gymnasium.make("CartPole-v1")), steps=32)
    assert result.env_steps >= 32


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("CartPole-v1", "SinglePrecision takes an environment with dm_env's or Gymnasium's interface, but got 'CartPole-v1'; create one first"),
        (Film, "but got <class .*Film'>; create one first, such as relive.rl.make"),
        (gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")]), "a vector of environments is not a single environment"),
    ],
    ids=["name", "class", "vector"],
)
def test_wrappers_take_only_environments(given: Any, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        rl.SinglePrecision(given)


def test_pixels_are_resized_as_pillow_does() -> None:
    image = (np.arange(35, dtype=np.uint32) * 37 % 256).astype(np.uint8).reshape(5, 7)
    # Image.fromarray(image).resize((3, 2), Image.Resampling.BILINEAR), and (9, 6), of Pillow 13.0.0.
    small = [[35, 114, 193], [41, 120, 199]]
    large = [
        [0, 25, 53, 82, 111, 140, 169, 197, 222],
        [2, 27, 55, 84, 113, 142, 171, 199, 224],
        [5, 30, 58, 87, 116, 145, 174, 202, 227],
        [7, 32, 60, 89, 118, 147, 176, 204, 229],
        [10, 35, 63, 92, 121, 150, 179, 207, 232],
        [12, 37, 65, 94, 123, 152, 181, 209, 234],
    ]
    np.testing.assert_array_equal(resized(image, (2, 3), "bilinear"), small)
    np.testing.assert_array_equal(resized(image, (6, 9), "bilinear"), large)
    assert resized(image, (5, 7), "bilinear") is image
    quarters = np.array([[0, 0, 8, 8], [4, 4, 8, 8]], np.uint8)
    assert resized(quarters, (1, 2), "area").tolist() == [[2, 8]]


def test_games_of_ale_py() -> None:
    game = gymnasium.make("ALE/Pong-v5", frameskip=1, repeat_action_probability=0.0)
    for preprocessing in ("acme", "dopamine"):
        inner = rl.NoopStarts(rl.GymEnvironment(game, seed=1), seed=3)
        environment = rl.Atari(inner, to_float=True, preprocessing=preprocessing, max_episode_frames=40)  # type: ignore[arg-type]
        steps = [environment.reset(), *(environment.step(action) for action in (0, 2, 3, 1, 5))]
        assert all(environment.observation_spec().shape == step.observation.shape == (84, 84, 4) for step in steps)
        pixels = steps[-1].observation
        assert pixels.dtype == np.float32 and 0.0 <= pixels.min() < pixels.max() <= 1.0
        assert np.array_equal(steps[-1].observation[..., :-1], steps[-2].observation[..., 1:])
    config = rl.DQNConfig(batch_size=2, min_replay_size=8, hidden=(4,), n_step=1)
    result = rl.DQN(config).train(rl.Atari(rl.GymEnvironment(game), max_episode_frames=60), steps=20)
    assert result.env_steps >= 20 and result.policy.num_actions == 6
    game.close()


def test_games_that_repeat_actions_themselves_are_refused() -> None:
    game = gymnasium.make("ALE/Pong-v5")
    for environment in (game, rl.GymEnvironment(game), rl.NoopStarts(rl.GymEnvironment(game))):
        with pytest.raises(ValueError) as raised:
            rl.Atari(environment)
        assert str(raised.value) == (
            "ALE/Pong-v5 already repeats each action (frameskip=4), and Atari would repeat it 4 times more; turn the first off: "
            "gymnasium.make('ALE/Pong-v5', frameskip=1)"
        )
    assert rl.Atari(game, action_repeats=1).reset().observation.shape == (84, 84, 4)
    game.close()


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"action_repeats": 0}, ValueError, "action_repeats must be at least 1"),
        ({"pooled_frames": 3, "action_repeats": 2}, ValueError, "pooled_frames must be at most action_repeats, the frames of a step, got 3 of 2"),
        ({"preprocessing": "none"}, ValueError, "must be 'acme' or 'dopamine'"),
    ],
)
def test_unsupported_atari_options_are_reported(options: dict[str, Any], error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        rl.Atari(Film(), **options)
    with pytest.raises(TypeError, match="frames of"):
        rl.Atari(rl.make("catch/0"))


def test_noop_starts_report_the_number_of_noops() -> None:
    film = Film(length=8)
    environment = rl.NoopStarts(film, noop_max=20, seed=5)
    starts = []
    for _ in range(200):
        film.actions.clear()
        step = environment.reset()
        assert step.first() and step.reward is None
        starts.append(len(film.actions))
    assert set(starts) == set(range(21)) and not any(film.actions)
    assert environment.step(1).mid() or environment.step(1).last()


def test_limits_and_precision() -> None:
    environment = rl.StepLimit(rl.make("CartPole-v1"), 3)
    steps = [environment.step(0), *(environment.step(0) for _ in range(4))]
    assert [int(step.step_type) for step in steps] == [0, 1, 1, 2, 0] and steps[3].discount == 1.0
    narrow = rl.SinglePrecision(Line())
    assert narrow.observation_spec()["place"][0].dtype == np.float32 and narrow.reward_spec().dtype == np.float32
    assert narrow.observation_spec()["steps"].dtype == np.int32
    narrow.reset()
    step = narrow.step(1)
    assert step.observation["place"][0].dtype == np.float32 and step.reward.dtype == np.float32
    assert step.observation["steps"].dtype == np.int32


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: gymnasium.make("CartPole-v1"),
        lambda seed: rl.make("catch/0", seed=seed),
        lambda seed: Line(),
        lambda seed: rl.StepLimit(rl.NoopStarts(rl.make("MountainCar-v0", seed=seed), noop_max=3, seed=seed), 20),
        lambda seed: rl.GymEnvironment(rl.as_gymnasium(Line())),
    ],
)
def test_environments_meet_the_contract(make: Any) -> None:
    rl.check_environment(make)


class Late(Line):
    """Answers MID to the first step after a LAST."""

    def reset(self) -> Any:
        return super().reset()._replace(step_type=1, reward=0.0, discount=1.0)


class Far(Line):
    """Exceeds the bounds of its spec."""

    def _observe(self) -> dict[str, Any]:
        return {"steps": np.int64(0), "place": (np.array([3.0]),)}


def test_contract_violations_are_reported() -> None:
    with pytest.raises(rl.ContractError, match="a reset returns FIRST") as broken:
        rl.check_environment(lambda seed: Late())
    assert broken.value.rule == "a reset returns FIRST"
    with pytest.raises(rl.ContractError, match="observations match their spec: .*at `place/0`: .*got 3"):
        rl.check_environment(lambda seed: Far())
    with pytest.raises(rl.ContractError, match="the same seed"):
        rl.check_environment(lambda seed: rl.GymEnvironment(gymnasium.make("CartPole-v1")))
    with pytest.raises(TypeError, match="function from a seed"):
        rl.check_environment(Line())  # type: ignore[arg-type]
    made = iter([Line()])
    with pytest.raises(StopIteration):
        rl.check_environment(lambda seed: next(made))
