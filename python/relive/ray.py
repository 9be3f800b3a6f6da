"""Runs on a Ray cluster: Ray places and starts workers; steps and weights are sent over Relive's own connections.

``rl.run(agent, env, on="ray", actors=64)`` acts in 64 Ray actors and learns in the calling process. :class:`Workers`
sets the resources of each worker::

    result = rl.run(agent, env, on=relive.ray.Workers(num_cpus=2), actors=64, steps=1_000_000)

``python -m relive.ray --join ADDRESS --actors 64`` starts the workers for a run of ``relive rl train … --listen ADDRESS
--no-spawn``.

:func:`replay` serves tables to your own Ray program.

All machines need Relive and the same version of ``ray``. A run calls Ray to start and end workers, and to query free
resources while a worker waits to be placed. It makes no calls to Ray while all workers are acting.
"""

from __future__ import annotations

import argparse
import contextlib
import ipaddress
import logging
import os
import pathlib
import pickle
import secrets
import socket
import time
from collections.abc import Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from typing import Any

from relive import _native
from relive._remote import RemoteError, end_with_parent, raised, describe_error
from relive.client import Client
from relive.rl._local_workers import Processes
from relive.rl._workers import Supervisor, work
from relive.security import ClientTls, ServerTls
from relive.server import Server
from relive.tables import Table

# The interval at which a worker that has not been placed is reported.
_PLACE_SECONDS = 10.0
# The timeout of the first connection to a cluster.
_CONNECT_SECONDS = 10.0
# Strategies of placement groups; single actors do not support them.
_GROUPS = ("STRICT_SPREAD", "PACK", "STRICT_PACK")


class Workers:
    """The resources that the workers of a run need, and their placement by Ray.

    Args:
      num_cpus: the number of CPUs of each worker; Ray counts CPUs, but does not enforce the number.
      num_gpus: the number of GPUs of each worker, or a fraction of one.
      resources: other resources of each worker, by their names in the cluster.
      strategy: ``"SPREAD"`` over the machines; ``"DEFAULT"``, which fills one machine before the next; or a Ray
        scheduling strategy, such as a placement group's.
      workers_per_node: the number of workers in each Ray actor. The actor is then a node: it runs the workers as its
        own processes, requests the resources of all of them, and passes weights on. By default each worker is its own
        Ray actor. With this option, ``strategy`` may also be a placement group's: ``"STRICT_SPREAD"``, ``"PACK"`` or
        ``"STRICT_PACK"``.
      runtime_env: the environment that Ray sets up on the machines, such as ``{"pip": ["relive"]}`` or
        ``{"working_dir": "."}``.
      host: the IP address at which the cluster reaches this machine; by default the address that Ray uses for it.

    Raises:
      ValueError: ``host`` is not an IP address, ``workers_per_node`` is below 1, or a placement group is requested
        without ``workers_per_node``.
    """

    def __init__(
        self,
        *,
        num_cpus: float = 1.0,
        num_gpus: float = 0.0,
        resources: dict[str, float] | None = None,
        strategy: Any = "SPREAD",
        workers_per_node: int | None = None,
        runtime_env: dict[str, Any] | None = None,
        host: str | None = None,
    ) -> None:
        if workers_per_node is not None and workers_per_node < 1:
            raise ValueError(f"workers_per_node must be at least 1, got {workers_per_node}")
        if workers_per_node is None and strategy in _GROUPS:
            raise ValueError(f"strategy is {strategy!r}, which needs workers_per_node: a placement group is made of nodes")
        self.workers_per_node = workers_per_node
        self.host = None if host is None else str(ipaddress.ip_address(host))
        self.options: dict[str, Any] = {
            "num_cpus": num_cpus,
            "num_gpus": num_gpus,
            "resources": resources or {},
            "scheduling_strategy": strategy,
            "runtime_env": runtime_env or {},
        }

    def _launcher(self, agent: Any, environment: Any) -> _Launcher:
        return _OwnRun(self, agent, environment)

    def _supervisor(self, launcher: _Launcher, actors: int) -> Supervisor:
        """Returns an object that starts the given number of workers, either individually or grouped into nodes."""
        if self.workers_per_node is None:
            return Supervisor(launcher, actors)
        whole, rest = divmod(actors, self.workers_per_node)
        launcher.nodes = [self.workers_per_node] * whole + [rest] * (rest > 0)
        return Supervisor(launcher, len(launcher.nodes))


class _Launcher:
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
        host = self._ray.remote(max_concurrency=2, max_restarts=0, **options)(_Node if self.by_nodes else _Host).remote()
        placed = host.node.remote().future()
        what = workers if self.by_nodes else number
        ended = host.work.remote(self._work, address, what, self._token).future()
        needs = {name: options[name] for name in ("num_cpus", "num_gpus", "resources") if options[name]}
        return _Worker(self._ray, (host, placed, ended), (f"{'node' if self.by_nodes else 'worker'} {number}", needs))

    def _options(self, number: int, workers: int) -> dict[str, Any]:
        """Returns the resources and the placement of a Ray actor with the given number of workers."""
        options = self._of_node(workers)
        if self._workers.options["scheduling_strategy"] in _GROUPS:
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


