"""Compares the Python package with dm-reverb, each with its own server, alternating on this machine.

    cargo xtask bench --package          # builds the wheel, prepares both Pythons, runs this

Each round measures every case with one package and then with the other, in fresh processes, so that changes in the
machine's speed affect both. Figures are medians over the rounds. Items are float32 tensors of random, incompressible
values; the frames of the last case are smooth, like those of a game, and compress well.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
from dataclasses import dataclass

HERE = pathlib.Path(__file__).parent
PATIENCE_S = 240.0


@dataclass(frozen=True)
class Case:
    """A case: the measured operation, the target, and the peer."""

    name: str
    operation: str
    nbytes: int
    transport: str
    promised: float
    """The minimum ratio of Relive's figure to dm-reverb's."""
    peer_operation: str
    """dm-reverb's operation in this row."""


CASES = [
    Case("insert 400 B", "insert", 400, "tcp", 5, "insert"),
    Case("append_sequence 400 B", "insert-sequence", 400, "tcp", 20, "insert"),
    Case("append_sequence, chunks of 10", "insert-sequence-10", 400, "tcp", 20, "insert"),
    Case("batches 400 B, in process", "batches", 400, "local", 8, "batches"),
    Case("batches 400 B, TCP", "batches", 400, "tcp", 6, "batches"),
    Case("batches 40 kB, in process", "batches", 40_000, "local", 2, "batches"),
    Case("batches 40 kB, TCP", "batches", 40_000, "tcp", 2, "batches"),
    Case("client.sample, one item", "sample-one", 400, "tcp", 4, "sample-one"),
    Case("stacked frames, in process", "frames", 84 * 84, "local", 3, "frames"),
]


def measure(python: pathlib.Path, package: str, operation: str, case: Case, seconds: float) -> dict:
    """Measures in a fresh process."""
    command = [str(python), str(HERE / "package_worker.py"), package, operation, str(case.nbytes), case.transport, str(seconds)]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, env=environment)
    if done.returncode != 0:
        raise SystemExit(f"{package}, {case.name} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def compare(pythons: dict[str, pathlib.Path], options: argparse.Namespace, cases: list[Case]) -> dict:
    runs = {case.name: {package: [] for package in pythons} for case in cases}
    for number in range(options.rounds):
        for case in cases:
            for package, python in pythons.items():
                operation = case.operation if package == "relive" else case.peer_operation
                print(f"round {number + 1}: {case.name}, {package}", file=sys.stderr, flush=True)
                runs[case.name][package].append(measure(python, package, operation, case, options.seconds))
    return runs


def median(runs: list[dict], name: str = "items_per_s") -> float:
    return statistics.median(run[name] for run in runs)


def report(cases: list[Case], runs: dict) -> str:
    rows = [f"{'':<30} {'dm-reverb':>12} {'relive':>12} {'ratio':>7} {'promised':>9}"]
    for case in cases:
        theirs, ours = median(runs[case.name]["reverb"]), median(runs[case.name]["relive"])
        rows.append(f"{case.name:<30} {theirs:>12,.0f} {ours:>12,.0f} {ours / theirs:>6.1f}x {case.promised:>8.0f}x")
    rows.append("items per second; for stacked frames, samples per second")
    for case in cases:
        if case.operation == "frames":
            stored = {package: median(runs[case.name][package], "bytes_per_frame") for package in runs[case.name]}
            compressed = median(runs[case.name]["relive"], "compressed_frame_bytes")
            rows.append(f"bytes per transition: {stored['relive']:,.0f}, of a compressed frame: {compressed:,.0f} "
                        f"({stored['relive'] / compressed:.3f}x)")
    return "\n".join(rows)


def main() -> int:
    names = [case.name for case in CASES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--relive-python", type=pathlib.Path, required=True, help="a Python that has relive")
    parser.add_argument("--reverb-python", type=pathlib.Path, required=True, help="a Python that has dm-reverb")
    parser.add_argument("--rounds", type=int, default=3, help="how often each case is measured with each package")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each run is")
    parser.add_argument("--case", action="append", choices=names, help="only this one; may be given again")
    parser.add_argument("--json", type=pathlib.Path, default=pathlib.Path("target/package.json"),
                        help="where every single figure goes")
    options = parser.parse_args()
    if options.rounds < 1 or options.seconds <= 0:
        parser.error("--rounds must be at least 1 and --seconds more than 0")
    cases = [case for case in CASES if not options.case or case.name in options.case]
    runs = compare({"reverb": options.reverb_python, "relive": options.relive_python}, options, cases)
    print(report(cases, runs))
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(runs, indent=2) + "\n")
    print(f"every figure: {options.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
