"""The report on a run, in Markdown: the targets and a table for each shape."""

from __future__ import annotations

from agents.results import Results
from agents.shape import SHAPES, Shape
from grid.tables import table
from grid.targets import Row, at_least, number, ratio

MEASURES = {
    "grow": "add one, table grows, steps/s", "add": "add one, table full, steps/s", "add_many": "add prepared, table full, steps/s",
    "sample": "sample, added one at a time, items/s", "sample_prepared": "sample, added prepared, items/s",
}
RELIVE, BUFFER = "relive", "relive.ReplayBuffer"
WHAT = {"sample": "sample", "add": "add one, table full", "add_many": "add prepared, table full"}
# Shape, measure, contender, peer, the minimum ratio, and the unit in which it is reported.
RATIOS = (
    ("transitions", "sample", RELIVE, "cpprb", 1.5, "×"),
    ("transitions", "sample", RELIVE, "torchrl", 4, "×"),
    ("transitions", "sample", RELIVE, "numpy", 0.9, "%"),
    ("transitions", "sample", "relive, shm", RELIVE, 0.6, "%"),
    ("transitions", "sample", "relive, tcp", RELIVE, 0.4, "%"),
    ("frames", "sample", RELIVE, "memcpy", 0.8, "%"),
    ("transitions", "add", RELIVE, "cpprb", 3, "×"),
    ("frames", "add", RELIVE, "cpprb", 1, "×"),
    ("frames", "add_many", RELIVE, "memcpy", 0.6, "%"),
    ("sequences", "sample", RELIVE, "memcpy", 0.6, "%"),
    ("sequences", "sample", RELIVE, "torchrl", 3, "×"),
    ("transitions", "add", BUFFER, "cpprb", 3, "×"),
    ("transitions", "sample", BUFFER, "cpprb", 1.3, "×"),
)
PREPARED_STEPS = 1e6


def targets(results: Results) -> list[Row]:
    rows = [at_least(f"{shape}: {WHAT[measure]}: {ours}, to {theirs}'s",
                     ratio(results.median(shape, ours, measure), results.median(shape, theirs, measure)), promised, unit)
            for shape, measure, ours, theirs, promised, unit in RATIOS]
    prepared = results.median("transitions", RELIVE, "add_many")
    return [*rows, at_least(f"transitions: {WHAT['add_many']}: {RELIVE}", prepared, PREPARED_STEPS, "/s")]


def report(results: Results) -> str:
    parts = [_about(results), "## Targets", _target_table(results), *(_shape(results, SHAPES[name]) for name in results.shapes()),
             _texts("Left out", results.not_applicable()), _texts("**Failed**", results.failures()), _settings(results)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _about(results: Results) -> str:
    told, machine = results.about, results.about["machine"]
    return (f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']:.0f} GB, {machine['system']}; load when the run began: "
            f"{machine['load']}. {told['seconds']:g} s a measurement, medians of {told['rounds']} rounds, in turn, each in a fresh process. "
            f"{', '.join(f'{name} {version}' for name, version in told['versions'].items())}.")


def _target_table(results: Results) -> str:
    verdicts = {True: "yes", False: "**no**", None: "not measured"}
    return table(["what", "promised", "measured", "met?"],
                 [[row.what, row.promised, row.measured, verdicts[row.is_met]] for row in targets(results)])


def _shape(results: Results, shape: Shape) -> str:
    columns = ", ".join(f"{name} {dtype}{list(of_step) if of_step else ''}" for name, (of_step, dtype) in shape.columns.items())
    steps = "episodes" if shape.has_episodes else f"items of {shape.length} steps" if shape.length > 1 else "items of one step"
    about = f"{shape.items:,} {steps}, {shape.item_bytes():,.0f} bytes each; batches of {shape.batch}; {columns}."
    rows = [[contender, *_cells(results, shape.name, contender)] for contender in results.measured(shape.name)]
    return f"## {shape.name.capitalize()}\n\n{about}\n\n{table(['', *MEASURES.values(), 'sample, GB/s'], rows)}"


def _cells(results: Results, shape: str, contender: str) -> list[str]:
    medians = {name: results.median(shape, contender, name) for name in (*MEASURES, "bytes_per_item")}
    sampled = medians["sample"] * medians["bytes_per_item"] / 1e9
    return [*(number(medians[name], "") for name in MEASURES), f"{sampled:.2f}"]


def _texts(title: str, found: dict[str, list[str]]) -> str:
    return "\n".join(f"{title}: {'; '.join(who)}: {text}" for text, who in found.items())


def _settings(results: Results) -> str:
    return "\n".join(["What was used:", "", *(f"* {'; '.join(who)}: {text}." for text, who in results.settings().items())])
