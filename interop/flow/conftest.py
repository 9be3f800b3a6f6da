"""Fixtures: Ray with few resources, and Relive's results for all programs."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess

import pytest

import programs

PROGRAMS = 75


def pytest_addoption(parser):
    parser.addoption("--relive-flow", type=pathlib.Path, help="the program `relive-flow-programs`")
    parser.addoption("--seed", type=int, default=0, help="of the first program")


def pytest_generate_tests(metafunc):
    if "seed" in metafunc.fixturenames:
        first = metafunc.config.getoption("--seed")
        metafunc.parametrize("seed", range(first, first + PROGRAMS))


@pytest.fixture(scope="session")
def relive_flow(pytestconfig):
    """Returns the items that relive-flow yields for the program of each seed, on each executor; none for programs that
    run only in Python."""
    binary = pytestconfig.getoption("--relive-flow")
    assert binary, "name the program with --relive-flow=PATH, or run `cargo xtask interop --suite flow`"
    first = pytestconfig.getoption("--seed")
    every = {seed: programs.program(seed) for seed in range(first, first + PROGRAMS)}
    asked = {seed: program for seed, program in every.items() if not program["is_python_only"]}
    answer = subprocess.run([binary.resolve()], input=json.dumps(list(asked.values())), capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0, answer.stderr
    return {seed: {} for seed in every} | dict(zip(asked, json.loads(answer.stdout), strict=True))


@pytest.fixture(scope="session")
def ray_session():
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray

    import on_iterators

    # The actors receive the functions themselves, because they cannot import this file.
    ray.cloudpickle.register_pickle_by_value(on_iterators)
    # A separate cluster, even if another one is running on this machine.
    ray.init(address="local", num_cpus=2, include_dashboard=False, object_store_memory=100 << 20, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()
