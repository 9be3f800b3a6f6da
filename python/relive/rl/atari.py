"""Atari 2600 games, preprocessed for agents."""

from __future__ import annotations

import functools
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from relive.rl import _faults
from relive.rl.specs import DiscreteArraySpec
from relive.rl.timestep import StepType, TimeStep
from relive.rl.wrappers import AnyEnvironment, EnvironmentWrapper, checked_count, innermost
from relive.specs import ArraySpec, BoundedArraySpec

_Pixels = npt.NDArray[np.uint8]
_Taps = list[tuple[npt.NDArray[np.intp], npt.NDArray[np.int32]]]
"""For each tap, the source pixel and the weight of each new pixel."""

_DIGITS = 22
_ONE = 1 << _DIGITS

_GREY = {"acme": np.array([0.299, 0.587, 1.0 - (0.299 + 0.587)]), "dopamine": np.array([0.2989, 0.5870, 0.1140])}


class Atari(EnvironmentWrapper):
    """The usual preprocessing of Atari games (Mnih et al., 2015), as implemented in Acme.

    A step repeats its action for ``action_repeats`` frames, or until the episode ends, and adds up the rewards. The
    pixelwise maximum of the last two frames is converted to gray, resized, and stacked with the previous steps; an
    episode starts with zeros.

    >>> import gymnasium  # doctest: +SKIP
    >>> game = gymnasium.make("ALE/Pong-v5", frameskip=1, repeat_action_probability=0.0)  # doctest: +SKIP
    >>> environment = Atari(GymEnvironment(game), max_abs_reward=1.0)  # doctest: +SKIP

    Args:
      environment: an environment with frames of ``[height, width, 3]`` bytes as observations and one discrete action.
        It must not repeat actions itself, so one of ale-py needs ``frameskip=1``, unless ``action_repeats`` is 1.
      action_repeats: the number of frames in a step.
      pooled_frames: the number of frames at the end of a step over which the pixelwise maximum is taken, at most
        ``action_repeats``; by default 2, or 1 if a step is one frame.
      size: the height and width of the agent's observation.
      stacked_frames: the number of steps that are stacked, along the last dimension.
      max_abs_reward: the bound on the absolute reward of a step.
      zero_discount_on_life_loss: whether losing a life in any frame of a step gives discount 0 (the episode continues).
        The number of lives comes from a Gymnasium environment's ``info``.
      expose_lives_observation: whether the observation is a tuple of the pixels and the number of lives, an int32.
      max_episode_frames: the number of frames after which an episode is truncated.
      to_float: whether pixels are float32 from 0 to 1 instead of bytes.
      preprocessing: ``"dopamine"`` converts frames to gray before it takes their maximum, and averages areas when it
        resizes them (Castro et al., 2018).

    Raises:
      TypeError: the observations or actions have a different type.
      ValueError: a number that is out of range, or an unknown ``preprocessing``; or the game repeats actions itself.
    """

    def __init__(
        self,
        environment: AnyEnvironment,
        *,
        action_repeats: int = 4,
        pooled_frames: int | None = None,
        size: tuple[int, int] = (84, 84),
        stacked_frames: int = 4,
        max_abs_reward: float | None = None,
        zero_discount_on_life_loss: bool = False,
        expose_lives_observation: bool = False,
        max_episode_frames: int = 108_000,
        to_float: bool = False,
        preprocessing: Literal["acme", "dopamine"] = "acme",
    ) -> None:
        super().__init__(environment)
        pooled_frames = min(2, action_repeats) if pooled_frames is None else pooled_frames
        counts = {
            "action_repeats": action_repeats,
            "pooled_frames": pooled_frames,
            "stacked_frames": stacked_frames,
            "max_episode_frames": max_episode_frames,
            "the height of size": size[0],
            "the width of size": size[1],
        }
        for name, count in counts.items():
            checked_count(name, count)
        if pooled_frames > action_repeats:
            raise ValueError(f"pooled_frames must be at most action_repeats, the frames of a step, got {pooled_frames} of {action_repeats}")
        if preprocessing not in _GREY:
            raise ValueError(f"preprocessing must be 'acme' or 'dopamine', got {preprocessing!r}")
        self._frames = _frames_of(super().observation_spec())
        if not isinstance(super().action_spec(), DiscreteArraySpec):
            raise TypeError(f"only one discrete action is supported, but the environment has {super().action_spec()!r}")
        if action_repeats > 1:
            _expect_single_frames(innermost(environment), action_repeats)
        if (zero_discount_on_life_loss or expose_lives_observation) and not hasattr(self.environment, "info"):
            raise TypeError(f"{environment!r} does not report lives: it has no info, unlike a GymEnvironment")
        self._action_repeats = action_repeats
        self._pooled_frames = pooled_frames
        self._size = size
        self._max_abs_reward = max_abs_reward
        self._zero_discount_on_life_loss = zero_discount_on_life_loss
        self._expose_lives = expose_lives_observation
        self._max_episode_frames = max_episode_frames
        self._to_float = to_float
        self._preprocessing = preprocessing
        self._stack = np.zeros((*size, stacked_frames), np.uint8)
        self._frames_left = 0
        self._lives = 0
        self._over = True

    def reset(self) -> TimeStep:
        """Starts an episode."""
        self._over, self._frames_left = False, self._max_episode_frames
        self._stack[:] = 0
        step = super().reset()
        self._lives = self._lives_left()
        return step._replace(observation=self._observed([step.observation]))

    def step(self, action: Any) -> TimeStep:
        """Repeats the action for some frames."""
        if self._over:
            return self.reset()
        frames: list[Any] = []
        reward, discount, last = 0.0, 1.0, False
        for _ in range(self._action_repeats):
            step = super().step(action)
            self._frames_left -= 1
            frames.append(step.observation)
            reward += step.reward
            discount *= step.discount
            if self._lost_life() and step.mid() and self._zero_discount_on_life_loss:
                discount = 0.0
            last = step.last() or self._frames_left <= 0
            if last:
                break
        if self._max_abs_reward is not None:
            reward = float(np.clip(reward, -self._max_abs_reward, self._max_abs_reward))
        self._over = last
        return TimeStep(StepType.LAST if last else StepType.MID, reward, discount, self._observed(frames))

    def observation_spec(self) -> Any:
        """Returns the spec of observations; stacked steps are the last dimension of the pixels."""
        dtype, greatest = (np.float32, 1.0) if self._to_float else (np.uint8, 255)
        pixels = BoundedArraySpec(self._stack.shape, dtype, 0, greatest, "pixels")
        return (pixels, ArraySpec((), np.int32, "lives")) if self._expose_lives else pixels

    def _observed(self, frames: list[Any]) -> Any:
        pooled = [np.asarray(frame) for frame in frames[-self._pooled_frames :]]
        image = resized(self._grey(pooled), self._size, "area" if self._preprocessing == "dopamine" else "bilinear")
        self._stack = np.concatenate([self._stack[..., 1:], image[..., np.newaxis]], axis=-1)
        pixels = self._stack.astype(np.float32) / np.float32(255.0) if self._to_float else self._stack.copy()
        return (pixels, np.int32(self._lives)) if self._expose_lives else pixels

    def _grey(self, frames: list[npt.NDArray[Any]]) -> _Pixels:
        weights = _GREY[self._preprocessing]
        if self._preprocessing == "dopamine":
            brightest: _Pixels = np.stack([(frame @ weights).astype(np.uint8) for frame in frames]).max(axis=0)
            return brightest
        grey: _Pixels = (np.stack(frames).max(axis=0) @ weights).astype(np.uint8)
        return grey

    def _lives_left(self) -> int:
        return int(getattr(self.environment, "info", {}).get("lives", 0))

    def _lost_life(self) -> bool:
        before, self._lives = self._lives, self._lives_left()
        return self._lives < before


