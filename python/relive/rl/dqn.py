"""DQN."""

from __future__ import annotations

import dataclasses
import json
import math
import operator
import os
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from relive import _native
from relive.rl import _bridge
from relive.rl._progress import Line
from relive.rl.policy import Policy

Progress = Callable[[dict[str, Any]], object]
"""Gets an episode: ``episode``, ``episode_return``, ``episode_length``, ``env_steps``, ``learner_steps``, ``actor``, ``seconds``."""

# The greatest float32, to which nothing is clipped.
_UNCLIPPED = 3.4028234663852886e38

# Acme's names, and those of Rust's settings where they differ.
_RUST_NAMES = {"importance_sampling_exponent": "importance_exponent", "huber_loss_parameter": "huber"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class DQNConfig:
    """The settings of a DQN agent, by Acme's names and with its defaults.

    Args:
      batch_size: transitions of a batch.
      samples_per_insert: how often each step is learned from, on average.
      n_step: steps of a transition.
      discount: the agent's discount γ.
      min_replay_size: steps before learning begins.
      max_replay_size: transitions that are kept.
      priority_exponent: how much priorities count when transitions are sampled; 0: not at all.
      importance_sampling_exponent: how much of the bias that this brings is taken back by weights, β.
      epsilon: the share of actions that are taken at random.
      learning_rate: step size of Adam.
      target_update_period: learner steps from one copy to the target network to the next.
      huber_loss_parameter: where the Huber loss turns from squares to lines.
      max_abs_reward: returns over ``n_step`` steps are clipped to this on either side; ``None`` or infinity: not at all.
      max_gradient_norm: bound on the gradient's norm; ``None``: none.
      hidden: sizes of the network's hidden layers.
      duelling: whether the network has a value and an advantage head.
      loss: double Q-learning; Munchausen; C51 (``"categorical"``); QR-DQN (``"quantile"``).
      atoms: atoms of a categorical distribution, or quantiles.
      value_range: the outermost atoms of a categorical distribution.

    Raises:
      TypeError: a setting of another type.
      ValueError: a setting out of its range.
    """

    batch_size: int = 256
    samples_per_insert: float = 32.0
    n_step: int = 5
    discount: float = 0.99
    min_replay_size: int = 1_000
    max_replay_size: int = 1_000_000
    priority_exponent: float = 0.6
    importance_sampling_exponent: float = 0.2
    epsilon: float = 0.05
    learning_rate: float = 1e-3
    target_update_period: int = 100
    huber_loss_parameter: float = 1.0
    max_abs_reward: float | None = 1.0
    max_gradient_norm: float | None = None
    hidden: tuple[int, ...] = (50, 50)
    duelling: bool = False
    loss: Literal["double-q", "munchausen", "categorical", "quantile"] = "double-q"
    atoms: int = 51
    value_range: tuple[float, float] = (-10.0, 10.0)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, _checked(field.name, field.default, getattr(self, field.name)))
        try:
            _native.check_dqn(self._settings())
        except ValueError as error:
            text = str(error)
            for name, rust in _RUST_NAMES.items():
                text = text.replace(f"{rust} is ", f"{name} is ", 1)
            raise ValueError(text) from None

    @classmethod
    def for_environment(cls, name: str) -> DQNConfig:
        """What is known to be good for an environment by its name, such as ``"CartPole-v1"``, and otherwise the defaults: the settings that
        ``relive rl train`` begins with unless told otherwise."""
        settings = json.loads(_native.dqn_for_environment(name))
        names = {rust: name for name, rust in _RUST_NAMES.items()}
        values: dict[str, Any] = {names.get(name, name): value for name, value in settings.items()}
        return cls(**values)

    def _settings(self) -> str:
        settings = dataclasses.asdict(self)
        if settings["max_abs_reward"] is None or settings["max_abs_reward"] == math.inf:
            settings["max_abs_reward"] = _UNCLIPPED
        return json.dumps({_RUST_NAMES.get(name, name): value for name, value in settings.items()})


def _checked(name: str, default: Any, value: Any) -> Any:
    """A setting as one of the type of its default."""
    if isinstance(default, tuple):
        if isinstance(value, str):
            raise TypeError(f"{name} is {value!r}, but it must be a sequence of numbers")
        of = 0 if name == "hidden" else 0.0
        return tuple(_checked(name, of, element) for element in value)
    if isinstance(default, bool):
        return bool(value)
    if isinstance(default, int):
        return _count(name, value)
    if isinstance(default, str):
        return value
    if value is None and name in ("max_gradient_norm", "max_abs_reward"):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is {value!r}, but it must be a number") from None
    if math.isnan(number) or (math.isinf(number) and (name != "max_abs_reward" or number < 0)):
        raise ValueError(f"{name} is {number}, but it must be a finite number")
    return number


def _count(name: str, value: Any, least: int = 0) -> int:
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}, but it must be a whole number") from None
    if not least <= count < 2**63:
        raise ValueError(f"{name} is {count}, but it must be at least {least}, and below 2**63")
    return count


