"""Runs and streams of programs that fork, and of programs whose ``__main__`` other processes cannot import."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import PATIENCE_S

# As in a notebook, `__main__` has no file.
DEFINITIONS = """
import sys
from relive import flow, rl

def incremented(number):
    return number + 1

class Catch:
    def __init__(self, seed):
        self._inner = rl.make("catch/0", seed=seed)
        self.observation_spec, self.action_spec = self._inner.observation_spec, self._inner.action_spec
        self.reset, self.step = self._inner.reset, self._inner.step

class Agent(rl.PPO):
    pass
"""

STREAM = """
numbers = flow.from_range(4, 2, on="processes").for_each(incremented).filter(lambda number: number != 3)
print(sorted(numbers.gather_async()))
"""

RUN = """
result = rl.run(Agent(num_envs=2), Catch, on="processes", actors=1, steps=100, learners={learners})
print(result.is_complete)
"""

REFUSED = """
sys.modules["cloudpickle"] = None
for call in (
    lambda: flow.from_range(4, 2, on="processes").for_each(incremented).gather_async(),
    lambda: rl.run(rl.DQN(), Catch, on="processes", actors=1, steps=100),
    lambda: rl.run(Agent(), "catch/0", learners=2, actors=1, steps=100),
):
    try:
        call()
    except TypeError as error:
        print(error)
"""

FORKING = """
import os, sys, threading, time
from relive import rl

begun = threading.Event()
options = {"steps": 10**9, "on": "serial", "progress": lambda episode: begun.set()}
threading.Thread(target=rl.run, args=(rl.DQN(), "catch/0"), kwargs=options, daemon=True).start()
begun.wait()
forked_at = time.monotonic()
if os.fork() == 0:
    sys.exit()
os.wait()
print(time.monotonic() - forked_at)
"""

CHILDS_RUN = """
import atexit, os, sys, threading

def report():
    if run is not None:
        run.join(5.0)
        print("the run goes on" if run.is_alive() else "the run has ended", flush=True)

# Called after the functions that the package registers.
atexit.register(report)
run = None
from relive import rl

begun = threading.Event()
options = {"steps": 10**9, "on": "serial", "progress": lambda episode: begun.set()}
if os.fork() == 0:
    run = threading.Thread(target=rl.run, args=(rl.DQN(), "catch/0"), kwargs=options, daemon=True)
    run.start()
    begun.wait()
    sys.exit()
os.wait()
"""


def output(program: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_notebooks_functions_run_in_the_processes_of_shards() -> None:
    pytest.importorskip("cloudpickle")
    assert output(DEFINITIONS + STREAM) == "[1, 2, 4]\n"


@pytest.mark.parametrize("learners", [1, 2])
def test_a_notebooks_environments_and_agents_run_in_processes(learners: int) -> None:
    pytest.importorskip("cloudpickle")
    assert output(DEFINITIONS + RUN.format(learners=learners)) == "True\n"


def test_without_cloudpickle_a_notebooks_functions_and_classes_are_refused_by_name() -> None:
    stream, environment, agent = output(DEFINITIONS + REFUSED).splitlines()
    for text, name in ((stream, "incremented"), (environment, "Catch"), (agent, "Agent")):
        assert f": {name} is defined in a notebook or an interactive session, from which other processes cannot import it; move it" in text
    assert "sends the environment to other processes" in environment and "sends the agent" in agent


def test_a_program_from_standard_input_is_told_to_use_a_file() -> None:
    program = 'from relive import flow\nflow.from_range(4, 2, on="processes").gather_async()\n'
    done = subprocess.run([sys.executable], input=program, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1
    assert "Python reads this program from its standard input, which other processes cannot read again; put it in a file" in done.stderr


def test_a_forked_child_does_not_wait_for_its_parents_run() -> None:
    # A process waits for its own runs for three seconds.
    assert float(output(FORKING)) < 2.0


def test_a_run_of_a_forked_child_is_ended_at_its_exit() -> None:
    assert output(CHILDS_RUN) == "the run has ended\n"
