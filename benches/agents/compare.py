"""Compares agents with Stable-Baselines3 and CleanRL: the same settings and environments, alternating on this machine.

    cargo build --release -p relive-cli
    python benches/agents/compare.py --rounds 5

First creates a Python environment with the peers in `target/agents-peers`. If Relive's package is also installed in
this environment (`pip install ./python`), the agents of `examples/python/agents` are included. Each round runs every
case with every contender in turn, in fresh processes; figures are medians of steps per second of whole runs, including
learning. On a machine with other load, use the second figure: steps per second of processor time.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "peers"))

from machine import machine  # noqa: E402

CARTPOLE = {"num_steps": 32, "minibatch_size": 256, "discount": 0.98, "gae_lambda": 0.8}


@dataclass(frozen=True)
class Case:
    """A case to measure."""

    name: str
    agent: str
    environment: str
    steps: int
    peer_steps: int
    settings: dict
    native: bool = True
    """Whether the command line has the agent; otherwise Relive's agent is the PyTorch agent."""


CASES = [
    Case("PPO, 7 epochs, minibatches of 256", "ppo", "CartPole-v1", 200_000, 50_000,
         CARTPOLE | {"epochs": 7, "learning_rate": 3e-3}),
    Case("PPO, 20 epochs, minibatches of 256", "ppo", "CartPole-v1", 200_000, 25_000,
         CARTPOLE | {"epochs": 20, "learning_rate": 1e-3}),
    Case("PPO, 10 epochs, minibatches of 64", "ppo", "CartPole-v1", 200_000, 25_000,
         {"num_steps": 256, "minibatch_size": 64, "discount": 0.99, "gae_lambda": 0.95, "epochs": 10, "learning_rate": 3e-4}),
    Case("SAC, 256-256, batches of 256", "sac", "Pendulum-v1", 3000, 1200,
         {"batch_size": 256, "discount": 0.95, "learning_rate": 1e-3, "min_replay_size": 100}),
    # Preprocessed Pong, with one learner step for every four steps.
    Case("DQN in PyTorch, frames of 84 x 84 x 4", "dqn", "Pong", 6000, 6000,
         {"batch_size": 32, "train_freq": 4, "discount": 0.99, "learning_rate": 1e-4, "min_replay_size": 1000, "max_replay_size": 20_000,
          "target_update_period": 250, "epsilon": 0.1}, native=False),
]


Found = tuple[float, ...]
"""Steps per second, and per second of processor time; for Python programs, also MiB."""


def processor_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def ours(case: Case, binary: pathlib.Path) -> Found:
    options = [f"--set={name}={value}" for name, value in case.settings.items()]
    # A constant learning rate, as in the peers.
    options += ["--set=anneal=false"] if case.agent == "ppo" else []
    before = processor_seconds()
    with tempfile.NamedTemporaryFile() as figures:
        subprocess.run([str(binary), "rl", "train", case.agent, "--env", case.environment, "--steps", str(case.steps), "--seed=1",
                        f"--json={figures.name}", *options], check=True, capture_output=True)
        found = json.loads(pathlib.Path(figures.name).read_text())
    return found["env_steps_per_s"], found["env_steps"] / (processor_seconds() - before)


def peer(script: str, case: Case, python: pathlib.Path, threads: int) -> Found:
    told = subprocess.run([str(python), str(HERE / script), case.agent, str(case.peer_steps), str(threads), json.dumps(case.settings)],
                          check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return tuple(map(float, told.splitlines()[-1].split()))


def prepared(python: pathlib.Path | None) -> pathlib.Path:
    if python is not None:
        return python
    place = ROOT / "target" / "agents-peers"
    if not (place / "done").exists():
        venv.create(place, with_pip=True)
        subprocess.run([str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "-r", str(HERE / "requirements.txt")], check=True)
        (place / "done").touch()
    return place / "bin" / "python"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="cases whose name has this pattern")
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "target" / "release" / "relive")
    parser.add_argument("--python", type=pathlib.Path, help="one that has the peers already")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="of PyTorch")
    options = parser.parse_args()
    python = prepared(options.python)
    print(machine())
    if not options.binary.exists():
        print(f"left out, as there is no {options.binary}: agents in Rust")
    has_relive = subprocess.run([str(python), "-c", "import relive"], capture_output=True, check=False).returncode == 0
    for case in (case for case in CASES if re.search(options.only, case.name)):
        if not case.native and not has_relive:
            print(f"left out, as the package is not installed: {case.name}")
            continue
        contenders = {"Relive": lambda case=case: ours(case, options.binary)} if case.native and options.binary.exists() else {}
        for threads in options.threads:
            with_threads = f"{threads} thread{'s'[:threads - 1]}"
            scripts = ({"Relive's agent in PyTorch": "own.py"} if has_relive else {}) | {"Stable-Baselines3": "sb3.py"}
            for name, script in scripts.items():
                contenders[f"{name}, {with_threads}"] = lambda case=case, script=script, threads=threads: peer(script, case, python, threads)
            if has_relive:
                beside = dataclasses.replace(case, settings=case.settings | {"actors": 1})
                contenders[f"the same, on=\"threads\", {with_threads}"] = lambda case=beside, threads=threads: peer("own.py", case, python, threads)
        if case.agent == "ppo":
            contenders["CleanRL, 1 thread"] = lambda case=case: peer("cleanrl_ppo.py", case, python, 1)
        measure(case, contenders, options.rounds)


def measure(case: Case, contenders: dict, rounds: int) -> None:
    found: dict[str, list[Found]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            found[name].append(run())
    print(f"\n{case.name}")
    own = [statistics.median(numbers) for numbers in zip(*next(iter(found.values())))]
    for name, numbers in found.items():
        wall, processor, *mib = (statistics.median(column) for column in zip(*numbers))
        low, high = min(numbers)[0], max(numbers)[0]
        memory = f"; {mib[0]:.0f} MiB" if mib else ""
        print(f"  {name:<34} {wall:>9.0f} steps/s ({low:.0f} to {high:.0f}), {own[0] / wall:5.2f} x;"
              f" by processor time {processor:>9.0f}, {own[1] / processor:5.2f} x{memory}", flush=True)


if __name__ == "__main__":
    main()
