"""All figures of a run, in a file that is written after each measurement."""

from __future__ import annotations

import json
import os
import pathlib
import statistics
from dataclasses import asdict

from grid.cases import Case


class Results:
    """Measurements by case, contender and round, and metadata of the run."""

    def __init__(self, about: dict) -> None:
        self.about = about
        self._runs: dict[tuple[Case, str], dict[int, dict]] = {}

    def add(self, case: Case, contender: str, number: int, figures: dict) -> None:
        self._runs.setdefault((case, contender), {})[number] = figures

    def has(self, case: Case, contender: str, number: int) -> bool:
        return number in self._runs.get((case, contender), {})

    def cases(self) -> list[Case]:
        return list(dict.fromkeys(case for case, _ in self._runs))

    def contenders(self, case: Case) -> list[str]:
        return [contender for other, contender in self._runs if other == case]

    def median(self, case: Case, contender: str, name: str = "items_per_s") -> float | None:
        """Returns the median over the successful rounds; None if there are none."""
        runs = self._runs.get((case, contender), {}).values()
        values = [run[name] for run in runs if run.get(name) is not None]
        return statistics.median(values) if values else None

    def limits(self) -> dict:
        """Returns the limits of the machine, as medians over the rounds."""
        return _medians(self.about["limits"])

    def failures(self) -> dict[str, list[str]]:
        """Returns the cases that were not measured, by reason."""
        found: dict[str, list[str]] = {}
        for (case, contender), runs in self._runs.items():
            for run in runs.values():
                if "failed" in run:
                    found.setdefault(run["failed"], []).append(f"{case.name}: {contender}")
        return found

    def settings(self) -> dict[str, str]:
        """Returns the configuration of each buffer."""
        return {contender: run["settings"] for (_, contender), runs in self._runs.items() for run in runs.values()
                if "settings" in run}

    def save(self, path: pathlib.Path) -> None:
        rows = [asdict(case) | {"contender": contender, "round": number, "figures": figures}
                for (case, contender), runs in self._runs.items() for number, figures in runs.items()]
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = path.with_suffix(".new")
        whole.write_text(json.dumps({"about": self.about, "runs": rows}, indent=1) + "\n")
        os.replace(whole, path)

    @classmethod
    def load(cls, path: pathlib.Path) -> Results:
        read = json.loads(path.read_text())
        results = cls(read["about"])
        for row in read["runs"]:
            case = Case(row["operation"], row["sampler"], row["nbytes"], row["clients"])
            results.add(case, row["contender"], row["round"], row["figures"])
        return results


def _medians(found: list):
    """Returns the median of numbers, or of dicts of numbers, key by key."""
    if isinstance(found[0], dict):
        return {key: _medians([one[key] for one in found]) for key in found[0]}
    return statistics.median(found)
