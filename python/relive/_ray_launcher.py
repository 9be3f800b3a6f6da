"""The start of a run's workers as Ray actors."""

from __future__ import annotations

import contextlib
import secrets
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from typing import TYPE_CHECKING, Any

from relive._ray_cluster import Placement, connected, first_line
from relive._ray_nodes import Host, Node
from relive._remote import RemoteError, raised

if TYPE_CHECKING:
    from relive.ray import Workers

# Strategies of placement groups; single actors do not support them.
GROUPS = ("STRICT_SPREAD", "PACK", "STRICT_PACK")


class Launcher:
    """Starts workers as Ray actors, in the cluster of :func:`connected`."""

    other_machines: dict[str, Any] | None = None

    def __init__(self, workers: Workers, agent: Any, environment: Any, token: str | None) -> None:
        self._ray = ray = connected()
        try:
            self._work = ray.put((agent, environment))
        except Exception as error:
            raise TypeError(f"on='ray' sends the agent and the environment to other processes, but they cannot be pickled: "
                            f"{error}") from error
        self._workers, self._token = workers, token
        # The number of workers in each node, if workers are grouped into nodes.
        self.nodes: list[int] = []
        self._group: Any = None

    @property
    def by_nodes(self) -> bool:
        return self._workers.workers_per_node is not None

    def start(self, address: str, number: int) -> _Worker:
        workers = self.nodes[number] if self.by_nodes else 1
        options = self._options(number, workers)
        # Two concurrent calls, so that the actor can report its address while it works.
        host = self._ray.remote(max_concurrency=2, max_restarts=0, **options)(Node if self.by_nodes else Host).remote()
        placed = host.node.remote().future()
        what = workers if self.by_nodes else number
        ended = host.work.remote(self._work, address, what, self._token).future()
        needs = {name: options[name] for name in ("num_cpus", "num_gpus", "resources") if options[name]}
        return _Worker(self._ray, (host, placed, ended), (f"{'node' if self.by_nodes else 'worker'} {number}", needs))

    def _options(self, number: int, workers: int) -> dict[str, Any]:
        """Returns the resources and the placement of a Ray actor with the given number of workers."""
        options = self._of_node(workers)
        if self._workers.options["scheduling_strategy"] in GROUPS:
            from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

            options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(self._placed(), placement_group_bundle_index=number)
        return options

    def _of_node(self, workers: int) -> dict[str, Any]:
        options = dict(self._workers.options)
        for name in ("num_cpus", "num_gpus"):
            options[name] = options[name] * workers
        options["resources"] = {name: amount * workers for name, amount in options["resources"].items()}
        return options

    def _placed(self) -> Any:
        """Returns the placement group, with one bundle for each node."""
        if self._group is None:
            bundles = [_bundle(self._of_node(workers)) for workers in self.nodes]
            self._group = self._ray.util.placement_group(bundles, strategy=self._workers.options["scheduling_strategy"])
        return self._group

    def close(self) -> None:
        if self._group is not None:
            with contextlib.suppress(Exception): # as for an actor
                self._ray.util.remove_placement_group(self._group)
            self._group = None


class OwnRun(Launcher):
    """Like the base class, but for a run in this process, whose tables require a token that is created for the run."""

    def __init__(self, workers: Workers, agent: Any, environment: Any) -> None:
        token = secrets.token_hex(32)
        super().__init__(workers, agent, environment, token)
        host = workers.host or self._ray.util.get_node_ip_address()
        self.other_machines = {"host": host, "token": token}


def _bundle(options: dict[str, Any]) -> dict[str, float]:
    bundle = {"CPU": options["num_cpus"], "GPU": options["num_gpus"], **options["resources"]}
    return {name: amount for name, amount in bundle.items() if amount}


class _Worker:
    """A Ray actor that is, or will become, a worker or a node."""

    def __init__(self, ray: Any, of: tuple[Any, Future[str], Future[RemoteError | None]], description: tuple[str, dict[str, Any]]) -> None:
        self._ray, (self._name, needs) = ray, description
        self._host, placed, self._ended = of
        self.begun = 0.0
        self._placement = Placement(ray, self._name, needs, placed)
        placed.add_done_callback(self._begin)

    def _begin(self, placed: Future[str]) -> None:
        if placed.exception() is None:
            self.begun = time.monotonic()

    def ended(self) -> str | None:
        if not self._ended.done():
            self._placement.log_wait()
            return None
        error = self._ended.exception()
        return "" if error is None else f"{type(error).__name__}: {first_line(error)}"

    def raise_failure(self, seconds: float = 0.0) -> None:
        """Raises the actor's error. The loss of a Ray actor or its machine is not an error, since the actor can be
        restarted."""
        try:
            failure = self._ended.result(seconds)
        except (NotYet, self._ray.exceptions.RayActorError):
            return
        except self._ray.exceptions.RayError as error:
            raise RuntimeError(f"{self._name} cannot run on Ray: {first_line(error)}") from error
        if failure is not None:
            raise raised(failure, f"in {self._name}")

    def end(self, seconds: float) -> None:
        try:
            self._ended.result(seconds)
        except Exception:
            pass # The worker was killed, or did not notice the end of the run; its error was raised before.
        # If the cluster no longer exists or is disconnected, there is no actor to end.
        with contextlib.suppress(Exception):
            self._ray.kill(self._host)
