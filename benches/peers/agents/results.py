"""All figures of a run, in a file that is written after each measurement."""

from __future__ import annotations

import json
import os
import pathlib
import statistics


class Results:
    """Measurements by shape, contender and round, and metadata of the run."""

    def __init__(self, about: dict) -> None:
        self.about = about
        self._runs: dict[tuple[str, str], list[dict]] = {}

    def add(self, shape: str, contender: str, figures: dict) -> None:
        self._runs.setdefault((shape, contender), []).append(figures)

    def shapes(self) -> list[str]:
        return list(dict.fromkeys(shape for shape, _ in self._runs))

    def measured(self, shape: str) -> list[str]:
        """Contenders that have figures."""
        return [contender for other, contender in self._runs if other == shape and self.median(shape, contender, "sample") is not None]

    def median(self, shape: str, contender: str, name: str) -> float | None:
        """Returns the median over the successful rounds; None if there are none."""
        values = [run[name] for run in self._runs.get((shape, contender), []) if name in run]
        return statistics.median(values) if values else None

    def not_applicable(self) -> dict[str, list[str]]:
        """Returns the measurements that contenders do not support, by reason."""
        return self._texts("not_applicable")

    def failures(self) -> dict[str, list[str]]:
        return self._texts("failed")

    def settings(self) -> dict[str, list[str]]:
        """Returns the configuration of each contender."""
        told: dict[str, list[str]] = {}
        for (_, contender), runs in self._runs.items():
            for text in {run["settings"] for run in runs if "settings" in run}:
                if contender not in told.setdefault(text, []):
                    told[text].append(contender)
        return told

    def _texts(self, name: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for (shape, contender), runs in self._runs.items():
            for text in {run[name] for run in runs if name in run}:
                found.setdefault(text, []).append(f"{shape}: {contender}")
        return found

    def save(self, path: pathlib.Path) -> None:
        rows = [{"shape": shape, "contender": contender, "round": number, "figures": figures}
                for (shape, contender), runs in self._runs.items() for number, figures in enumerate(runs)]
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = path.with_suffix(".new")
        whole.write_text(json.dumps({"about": self.about, "runs": rows}, indent=1) + "\n")
        os.replace(whole, path)
