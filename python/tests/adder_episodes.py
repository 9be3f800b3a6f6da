"""Tables for adders, and episodes whose rows identify their origin."""

from __future__ import annotations

from typing import Any

import numpy as np
from conftest import uniform_table

import relive
from relive import rl
from relive.rl import adders

Row = tuple[float, int, float, float, bool]
SPEC = rl.EnvironmentSpec(
    relive.ArraySpec((), np.float32), rl.DiscreteArraySpec(100), relive.ArraySpec((), np.float64), relive.ArraySpec((), np.float64)
)


class Place:
    """A server with tables that return every item once, in order of creation."""

    def __init__(self, signature: Any = None) -> None:
        tables = [
            uniform_table(name, sampler=relive.selectors.Fifo(), max_times_sampled=1, signature=signature)
            for name in ("priority_table", "other")
        ]
        self.server = relive.Server(tables)
        self.client = relive.Client(f"localhost:{self.server.port}")

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop()

    def items(self, table: str = "priority_table") -> list[Any]:
        count = self.client.server_info()[table].current_size
        named = {"emit_timesteps": False, "unpack_as_table_signature": True}
        return list(self.client.sample(table, count, **named)) if count else []

    def sequences(self) -> list[list[Row]]:
        return [rows_of(sample.data) for sample in self.items()]


def rows_of(data: Any) -> list[Row]:
    fields = ("observation", "action", "reward", "discount", "start_of_episode")
    columns = [np.asarray(getattr(data, name)).tolist() for name in fields]
    return list(zip(*columns, strict=True))


def rows(episode: int, steps: int) -> list[Row]:
    first = 100.0 * (episode + 1)
    taken = [(first + t, t + 1, first + t + 0.5, 0.0 if t + 1 == steps else 0.75, t == 0) for t in range(steps)]
    return [*taken, (first + steps, 0, 0.0, 0.0, False)]


def play(adder: adders.Adder, episode: int, steps: int, until: int | None = None) -> None:
    script = rows(episode, steps)
    adder.add_first(rl.restart(np.float32(script[0][0])))
    for t in range(steps if until is None else until):
        _, action, reward, discount, _ = script[t]
        observation = np.float32(script[t + 1][0])
        kind = rl.truncation if t + 1 == steps else rl.transition
        adder.add(np.int32(action), kind(reward, observation, discount))
