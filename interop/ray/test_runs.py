"""Runs with Ray actors as workers."""

from __future__ import annotations

import functools
import os
import re
import socket
import subprocess
import sys
import threading
import time
import traceback

import pytest
import ray
from agents import Beating, Catch, Failing, nodes_of
from conftest import STORE

import relive.ray
from relive import _ray_cluster, rl

DQN = functools.partial(rl.DQN, batch_size=16, min_replay_size=50)


def wait_until(is_so):
    until = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < until, "it is not so within a minute"


def test_agents_in_rust_act_on_all_nodes(cluster, tmp_path):
    env = functools.partial(Catch, folder=tmp_path)
    for agent in (rl.IMPALA(), DQN()):
        result = rl.run(agent, env, steps=3_000, on="ray", actors=2)
        assert result.is_complete and result.env_steps >= 3_000 and result.learner_steps > 0
    assert len(nodes_of(tmp_path)) == 2


def test_ray_is_not_called_during_a_run(cluster, monkeypatch):
    calls = []
    for module, name in ((ray, "get"), (ray, "wait"), (ray, "put"), (ray.actor.ActorMethod, "remote"), (ray.actor.ActorClass, "remote")):
        original = getattr(module, name)
        monkeypatch.setattr(
            module, name, functools.wraps(original)(lambda *a, _name=name, _original=original, **k: (calls.append(_name), _original(*a, **k))[1])
        )
    started = []
    rl.run(DQN(), "catch/0", steps=5_000, on="ray", actors=2, on_batch=lambda *_: started.append(len(calls)))
    assert set(calls) <= {"put", "remote"} and len(calls) <= 1 + 3 * 2, calls
    assert started[0] == started[-1], "calls of Ray between the first batch and the last"


def test_a_killed_node_loses_only_its_workers(cluster, tmp_path, caplog):
    cluster, nodes = cluster
    spare = cluster.add_node(num_cpus=1, object_store_memory=STORE)
    left = {node.node_id: node for node in (*nodes, spare)}
    killing = []

    def kill(*_):
        used = nodes_of(tmp_path)
        if len(used) == 2 and not killing:
            killing.append(threading.Thread(target=cluster.remove_node, args=(left[used.pop()],), kwargs={"allow_graceful": False}))
            killing[0].start()

    env = functools.partial(Catch, folder=tmp_path, nodes=3)
    result = rl.run(DQN(), env, steps=5_000, on="ray", actors=2, on_batch=kill, timeout=110)
    killing[0].join()
    assert result.is_complete
    assert "restarting it" in caplog.text
    assert len(nodes_of(tmp_path)) == 3, "a worker acts on the node that was free"


def test_an_exception_in_a_worker_is_raised_with_its_traceback(cluster, tmp_path):
    with pytest.raises(LookupError, match="this environment cannot go on") as caught:
        rl.run(DQN(), functools.partial(Failing, folder=tmp_path), steps=300, on="ray", actors=1)
    assert "in step" in "".join(traceback.format_exception(caught.value))


def test_workers_that_cannot_be_scheduled_report_it(cluster, caplog, monkeypatch):
    monkeypatch.setattr(_ray_cluster, "_PLACE_SECONDS", 0.5)
    result = rl.run(DQN(), "catch/0", steps=300, on=relive.ray.Workers(num_cpus=3), actors=1, timeout=4)
    assert not result.is_complete
    assert "worker 0 is waiting for Ray to schedule {'num_cpus': 3}; free in the cluster: {'CPU': 2.0}" in caplog.text


def test_a_waiting_worker_starts_on_an_added_node(cluster, caplog, monkeypatch):
    cluster, _ = cluster
    monkeypatch.setattr(_ray_cluster, "_PLACE_SECONDS", 0.5)
    results = []
    on = relive.ray.Workers(num_cpus=3)
    # Nodes are added by the main thread, as Ray requires.
    run = threading.Thread(target=lambda: results.append(rl.run(DQN(), "catch/0", steps=300, on=on, actors=1, timeout=100)))
    run.start()
    wait_until(lambda: "is waiting for Ray to schedule" in caplog.text)
    cluster.add_node(num_cpus=3, object_store_memory=STORE)
    run.join(120)
    assert results[0].is_complete


def test_workers_end_with_a_killed_learner(cluster, relive_program):
    cluster, _ = cluster
    command = [relive_program, "rl", "train", "impala", "--env", "catch/0", "--steps", str(1 << 40), "--on", "ray", "--actors", "2"]
    environment = {**os.environ, "RAY_ADDRESS": cluster.address, "RELIVE_PYTHON": sys.executable}
    run = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: "CPU" not in ray.available_resources())
    finally:
        run.kill()
        run.wait()
    wait_until(lambda: ray.available_resources().get("CPU") == 2.0)


def test_a_worker_does_not_block_python(cluster, tmp_path):
    rl.run(DQN(), functools.partial(Beating, folder=tmp_path), steps=1_000, on="ray", actors=1)
    beats = [float(path.read_text()) for path in tmp_path.glob("*.beat")]
    assert beats and max(beats) < 1.0, "seconds for which Python was held up at most"


def test_workers_on_ray_join_a_run_of_the_program(cluster, relive_program):
    cluster, _ = cluster
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [relive_program, "rl", "train", "impala", "--env", "catch/0", "--steps", "3000", "--on", "processes", "--actors", "2"]
    run = subprocess.Popen([*command, "--listen", address, "--no-spawn"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    workers = subprocess.run(
        [sys.executable, "-m", "relive.ray", "--join", address, "--actors", "2"],
        env={**os.environ, "RAY_ADDRESS": cluster.address}, capture_output=True, text=True, timeout=120, check=False,
    )
    told, _ = run.communicate(timeout=60)
    assert (workers.returncode, run.returncode) == (0, 0), workers.stderr + told


def test_the_program_starts_its_workers_through_ray(cluster, relive_program):
    cluster, _ = cluster
    command = [relive_program, "rl", "train", "impala", "--env", "catch/0", "--steps", "3000", "--on", "ray", "--actors", "2"]
    environment = {**os.environ, "RAY_ADDRESS": cluster.address, "RELIVE_PYTHON": sys.executable}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    steps = int(re.search(r"([\d,]+) steps", run.stdout).group(1).replace(",", ""))
    assert steps >= 3000, run.stdout


def test_without_ray_the_program_reports_what_is_missing(relive_program):
    command = [relive_program, "rl", "train", "impala", "--env", "catch/0", "--on", "ray"]
    for python, reason in [("/nowhere/python", "No such file or directory"), ("/usr/bin/false", "nothing")]:
        run = subprocess.run(command, env={**os.environ, "RELIVE_PYTHON": python}, capture_output=True, text=True, timeout=60, check=False)
        assert run.returncode == 2 and f"{python} reports: {reason}" in run.stderr, run.stderr


@pytest.mark.parametrize(
    "program",
    [
        "from relive import rl; rl.run(rl.IMPALA(), 'catch/0', on='ray', actors=1, steps=100)",
        "from relive import flow; print(flow.from_range(4, on='ray').gather_sync().take(4))",
    ],
    ids=["run", "flow"],
)
def test_an_address_without_a_cluster_is_reported_at_once(program):
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    environment = {**os.environ, "RAY_ADDRESS": address}
    ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert f"ConnectionError: RAY_ADDRESS is '{address}', where no Ray cluster answers" in ended.stderr
