"""Environment classes and functions: a run creates one environment for each row, with a seed if they take one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import dm_env
import gymnasium
import numpy as np
import pytest
from dm_env import specs
from gymnasium import spaces

from relive import rl
from relive.rl._sources import Source

SEEN = np.zeros(2, np.float32)


class Walk(gymnasium.Env[Any, Any]):
    """Episodes of three steps; records the arguments of its constructor and of resets."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space: spaces.Space[Any] = spaces.Discrete(2)
    made: list[tuple[int, int | None]] = []
    seeds: list[int | None] = []

    def __init__(self, size: int = 4, seed: int | None = None) -> None:
        self.made.append((size, seed))
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.seeds.append(seed)
        self.steps = 0
        return SEEN, {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return SEEN, 1.0, self.steps == 3, False, {}


class Sized(Walk):
    """An environment with a first argument other than a seed."""

    def __init__(self, size: int = 4) -> None:
        super().__init__(size)


class Needy(Walk):
    def __init__(self, size: int) -> None:
        super().__init__(size)


class Line(dm_env.Environment):
    """Episodes of one step, with dm_env's interface."""

    seeds: list[int] = []

    def __init__(self, *, seed: int) -> None:
        self.seeds.append(seed)
        self.is_over = True

    def reset(self) -> dm_env.TimeStep:
        self.is_over = False
        return dm_env.restart(SEEN)

    def step(self, action: Any) -> dm_env.TimeStep:
        if self.is_over:
            return self.reset()
        self.is_over = True
        return dm_env.termination(1.0, SEEN)

    def observation_spec(self) -> Any:
        return specs.Array((2,), np.float32)

    def action_spec(self) -> Any:
        return specs.DiscreteArray(2)


@pytest.fixture(autouse=True)
def forget() -> None:
    for seen in (Walk.made, Walk.seeds, Line.seeds):
        seen.clear()


def trained(environment: Any, **options: Any) -> rl.TrainingResult:
    return rl.DQN(min_replay_size=10, batch_size=4).train(environment, steps=40, progress=False, **options)


def test_a_class_is_constructed_without_arguments_and_seeded_by_reset() -> None:
    result = trained(Sized, seed=3)
    assert result.env_steps == 40 and set(Walk.made) == {(4, None)}
    assert Walk.seeds[0] is not None
    first = Walk.seeds[0]
    Walk.seeds.clear()
    trained(Sized, seed=3)
    assert Walk.seeds[0] == first
    assert trained(lambda seed: Sized(), seed=3).episodes.returns.tolist() == result.episodes.returns.tolist()


def test_several_environments_of_a_class_differ_in_their_seeds() -> None:
    trained(Sized, on="threads", actors=2)
    seeds = {seed for seed in Walk.seeds if seed is not None}
    assert len(seeds) >= 2


def test_a_class_with_a_seed_parameter_gets_the_seed() -> None:
    trained(Walk)
    assert {size for size, _ in Walk.made} == {4} and None not in {seed for _, seed in Walk.made}
    trained(Line)
    assert Line.seeds


def test_a_class_with_required_arguments_is_refused_with_advice() -> None:
    with pytest.raises(TypeError, match="Needy is a class.*missing a required argument: 'size'; give a function from a seed: lambda seed: Needy"):
        trained(Needy)
    assert rl.evaluate(lambda _: 1, Sized, episodes=2).lengths.tolist() == [3, 3]


def optional(size: int = 4) -> Walk:
    return Walk(size)


def keyword_only(size: int = 4, *, seed: int = 0) -> Walk:
    return Walk(size, seed)


def position_only(seed: int = 0, /, size: int = 4) -> Walk:
    return Walk(size, seed)


def seeded(seed: int) -> Walk:
    return Walk(4, seed)


@functools.wraps(seeded)
def by_position(*arguments: Any) -> Walk:
    return seeded(*arguments)


@functools.wraps(seeded)
def by_name(**arguments: Any) -> Walk:
    return seeded(**arguments)


@pytest.mark.parametrize(
    ("make", "made"),
    [
        (lambda seed: Walk(4, seed), (4, 12345)),
        (lambda number: Walk(4, number), (4, 12345)),
        (lambda *arguments: Walk(4, *arguments), (4, 12345)),
        (lambda size=4, seed=None: Walk(size, seed), (4, 12345)),
        (keyword_only, (4, 12345)),
        (position_only, (4, 12345)),
        (by_position, (4, 12345)),
        (by_name, (4, 12345)),
        (functools.partial(Walk, 4), (4, 12345)),
        (functools.partial(Sized), (4, None)),
        (optional, (4, None)),
        (lambda: Walk(), (4, None)),
        (functools.cache(keyword_only), (4, 12345)),
    ],
    ids=["seed", "first", "variable", "named", "keyword", "position", "wrapped", "wrapped_by_name", "partial", "partial_class", "optional", "nothing", "cached"],
)
def test_a_function_gets_the_seed_only_as_an_argument_that_is_meant_for_it(make: Callable[..., Any], made: tuple[int, int | None]) -> None:
    Source(make).rows(0, [12345], 0, True)
    assert Walk.made == [made]


def test_a_partial_function_of_gymnasium_gets_no_seed_as_its_step_limit() -> None:
    make = functools.partial(gymnasium.make, "CartPole-v1")
    lengths = rl.evaluate(lambda _: 0, make, episodes=2, seed=3).lengths.tolist()
    assert min(lengths) > 3
