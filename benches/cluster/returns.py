"""Compares what IMPALA learns on CartPole-v1 with Ray actors on two logical nodes, and in threads of this process.

    target/cluster/bin/python benches/cluster/returns.py --seeds 5

Prints the mean return of the episodes that end within each part of the steps, as mean and standard deviation over the
seeds. `throughput.py` describes how to create the Python environment.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "peers"))

from machine import machine  # noqa: E402
from nodes import two_nodes  # noqa: E402

ACTORS, PARTS = 4, 5


def curve(on: object, seed: int, steps: int) -> np.ndarray:
    """Returns the mean return of each part of a run."""
    from relive import rl

    result = rl.run(rl.IMPALA(), "CartPole-v1", steps=steps, on=on, actors=ACTORS, seed=seed, progress=False)
    log = result.episodes
    part = np.minimum(log.env_steps * PARTS // steps, PARTS - 1)
    assert result.learner_steps >= 0.9 * result.env_steps / 320, "a batch has 320 steps, all of which are learned from"
    return np.array([log.returns[part == number].mean() for number in range(PARTS)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="runs of each kind [default: 5]")
    parser.add_argument("--steps", type=int, default=500_000, help="of each run [default: 500,000]")
    options = parser.parse_args()
    print(json.dumps(machine()))
    curves: dict[str, list[np.ndarray]] = {"threads": [], "ray": []}
    with two_nodes(cpus=ACTORS // 2):
        for seed in range(1, options.seeds + 1):
            for on, all_of in curves.items():
                all_of.append(curve(on, seed, options.steps))
    print(f"return in each {100 // PARTS} % of {options.steps:,} steps, mean ± standard deviation of {options.seeds} seeds")
    for on, all_of in curves.items():
        mean, spread = np.mean(all_of, axis=0), np.std(all_of, axis=0, ddof=1)
        print(f"{on}: " + ", ".join(f"{a:.0f} ± {b:.0f}" for a, b in zip(mean, spread, strict=True)))


if __name__ == "__main__":
    main()
