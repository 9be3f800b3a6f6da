"""Nodes with several workers each, placed by Ray."""

from __future__ import annotations

import functools
import json
import os
import signal
import socket
import subprocess
import threading
import time

import pytest
import ray
from agents import CatchOfNode, Failing, nodes_of
from conftest import STORE
from test_runs import DQN

import relive.ray
from relive import _ray_nodes, rl


def test_nodes_are_placed_by_a_group_and_have_their_own_workers(cluster, tmp_path):
    on = relive.ray.Workers(workers_per_node=2, num_cpus=0.5, strategy="STRICT_SPREAD")
    # Every worker contributes to each round, so the run does not end before all workers have joined.
    result = rl.run(rl.PPO(num_envs=4, num_steps=16), functools.partial(CatchOfNode, folder=tmp_path), steps=3_000, on=on, actors=4)
    assert result.is_complete and result.env_steps >= 3_000
    workers = [path for path in tmp_path.iterdir() if not path.name.startswith("driver")]
    assert len({path.name.split("-")[0] for path in workers}) == 2 and len(workers) == 4
    groups = ray.util.placement_group_table().values()
    assert {group["state"] for group in groups} == {"REMOVED"}


def test_ray_is_not_called_while_nodes_act(cluster, monkeypatch):
    calls = []
    original = ray.actor.ActorMethod.remote
    monkeypatch.setattr(ray.actor.ActorMethod, "remote", lambda *a, **k: (calls.append(1), original(*a, **k))[1])
    started = []
    on = relive.ray.Workers(workers_per_node=2, num_cpus=0.5)
    rl.run(DQN(), "catch/0", steps=5_000, on=on, actors=2, on_batch=lambda *_: started.append(len(calls)))
    assert len(calls) == 2 and started[0] == started[-1], calls


def test_a_killed_machine_loses_only_its_node(cluster, tmp_path, caplog):
    cluster, nodes = cluster
    cluster.add_node(num_cpus=1, object_store_memory=STORE)
    killed = []

    def kill(*_):
        used = nodes_of(tmp_path)
        if len(used) == 2 and not killed:
            killed.append(int(used.pop()))
            os.kill(killed[0], signal.SIGKILL)

    def is_over():
        return killed and len(nodes_of(tmp_path)) == 3

    env = functools.partial(CatchOfNode, folder=tmp_path, nodes=3)
    on = relive.ray.Workers(workers_per_node=1)
    result = rl.run(DQN(), env, steps=5_000, on=on, actors=2, timeout=110, on_batch=kill)
    assert result.env_steps > 0 and is_over(), result
    assert "node " in caplog.text


def test_an_exception_in_a_worker_of_a_node_is_raised_by_the_run(cluster, tmp_path):
    on = relive.ray.Workers(workers_per_node=1)
    with pytest.raises(LookupError, match="this environment cannot go on"):
        rl.run(DQN(), functools.partial(FailingOfNode, folder=tmp_path), steps=300, on=on, actors=1)


class FailingOfNode(CatchOfNode):
    step = Failing.step


def test_a_placement_group_requires_nodes():
    with pytest.raises(ValueError, match="needs workers_per_node"):
        relive.ray.Workers(strategy="STRICT_SPREAD")
    with pytest.raises(ValueError, match="workers_per_node must be at least 1, got 0"):
        relive.ray.Workers(workers_per_node=0)


def test_a_node_does_not_block_python_and_is_listed_by_the_run(cluster, relive_program):
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [relive_program, "rl", "train", "impala", "--env", "catch/0", "--steps", "60000", "--on", "processes", "--actors", "1"]
    run = subprocess.Popen([*command, "--listen", address, "--no-spawn"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    failed = []
    node = threading.Thread(target=lambda: failed.append(_ray_nodes.Node().work((None, None), address, 1, None)))
    node.start()
    longest, last, seen = 0.0, time.monotonic(), None
    while node.is_alive():
        node.join(0.005)
        now = time.monotonic()
        longest, last = max(longest, now - last), now
        if not seen:
            top = subprocess.run([relive_program, "job", "top", address, "--once", "--json"], capture_output=True, text=True, check=False)
            seen = top.returncode == 0 and json.loads(top.stdout)["nodes"]
            last = time.monotonic()
    told, _ = run.communicate(timeout=60)
    assert run.returncode == 0 and failed == [None], (told, failed)
    assert seen[0]["host"] == socket.gethostname() and longest < 1.0, (seen, longest)
