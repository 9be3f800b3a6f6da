"""Objects for the workers of a cluster: an environment that records its location, an environment that fails, and
user-defined programs."""

from __future__ import annotations

import os
import pathlib
import threading
import time

from relive import rl


def nodes_of(folder):
    """Returns the nodes on which environments have acted."""
    return {path.name.split("-")[0] for path in folder.iterdir()}


class Catch:
    """A Catch environment that leaves a file for each process and node on which it has acted. It acts slowly until it
    has acted on a number of nodes, so that a run lasts until then."""

    def __init__(self, seed, folder, nodes=0):
        import ray

        self._inner = rl.make("catch/0", seed=seed)
        self.observation_spec, self.action_spec = self._inner.observation_spec, self._inner.action_spec
        self._nodes = nodes
        self._marker = pathlib.Path(folder, f"{ray.get_runtime_context().get_node_id()}-{os.getpid()}")

    def reset(self):
        return self._inner.reset()

    def step(self, action):
        self._marker.touch()
        if self._nodes and len(nodes_of(self._marker.parent)) < self._nodes:
            time.sleep(0.02)
        else:
            self._nodes = 0
        return self._inner.step(action)


class Failing(Catch):
    """An environment that fails at its first step on a cluster's node."""

    def step(self, action):
        raise LookupError("this environment cannot go on")


class Beating(Catch):
    """A Python thread that runs alongside the run, and writes the longest time for which it was blocked to a file."""

    def __init__(self, seed, folder):
        super().__init__(seed, folder)
        threading.Thread(target=self._beat, daemon=True).start()

    def _beat(self):
        longest, last = 0.0, time.monotonic()
        while True:
            time.sleep(0.005)
            now = time.monotonic()
            longest, last = max(longest, now - last), now
            # Replaces the previous file atomically, because the process may be killed at any moment.
            written = self._marker.with_suffix(".writing")
            written.write_text(f"{longest}")
            written.replace(self._marker.with_suffix(".beat"))


class CatchOfNode(Catch):
    """Like `Catch`, for a process that was started by a Ray actor and does not use Ray itself."""

    def __init__(self, seed, folder, nodes=0):
        self._inner = rl.make("catch/0", seed=seed)
        self.observation_spec, self.action_spec = self._inner.observation_spec, self._inner.action_spec
        self._nodes = nodes
        self._marker = pathlib.Path(folder, f"{os.environ.get('RAY_RAYLET_PID', 'driver')}-{os.getpid()}")