def resized(image: _Pixels, size: tuple[int, int], interpolation: Literal["bilinear", "area"]) -> _Pixels:
    """Resizes a gray image.

    ``"bilinear"`` weights source pixels with a triangle as wide as the area that becomes one pixel, first along rows
    and then along columns, in Pillow's fixed-point arithmetic. For frames of 210 by 160, its result equals Pillow's.
    ``"area"`` averages the source pixels that a new pixel covers.
    """
    if image.shape == size:
        return image
    taps = _area if interpolation == "area" else _triangle
    narrow = _along_rows(image, taps(image.shape[1], size[1])) if image.shape[1] != size[1] else image
    return _along_rows(narrow.T, taps(image.shape[0], size[0])).T if image.shape[0] != size[0] else narrow


def _along_rows(image: _Pixels, taps: _Taps) -> _Pixels:
    sums = np.full((image.shape[0], len(taps[0][0])), _ONE // 2, np.int32)
    # One tap at a time, since numpy's matrix product would start threads for this small amount of work.
    for places, weights in taps:
        sums += image[:, places] * weights
    pixels: _Pixels = (sums >> _DIGITS).astype(np.uint8)
    return pixels


@functools.cache
def _triangle(pixels: int, new_pixels: int) -> _Taps:
    scale = pixels / new_pixels
    support = max(scale, 1.0)
    centers = (np.arange(new_pixels) + 0.5) * scale
    distances = np.abs(np.arange(pixels) + 0.5 - centers[:, np.newaxis])
    return _fixed_point(np.maximum(0.0, 1.0 - distances / support))


@functools.cache
def _area(pixels: int, new_pixels: int) -> _Taps:
    ends = np.arange(pixels + 1.0)
    borders = np.linspace(0.0, pixels, new_pixels + 1)
    low = np.maximum(ends[:-1], borders[:-1, np.newaxis])
    high = np.minimum(ends[1:], borders[1:, np.newaxis])
    return _fixed_point(np.maximum(0.0, high - low))


def _fixed_point(shares: npt.NDArray[np.float64]) -> _Taps:
    """Converts the weights of the source pixels, with a row for each new pixel, to taps whose weights add up to one."""
    weights = np.floor(shares / shares.sum(axis=1, keepdims=True) * _ONE + 0.5).astype(np.int32)
    first = (weights > 0).argmax(axis=1)
    rows, last = np.arange(len(weights)), weights.shape[1] - 1
    most = int((weights > 0).sum(axis=1).max())
    taps = []
    for tap in range(most):
        places = np.minimum(first + tap, last)
        taps.append((places, np.where(first + tap <= last, weights[rows, places], 0).astype(np.int32)))
    return taps


def _expect_single_frames(game: Any, action_repeats: int) -> None:
    """Checks that a step of a Gymnasium environment is one frame."""
    spec = getattr(game, "spec", None)
    frames = getattr(getattr(game, "unwrapped", game), "_frameskip", getattr(spec, "kwargs", {}).get("frameskip", 1))
    if frames == 1:
        return
    name = getattr(spec, "id", "ALE/Pong-v5")
    raise ValueError(
        f"{_faults.name_of(game)} already repeats each action (frameskip={frames!r}), and Atari would repeat it {action_repeats} times "
        f"more; turn the first off: gymnasium.make({name!r}, frameskip=1)"
    )


def _frames_of(spec: Any) -> ArraySpec:
    if isinstance(spec, ArraySpec) and spec.dtype == np.uint8 and len(spec.shape or ()) == 3 and (spec.shape or ())[2] == 3:
        return spec
    raise TypeError(f"only frames of [height, width, 3] bytes are supported, but the environment's observations are {spec!r}")
