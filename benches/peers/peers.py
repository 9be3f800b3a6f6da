"""Compares Relive with dm-reverb, torchrl, cpprb, flashbax and a plain numpy ring, on the same work, on this machine.

    cargo xtask bench --peers -- --quick             # what the targets need
    cargo xtask bench --peers                        # everything; hours
    cargo xtask bench --peers -- --resume            # goes on where a run was ended
    cargo xtask bench --peers -- --only "sample.*400 B" --contender "relive|cpprb"

Each round measures every case with every contender in turn, each in a fresh process, so that changes in the machine's
speed affect all of them. Figures are medians over the rounds. Each item is one step, a float32 array of random,
incompressible values.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import pathlib
import re
import subprocess
import sys

from tqdm import tqdm

from grid import measure, plot, tables
from grid.cases import TRANSPORTS, Case, Contender, Plan, full, quick
from grid.results import Results
from machine import machine

PACKAGES = ("cpprb", "torchrl", "torch", "flashbax", "jax", "numpy")
LIMITS_SECONDS = 0.5


def chosen(options: argparse.Namespace) -> Plan:
    plan = quick() if options.quick else full()
    return [(case, tuple(c for c in contenders if re.search(options.contender, c.name)))
            for case, contenders in plan if re.search(options.only, case.name)]


def begin(options: argparse.Namespace, tools: measure.Tools) -> Results:
    if options.resume and options.json.exists():
        results = Results.load(options.json)
        results.about["rounds"] = max(options.rounds, results.about["rounds"])
        return results
    told = json.loads(measure.output([str(tools.reverb_python), "-c", VERSION.format("dm-reverb")]))
    versions = {"relive": importlib.metadata.version("relive"), "dm-reverb": told}
    versions |= {name: importlib.metadata.version(name) for name in PACKAGES}
    return Results({"machine": machine(), "seconds": options.seconds, "rounds": options.rounds, "versions": versions,
                    "limits": []})


VERSION = "import importlib.metadata, json; print(json.dumps(importlib.metadata.version('{}')))"


def run(options: argparse.Namespace, tools: measure.Tools, plan: Plan, results: Results) -> None:
    """Runs the missing measurements. Ctrl-C ends it with the results so far."""
    absent = measure.absent_transports(tools, [transport for transport in TRANSPORTS if transport != "tcp"])
    todo = [(number, case, contender) for number in range(options.rounds) for case, contenders in plan
            for contender in contenders if not results.has(case, contender.name, number)]
    with tqdm(todo, unit="run", file=sys.stderr, smoothing=0.05) as bar:
        try:
            for number, case, contender in bar:
                # The machine's limits vary over time, so they are measured in every round.
                if len(results.about["limits"]) <= number:
                    results.about["limits"].append(measure.limits(tools, LIMITS_SECONDS))
                bar.set_description(f"{number + 1}: {case.name}: {contender.name}")
                results.add(case, contender.name, number, once(tools, case, contender, options.seconds, absent))
                results.save(options.json)
        except KeyboardInterrupt:
            bar.write("ended early; --resume goes on")


def once(tools: measure.Tools, case: Case, contender: Contender, seconds: float, absent: dict[str, str]) -> dict:
    if contender.transport in absent:
        return {"failed": f"transport {contender.transport} is not there: {absent[contender.transport]}"}
    try:
        return measure.measure(tools, case, contender, seconds)
    except (measure.Failed, subprocess.TimeoutExpired) as failure:
        return {"failed": str(failure)}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, text in (("relive", "the binary `relive`"), ("limits", "the binary `limits`"),
                       ("reverb-python", "a Python that has dm-reverb")):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True, help=text)
    parser.add_argument("--quick", action="store_true", help="only what the targets need, briefly: some minutes")
    parser.add_argument("--rounds", type=int, help="how often everything is measured: 3, with --quick 1")
    parser.add_argument("--seconds", type=float, help="how long each measurement is: 2, with --quick 1")
    parser.add_argument("--only", default="", help="a regular expression: cases whose name has it")
    parser.add_argument("--contender", default="", help="a regular expression: contenders whose name has it")
    parser.add_argument("--list", action="store_true", help="print the cases and contenders, and measure nothing")
    parser.add_argument("--resume", action="store_true", help="keep what is in the JSON file, measure what is missing")
    parser.add_argument("--report", action="store_true", help="measure nothing: report what is in the JSON file")
    parser.add_argument("--json", type=pathlib.Path, default=pathlib.Path("target/peers/peers.json"), help="every single figure")
    parser.add_argument("--markdown", type=pathlib.Path, default=pathlib.Path("target/peers/peers.md"), help="the report")
    parser.add_argument("--plot", type=pathlib.Path, default=pathlib.Path("target/peers/peers.svg"), help="the picture, .svg or .png")
    options = parser.parse_args()
    options.rounds = options.rounds if options.rounds is not None else (1 if options.quick else 3)
    options.seconds = options.seconds if options.seconds is not None else (1.0 if options.quick else 2.0)
    if options.rounds < 1 or options.seconds <= 0:
        parser.error("--rounds must be at least 1 and --seconds more than 0")
    return options


def main() -> int:
    options = arguments()
    plan = chosen(options)
    if options.list:
        print("\n".join(f"{case.name}: {'; '.join(contender.name for contender in contenders)}" for case, contenders in plan))
        return 0
    if options.report:
        results = Results.load(options.json)
    else:
        tools = measure.Tools(options.relive, options.limits, pathlib.Path(sys.executable), options.reverb_python)
        results = begin(options, tools)
        run(options, tools, plan, results)
    text = tables.report(results)
    options.markdown.parent.mkdir(parents=True, exist_ok=True)
    options.markdown.write_text(text)
    plot.draw(results, options.plot)
    print(tables.about(results), tables.target_table(results), tables.not_measured(results), sep="\n\n")
    print(f"\nwhole report: {options.markdown}; picture: {options.plot}; every figure: {options.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
