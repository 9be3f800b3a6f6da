"""The command line that all examples of agents have."""

from __future__ import annotations

import argparse
from typing import Any

import torch

from relive import rl


def main(agent: Any, environment: str, *, steps: int) -> None:
    """Runs an agent as the command line says, and prints what came of it."""
    parser = argparse.ArgumentParser(description=type(agent).__doc__)
    parser.add_argument("environment", nargs="?", default=environment)
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--actors", type=int, default=0, help="threads that act; 0: one thread acts and learns in turn")
    parser.add_argument("--checkpoint-dir", help="where the run is saved, to be resumed from")
    options = parser.parse_args()
    # Networks as small as these are slower with more.
    torch.set_num_threads(1)
    result = rl.run(
        agent, options.environment, steps=options.steps, seed=options.seed, actors=options.actors,
        evaluate_every=options.steps, checkpoint_dir=options.checkpoint_dir,
    )
    shown = result.evaluation.returns
    print(f"mean return of the last 100 episodes: {result.mean_return_last_100:.1f}")
    print(f"mean return of {len(shown)} episodes without exploring: {shown.mean():.1f}")
    print(f"{result.env_steps_per_s:.0f} steps per second, {result.samples_per_insert:.1f} samples per insert")
