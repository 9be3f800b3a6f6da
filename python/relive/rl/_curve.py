"""Learning curves as pictures."""

from __future__ import annotations

import html
import os
import pathlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from relive.rl._episodes import EpisodeLog

Floats = npt.NDArray[np.float64]

_WIDTH, _HEIGHT, _MARGIN = 640, 320, 48
_MEAN_OVER = 100
_COLOURS = {"training": "#1f77b4", "evaluation": "#d62728"}


class Curve:
    """A picture of lines over steps, in SVG: notebooks show it, and :meth:`save` writes it."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    @classmethod
    def of(cls, training: EpisodeLog, evaluation: EpisodeLog) -> Curve:
        """The returns of a run."""
        lines = {}
        if len(training):
            lines["training"] = training.env_steps.astype(float), _means(training.returns)
        if len(evaluation):
            steps = np.unique(evaluation.env_steps)
            lines["evaluation"] = steps.astype(float), np.array([evaluation.returns[evaluation.env_steps == at].mean() for at in steps])
        return cls(_drawn(lines))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes an SVG file."""
        pathlib.Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg


def _means(returns: Floats) -> Floats:
    """The mean of each return and those before it, a hundred at most."""
    sums = np.concatenate([[0.0], np.cumsum(returns)])
    ends = np.arange(1, len(returns) + 1)
    begins = np.maximum(0, ends - _MEAN_OVER)
    means: Floats = (sums[ends] - sums[begins]) / (ends - begins)
    return means


def _drawn(lines: dict[str, tuple[Floats, Floats]]) -> str:
    xs, ys = ([part for line in lines.values() for part in line[axis]] for axis in (0, 1))
    across, up = _Axis([0.0, *xs], _MARGIN, _WIDTH - 16), _Axis(ys or [0.0, 1.0], _HEIGHT - _MARGIN, 16)
    parts = [f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>']
    parts += [_text(across.place(tick), _HEIGHT - _MARGIN + 18, f"{tick:g}", "middle") for tick in across.ticks()]
    for tick in up.ticks():
        at = up.place(tick)
        parts.append(f'<line x1="{_MARGIN}" x2="{_WIDTH - 16}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>')
        parts.append(_text(_MARGIN - 6, at + 4, f"{tick:g}", "end"))
    for number, (name, (steps, values)) in enumerate(lines.items()):
        points = " ".join(f"{across.place(x):.1f},{up.place(y):.1f}" for x, y in zip(steps, values))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{_COLOURS[name]}" stroke-width="1.5"/>')
        parts.append(_text(_MARGIN + 8, 30 + 16 * number, name, "start", _COLOURS[name]))
    parts.append(_text(_WIDTH / 2, _HEIGHT - 8, "steps in the environment", "middle"))
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}">{"".join(parts)}</svg>'


class _Axis:
    """Where values are in the picture."""

    def __init__(self, values: Sequence[float], begin: float, end: float) -> None:
        self._low, self._high = min(values), max(values)
        if self._low == self._high:
            self._high = self._low + 1
        self._begin, self._end = begin, end

    def place(self, value: float) -> float:
        return self._begin + (value - self._low) / (self._high - self._low) * (self._end - self._begin)

    def ticks(self) -> list[float]:
        """About five round values."""
        raw = (self._high - self._low) / 5
        power = 10.0 ** np.floor(np.log10(raw))
        step = next(round_step * power for round_step in (1, 2, 5, 10) if round_step * power >= raw)
        first = np.ceil(self._low / step) * step
        return [float(tick) for tick in np.arange(first, self._high + step / 2, step) if tick <= self._high]


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#333") -> str:
    font = 'font-family="sans-serif" font-size="12"'
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" {font}>{html.escape(text)}</text>'
