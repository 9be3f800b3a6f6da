"""The curve in a notebook during a run."""

from __future__ import annotations

import time
from array import array
from collections.abc import Mapping
from typing import Any

import numpy as np

from relive.rl._curve import Curve
from relive.rl._episodes import EpisodeLog

_REDRAW_SECONDS = 1.0


class LiveCurve:
    """Redraws the returns of a run at most once a second, in the same place."""

    def __init__(self, display: Any) -> None:
        """Takes the module ``IPython.display``."""
        self._display = display
        self._episodes = {"actor": _Episodes(), "evaluator": _Episodes()}
        self._handle: Any = None
        self._drawn = time.monotonic()

    def write(self, label: str, values: Mapping[str, float]) -> None:
        """Records an episode."""
        if label not in self._episodes:
            return
        self._episodes[label].add(values)
        now = time.monotonic()
        if now - self._drawn >= _REDRAW_SECONDS:
            self._draw()
            # Drawing becomes slower with each episode, so it may take at most a tenth of the time.
            self._drawn = time.monotonic() + 10 * (time.monotonic() - now)

    def close(self) -> None:
        """Draws the whole run."""
        if any(episodes.returns for episodes in self._episodes.values()):
            self._draw()

    def _draw(self) -> None:
        curve = Curve.of(*(episodes.log() for episodes in self._episodes.values()))
        if self._handle is None:
            self._handle = self._display.display(curve, display_id=True)
        else:
            self._handle.update(curve)


class _Episodes:
    """The values of episodes that a curve shows, in arrays: a run may have millions of episodes."""

    def __init__(self) -> None:
        self.returns, self._env_steps, self._learner_steps = array("d"), array("q"), array("q")

    def add(self, values: Mapping[str, float]) -> None:
        """Adds an episode."""
        self.returns.append(values["episode_return"])
        self._env_steps.append(int(values["env_steps"]))
        self._learner_steps.append(int(values["learner_steps"]))

    def log(self) -> EpisodeLog:
        """Returns the episodes as a log, with zeros for what the curve does not show."""
        unused = np.broadcast_to(np.int64(0), len(self.returns))
        seconds = np.broadcast_to(0.0, len(self.returns))
        return EpisodeLog(np.array(self.returns), unused, unused, np.array(self._env_steps), np.array(self._learner_steps), seconds)
