"""Compares Relive's server with dm-reverb's, both serving the dm-reverb client, alternating on this machine.

    cargo xtask bench                    # builds the server, prepares Python, runs this
    cargo xtask bench --rounds 1 --seconds 2 --case "sample 400 B"

Each round measures every case with one server and then with the other, so that changes in the machine's speed affect
both. Figures are medians over the rounds. An item is one float32 tensor of random (incompressible) values, with one
step per chunk and per item. Server CPU is user and system time of the server's process during the measured window.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import sys
from dataclasses import asdict, dataclass

from tqdm import tqdm

from clients import Clients
from machine import machine
from servers import SERVERS, serve


@dataclass(frozen=True)
class Case:
    """A case to measure."""

    name: str
    operation: str
    nbytes: int
    clients: int


CASES = [
    Case("insert 400 B", "insert", 400, 2),
    Case("sample 400 B", "sample", 400, 2),
    Case("sample 40 kB", "sample", 40_000, 2),
    Case("insert 400 kB", "insert", 400_000, 2),
    Case("sample 400 kB", "sample", 400_000, 2),
]


def measure(kind: str, binary: pathlib.Path, clients: Clients, case: Case, seconds: float) -> dict:
    """Runs one case against a fresh server."""
    # For larger items, as many as fit in 4 GiB.
    max_size = min(1_000_000, max(1000, (4 << 30) // case.nbytes))
    with serve(kind, binary, max_size) as server:
        if case.operation == "sample":
            clients.fill(server.address, case.nbytes, min(20_000, max(500, (256 << 20) // case.nbytes)))
        before = {}
        result = clients.run(case.operation, server.address, case.nbytes, case.clients, seconds,
                             at_start=lambda: before.update(cpu=server.cpu_seconds()))
        server_cpu = server.cpu_seconds() - before["cpu"]
        return {
            "items_per_s": result.items_per_s,
            "megabytes_per_s": result.items_per_s * case.nbytes / 1e6,
            "server_cpu_us_per_item": server_cpu / result.items * 1e6,
            "client_cpu_us_per_item": result.client_cpu_s / result.items * 1e6,
            "server_resident_mb": server.resident_bytes() / 1e6,
        }


def median(runs: list[dict], name: str) -> float:
    return statistics.median(run[name] for run in runs)


def line(case: Case, runs: dict[str, list[dict]]) -> str:
    rates = {kind: median(runs[kind], "items_per_s") for kind in SERVERS}
    cpu = {kind: median(runs[kind], "server_cpu_us_per_item") for kind in SERVERS}
    return (f"{case.name:<14} {rates['reverb']:>12,.0f} {rates['relive']:>12,.0f} "
            f"{rates['relive'] / rates['reverb']:>6.2f}x {cpu['reverb']:>11.1f} {cpu['relive']:>11.1f} "
            f"{cpu['relive'] / cpu['reverb']:>6.2f}x")


HEADER = (f"{'':<14} {'dm-reverb':>12} {'relive':>12} {'ratio':>7} {'dm-reverb':>11} {'relive':>11} {'ratio':>7}\n"
          f"{'':<14} {'items/s':>12} {'items/s':>12} {'':>7} {'CPU us/item':>11} {'CPU us/item':>11}")


def compare(options: argparse.Namespace, cases: list[Case]) -> dict:
    runs = {case.name: {kind: [] for kind in SERVERS} for case in cases}
    with Clients(max(case.clients for case in cases)) as clients, \
            tqdm(total=options.rounds * len(cases) * len(SERVERS), unit="run") as bar:
        for _ in range(options.rounds):
            for case in cases:
                for kind in SERVERS:
                    bar.set_description(f"{case.name}, {kind}")
                    runs[case.name][kind].append(measure(kind, options.server, clients, case, options.seconds))
                    bar.update()
    return runs


def main() -> int:
    names = [case.name for case in CASES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=pathlib.Path, required=True, help="the binary `relive`")
    parser.add_argument("--rounds", type=int, default=3, help="how often each case is measured with each server")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each run is")
    parser.add_argument("--case", action="append", choices=names, help="only this one; may be given again")
    parser.add_argument("--json", type=pathlib.Path, default=pathlib.Path("target/peers.json"),
                        help="where every single figure goes")
    options = parser.parse_args()
    if options.rounds < 1 or options.seconds <= 0:
        parser.error("--rounds must be at least 1 and --seconds more than 0")
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    cases = [case for case in CASES if not options.case or case.name in options.case]
    runs = compare(options, cases)
    print(HEADER)
    for case in cases:
        print(line(case, runs[case.name]))
    report = {"machine": machine(), "seconds": options.seconds, "rounds": options.rounds,
              "cases": [asdict(case) | {"runs": runs[case.name]} for case in cases]}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(report, indent=2) + "\n")
    print(f"every figure: {options.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
