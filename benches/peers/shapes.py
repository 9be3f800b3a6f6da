"""Measures Relive, numpy, cpprb, torchrl and flashbax with the kinds of data that agents store, on this machine.

    cargo xtask bench --shapes                                     # everything, three rounds
    cargo xtask bench --shapes -- --seconds 0.5 --rounds 1         # quickly
    cargo xtask bench --shapes -- --only "transitions.*(cpprb|relive)"

Transitions of five columns, with observations of four floats and of stacked frames; sequences of 20 steps with eight
columns, including a recurrent state; episodes of different lengths. Each round measures every shape with every
contender in turn, each in a fresh process, so that changes in the machine's speed affect all of them. Figures are
medians over the rounds. Before and after the timed part, a contender's batches are compared with the added data.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import pathlib
import re
import sys

from tqdm import tqdm

from agents import KINDS
from agents.results import Results
from agents.report import report
from agents.shape import SHAPES
from grid.measure import Failed, output
from machine import machine

PACKAGES = ("relive", "numpy", "cpprb", "torchrl", "torch", "flashbax", "jax")
WORKER = pathlib.Path(__file__).with_name("shapes_worker.py")


def chosen(only: str) -> list[tuple[str, str]]:
    """Returns the chosen pairs of a shape and a contender."""
    pairs = [(shape, contender) for shape in SHAPES for contender in KINDS]
    return [pair for pair in pairs if re.search(only, ": ".join(pair))]


def once(shape: str, contender: str, seconds: float) -> dict:
    job = {"shape": shape, "contender": contender, "seconds": seconds}
    try:
        return json.loads(output([sys.executable, str(WORKER), json.dumps(job)]))
    except Failed as failure:
        return {"failed": str(failure)}


def run(options: argparse.Namespace, pairs: list[tuple[str, str]]) -> Results:
    """Runs the measurements. Ctrl-C ends it with the results so far."""
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    results = Results({"machine": machine(), "seconds": options.seconds, "rounds": options.rounds, "versions": versions})
    todo = [pair for _ in range(options.rounds) for pair in pairs]
    with tqdm(todo, unit="run", file=sys.stderr, smoothing=0.05) as bar:
        try:
            for shape, contender in bar:
                bar.set_description(f"{shape}: {contender}")
                results.add(shape, contender, once(shape, contender, options.seconds))
                results.save(options.json)
        except KeyboardInterrupt:
            bar.write("ended early")
    return results


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each measurement is")
    parser.add_argument("--rounds", type=int, default=3, help="how often everything is measured")
    parser.add_argument("--only", default="", help="a regular expression: what has it in `SHAPE: CONTENDER`")
    parser.add_argument("--list", action="store_true", help="print shapes and contenders, and measure nothing")
    parser.add_argument("--json", type=pathlib.Path, default=pathlib.Path("target/peers/shapes.json"), help="every single figure")
    parser.add_argument("--markdown", type=pathlib.Path, default=pathlib.Path("target/peers/shapes.md"), help="the report")
    options = parser.parse_args()
    if options.rounds < 1 or options.seconds <= 0:
        parser.error("--rounds must be at least 1 and --seconds more than 0")
    return options


def main() -> int:
    options = arguments()
    pairs = chosen(options.only)
    if options.list:
        print("\n".join(": ".join(pair) for pair in pairs))
        return 0
    results = run(options, pairs)
    text = report(results)
    options.markdown.parent.mkdir(parents=True, exist_ok=True)
    options.markdown.write_text(text)
    print(text)
    print(f"this report: {options.markdown}; every figure: {options.json}")
    # A contender that returned wrong data fails the run.
    return 1 if results.failures() else 0


if __name__ == "__main__":
    sys.exit(main())