class _OwnRun(_Launcher):
    """Like the base class, but for a run in this process, whose tables require a token that is created for the run."""

    def __init__(self, workers: Workers, agent: Any, environment: Any) -> None:
        token = secrets.token_hex(32)
        super().__init__(workers, agent, environment, token)
        host = workers.host or self._ray.util.get_node_ip_address()
        self.other_machines = {"host": host, "token": token}


def _bundle(options: dict[str, Any]) -> dict[str, float]:
    bundle = {"CPU": options["num_cpus"], "GPU": options["num_gpus"], **options["resources"]}
    return {name: amount for name, amount in bundle.items() if amount}


class Replay:
    """Tables on this machine for your own Ray program. Its tasks and actors connect to the tables directly; items are
    not sent through Ray calls.

    ::

        with relive.ray.replay([relive.Table.queue("episodes", 100)]) as replay:
            ray.get([act.remote(replay.client) for _ in range(8)])

    Attributes:
      server: the server with the tables.
      client: a client of the server, for tasks and actors, with the server's token.
    """

    def __init__(
        self, tables: Iterable[Table], *, host: str | None = None, port: int | None = None, tls: ServerTls | None = None,
        client_tls: ClientTls | None = None, **options: Any,
    ) -> None:
        if unused := sorted({"token", "token_file"} & options.keys()):
            raise ValueError(f"replay() creates its own token, which replay.client has; omit {unused[0]}=")
        if (tls is None) != (client_tls is None):
            raise ValueError("give tls= and client_tls= together: the server and its clients must either all use TLS, or none of them")
        address = str(ipaddress.ip_address(host)) if host is not None else str(imported().util.get_node_ip_address())
        token = secrets.token_hex(32)
        self.server = Server(tables, port, host=address, token=token, tls=tls, **options)
        where = f"[{address}]" if ":" in address else address
        self.client = Client(f"{where}:{self.server.port}", token=token, tls=client_tls)

    def stop(self) -> None:
        """Stops the server. Later calls by its clients fail, or wait until they time out."""
        self.server.stop()

    def __enter__(self) -> Replay:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def replay(
    tables: Iterable[Table], *, host: str | None = None, port: int | None = None, tls: ServerTls | None = None,
    client_tls: ClientTls | None = None, **options: Any,
) -> Replay:
    """Serves tables from this machine to a Ray program.

    Args:
      tables: as for :class:`relive.Server`.
      host: the IP address at which the cluster reaches this machine; by default the address that Ray uses for it.
      port: the port to listen on; by default a free port.
      tls, client_tls: the certificates of the server, and the TLS options of ``replay.client``; by default, connections
        are not encrypted.
      **options: further options of :class:`relive.Server`, such as ``max_bytes`` or ``checkpointer``, except for the
        token, which is created for each server.

    Raises:
      ImportError: Ray is not installed.
      ValueError: ``host`` is not an IP address; only one of ``tls`` and ``client_tls``; or a token.
    """
    return Replay(tables, host=host, port=port, tls=tls, client_tls=client_tls, **options)


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


class Placed:
    """The base class of Ray actors."""

    def node(self) -> str:
        """Returns the address of the actor's machine, as soon as Ray has placed the actor."""
        return str(imported().util.get_node_ip_address())


class Placement:
    """Reports at intervals that Ray has not placed an actor yet.

    Args:
      ray: the package ``ray``.
      name, needs: the actor, and what Ray is to schedule, in messages.
      placed: the result of the actor's method :meth:`Placed.node`.
    """

    def __init__(self, ray: Any, name: str, needs: Any, placed: Future[str]) -> None:
        self._ray, self._name, self._needs, self._placed = ray, name, needs, placed
        self._next_log_at = time.monotonic() + _PLACE_SECONDS

    def log_wait(self) -> None:
        """Logs that the actor is waiting, if it is time."""
        if self._placed.done() or time.monotonic() < self._next_log_at:
            return
        self._next_log_at = time.monotonic() + _PLACE_SECONDS
        logging.getLogger("relive").warning(
            "%s is waiting for Ray to schedule %s; free in the cluster: %s", self._name, self._needs, free_in(self._ray)
        )


class _Host(Placed):
    """A worker in the process of a Ray actor."""

    def work(self, agent_and_environment: tuple[Any, Any], address: str, number: int, token: str | None) -> RemoteError | None:
        """Works until the run is over, and returns the worker's error, if any."""
        try:
            work(*agent_and_environment, address, number, token)
        except BaseException as error:
            return describe_error(error)
        return None


