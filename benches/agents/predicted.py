"""Compares the predictions of `relive rl plan` with runs with worker processes on this machine.

    cargo build --release -p relive-cli
    python benches/agents/predicted.py --relive target/release/relive

For each agent, the costs are measured once, and runs with 1, 2 and 4 workers are predicted and executed. `steps/s` is
measured in wall-clock time. On a machine with other load, a run has fewer processors than the prediction assumes; then
use the second figure, the processor time of a step in all processes of the run together. The program fails if the
figure selected by `--by` is more than 25 % off.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
from typing import Any

AGENTS = {
    "dqn": ["dqn", "--env", "CartPole-v1"],
    "apex": ["apex", "--env", "CartPole-v1"],
    "ppo": ["ppo", "--env", "CartPole-v1"],
    "impala": ["impala", "--env", "CartPole-v1"],
}
BOUND = 0.25


def predicted(relive: str, agent: list[str], costs: pathlib.Path, actors: int, seconds: float) -> dict[str, Any]:
    command = [relive, "rl", "plan", *agent, "--actors", str(actors), "--costs", str(costs), "--seconds", str(seconds), "--json"]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    prediction = told["prediction"]
    return {
        "steps/s": prediction["env_steps_per_s"],
        "us": 1e6 * prediction["busy_processors"] / prediction["env_steps_per_s"],
        "bottleneck": told["bottleneck"],
    }


def measured(relive: str, agent: list[str], actors: int, steps: int) -> dict[str, float]:
    """Executes a run. The time until its workers have started is measured in a short run and subtracted."""

    def run(steps: int) -> tuple[float, float, float]:
        with tempfile.NamedTemporaryFile(suffix=".json") as figures:
            command = [relive, "rl", "train", *agent, "--on", "processes", "--actors", str(actors), "--steps", str(steps), "--json", figures.name]
            before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            subprocess.run(command, check=True, capture_output=True)
            clock, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
            made = json.loads(pathlib.Path(figures.name).read_text())["env_steps"]
        return made, clock, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    few, many = run(max(steps // 10, 2_000)), run(steps)
    made, clock, processor = (much - little for much, little in zip(many, few, strict=True))
    return {"steps/s": made / clock, "us": 1e6 * processor / made}


def best(relive: str, agent: list[str], actors: int, steps: int, rounds: int) -> dict[str, float]:
    """Returns the result of the best, and therefore least disturbed, of several runs."""
    runs = [measured(relive, agent, actors, steps) for _ in range(rounds)]
    return {"steps/s": max(run["steps/s"] for run in runs), "us": min(run["us"] for run in runs)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--relive", default="target/release/relive")
    parser.add_argument("--agents", nargs="*", default=list(AGENTS), choices=list(AGENTS))
    parser.add_argument("--actors", nargs="*", type=int, default=[1, 2, 4])
    parser.add_argument("--seconds", type=float, default=5.0, help="how long costs are measured, and runs take about")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each kind, of which the least disturbed counts")
    parser.add_argument("--by", choices=["steps/s", "us"], default="steps/s")
    options = parser.parse_args()
    worst = 0.0
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    print(f"{'agent':8} {'actors':>6} {'steps/s':>9} {'predicted':>9} {'off':>7}   {'us':>7} {'predicted':>9} {'off':>7}  bottleneck")
    for name in options.agents:
        with tempfile.TemporaryDirectory() as folder:
            costs = pathlib.Path(folder) / "costs.json"
            for actors in options.actors:
                told = predicted(options.relive, AGENTS[name], costs, actors, options.seconds)
                steps = max(5_000, int(told["steps/s"] * options.seconds))
                real = best(options.relive, AGENTS[name], actors, steps, options.rounds)
                off = {key: told[key] / real[key] - 1.0 for key in ("steps/s", "us")}
                worst = max(worst, abs(off[options.by]))
                print(
                    f"{name:8} {actors:6} {real['steps/s']:9,.0f} {told['steps/s']:9,.0f} {off['steps/s']:+7.0%}"
                    f"   {real['us']:7.1f} {told['us']:9.1f} {off['us']:+7.0%}  {told['bottleneck']}",
                    flush=True,
                )
    print(f"at most {worst:.0%} off by {options.by}")
    return 0 if worst <= BOUND else 1


if __name__ == "__main__":
    sys.exit(main())
