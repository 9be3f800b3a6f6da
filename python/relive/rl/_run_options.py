"""The options of a run, and their checks."""

from __future__ import annotations

import dataclasses
import numbers
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from relive._numbers import count
from relive.rl._hooks import OnBatch, OnEvaluation, OnStep
from relive.rl._paths import absolute
from relive.rl._progress import Display
from relive.rl._training import Progress
from relive.rl.loggers import Logger

if TYPE_CHECKING:
    from relive.ray import Workers


On = Literal["serial", "threads", "processes", "ray"]


class RunOptions(TypedDict, total=False):
    """The keyword arguments of :func:`run`."""

    steps: int | None
    on: On | Workers | None
    actors: int | None
    learners: int
    seed: int
    learner_steps: int | None
    data: Any
    timeout: float | None
    evaluate_every: int | None
    evaluation_episodes: int
    evaluation_env: Any
    checkpoint_dir: str | os.PathLike[str] | None
    checkpoint_every: int
    warm_start: str | os.PathLike[str] | None
    loggers: Iterable[Logger]
    progress: bool | Display | Progress | None
    on_step: OnStep | None
    on_batch: OnBatch | None
    on_evaluation: OnEvaluation | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Checked:
    """The options of a run, which have been checked."""

    on: On | Workers | None
    steps: int
    """0 for a run that learns from data."""
    learner_steps: int | None
    actors: int
    learners: int
    seed: int
    timeout: float | None
    evaluation: tuple[int, int] | None
    """The number of steps between evaluations, and the number of episodes of an evaluation."""
    checkpoints: tuple[str, int] | None
    """The folder of the checkpoints, and the number of steps between them."""
    warm_start: str | None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Checked:
        """Checks the options of :func:`relive.rl.run`, which describes the errors."""
        on, data, learner_steps = given["on"], given["data"], given["learner_steps"]
        steps, learners = _steps(given["steps"], learner_steps, data), _learners(given["learners"], on, data)
        seed, actors = _count("seed", given["seed"]), _actors(on, given["actors"], learners)
        learner_steps = _count_or_none("learner_steps", learner_steps)
        _expect_seconds(given["timeout"])
        folder = _folder("checkpoint_dir", given["checkpoint_dir"])
        checkpoint_every = _count("checkpoint_every", given["checkpoint_every"], 1)
        episodes = _count("evaluation_episodes", given["evaluation_episodes"], 1)
        evaluate_every = _count_or_none("evaluate_every", given["evaluate_every"])
        for name in ("evaluation_env", "on_evaluation"):
            if given[name] is not None and evaluate_every is None:
                raise ValueError(f"{name} is given, but the run does not evaluate; also give evaluate_every")
        return cls(
            on=on,
            steps=steps,
            learner_steps=learner_steps,
            actors=actors,
            learners=learners,
            seed=seed,
            timeout=given["timeout"],
            evaluation=None if evaluate_every is None else (evaluate_every, episodes),
            checkpoints=None if folder is None else (folder, checkpoint_every),
            warm_start=_folder("warm_start", given["warm_start"]),
        )

    @property
    def acts_here(self) -> bool:
        """Whether this process acts, in the learner's thread or in others."""
        return self.on in (None, "serial", "threads")


def checked_loggers(given: Any) -> list[Logger]:
    """Returns the loggers, after a check of their methods."""
    found: list[Any] = list(given) if isinstance(given, Iterable) else [None]
    if not all(callable(getattr(logger, name, None)) for logger in found for name in ("write", "close")):
        raise TypeError(f"loggers must be a list of loggers, such as [loggers.JSONL(path)], but got {given!r}")
    for logger in found:
        if hasattr(logger, "mark") and not hasattr(logger, "truncate"):
            raise TypeError(f"{type(logger).__qualname__} has the method mark, but lacks truncate, with which a resumed run removes the "
                            "entries after its last checkpoint")
    return found


def _count(name: str, value: Any, least: int = 0) -> int:
    """Returns a whole number; the error for a float such as 1e6 says how to write it."""
    if isinstance(value, float) and value.is_integer():
        raise TypeError(f"{name} is {float(value)}, but it must be a whole number: write {int(value):_}, or convert it with int(…)")
    return count(name, value, least)


def _count_or_none(name: str, value: Any) -> int | None:
    return None if value is None else _count(name, value, 1)


def _steps(steps: int | None, learner_steps: int | None, data: Any) -> int:
    if data is None:
        if steps is None:
            raise TypeError("give steps, or data and learner_steps")
        return _count("steps", steps, 1)
    if steps is not None or learner_steps is None:
        raise ValueError("a run that learns from data does not act; give learner_steps instead of steps")
    return 0


def _expect_seconds(timeout: Any) -> None:
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, numbers.Real)):
        raise TypeError(f"timeout is {timeout!r}, but it must be a number of seconds, or None")


def _folder(name: str, given: Any) -> str | None:
    if given is None:
        return None
    folder = os.fspath(given) if isinstance(given, (str, os.PathLike)) else None
    if not isinstance(folder, str):
        raise TypeError(f"{name} is {given!r}, but it must be the path of a folder, or None")
    if not folder:
        raise ValueError(f"{name} is '', but it must be the path of a folder; '.' is the current folder")
    # URLs are refused later.
    return absolute(folder)


def _actors(on: Any, actors: int | None, learners: int) -> int:
    if actors is None and learners > 1:
        actors = 2
    if on not in (None, *get_args(On)) and not hasattr(on, "_launcher"):
        raise ValueError(f"on is {on!r}, but it must be 'serial', 'threads', 'processes', 'ray' or a relive.ray.Workers")
    number = count("actors", actors if actors is not None else 0 if on in (None, "serial") else 2)
    if not supports(on, number):
        raise ValueError(
            f"actors is {number}, but on='serial' does not support actors: one thread acts and learns; omit actors, or give on='threads'"
            if number
            else f"actors is 0, but on={on!r} needs at least 1; omit actors for the default, or give on='serial' to act in the learner's thread"
        )
    if learners > 1 and not number:
        raise ValueError(f"learners is {learners}, but it must be 1 without actors: a single thread that acts and learns cannot wait for "
                         "other learners")
    return number


def supports(on: Any, actors: int | None) -> bool:
    """Returns whether workers of this kind support this number of actors; without a kind, any number is supported."""
    return on is None or actors is None or (on == "serial") == (actors == 0)


def _learners(learners: int, on: Any, data: Any) -> int:
    learners = count("learners", learners, 1)
    if learners == 1:
        return learners
    if data is not None:
        raise ValueError(f"learners is {learners}, but it must be 1 for a run that learns from data, because only one process reads the "
                         "data")
    if on == "serial":
        raise ValueError(f"learners is {learners}, but it must be 1 with on='serial': a single thread that acts and learns cannot wait "
                         "for other learners")
    return learners
