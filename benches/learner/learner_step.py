"""Compares a learner's step with PyTorch eager: one thread, pinned to one core; each workload alternates between the
two, in several rounds.

    cargo build --release -p relive-nn --example learner_step
    python benches/learner/learner_step.py target/release/examples/learner_step --rounds 5

Requires a Python with torch and numpy. Prints medians over the rounds, the median of the rounds' ratios, and their
range.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

TORCH = pathlib.Path(__file__).with_name("torch_step.py")
# (Relive's workload, PyTorch's, steps measured per round)
WORKLOADS = [
    ("mlp64", "mlp64", 2000),
    ("mlp64-tape", "mlp64", 2000),
    ("mlp256", "mlp256", 400),
    ("mlp256-tape", "mlp256", 400),
    ("conv", "conv", 30),
    ("lstm", "lstm", 150),
    ("act64", "act64", 200),
]


def measure(command: list[str], core: int) -> float:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    pinned = ["taskset", "--cpu-list", str(core), *command]
    output = subprocess.run(pinned, env=environment, check=True, capture_output=True, text=True).stdout
    return float(output.split()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    chosen = [workload for workload in WORKLOADS if options.only in workload[0]]
    pairs: dict[str, list[tuple[float, float]]] = {ours: [] for ours, _, _ in chosen}
    for number in range(options.rounds):
        for ours, theirs, steps in chosen:
            commands = [[str(options.binary), ours, str(steps)], [sys.executable, str(TORCH), theirs, str(steps)]]
            first, second = (measure(command, options.core) for command in commands)
            pairs[ours].append((first, second))
            print(f"round {number + 1}: {ours} {first:.1f} us, PyTorch {second:.1f} us, {first / second:.3f}", file=sys.stderr, flush=True)
    print("| workload | Relive, µs | PyTorch, µs | ratio | range |\n|---|---|---|---|---|")
    for name, found in pairs.items():
        ratios = [ours / theirs for ours, theirs in found]
        ours, theirs = (statistics.median(values) for values in zip(*found))
        print(f"| {name} | {ours:.1f} | {theirs:.1f} | {statistics.median(ratios):.3f} | {min(ratios):.3f}–{max(ratios):.3f} |")
    if options.json:
        options.json.write_text(json.dumps(pairs, indent=1))


if __name__ == "__main__":
    main()
