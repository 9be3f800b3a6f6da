"""Plots of learning curves."""

from __future__ import annotations

import dataclasses
import html
import os
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from relive.rl._episodes import EpisodeLog

Floats = npt.NDArray[np.float64]

_WIDTH, _HEIGHT, _MARGIN = 640, 320, 48
_MEAN_OVER = 100
_POINTS = 200
# The largest number of points of a line: more than the pixels of its width.
_MOST_POINTS = 2_000
_COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f")


class Curve:
    """A plot of lines over steps, in SVG: notebooks display it, and :meth:`save` writes it to a file."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    @classmethod
    def of(cls, training: EpisodeLog, evaluation: EpisodeLog) -> Curve:
        """Returns a curve of the returns of a run."""
        acts = _acts(training, evaluation)
        lines = {}
        if len(training):
            lines["training"] = _Line(*_trained(training, acts))
        if len(evaluation):
            lines["evaluation"] = _Line(*_evaluated(evaluation, acts))
        return cls(_drawn(lines, acts))

    @classmethod
    def of_runs(cls, runs: Mapping[str, Sequence[EpisodeLog]], *, evaluations: bool) -> Curve:
        """Returns a curve with the mean of each name's runs, and a band from the lowest to the highest run.

        Raises:
          ValueError: the runs of a name have no steps in common.
        """
        acts = all(_acts(log, log) for logs in runs.values() for log in logs)
        of = _evaluated if evaluations else _trained
        return cls(_drawn({name: _band(name, [of(log, acts) for log in logs]) for name, logs in runs.items()}, acts))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes an SVG file.

        Raises:
          ValueError: the file name has the suffix of a different format, such as ``.png``.
        """
        path = pathlib.Path(path)
        if path.suffix.lower() not in ("", ".svg"):
            raise ValueError(f"a curve is saved as SVG, but {path.name} ends in {path.suffix}; name it {path.stem}.svg")
        path.write_text(self.svg, encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg


@dataclasses.dataclass(frozen=True)
class _Line:
    """Values over steps and, for the mean of several lines, the lowest and the highest values."""

    steps: Floats
    values: Floats
    low: Floats | None = None
    high: Floats | None = None


def _acts(*logs: EpisodeLog) -> bool:
    """Returns whether a run has acted; a run that only learns from recorded data has no environment steps."""
    return any(log.env_steps.any() for log in logs)


def _trained(log: EpisodeLog, acts: bool) -> tuple[Floats, Floats]:
    """Returns the running mean return after each episode or, if there are many episodes, after a selection of them."""
    shown = _shown(len(log))
    return _steps(log, acts)[shown].astype(float), _means(log.returns)[shown]


def _evaluated(log: EpisodeLog, acts: bool) -> tuple[Floats, Floats]:
    """Returns the mean return of each evaluation or, if there are many evaluations, of a selection of them; the
    episodes of an evaluation have the same number of steps."""
    steps, of, episodes = np.unique(_steps(log, acts), return_inverse=True, return_counts=True)
    shown = _shown(len(steps))
    return steps[shown].astype(float), (np.bincount(of, log.returns, len(steps)) / episodes)[shown]


def _shown(points: int) -> npt.NDArray[np.int64]:
    """Returns the numbers of the points that a line shows."""
    return np.linspace(0, points - 1, min(points, _MOST_POINTS)).round().astype(np.int64)


def _steps(log: EpisodeLog, acts: bool) -> npt.NDArray[np.int64]:
    return log.env_steps if acts else log.learner_steps


def _means(returns: Floats) -> Floats:
    """Returns, for each episode, the mean of its return and the preceding returns, at most a hundred returns in
    total."""
    sums = np.concatenate([[0.0], np.cumsum(returns)])
    ends = np.arange(1, len(returns) + 1)
    begins = np.maximum(0, ends - _MEAN_OVER)
    means: Floats = (sums[ends] - sums[begins]) / (ends - begins)
    return means


def _band(name: str, lines: Sequence[tuple[Floats, Floats]]) -> _Line:
    """Combines several lines over their common steps."""
    if len(lines) == 1:
        return _Line(*lines[0])
    first, last = max(of[0] for of, _ in lines), min(of[-1] for of, _ in lines)
    if first > last:
        raise ValueError(f"plot: the runs of {name!r} have no steps in common: one begins at step {first:.0f}, and another ends at step "
                         f"{last:.0f}; give them different names")
    steps = np.linspace(first, last, _POINTS)
    values = np.array([np.interp(steps, of, at) for of, at in lines])
    return _Line(steps, values.mean(0), values.min(0), values.max(0))


def _drawn(lines: Mapping[str, _Line], acts: bool) -> str:
    xs = [step for line in lines.values() for step in line.steps]
    ys = [value for line in lines.values() for part in (line.values, line.low, line.high) if part is not None for value in part]
    across, up = _Axis([0.0, *xs], _MARGIN, _WIDTH - 16), _Axis(ys or [0.0, 1.0], _HEIGHT - _MARGIN, 16)
    parts = [f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>']
    parts += [_text(across.place(tick), _HEIGHT - _MARGIN + 18, f"{tick:g}", "middle") for tick in across.ticks()]
    for tick in up.ticks():
        at = up.place(tick)
        parts.append(f'<line x1="{_MARGIN}" x2="{_WIDTH - 16}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>')
        parts.append(_text(_MARGIN - 6, at + 4, f"{tick:g}", "end"))
    for number, (name, line) in enumerate(lines.items()):
        color = _COLORS[number % len(_COLORS)]
        if line.low is not None and line.high is not None:
            around = _points(across, up, line.steps, line.high) + " " + _points(across, up, line.steps[::-1], line.low[::-1])
            parts.append(f'<polygon points="{around}" fill="{color}" fill-opacity="0.2"/>')
        parts.append(f'<polyline points="{_points(across, up, line.steps, line.values)}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        parts.append(_text(_MARGIN + 8, 30 + 16 * number, name, "start", color))
    parts.append(_text(_WIDTH / 2, _HEIGHT - 8, "steps in the environment" if acts or not xs else "steps of the learner", "middle"))
    parts.append(_text(_MARGIN + 8, 12, "return", "start"))
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}">{"".join(parts)}</svg>'


def _points(across: _Axis, up: _Axis, steps: Floats, values: Floats) -> str:
    return " ".join(f"{across.place(x):.1f},{up.place(y):.1f}" for x, y in zip(steps, values, strict=True))


class _Axis:
    """The positions of values in the plot."""

    def __init__(self, values: Sequence[float], begin: float, end: float) -> None:
        self._low, self._high = min(values), max(values)
        if self._low == self._high:
            self._high = self._low + 1
        self._begin, self._end = begin, end

    def place(self, value: float) -> float:
        return self._begin + (value - self._low) / (self._high - self._low) * (self._end - self._begin)

    def ticks(self) -> list[float]:
        """Returns about five round values for an axis."""
        raw = (self._high - self._low) / 5
        power = 10.0 ** np.floor(np.log10(raw))
        step = next(round_step * power for round_step in (1, 2, 5, 10) if round_step * power >= raw)
        first = np.ceil(self._low / step) * step
        return [float(tick) for tick in np.arange(first, self._high + step / 2, step) if tick <= self._high]


def _text(x: float, y: float, text: str, anchor: str, color: str = "#333") -> str:
    font = 'font-family="sans-serif" font-size="12"'
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}" {font}>{html.escape(text)}</text>'
