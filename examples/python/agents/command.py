"""The command line of all agent examples."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from relive import rl


EPISODES = 10
"""The number of episodes in an evaluation."""


def main(agent: Any, environment: str, *, steps: int, record: Callable[[str, int, str], None] | None = None) -> None:
    """Runs an agent according to the command line, and prints the results.

    Args:
      agent: the agent.
      environment: the environment, unless the command line names another.
      steps: the number of environment steps; with ``record``, of learner steps.
      record: for an agent that learns from recorded episodes: a function that records episodes of an environment, with
        a seed, in a folder.
    """
    options = _parsed(agent, environment, steps, learns_from_data=record is not None)
    if torch := sys.modules.get("torch"):
        # Networks as small as these are slower with more threads.
        torch.set_num_threads(1)
    if options.checkpoint_dir and len(options.seed) > 1:
        sys.exit("--checkpoint-dir is the folder of one run: give one --seed")
    results = [_run(agent, options, seed, record) for seed in options.seed]
    if options.plot:
        rl.plot({type(agent).__name__: results}, of="evaluation").save(options.plot)


def made(name: str, seed: int) -> Any:
    """Returns a native environment or a Gymnasium environment, by name."""
    try:
        return rl.make(name, seed=seed)
    except ValueError:
        import gymnasium

        return rl.GymEnvironment(gymnasium.make(name), seed=seed)


def _run(agent: Any, options: argparse.Namespace, seed: int, record: Callable[[str, int, str], None] | None) -> rl.TrainingResult:
    with tempfile.TemporaryDirectory() as folder:
        if record is None:
            how: Any = {"steps": options.steps, "actors": options.actors}
        else:
            how = {"learner_steps": options.steps, "data": options.data or os.path.join(folder, "recorded")}
            if options.data is None:
                record(options.environment, seed, how["data"])
        result = rl.run(
            agent, options.environment, seed=seed, evaluate_every=max(1, options.steps // options.evaluations),
            evaluation_episodes=EPISODES, checkpoint_dir=options.checkpoint_dir, **how,
        )
    _tell(result)
    return result


def _parsed(agent: Any, environment: str, steps: int, *, learns_from_data: bool) -> argparse.Namespace:
    # The example is the module of the agent's class.
    about = sys.modules[type(agent).__module__].__doc__
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment", nargs="?", default=environment)
    parser.add_argument("--steps", type=int, default=steps, help="of the learner" if learns_from_data else "in the environment")
    parser.add_argument("--seed", type=int, nargs="+", default=[1], help="one run for each")
    parser.add_argument("--evaluations", type=int, default=1, help="how often it is evaluated, the last time at the end")
    parser.add_argument("--plot", help="an SVG file of the learning curves")
    if learns_from_data:
        parser.add_argument("--data", help="recorded episodes, as those of relive rl record; some are recorded unless given")
    else:
        parser.add_argument("--actors", type=int, default=0, help="threads that act; 0: one thread acts and learns in turn")
    parser.add_argument("--checkpoint-dir", help="where the run is saved, to be resumed from")
    return parser.parse_args()


def _tell(result: rl.TrainingResult) -> None:
    # The returns of the last evaluation, at the end of the run.
    shown = result.evaluation.returns[-EPISODES:]
    if len(result.episodes):
        print(f"mean return of the last 100 episodes: {result.mean_return_last_100:.1f}")
        print(f"{result.env_steps_per_s:.0f} steps per second, {result.samples_per_insert:.1f} samples per insert")
    print(f"mean return of {len(shown)} episodes without exploring: {shown.mean():.2f}")
