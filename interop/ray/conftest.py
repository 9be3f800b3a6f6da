"""A Ray cluster with two logical machines, which a test may kill."""

from __future__ import annotations

import pathlib
import time

import pytest
import ray
from ray.cluster_utils import Cluster

STORE = 80 << 20
MACHINES = 2
PATIENCE_S = 60.0


def pytest_addoption(parser):
    parser.addoption("--relive", type=pathlib.Path, help="the program `relive`")


@pytest.fixture
def relive_program(pytestconfig):
    program = pytestconfig.getoption("--relive")
    assert program, "name the program with --relive=PATH, or run `cargo xtask interop --suite ray`"
    return program


class Machines:
    """A cluster that is started anew only after a test has changed its machines, because a start takes seconds."""

    def __init__(self):
        self._cluster, self._nodes = None, []

    def connect(self):
        """Connects to the cluster, and returns it and the nodes of its machines. The head node has no room for
        workers, so the workers are on the machines."""
        if self._cluster is None:
            self._cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False})
            self._nodes = [self._cluster.add_node(num_cpus=1, object_store_memory=STORE) for _ in range(MACHINES)]
        ray.init(address=self._cluster.address, log_to_driver=False)
        self._cluster.wait_for_nodes()
        until = time.monotonic() + PATIENCE_S
        while ray.available_resources().get("CPU") != MACHINES:
            assert time.monotonic() < until, f"an earlier test has left workers: {ray.available_resources()}"
            time.sleep(0.05)
        return self._cluster, list(self._nodes)

    def disconnect(self):
        ray.shutdown()
        if self._cluster is not None and set(self._nodes) != set(self._cluster.worker_nodes):
            self.shutdown()

    def shutdown(self):
        if self._cluster is not None:
            self._cluster.shutdown()
        self._cluster = None


@pytest.fixture(scope="session")
def machines():
    machines = Machines()
    yield machines
    machines.shutdown()


@pytest.fixture
def cluster(machines):
    """Provides the cluster and the nodes of its machines."""
    try:
        yield machines.connect()
    finally:
        machines.disconnect()
