"""The line that tells how a run goes."""

from __future__ import annotations

import sys
from collections import deque
from typing import Any

_SHOWN_EPISODES = 20


class Line:
    """A line on stderr, written over and over."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._returns: deque[float] = deque(maxlen=_SHOWN_EPISODES)
        self._length = 0

    @classmethod
    def of(cls, progress: object, steps: int) -> Line | None:
        """The line for the option ``progress`` of a run, if there is to be one."""
        if progress is True or (progress is None and sys.stderr is not None and sys.stderr.isatty()):
            return cls(steps)
        return None

    def __call__(self, episode: dict[str, Any]) -> None:
        self._returns.append(episode["episode_return"])
        mean = sum(self._returns) / len(self._returns)
        done = min(100, 100 * episode["env_steps"] // max(1, self._steps))
        rate = episode["env_steps"] / max(1e-9, episode["seconds"])
        self._write(
            f"{done:3d} %  episode {episode['episode']}: return {mean:.2f}, {rate:.0f} steps/s, "
            f"{episode['learner_steps']} learner steps"
        )

    def close(self) -> None:
        """Takes the line away."""
        self._write("")
        sys.stderr.write("\r")
        sys.stderr.flush()

    def _write(self, text: str) -> None:
        sys.stderr.write("\r" + text.ljust(self._length))
        sys.stderr.flush()
        self._length = len(text)