class _Node(Placed):
    """A node in the process of a Ray actor; its workers are separate processes."""

    def work(self, agent_and_environment: tuple[Any, Any], address: str, actors: int, token: str | None) -> RemoteError | None:
        """Runs the given number of workers until the run is over, and returns a worker's error, if any."""
        try:
            workers = _NodeWorkers(agent_and_environment, address, token)
            name = f"{socket.gethostname()}-{os.getpid()}"
            try:
                _native.host_for_run(address, workers, actors=actors, name=name, host=socket.gethostname(), ip=self.node(), token=token)
                workers.supervisor.raise_failure()
            finally:
                workers.supervisor.close()
        except BaseException as error:
            return describe_error(error)
        return None


class _NodeWorkers:
    """The workers of a node, with the methods that :func:`relive._native.host_for_run` calls."""

    def __init__(self, agent_and_environment: tuple[Any, Any], address: str, token: str | None) -> None:
        agent, environment = (None if value is None else _ByCloudpickle(value) for value in agent_and_environment)
        self._launcher = Processes(agent, environment, token)
        self.supervisor = Supervisor(self._launcher)
        self._address = address

    def hold(self, numbers: list[int], near: str) -> None:
        """Runs the workers with the given numbers, which fetch weights from the address ``near``."""
        self._launcher.weights_from = near
        self.supervisor.hold(self._address, numbers)

    def watch(self) -> tuple[int, int]:
        """Restarts workers that have ended, and returns the number of running workers and the number of restarts."""
        self.supervisor.check()
        return self.supervisor.running, self.supervisor.restarts


class _ByCloudpickle:
    """A value that is pickled with Ray's pickle, which supports more types than Python's, and is unpickled as the
    original."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        from ray import cloudpickle

        return pickle.loads, (cloudpickle.dumps(self._value),)


def free_in(ray: Any) -> dict[str, float]:
    """Returns the free resources of a cluster."""
    return {name: amount for name, amount in ray.available_resources().items() if "node:" not in name and "memory" not in name}


def first_line(error: BaseException) -> str:
    """Returns the first line of an error."""
    return (str(error).strip().splitlines() or [""])[0]


def imported() -> Any:
    """Returns the package ``ray``."""
    try:
        import ray
    except ImportError as error:
        raise ImportError("on='ray' requires Ray: pip install ray") from error
    return ray


def connected() -> Any:
    """Returns the package ``ray``, connected to a cluster: calls :func:`ray.init` if the program has not done so.

    Raises:
      ConnectionError: no cluster responds at ``RAY_ADDRESS``. Ray itself would retry for minutes.
    """
    ray = imported()
    if not ray.is_initialized():
        _expect_answer(os.environ.get("RAY_ADDRESS", ""))
        ray.init()
    return ray


def _expect_answer(address: str) -> None:
    """Checks that an address of the form ``host:port`` accepts connections; other forms do not name a host."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ConnectionError(
            f"RAY_ADDRESS is {address!r}, where no Ray cluster answers ({error}): start the cluster, or unset RAY_ADDRESS to start one on this machine"
        ) from error


def main() -> None:
    """Runs workers as Ray actors for a run that learns elsewhere, until the run is over."""
    parser = argparse.ArgumentParser(
        prog="python -m relive.ray", description="Acts in Ray actors for a run of `relive rl train ... --listen ADDR --no-spawn`, until the run is over."
    )
    parser.add_argument("--join", metavar="ADDR", required=True, help="the address at which the cluster reaches the run's tables")
    parser.add_argument("--actors", metavar="N", type=int, default=2, help="number of workers, numbered from 0 [default: 2]")
    parser.add_argument(
        "--workers-per-node", metavar="N", type=int, help="workers per Ray actor, as processes; each actor is then a node [default: each actor is one worker]"
    )
    parser.add_argument("--num-cpus", metavar="N", type=float, default=1.0, help="processors of each actor [default: 1]")
    parser.add_argument("--num-gpus", metavar="N", type=float, default=0.0, help="GPUs of each actor [default: 0]")
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        type=pathlib.Path,
        help="file with the token that the server with the tables requires [default: the token in the variable RELIVE_TOKEN]",
    )
    parser.add_argument("--supervised", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.actors < 1:
        parser.error(f"--actors must be at least 1, got {options.actors}")
    if options.workers_per_node is not None and options.workers_per_node < 1:
        parser.error(f"--workers-per-node must be at least 1, got {options.workers_per_node}")
    if options.supervised:
        end_with_parent()
    token = options.token_file.read_text().strip() if options.token_file else os.environ.get("RELIVE_TOKEN")
    workers = Workers(num_cpus=options.num_cpus, num_gpus=options.num_gpus, workers_per_node=options.workers_per_node)
    supervisor = workers._supervisor(_Launcher(workers, None, None, token), options.actors)
    try:
        supervisor.start(options.join)
        supervisor.wait()
    finally:
        supervisor.close()


if __name__ == "__main__":
    # Uses the imported module rather than this module, which runs as ``__main__``: Ray actors import classes by name.
    from relive.ray import main as main_by_name

    main_by_name()
