"""The examples that train from the store of trajectories learn in short runs."""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from relive import rl
from relive.rl import recorded

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python" / "gpu"


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"example_gpu_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pytestmark = pytest.mark.usefixtures("one_thread")


def test_behavior_cloning(tmp_path: pathlib.Path) -> None:
    module, environment = example("behavior_cloning"), rl.make("catch/0", seed=1)
    recorded.save(tmp_path / "expert", module.expert_episodes(40, seed=1))
    network = module.train(tmp_path / "expert", environment, steps=400, seed=1)
    assert module.mean_return(network, environment, episodes=40) >= 0.8


def test_decision_transformer() -> None:
    module, environment = example("decision_transformer"), rl.make("catch/0", seed=1)
    settings = module.DecisionTransformer(width=32, learning_rate=3e-3)
    data = module.random_episodes("catch/0", 1000, seed=1)
    network = module.train(data, environment, settings, steps=250, seed=1)
    assert module.mean_return(network, environment, settings, episodes=40) >= 0.4


# Runs programs one after the other in one process, because PyTorch takes seconds to import. Prints their exit codes and
# outputs as JSON.
PROGRAMS = """
import contextlib, io, json, runpy, sys, traceback

def run(program, *arguments):
    out, err = io.StringIO(), io.StringIO()
    sys.argv = [program, *arguments]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            runpy.run_path(program, run_name="__main__")
            code = 0
        except SystemExit as error:
            code = error.code or 0
            if isinstance(code, str):
                print(code, file=sys.stderr)
        except Exception:
            traceback.print_exc()
            code = 1
    return code, out.getvalue(), err.getvalue()

print(json.dumps([run(*command) for command in json.loads(sys.argv[1])]))
"""


def run(*commands: tuple[str, ...]) -> list[tuple[Any, str, str]]:
    given = json.dumps([[str(FOLDER / f"{name}.py"), "--steps", "3", *arguments] for name, *arguments in commands])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])])}
    done = subprocess.run([sys.executable, "-c", PROGRAMS, given], capture_output=True, text=True, timeout=600, check=True, env=environment)
    return [tuple(one) for one in json.loads(done.stdout)]


def test_command_lines(tmp_path: pathlib.Path) -> None:
    gymnasium = pytest.importorskip("gymnasium")
    lake = gymnasium.make("FrozenLake-v1")
    lake.reset(seed=1)
    recorded.save(tmp_path / "lake", [recorded.play(lake, lambda _: 1) for _ in range(3)])
    recorded.save(tmp_path / "catch", [recorded.play(rl.make("catch/0"), lambda _: 1)])
    numbers = {"observations": np.zeros((40, 3)), "actions": np.zeros((40, 1)), "timeouts": np.arange(40) % 20 == 19}
    np.savez(tmp_path / "pendulum.npz", **numbers)
    trained = run(
        ("behavior_cloning",),
        ("behavior_cloning", "FrozenLake-v1", "--data", str(tmp_path / "lake")),
        ("behavior_cloning", "Pendulum-v1", "--data", str(tmp_path / "pendulum.npz")),
        ("decision_transformer",),
        ("decision_transformer", "--data", str(tmp_path / "catch"), "--length", "9", "--target-return", "0.5"),
    )
    for code, out, err in trained:
        assert code == 0 and "mean return of 50 episodes" in out, err
    refused = run(
        ("behavior_cloning", "CartPole-v1"),
        ("decision_transformer", "--data", str(tmp_path / "catch"), "--length", "5"),
        ("decision_transformer", "Pendulum-v1"),
    )
    texts = ("give --data", "has 9 steps.*give --length 9", "this network is for discrete ones")
    for (code, _, err), text in zip(refused, texts, strict=True):
        assert code != 0 and re.search(text, err), err
