"""The curve in a notebook during a run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from relive.rl._curve import Curve
from relive.rl._episodes import EpisodeLog

_REDRAW_SECONDS = 1.0


class LiveCurve:
    """Redraws the returns of a run once a second, in the same place."""

    def __init__(self, display: Any) -> None:
        """Takes the module ``IPython.display``."""
        self._display = display
        self._episodes: dict[str, list[Mapping[str, float]]] = {"actor": [], "evaluator": []}
        self._handle: Any = None
        self._drawn = time.monotonic()

    def write(self, label: str, values: Mapping[str, float]) -> None:
        """Records an episode."""
        if label not in self._episodes:
            return
        self._episodes[label].append(values)
        now = time.monotonic()
        if now - self._drawn >= _REDRAW_SECONDS:
            self._draw()
            # Drawing becomes slower with each episode, so it may take at most a tenth of the time.
            self._drawn = time.monotonic() + 10 * (time.monotonic() - now)

    def close(self) -> None:
        """Draws the whole run."""
        if any(self._episodes.values()):
            self._draw()

    def _draw(self) -> None:
        curve = Curve.of(*map(_log, self._episodes.values()))
        if self._handle is None:
            self._handle = self._display.display(curve, display_id=True)
        else:
            self._handle.update(curve)


def _log(episodes: list[Mapping[str, float]]) -> EpisodeLog:
    def whole(name: str) -> npt.NDArray[np.int64]:
        return np.array([values[name] for values in episodes], np.int64)

    def real(name: str) -> npt.NDArray[np.float64]:
        return np.array([values[name] for values in episodes], np.float64)

    return EpisodeLog(
        real("episode_return"), whole("episode_length"), whole("actor"), whole("env_steps"), whole("learner_steps"), real("seconds")
    )
