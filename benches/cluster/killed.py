"""Kills a worker during a run, and measures how long it takes until a replacement produces items in its place.

    target/cluster/bin/python benches/cluster/killed.py processes --relive target/debug/relive --rounds 10
    target/cluster/bin/python benches/cluster/killed.py ray --rounds 3

`processes` measures the time from `kill -9` of a worker of `relive rl train` until the next items from its place are in
the run's tables; for PPO, until the next rounds, to which every worker contributes. `ray` measures the time from the
kill of a worker's node until the next step in its place, compared with the time until an ordinary Ray actor on the same
node answers from another node.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import pathlib
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "peers"))

from machine import machine  # noqa: E402

PATIENCE = 120.0
# The table whose new items show that a worker is acting in the place again, and the number of items from before the
# kill that may still arrive after it.
TABLES = {"ppo": ("weights", 2), "impala": ("results", 1), "dqn": ("results", 1)}


def wait_until(is_so) -> float:
    """Waits until a condition holds; returns how long that took."""
    since = time.monotonic()
    while not is_so():
        assert time.monotonic() < since + PATIENCE, "nothing happens"
        time.sleep(0.001)
    return time.monotonic() - since


def children(process: int) -> list[int]:
    lists = [task.joinpath("children").read_text().split() for task in pathlib.Path(f"/proc/{process}/task").iterdir()]
    return sorted(int(child) for one in lists for child in one)


def process_killed(program: pathlib.Path, agent: str) -> float:
    import relive

    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    table, in_flight = TABLES[agent]
    actors = "2" if agent == "ppo" else "1"
    command = [program, "rl", "train", agent, "--env", "CartPole-v1", "--on", "processes", "--actors", actors, "--listen", address, "--steps", str(1 << 40)]
    run = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        client = relive.Client(address, timeout=PATIENCE)

        def inserts() -> int:
            info = client.server_info()
            return info[table].rate_limiter_info.insert_stats.completed if table in info else 0

        wait_until(lambda: inserts() > 5 + random.randrange(50))
        os.kill(random.choice(children(run.pid)), signal.SIGKILL)
        before = inserts()
        return wait_until(lambda: inserts() > before + in_flight + 1)
    finally:
        run.kill()
        run.wait()


class Marking:
    """A slowed-down Catch, which leaves a file for each process that has acted on a node."""

    def __init__(self, seed: int, folder: str) -> None:
        import ray

        from relive import rl

        self._inner = rl.make("catch/0", seed=seed)
        self.observation_spec, self.action_spec = self._inner.observation_spec, self._inner.action_spec
        self._marker = pathlib.Path(folder, f"{ray.get_runtime_context().get_node_id()}-{os.getpid()}")

    def reset(self):
        return self._inner.reset()

    def step(self, action):
        self._marker.touch()
        time.sleep(0.001)
        return self._inner.step(action)


def node_killed() -> tuple[float, float]:
    """Returns the seconds until Relive's worker acts on another node, and until Ray's own actor answers from there."""
    import ray

    import relive.ray
    from nodes import two_nodes
    from relive import rl

    sys.modules["killed"] = sys.modules[__name__]
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    folder = tempfile.mkdtemp(prefix="relive-killed-")
    measured: dict[str, float] = {}
    with two_nodes(cpus=3) as (cluster, nodes):
        by_id = {node.node_id: node for node in nodes}

        @ray.remote(num_cpus=1, resources={"worker": 1}, max_restarts=-1, max_task_retries=-1, scheduling_strategy="SPREAD")
        class Plain:
            def place(self) -> str:
                return ray.get_runtime_context().get_node_id()

        def kill() -> None:
            wait_until(lambda: any(os.scandir(folder)))
            node = next(os.scandir(folder)).name.split("-")[0]
            plain = [Plain.remote() for _ in range(2)]
            there = [actor for actor in plain if ray.get(actor.place.remote()) == node]
            for actor in plain:
                if actor not in there[:1]:
                    ray.kill(actor)
            assert there, "no actor of Ray's own is on the node"
            since = time.monotonic()
            cluster.remove_node(by_id[node], allow_graceful=False)

            def own() -> None:
                # The actor's process may outlive the node's process for a short time, and answer one more time.
                while ray.get(there[0].place.remote()) == node:
                    pass
                measured["ray"] = time.monotonic() - since

            own_thread = threading.Thread(target=own)
            own_thread.start()
            wait_until(lambda: any(entry.name.split("-")[0] != node for entry in os.scandir(folder)))
            measured["relive"] = time.monotonic() - since
            own_thread.join(PATIENCE)

        killing = threading.Thread(target=kill)
        killing.start()
        on = relive.ray.Workers(resources={"worker": 1})
        agent, environment = rl.DQN(batch_size=16, min_replay_size=50), functools.partial(Marking, folder=folder)
        rl.run(agent, environment, steps=1 << 40, on=on, actors=1, timeout=60.0, progress=False)
        killing.join(PATIENCE)
    return measured["relive"], measured["ray"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["processes", "ray"])
    parser.add_argument("--relive", type=pathlib.Path, help="the program `relive`; for processes")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(json.dumps(machine()))
    if options.what == "ray":
        for _ in range(options.rounds):
            relive, ray = node_killed()
            print(f"relive acts after {relive:.1f} s, Ray's own actor answers after {ray:.1f} s: {relive - ray:+.1f} s", flush=True)
        return
    for agent in TABLES:
        pauses = [process_killed(options.relive, agent) for _ in range(options.rounds)]
        print(f"{agent}: median {statistics.median(pauses):.2f} s, longest {max(pauses):.2f} s of {options.rounds}", flush=True)


if __name__ == "__main__":
    main()
