"""The data that agents store: the columns of a step, the kind of item, and the steps themselves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Columns = dict[str, np.ndarray]

PERIOD = 10
"""The number of steps from the beginning of a sequence to the beginning of the next."""
PREPARED = 100
"""The number of steps in a call that adds several steps."""
POOL = 500
"""The number of different steps, which are added in turn so that caches do not contain only one step: a multiple of
`PERIOD` and `PREPARED`."""
_SHORTEST = 20
LONGEST = 200
"""The shortest and the longest episode, in steps."""
_SEED = 1

_FLOAT = np.dtype(np.float32)
_OBSERVATION, _NEXT = "observation", "next_observation"


@dataclass(frozen=True)
class Shape:
    """Items of `length` steps, one for each step or for each tenth step; or episodes of varying length."""

    name: str
    columns: dict[str, tuple[tuple[int, ...], np.dtype]]
    """Shape and data type of each column of a step."""
    items: int
    """The number of items in a full table."""
    batch: int
    length: int = 1
    has_episodes: bool = False

    @property
    def step_bytes(self) -> int:
        return sum(int(np.prod(shape)) * dtype.itemsize for shape, dtype in self.columns.values())

    @property
    def period(self) -> int:
        """Number of steps from one item to the next, unless items are episodes."""
        return PERIOD if self.length > 1 else 1

    def episode_lengths(self) -> np.ndarray:
        """Returns the lengths of the episodes that fill a table; after that, they repeat, with the same steps of the
        pool."""
        lengths = np.random.default_rng(_SEED).integers(_SHORTEST, LONGEST, self.items)
        lengths[:-lengths.sum() % POOL] += 1
        return lengths

    def capacity_steps(self) -> int:
        """Returns the number of steps of the items in a full table; shared steps count once."""
        if self.has_episodes:
            return int(self.episode_lengths().sum())
        return self.items * self.period + self.length - self.period

    def blocks(self) -> list[int]:
        """The numbers of steps in the added blocks, which repeat: a hundred steps, or an episode."""
        return self.episode_lengths().tolist() if self.has_episodes else [PREPARED]

    def item_bytes(self) -> float:
        """Returns the bytes of an item; for episodes, the mean."""
        return self.step_bytes * (float(self.episode_lengths().mean()) if self.has_episodes else self.length)


def _transition(shape: tuple[int, ...], dtype: type) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    observed = (shape, np.dtype(dtype))
    return {_OBSERVATION: observed, "action": ((), np.dtype(np.int64)), "reward": ((), _FLOAT), "discount": ((), _FLOAT), _NEXT: observed}


_BODY = {_OBSERVATION: ((24,), _FLOAT), "action": ((), np.dtype(np.int32)), "reward": ((), _FLOAT)}
_RECURRENT = {"discount": ((), _FLOAT), "log_prob": ((), _FLOAT), "value": ((), _FLOAT), "h": ((128,), _FLOAT), "c": ((128,), _FLOAT)}

SHAPES = {shape.name: shape for shape in (
    Shape("transitions", _transition((4,), np.float32), 200_000, 256),
    Shape("frames", _transition((84, 84, 4), np.uint8), 8_000, 256),
    Shape("sequences", _BODY | _RECURRENT, 4_000, 32, length=20),
    Shape("episodes", _BODY, 500, 32, has_episodes=True),
)}


class Pool:
    """Random, incompressible steps. Step `n` is row `n % 500`, which its reward encodes, so that a sample can be
    checked."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        rows = np.arange(POOL + LONGEST + 1) % POOL
        made = {name: _random(*column)[rows] for name, column in shape.columns.items() if name != _NEXT}
        made["reward"], made["action"] = rows.astype(np.float32), (rows % 4).astype(shape.columns["action"][1])
        if _NEXT in shape.columns:
            made[_NEXT] = made[_OBSERVATION][1:]
        self._rows = {name: made[name][:POOL + LONGEST] for name in shape.columns}
        self._steps = [{name: column[row] for name, column in self._rows.items()} for row in range(POOL)]

    def step(self, number: int) -> Columns:
        return self._steps[number % POOL]

    def steps(self, number: int, count: int) -> Columns:
        """Returns `count` steps starting with `number`, along the leading dimension of each column."""
        first = number % POOL
        return {name: column[first:first + count] for name, column in self._rows.items()}

    def windows(self, number: int, count: int) -> Columns:
        """Returns the items of more than one step that end with the `count` steps starting with `number`, which starts
        a period."""
        length, period = self._shape.length, self._shape.period
        ends = np.arange(number + period, number + count + 1, period)
        first = (ends[ends >= length] - length) % POOL
        return {name: column[first[:, None] + np.arange(length)] for name, column in self._rows.items()}

    def check(self, data: Columns, lengths: np.ndarray | None) -> int:
        """Compares a batch with the added data, and returns the number of distinct items in it. Raises
        ``AssertionError``."""
        shape = self._shape
        assert set(data) == set(shape.columns), f"columns {sorted(data)}, not {sorted(shape.columns)}"
        reward = data["reward"].reshape(shape.batch, -1)
        first = reward[:, 0].astype(int)
        steps = first[:, None] + np.arange(reward.shape[1])
        if shape.has_episodes:
            assert lengths is not None and reward.shape[1] == lengths.max(), "the padding goes further than the longest episode"
            assert self._episodes().issuperset(zip(first.tolist(), lengths.tolist())), "an episode that was not added"
        else:
            assert reward.shape[1] == shape.length and not (first % shape.period).any(), "items of other steps"
            lengths = np.full(shape.batch, shape.length)
        is_step = np.arange(reward.shape[1]) < lengths[:, None]
        for name, (of_step, dtype) in shape.columns.items():
            got = data[name].reshape(shape.batch, -1, *of_step)
            assert got.dtype == dtype, f"{name} is {got.dtype}, not {dtype}"
            np.testing.assert_array_equal(got[is_step], self._rows[name][steps[is_step]], err_msg=name)
            assert not got[~is_step].any(), f"{name}: padding that is not 0"
        return len(np.unique(first))

    def _episodes(self) -> set[tuple[int, int]]:
        """Returns the first row and the length of every episode."""
        lengths = self._shape.episode_lengths()
        starts = np.cumsum(lengths) - lengths
        return set(zip((starts % POOL).tolist(), lengths.tolist()))


def _random(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    random = np.random.default_rng(_SEED)
    if dtype.kind == "f":
        return random.random((POOL, *shape), dtype=dtype.type)
    return random.integers(0, 256, (POOL, *shape), dtype=dtype)
