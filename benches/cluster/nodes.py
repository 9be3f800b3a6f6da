"""A Ray cluster with two logical nodes on this machine."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from ray.cluster_utils import Cluster  # noqa: E402

STORE = 200 << 20


@contextlib.contextmanager
def two_nodes(cpus: int) -> Iterator[tuple[Cluster, list]]:
    """Starts the cluster. The head node, which runs the learning program, has one processor, for a separate learner;
    the other nodes have `cpus` processors each."""
    import ray

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=cpus, object_store_memory=STORE, resources={"worker": cpus}) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    cluster.wait_for_nodes()
    try:
        yield cluster, nodes
    finally:
        ray.shutdown()
        cluster.shutdown()
