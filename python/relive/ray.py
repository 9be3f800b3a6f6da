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
import ipaddress
import os
import pathlib
import secrets
from collections.abc import Iterable
from typing import Any

from relive._ray_cluster import imported
from relive._ray_launcher import GROUPS, Launcher, OwnRun
from relive._remote import end_with_parent
from relive.client import Client
from relive.rl._workers import Supervisor
from relive.security import ClientTls, ServerTls
from relive.server import Server
from relive.tables import Table


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
        if workers_per_node is None and strategy in GROUPS:
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

    def _launcher(self, agent: Any, environment: Any) -> Launcher:
        return OwnRun(self, agent, environment)

    def _supervisor(self, launcher: Launcher, actors: int) -> Supervisor:
        """Returns an object that starts the given number of workers, either individually or grouped into nodes."""
        if self.workers_per_node is None:
            return Supervisor(launcher, actors)
        whole, rest = divmod(actors, self.workers_per_node)
        launcher.nodes = [self.workers_per_node] * whole + [rest] * (rest > 0)
        return Supervisor(launcher, len(launcher.nodes))


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
      ValueError: ``host`` is not an IP address, only one of ``tls`` and ``client_tls`` is given, or the options contain
        a token.
    """
    return Replay(tables, host=host, port=port, tls=tls, client_tls=client_tls, **options)


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
    supervisor = workers._supervisor(Launcher(workers, None, None, token), options.actors)
    try:
        supervisor.start(options.join)
        supervisor.wait()
    finally:
        supervisor.close()


if __name__ == "__main__":
    # Uses the imported module rather than this module, which runs as ``__main__``: Ray actors import classes by name.
    from relive.ray import main as main_by_name

    main_by_name()