@dataclasses.dataclass(frozen=True, repr=False)
class EpisodeLog:
    """Episodes in the order of their ends, one number of each array for each.

    ``env_steps`` and ``learner_steps`` are those of the whole run at the episode's end, ``seconds`` those since its
    beginning.
    """

    returns: npt.NDArray[np.float64]
    lengths: npt.NDArray[np.int64]
    actors: npt.NDArray[np.int64]
    env_steps: npt.NDArray[np.int64]
    learner_steps: npt.NDArray[np.int64]
    seconds: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.returns)

    def __repr__(self) -> str:
        return f"EpisodeLog({len(self)} episodes)"


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """What a run came to.

    ``samples_per_insert`` is measured after the first ``min_replay_size`` steps. ``is_complete`` is false if the time ran
    out before all steps were made.
    """

    policy: Policy
    episodes: EpisodeLog
    evaluation: EpisodeLog
    mean_return_last_100: float
    env_steps: int
    learner_steps: int
    env_steps_per_s: float
    samples_per_insert: float
    is_complete: bool


class DQN:
    """Deep Q-learning with double Q, transitions over several steps and prioritised replay.

    >>> result = DQN(DQNConfig(batch_size=32)).train("CartPole-v1", steps=20_000, seed=1)  # doctest: +SKIP

    Args:
      config: the settings; Acme's defaults, whatever the environment, unless given. See :meth:`DQNConfig.for_environment`.
      overrides: settings by their names, instead of those of ``config``.

    Raises:
      TypeError: a setting that there is not, or of another type.
      ValueError: a setting out of its range.
    """

    def __init__(self, config: DQNConfig | None = None, **overrides: Any) -> None:
        self.config = dataclasses.replace(config or DQNConfig(), **overrides)

    def __repr__(self) -> str:
        return f"DQN({self.config!r})"

    def train(
        self,
        environment: Any,
        *,
        steps: int,
        seed: int = 1,
        actors: int = 0,
        timeout: float | None = None,
        evaluate_every: int | None = None,
        evaluation_episodes: int = 10,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 10_000,
        progress: bool | Progress | None = None,
    ) -> TrainingResult:
        """Learns by acting in an environment.

        A named environment runs in Rust, beside the interpreter. One of Gymnasium, or with dm_env's interface, is called from a
        thread of the run; Ctrl-C then ends the run at its next step. A second Ctrl-C does not wait for that.

        Args:
          environment: a name, such as ``"catch/0"``; an environment of Gymnasium, or with dm_env's interface; or a function from
            a seed to one of these. A single environment is not closed, and serves a run without actors of its own and
            without evaluations.
          steps: steps in the environment, of all actors together. The episodes that then go on are played to their end.
          seed: everything random follows from it, but for what a given environment has begun with. With no actors, the same seed gives the same run.
          actors: threads that act beside the one that learns; 0: one thread does both in turn.
          timeout: seconds after which the run ends early, with what it has by then.
          evaluate_every: steps from one evaluation without exploration to the next.
          evaluation_episodes: episodes of an evaluation.
          checkpoint_dir: the folder where the run is saved on its way, no bucket; it goes on from what is there, if that is of the same
            environment, seed and settings. Without actors of their own, native environments only.
          checkpoint_every: steps from one checkpoint to the next.
          progress: a function that gets the newest episode, up to twenty times per second; ``True`` for a line on stderr,
            which is also there by default if stderr is a terminal; ``False`` for nothing.

        Raises:
          TypeError: no environment, or values of it that are not supported; the error names their path.
          ValueError: a setting out of its range, an unknown name, actions that DQN cannot take, a checkpoint of another run, an
            observation or a reward that is NaN or infinite.
          Exception: whatever the environment or ``progress`` raises.
        """
        steps, seed = _count("steps", steps, 1), _count("seed", seed)
        actors, checkpoint_every = _count("actors", actors), _count("checkpoint_every", checkpoint_every, 1)
        evaluation_episodes = _count("evaluation_episodes", evaluation_episodes, 1)
        if evaluate_every is not None:
            evaluate_every = _count("evaluate_every", evaluate_every, 1)
        line = Line.of(progress, steps)
        try:
            result = _native.train_dqn(
                self.config._settings(),
                _bridge.source_of(environment, shares=actors <= 1 and evaluate_every is None),
                name=_bridge.name_of(environment),
                steps=steps,
                seed=seed,
                actors=actors,
                timeout=timeout,
                evaluation=None if evaluate_every is None else (evaluate_every, evaluation_episodes),
                checkpoints=None if checkpoint_dir is None else (os.fspath(checkpoint_dir), checkpoint_every),
                progress=line or (progress if callable(progress) else None),
            )
        finally:
            if line is not None:
                line.close()
        return TrainingResult(
            policy=Policy(result["policy"]),
            episodes=EpisodeLog(**result["train"]),
            evaluation=EpisodeLog(**result["evaluation"]),
            mean_return_last_100=result["mean_return_last_100"],
            env_steps=result["env_steps"],
            learner_steps=result["learner_steps"],
            env_steps_per_s=result["env_steps_per_s"],
            samples_per_insert=result["samples_per_insert"],
            is_complete=result["is_complete"],
        )
