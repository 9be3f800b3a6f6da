"""Displays of a run's progress: a line, a tqdm or rich progress bar, and a curve in a notebook. Each is a logger."""

from __future__ import annotations

import importlib
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, get_args

from relive.rl._live_curve import LiveCurve
from relive.rl.loggers import Logger

_SHOWN_EPISODES = 20
_REDRAW_SECONDS = 0.1

Display = Literal["line", "tqdm", "rich", "notebook"]


def display_of(progress: object, steps: int, learner_steps: int | None) -> Logger | None:
    """Returns the display for the option ``progress`` of a run, if any.

    Raises:
      ValueError: the option does not name a display.
      ImportError: the package of a display is not installed.
    """
    if progress is False or callable(progress):
        return None
    if progress is None and not _in_notebook() and not (sys.stderr is not None and sys.stderr.isatty()):
        return None
    name = ("notebook" if _in_notebook() else "line") if progress is None or progress is True else progress
    if name == "notebook":
        return LiveCurve(_package("IPython.display", "notebook"))
    bars: dict[str, Callable[[int, str], _Bar]] = {"line": _Line, "tqdm": _TqdmBar, "rich": _RichBar}
    if not isinstance(name, str) or name not in bars:
        known = ", ".join(map(repr, get_args(Display)))
        raise ValueError(f"progress is {progress!r}, but it must be True, False, a function, or one of {known}")
    acts = steps > 0
    total = steps if acts else learner_steps or 0
    return Shown(bars[name](total, "steps" if acts else "learner steps"), "env_steps" if acts else "learner_steps")


def _in_notebook() -> bool:
    """Returns whether this program runs in a Jupyter kernel."""
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None and hasattr(shell, "get_ipython") else None
    return running is not None and hasattr(running, "kernel")


def _package(module: str, display: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise ImportError(f"progress={display!r} requires the package {name}: pip install {name.lower()}") from error


class _Bar(Protocol):
    def show(self, done: int, seconds: float, figures: Mapping[str, str]) -> None:
        """Shows the number of steps and further figures."""
        ...

    def close(self) -> None:
        """Called at the end of the run."""
        ...


class Shown:
    """Stores the figures of a run, and shows them at most ten times a second."""

    def __init__(self, bar: _Bar, counted: str) -> None:
        self._bar, self._counted = bar, counted
        self._returns: deque[float] = deque(maxlen=_SHOWN_EPISODES)
        # The episodes of the newest evaluation, and the steps at which it took place.
        self._evaluated: list[float] = []
        self._evaluated_at: tuple[float, float] | None = None
        self._newest: Mapping[str, float] = {}
        self._drawn = 0.0

    def write(self, label: str, values: Mapping[str, float]) -> None:
        """Records the run's figures."""
        if label == "actor":
            self._returns.append(values["episode_return"])
        elif label == "evaluator":
            self._note_evaluated(values)
        self._newest = values
        now = time.monotonic()
        if now - self._drawn >= _REDRAW_SECONDS:
            self._drawn = now
            self._draw()

    def _note_evaluated(self, values: Mapping[str, float]) -> None:
        at = values["env_steps"], values["learner_steps"]
        if at != self._evaluated_at:
            self._evaluated, self._evaluated_at = [], at
        self._evaluated.append(values["episode_return"])

    def complete(self, figures: Mapping[str, float]) -> None:
        """Called at the end of the run; its last episodes may have ended earlier."""
        if self._newest:
            self._newest = {**self._newest, **figures}

    def close(self) -> None:
        """Shows the last figures."""
        try:
            if self._newest:
                self._draw()
        finally:
            self._bar.close()

    def _draw(self) -> None:
        newest = self._newest
        returns = {"return": self._returns, "evaluation": self._evaluated}
        figures = {name: f"{sum(of) / len(of):.2f}" for name, of in returns.items() if of}
        if self._counted != "learner_steps":
            figures["learner steps"] = f"{int(newest['learner_steps'])}"
        self._bar.show(int(newest[self._counted]), newest["seconds"], figures)


class _Line:
    """A line on stderr that is overwritten. Nothing is shown if stderr is closed."""

    def __init__(self, total: int, unit: str) -> None:
        self._total, self._unit, self._length = total, unit, 0

    def show(self, done: int, seconds: float, figures: Mapping[str, str]) -> None:
        percent = min(100, 100 * done // max(1, self._total))
        figures_text = "".join(f", {name} {value}" for name, value in figures.items())
        self._write(f"{percent:3d} %  {done / max(1e-9, seconds):.0f} {self._unit}/s{figures_text}")

    def close(self) -> None:
        self._write("", end="\r")

    def _write(self, text: str, end: str = "") -> None:
        if sys.stderr is not None:
            sys.stderr.write("\r" + text.ljust(self._length) + end)
            sys.stderr.flush()
        self._length = len(text)


class _TqdmBar:
    """A tqdm progress bar, which also works in notebooks."""

    def __init__(self, total: int, unit: str) -> None:
        self._bar = _package("tqdm.auto", "tqdm").tqdm(total=total, unit=f" {unit}", unit_scale=True)

    def show(self, done: int, seconds: float, figures: Mapping[str, str]) -> None:
        self._bar.set_postfix(figures, refresh=False)
        self._bar.update(min(done, self._bar.total) - self._bar.n)

    def close(self) -> None:
        self._bar.close()


class _RichBar:
    """A rich progress bar."""

    def __init__(self, total: int, unit: str) -> None:
        bars = _package("rich.progress", "rich")
        rate, figures_text = bars.TextColumn("{task.fields[rate]}"), bars.TextColumn("{task.fields[figures_text]}")
        # Old versions have their default columns only without others.
        usual: tuple[Any, ...] = getattr(bars.Progress, "get_default_columns", tuple)()
        self._bar = bars.Progress(*usual, rate, figures_text)
        self._unit = unit
        self._task = self._bar.add_task("training", total=total, rate="", figures_text="")
        self._bar.start()

    def show(self, done: int, seconds: float, figures: Mapping[str, str]) -> None:
        figures_text = ", ".join(f"{name} {value}" for name, value in figures.items())
        self._bar.update(self._task, completed=done, rate=f"{done / max(1e-9, seconds):.0f} {self._unit}/s", figures_text=figures_text)

    def close(self) -> None:
        self._bar.stop()
