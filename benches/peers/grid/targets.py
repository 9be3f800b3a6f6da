"""The targets for Relive, and its figures in the same run."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from grid.cases import CLIENTS, REVERB, RELIVE, RUST, SIZES, Case, size
from grid.results import Results

RELIVE_LOCAL = ("relive", "relive, out=")
TORCHRL = ("torchrl", "torchrl, memory-mapped")


@dataclass(frozen=True)
class Row:
    """`is_met` is None if a measurement is missing."""

    what: str
    promised: str
    measured: str
    is_met: bool | None


def rows(results: Results) -> list[Row]:
    parts = (small_batches, large_batches, inserts, beside, many_clients, grid)
    return [row for part in parts for row in part(results)]


def at_least(what: str, measured: float | None, promised: float, unit: str) -> Row:
    return Row(what, number(promised, unit), number(measured, unit), None if measured is None else measured >= promised)


def number(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    if unit == "%":
        return f"{value:.0%}"
    if unit == "×":
        return f"{value:.2f} ×"
    return f"{value / 1e6:.2f} M{unit}" if value >= 1e6 else f"{value / 1e3:.0f} k{unit}"


def ratio(ours: float | None, theirs: float | None) -> float | None:
    return ours / theirs if ours is not None and theirs else None


def best(results: Results, case: Case, names: tuple[str, ...], figure: str = "items_per_s") -> float | None:
    found = [results.median(case, name, figure) for name in names]
    return max((value for value in found if value is not None), default=None)


def small_batches(results: Results) -> list[Row]:
    local = Case("sample", "uniform", 400)
    what = "batches of 256 × 400 B from Python"
    reached = best(results, local, RELIVE_LOCAL)
    made = [at_least(f"{what}, in process", reached, 8e6, "/s"),
            at_least(f"{what}, in process, to cpprb's", ratio(reached, results.median(local, "cpprb")), 1.1, "×")]
    served = Case("sample", "uniform", 400, 2)
    for transport, promised in (("shm", 3e6), ("tcp", 1e6)):
        made.append(at_least(f"{what}, {transport}", results.median(served, f"relive, {transport}"), promised, "/s"))
    return made


def large_batches(results: Results) -> list[Row]:
    limits = results.limits()
    gather, tcp = limits["gather"]["40000"]["one_thread"], limits["tcp"]
    reached = best(results, Case("sample", "uniform", 40_000), RELIVE_LOCAL, "gigabytes_per_s")
    served = Case("sample", "uniform", 40_000, 2)
    what = "batches of 256 × 40 kB from Python"
    made = [(f"{what}, in process, to the gather's {gather / 1e9:.1f} GB/s", reached, gather, 0.6)]
    for transport, bound, promised, name in (("shm", gather, 0.5, "the gather"), ("tcp", tcp, 0.6, "raw TCP")):
        reached = results.median(served, f"relive, {transport}", "gigabytes_per_s")
        made.append((f"{what}, {transport}, to {name}'s {bound / 1e9:.1f} GB/s", reached, bound, promised))
    return [at_least(name, ratio(reached and reached * 1e9, bound), promised, "%")
            for name, reached, bound, promised in made]


def inserts(results: Results) -> list[Row]:
    def rust(nbytes: int, transport: str, figure: str) -> float | None:
        # One writer or two, whichever is faster on the machine.
        found = [results.median(Case("insert", "uniform", nbytes, clients), f"relive, {transport}, Rust client", figure)
                 for clients in (1, 2)]
        return max((value for value in found if value is not None), default=None)

    tcp = results.limits()["tcp"]
    made = [at_least(f"inserts of 400 B, Rust client, {transport}", rust(400, transport, "items_per_s"), promised, "/s")
            for transport, promised in (("tcp", 7e5), ("shm", 1.5e6))]
    large = rust(400_000, "tcp", "gigabytes_per_s")
    made.append(at_least(f"inserts of 400 kB, Rust client, tcp, to raw TCP's {tcp / 1e9:.1f} GB/s",
                         ratio(large and large * 1e9, tcp), 0.6, "%"))
    return made


def beside(results: Results) -> list[Row]:
    update, add = Case("update", "prioritized", 400), Case("add", "uniform", 400)
    what = "prioritized, 1 M items: sample 256 + update 256, to"
    reached = best(results, update, RELIVE_LOCAL)
    return [
        at_least(f"{what} cpprb's", ratio(reached, results.median(update, "cpprb")), 2, "×"),
        at_least(f"{what} torchrl's", ratio(reached, best(results, update, TORCHRL)), 3, "×"),
        at_least("adding one 400-byte step and its item, to cpprb's",
                 ratio(results.median(add, "relive"), results.median(add, "cpprb")), 2, "×"),
    ]


def many_clients(results: Results) -> list[Row]:
    made = []
    for operation in ("insert", "sample"):
        def figure(clients: int, name: str) -> float | None:
            return results.median(Case(operation, "uniform", 400, clients), RUST[0].name, name)

        rates = [rate for clients in CLIENTS if (rate := figure(clients, "items_per_s")) is not None]
        peak = max(rates) if figure(2, "items_per_s") is not None else None
        made.append(at_least(f"200 clients, {operation} 400 B, to the peak", ratio(figure(200, "items_per_s"), peak), 0.9, "%"))
        made.append(at_least(f"200 clients, {operation} 400 B, slowest to the mean", figure(200, "slowest_of_mean"), 1 / 3, "%"))
    return made


def grid(results: Results) -> list[Row]:
    """Returns the paper's grid, each package with its own server; Relive uses the fastest transport."""
    ratios = {}
    for nbytes in SIZES:
        for operation in ("insert", "sample"):
            case = Case(operation, "uniform", nbytes, 2)
            ours = best(results, case, tuple(contender.name for contender in RELIVE))
            ratios[f"{operation} {size(nbytes)}"] = ratio(ours, results.median(case, REVERB.name))
    made = [at_least(f"{name}, two clients, to dm-reverb's", value, 1, "×") for name, value in ratios.items()]
    known = [value for value in ratios.values() if value is not None]
    median = statistics.median(known) if len(known) == len(ratios) else None
    return [*made, at_least("the median of these", median, 5, "×")]
