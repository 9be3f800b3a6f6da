"""The picture for the README: buffers in one process, and servers with increasing numbers of clients."""

from __future__ import annotations

import pathlib

from grid.cases import CLIENTS, LOCAL, Case
from grid.results import Results

BARS = {
    "batches of 256 × 400 B": Case("sample", "uniform", 400),
    "batches of 256 × 40 kB": Case("sample", "uniform", 40_000),
    "prioritized: sample + update": Case("update", "prioritized", 400),
    "add one step": Case("add", "uniform", 400),
}
CURVES = {"dm-reverb": "tab:gray", "relive, tcp": "tab:blue", "relive, unix": "tab:cyan", "relive, shm": "tab:green",
          "relive, tcp, Rust client": "tab:orange"}
COLORS = {"relive": "tab:blue", "relive, out=": "tab:cyan", "dm-reverb": "tab:gray"}


def draw(results: Results, path: pathlib.Path) -> None:
    import matplotlib

    matplotlib.use("svg" if path.suffix == ".svg" else "agg")
    # The same data gives the same file: no random ids and no date.
    matplotlib.rcParams["svg.hashsalt"] = "relive"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 3, figsize=(13, 6.5), layout="constrained")
    for axis, (title, case) in zip(axes.flat[:4], BARS.items()):
        bars(axis, results, title, case)
    for axis, operation in zip(axes.flat[4:], ("sample", "insert")):
        curves(axis, results, operation)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)


def bars(axis, results: Results, title: str, case: Case) -> None:
    rates = {contender.name: results.median(case, contender.name) for contender in LOCAL}
    rates = {name: rate / 1e6 for name, rate in rates.items() if rate is not None}
    names = list(rates)
    drawn = axis.barh(names, rates.values(), color=[COLORS.get(name, "tab:olive") for name in names])
    axis.bar_label(drawn, fmt="%.3g", padding=2, fontsize=8)
    axis.invert_yaxis()
    axis.margins(x=0.15)
    axis.set_title(title, fontsize=10)
    axis.set_xlabel("million items per second, in one process", fontsize=8)
    axis.tick_params(labelsize=8)


def curves(axis, results: Results, operation: str) -> None:
    for name, color in CURVES.items():
        points = [(clients, results.median(Case(operation, "uniform", 400, clients), name)) for clients in CLIENTS]
        points = [(clients, rate / 1e6) for clients, rate in points if rate is not None]
        if points:
            axis.plot(*zip(*points), marker="o", markersize=4, color=color, label=name)
    axis.set_xscale("log", base=2)
    axis.set_xticks(CLIENTS, [str(clients) for clients in CLIENTS])
    axis.set_ylim(bottom=0)
    axis.set_title(f"server: {operation} 400 B", fontsize=10)
    axis.set_xlabel("clients", fontsize=8)
    axis.set_ylabel("million items per second", fontsize=8)
    axis.tick_params(labelsize=8)
    if axis.lines:
        axis.legend(fontsize=7)
