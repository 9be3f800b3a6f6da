"""The report in Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from grid import targets
from grid.cases import CLIENTS, SIZES, Case, size
from grid.results import Results

OPERATIONS = {
    "sample": "Sampling batches of 256", "update": "Sampling batches of 256 and updating their priorities",
    "add": "Adding one step and its item", "add-many": "Adding many steps a call, each an item",
    "mixed": "Adding and sampling", "insert": "Inserting", "insert-one": "Inserting one item and waiting for it",
    "sample-one": "Sampling one item a call",
}


def report(results: Results) -> str:
    parts = [about(results), "## Targets", target_table(results), "## In one process", *local(results), "## Servers",
             *served(results), "## Every figure", details(results), used(results), not_measured(results)]
    return "\n\n".join(part for part in parts if part) + "\n"


def about(results: Results) -> str:
    told = results.about
    machine = told["machine"]
    return (f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gb']:.0f} GB, {machine['system']}; load when the run began: "
            f"{machine['load']}. {told['seconds']:g} s a measurement, medians of {told['rounds']} rounds, in turn, each in a fresh process. "
            f"{', '.join(f'{name} {version}' for name, version in told['versions'].items())}.\n\n{limits(results.limits())}")


def limits(told: dict) -> str:
    heads = [*(f"gather of 256 × {size(nbytes)}, one thread / two" for nbytes in SIZES), "TCP loopback", "encrypted",
             "Unix socket", "shared memory"]
    rates = [told["gather"][str(nbytes)] for nbytes in SIZES]
    cells = [f"{rate['one_thread'] / 1e9:.1f} / {rate['two_threads'] / 1e9:.1f}" for rate in rates]
    # Older runs, which lack these measurements, can also be reported.
    cells += [f"{told[name] / 1e9:.1f}" if name in told else "–" for name in ("tcp", "tcp_encrypted", "unix", "shared_memory")]
    return "What the machine allows, GB/s:\n\n" + table(heads, [cells])


def target_table(results: Results) -> str:
    verdicts = {True: "yes", False: "**no**", None: "not measured"}
    return table(["what", "promised", "measured", "met?"],
                 [[row.what, row.promised, row.measured, verdicts[row.is_met]] for row in targets.rows(results)])


def local(results: Results) -> Iterable[str]:
    """Yields a table for each operation: buffers by sizes."""
    cases = [case for case in results.cases() if not case.clients]
    for operation, sampler in dict.fromkeys((case.operation, case.sampler) for case in cases):
        of_operation = sorted((case for case in cases if (case.operation, case.sampler) == (operation, sampler)),
                              key=lambda case: case.nbytes)
        names = dict.fromkeys(name for case in of_operation for name in results.contenders(case))
        rows = [[name, *(cell(results, case, name) for case in of_operation)] for name in names]
        yield f"{OPERATIONS[operation]}, {sampler}, items/s\n\n" + table(
            ["", *(f"{size(case.nbytes)}, {case.items:,} items" for case in of_operation)], rows)


def served(results: Results) -> Iterable[str]:
    """Yields a table for each operation and size: servers with their clients, by numbers of clients."""
    cases = [case for case in results.cases() if case.clients]
    for operation, sampler, nbytes in sorted(
            dict.fromkeys((case.operation, case.sampler, case.nbytes) for case in cases), key=lambda key: (key[0], key[1], key[2])):
        of_kind = [Case(operation, sampler, nbytes, clients) for clients in CLIENTS]
        of_kind = [case for case in of_kind if case in cases]
        names = sorted({name for case in of_kind for name in results.contenders(case)})
        rows = [[name, *(cell(results, case, name) for case in of_kind)] for name in names]
        yield f"{OPERATIONS[operation]}, {sampler}, {size(nbytes)}, items/s by clients\n\n" + table(
            ["", *(str(case.clients) for case in of_kind)], rows)


def cell(results: Results, case: Case, name: str) -> str:
    value = results.median(case, name)
    return "–" if value is None else f"{value:,.0f}"


FIGURES = {
    "items_per_s": ("items/s", "{:,.0f}"), "gigabytes_per_s": ("GB/s", "{:.3f}"), "cpu_us_per_item": ("CPU µs/item", "{:.2f}"),
    "server_cpu_us_per_item": ("of it the server's", "{:.2f}"), "p50_ms": ("p50 ms", "{:.3f}"), "p99_ms": ("p99 ms", "{:.3f}"),
    "resident_bytes": ("memory MB", "{:,.0f}"), "slowest_of_mean": ("slowest client / mean", "{:.2f}"),
    "connections": ("connections", "{:.0f}"),
}


def details(results: Results) -> str:
    """p50 and p99 are the latencies of a call: a batch, or as many inserts as are confirmed together. Memory is the
    memory of the server's process, or the growth of a process with the buffer."""
    rows = []
    for case in results.cases():
        for name in results.contenders(case):
            figures = {figure: results.median(case, name, figure) for figure in FIGURES}
            if figures["items_per_s"] is None:
                continue
            figures["resident_bytes"] = figures["resident_bytes"] and figures["resident_bytes"] / 1e6
            cells = ["" if value is None else FIGURES[figure][1].format(value) for figure, value in figures.items()]
            rows.append([case.name, name, *cells])
    legend = " ".join((details.__doc__ or "").split())
    return legend + "\n\n" + table(["", "", *(head for head, _ in FIGURES.values())], rows)


def used(results: Results) -> str:
    lines = [f"* {name}: {text}" for name, text in results.settings().items()]
    return "## What was used\n\n" + "\n".join([*lines, *SERVED]) if lines else ""


SERVED = (
    "* servers with Python clients: at most four processes, clients as threads of these, each with a writer or iterator of its own; "
    "inserts confirmed every 200 items or 4 MB; batches of 256, smaller where all clients together would hold more than 512 MB. "
    "dm-reverb's clients of one process share connections, Relive's do not (column connections)",
    "* servers with Rust clients: `relive bench`, a thread and a connection each, two batches under way",
    "* update, of servers: dm-reverb's `mutate_priorities` with a dict, Relive's `update_priorities` with arrays, after each batch",
    "* in one process, mixed is 32 single steps, then a batch; of servers, half of the clients insert and half sample",
)


def not_measured(results: Results) -> str:
    lines = [f"* {reason} ({len(names)} measurements, as {names[0]})" for reason, names in results.failures().items()]
    return "## Not measured\n\n" + "\n".join(lines) if lines else ""


def table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
