"""A Ray cluster with two logical machines, which a test may kill."""

from __future__ import annotations

import pathlib

import pytest
from ray.cluster_utils import Cluster

STORE = 80 << 20


def pytest_addoption(parser):
    parser.addoption("--relive", type=pathlib.Path, help="the program `relive`")


@pytest.fixture
def relive_program(pytestconfig):
    program = pytestconfig.getoption("--relive")
    assert program, "name the program with --relive=PATH, or run `cargo xtask interop --suite ray`"
    return program


@pytest.fixture
def cluster():
    """Provides the cluster. The head node has no room for workers, so the workers are on two other nodes."""
    import ray

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=1, object_store_memory=STORE) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False)
    cluster.wait_for_nodes()
    yield cluster, nodes
    ray.shutdown()
    cluster.shutdown()
