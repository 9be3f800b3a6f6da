"""Environments for the tests of vectors."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Tuple


class Parts(gymnasium.Env[Any, Any]):
    """An environment with nested observations and actions, which returns its input."""

    observation_space = Dict({"a": Box(-1, 100, (2,), np.float32), "b": Tuple((Discrete(9), MultiBinary(3)))})
    action_space = Dict({"go": Discrete(5), "by": Box(0, 1, (2,), np.float32)})

    def __init__(self) -> None:
        self.at = 0

    def seen(self) -> Any:
        return {"a": np.full(2, self.at, np.float32), "b": (self.at % 9, np.array([self.at % 2, 0, 1], np.int8))}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.at = 0 if seed is None else seed
        return self.seen(), {"options": options} if options else {}

    def step(self, action: Any) -> Any:
        self.at += int(action["go"])
        return self.seen(), float(action["by"].sum()), False, self.at > 20, {"at": self.at}


class Bad(gymnasium.Env[Any, Any]):
    """An environment that misbehaves at its third step."""

    observation_space, action_space = Box(0, 1, (1,), np.float32), Discrete(2)

    def __init__(self, what: str) -> None:
        self.what, self.steps = what, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        if self.steps == 3:
            self.do_it()
        return np.zeros(1, np.float32), 0.0, False, False, {}

    def do_it(self) -> None:
        if self.what == "raise":
            raise LookupError("this environment is bad")
        if self.what == "kill":
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.what == "exit":
            os._exit(3)
        if self.what == "hang":
            threading.Event().wait()


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, tuple):
        return all(same(*pair) for pair in zip(one, other, strict=True))
    return bool(np.array_equal(one, other))


class Counter(gymnasium.Env[Any, Any]):
    """Shows the number of its steps, and has attributes to read, to change and to call."""

    observation_space, action_space = Box(0, 100, (1,), np.float32), Discrete(3)
    render_mode = "ansi"

    def __init__(self, name: str) -> None:
        self.name, self.steps, self.lock = name, 0, threading.Lock()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1, np.float32), {"seed": seed, "options": repr(options)}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return np.full(1, self.steps, np.float32), 0.0, self.steps == 3, False, {}

    def render(self) -> Any:
        return f"{self.name} at {self.steps}"

    def named(self, begin: str, *, end: str) -> str:
        return f"{begin}{self.name}{end}"
