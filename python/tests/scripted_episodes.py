"""An environment with scripted episodes, and a recorder of them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import relive
from gymnasium import spaces
from relive import nest
from relive.gymnasium import Kind, Recorder, signature


class Script(gymnasium.Env[Any, Any]):
    """Episodes of given lengths.

    Observation t of episode e is 100·e + t, always in the same memory; the reward of step t is t + 1. The arrays of
    actions are overwritten.
    """

    def __init__(self, lengths: list[int], *, truncates: bool = False, form: str = "plain") -> None:
        box = spaces.Box(-1e6, 1e6, (2,), np.float32)
        self._nested = form == "dict"
        self.observation_space: Any = (
            spaces.Dict({"position": box, "parts": spaces.Tuple((spaces.Discrete(1000), box))}) if self._nested else box
        )
        self.action_space: Any = spaces.Tuple((spaces.Discrete(9), box)) if self._nested else spaces.Discrete(9)
        self._lengths = lengths
        self._truncates = truncates
        self._episode = -1
        self._step = 0
        self._memory = np.zeros(2, np.float32)
        self.closed = 0

    def _observe(self) -> Any:
        number = 100 * self._episode + self._step
        self._memory[:] = number
        return {"position": self._memory, "parts": (number, self._memory)} if self._nested else self._memory

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._episode += 1
        self._step = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._step += 1
        if self._nested:
            action[1][:] = -1.0
        over = self._step == self._lengths[self._episode]
        return self._observe(), float(self._step), over and not self._truncates, over and self._truncates, {}

    def close(self) -> None:
        self.closed += 1


def action_of(env: Script, step: int) -> Any:
    """Returns a policy with the action t modulo 9 at step t."""
    return (step % 9, np.full(2, step % 9, np.float32)) if env._nested else step % 9


class Setting:
    """A server with a queue that has the items' signature, and a client."""

    def __init__(self, env: gymnasium.Env[Any, Any], kind: Kind, max_size: int = 1_000) -> None:
        self.table = relive.Table.queue("items", max_size, signature=signature(env, kind))
        self.server = relive.Server([self.table])
        self.client = self.server.localhost_client()

    def __enter__(self) -> Setting:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.stop()

    def items(self) -> list[Any]:
        """Returns all items in order, each without the batch dimension."""
        count = self.table.info.current_size
        if not count:
            return []
        with self.client.batches("items", 1, max_batches=count) as batches:
            return [nest.map_structure(lambda column: column[0], batch.data) for batch in batches]


def play(recorder: Recorder, env: Script, num_episodes: int) -> None:
    for _ in range(num_episodes):
        recorder.reset()
        step, over = 0, False
        while not over:
            _, _, terminated, truncated, _ = recorder.step(action_of(env, step))
            step, over = step + 1, terminated or truncated


def first_number(observation: Any) -> Any:
    """Returns the number that an observation or action encodes; checks that all its parts encode the same number."""
    numbers = [leaf[..., 0] if leaf.dtype == np.float32 else leaf for leaf in nest.flatten(observation)]
    for number in numbers:
        np.testing.assert_array_equal(number, numbers[0])
    return numbers[0]
