"""Runs on a cluster of Ray: Ray says where workers are and starts them; steps and weights travel on Relive's own connections.

``rl.run(agent, env, on="ray", actors=64)`` acts in 64 actors of Ray and learns where it is called. :class:`Workers` says what each of them needs::

    result = rl.run(agent, env, on=relive.ray.Workers(num_cpus=2), actors=64, steps=1_000_000)

``python -m relive.ray --join ADDRESS --actors 64`` does the same for a run of ``relive rl train … --listen ADDRESS --no-spawn``.

:func:`replay` serves tables to a Ray program of your own.

Needs ``ray`` on all machines, of one version, and Relive, too. Ray is asked to start and to end workers, and what is free while one waits for a place:
a run makes no calls of Ray while all of them act.
"""

from __future__ import annotations

import argparse
import ipaddress
import os
import pathlib
import pickle
import secrets
import socket
import sys
import time
from collections.abc import Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from typing import Any

from relive import _native
from relive._remote import Told, end_with_parent, raised, told
from relive.client import Client
from relive.rl._local_workers import Processes
from relive.rl._workers import Supervisor, work
from relive.server import Server, Table

# A worker that has no place for so long is reported, each time.
_PLACE_SECONDS = 10.0
# Strategies of placement groups, which are none of actors.
_GROUPS = ("STRICT_SPREAD", "PACK", "STRICT_PACK")


class Workers:
    """What the workers of a run need, and where Ray puts them.

    Args:
      num_cpus: processors of each worker; Ray counts them, and does not enforce it.
      num_gpus: GPUs of each worker, or a part of one.
      resources: other resources of each worker, as the cluster names them.
      strategy: ``"SPREAD"`` over the machines or ``"DEFAULT"``, which fills one first; or a scheduling strategy of Ray, such as that of a placement group.
      workers_per_node: workers of each actor of Ray, which is then a node: it has them as processes of its own, asks for the resources of all of them,
        and passes weights on; by default each worker is an actor of Ray of its own. With it, ``strategy`` may also be what a placement group is made by:
        ``"STRICT_SPREAD"``, ``"PACK"`` or ``"STRICT_PACK"``.
      runtime_env: what Ray is to bring to the machines, such as ``{"pip": ["relive"]}`` or ``{"working_dir": "."}``.
      host: the IP address by which the cluster reaches this machine; by default the one that Ray knows it by.

    Raises:
      ValueError: ``host`` is no IP address; ``workers_per_node`` is below 1, or a placement group is asked for without it.
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
            raise ValueError(f"workers_per_node is {workers_per_node}, but it must be at least 1")
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
        """What starts so many workers, one by one or some to a node."""
        if self.workers_per_node is None:
            return Supervisor(launcher, actors)
        whole, rest = divmod(actors, self.workers_per_node)
        launcher.nodes = [self.workers_per_node] * whole + [rest] * (rest > 0)
        return Supervisor(launcher, len(launcher.nodes))


class _Launcher:
    """Starts workers as actors of Ray, after :func:`ray.init` where the program has not called it."""

    other_machines: dict[str, Any] | None = None

    def __init__(self, workers: Workers, agent: Any, environment: Any, token: str | None) -> None:
        self._ray = ray = imported()
        if not ray.is_initialized():
            ray.init()
        try:
            self._work = ray.put((agent, environment))
        except Exception as error:
            raise TypeError(f"on='ray' sends agent and environment to other processes, which is not possible: {error}") from error
        self._workers, self._token = workers, token
        # How many workers each node has, where they have some.
        self.nodes: list[int] = []
        self._group: Any = None

    @property
    def by_nodes(self) -> bool:
        return self._workers.workers_per_node is not None

    def start(self, address: str, number: int) -> _Worker:
        workers = self.nodes[number] if self.by_nodes else 1
        options = self._options(number, workers)
        # Two calls at a time: where it is can be asked while it works.
        host = self._ray.remote(max_concurrency=2, max_restarts=0, **options)(_Node if self.by_nodes else _Host).remote()
        placed = host.node.remote().future()
        what = workers if self.by_nodes else number
        ended = host.work.remote(self._work, address, what, self._token).future()
        needs = {name: options[name] for name in ("num_cpus", "num_gpus", "resources") if options[name]}
        return _Worker(self._ray, (host, placed, ended), (f"{'node' if self.by_nodes else 'worker'} {number}", needs))

    def _options(self, number: int, workers: int) -> dict[str, Any]:
        """What an actor of Ray with so many workers needs, and where it may be."""
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
        """The placement group, with a bundle for each node."""
        if self._group is None:
            bundles = [_bundle(self._of_node(workers)) for workers in self.nodes]
            self._group = self._ray.util.placement_group(bundles, strategy=self._workers.options["scheduling_strategy"])
        return self._group

    def close(self) -> None:
        if self._group is not None:
            self._ray.util.remove_placement_group(self._group)
            self._group = None


class _OwnRun(_Launcher):
    """The same for a run of this process, whose tables ask for a token that is made for it."""

    def __init__(self, workers: Workers, agent: Any, environment: Any) -> None:
        token = secrets.token_hex(32)
        super().__init__(workers, agent, environment, token)
        host = workers.host or self._ray.util.get_node_ip_address()
        self.other_machines = {"host": host, "token": token}


def _bundle(options: dict[str, Any]) -> dict[str, float]:
    bundle = {"CPU": options["num_cpus"], "GPU": options["num_gpus"], **options["resources"]}
    return {name: amount for name, amount in bundle.items() if amount}


class Replay:
    """Tables on this machine for a Ray program of your own, which its tasks and actors reach directly: no call of Ray carries an item.

    ::

        with relive.ray.replay([relive.Table.queue("episodes", 100)]) as replay:
            ray.get([act.remote(replay.client) for _ in range(8)])

    Attributes:
      server: the server with the tables.
      client: a client of it, to be handed to tasks and actors; it carries the token that the server asks for.
    """

    def __init__(self, tables: Iterable[Table], *, host: str | None = None, port: int | None = None, **options: Any) -> None:
        address = str(ipaddress.ip_address(host)) if host is not None else str(imported().util.get_node_ip_address())
        token = secrets.token_hex(32)
        self.server = Server(tables, port, host=address, token=token, **options)
        where = f"[{address}]" if ":" in address else address
        self.client = Client(f"{where}:{self.server.port}", token=token)

    def stop(self) -> None:
        """Ends the server; calls of its clients fail from then on, or wait as their timeouts say."""
        self.server.stop()

    def __enter__(self) -> Replay:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def replay(tables: Iterable[Table], *, host: str | None = None, port: int | None = None, **options: Any) -> Replay:
    """Serves tables to a Ray program, from this machine.

    Args:
      tables: as for :class:`relive.Server`.
      host: the IP address by which the cluster reaches this machine; by default the one that Ray knows it by.
      port: where to listen; by default at a free port.
      **options: further options of :class:`relive.Server`, such as ``max_bytes`` or ``checkpointer``.

    Raises:
      ImportError: Ray is not installed.
      ValueError: ``host`` is no IP address.
    """
    return Replay(tables, host=host, port=port, **options)


class _Worker:
    """An actor of Ray that is, or will be, a worker or a node."""

    def __init__(self, ray: Any, of: tuple[Any, Future[str], Future[Told | None]], told: tuple[str, dict[str, Any]]) -> None:
        self._ray, (self._name, self._needs) = ray, told
        self._host, self._placed, self._ended = of
        self.begun = 0.0
        self._told_at = time.monotonic() + _PLACE_SECONDS
        self._placed.add_done_callback(self._begin)

    def _begin(self, placed: Future[str]) -> None:
        if placed.exception() is None:
            self.begun = time.monotonic()

    def ended(self) -> str | None:
        if not self._ended.done():
            self._tell_wait()
            return None
        error = self._ended.exception()
        return "" if error is None else f"{type(error).__name__}: {first_line(error)}"

    def _tell_wait(self) -> None:
        if self._placed.done() or time.monotonic() < self._told_at:
            return
        self._told_at = time.monotonic() + _PLACE_SECONDS
        print(f"relive: {self._name} waits for Ray to find a place for {self._needs}; free in the cluster: {free_in(self._ray)}", file=sys.stderr)

    def raise_failure(self, seconds: float = 0.0) -> None:
        """Raises what it has failed by; that an actor of Ray has died, or the machine that it was on, is no failure: it can be started anew."""
        try:
            failure = self._ended.result(seconds)
        except (NotYet, self._ray.exceptions.RayActorError):
            return
        except self._ray.exceptions.RayError as error:
            raise RuntimeError(f"{self._name} cannot work on Ray: {first_line(error)}") from error
        if failure is not None:
            raise raised(failure, f"in {self._name}")

    def end(self, seconds: float) -> None:
        try:
            self._ended.result(seconds)
        except Exception:
            pass  # It was killed, or has not seen that the run is over; what it has failed by was raised before.
        self._ray.kill(self._host)


class _Host:
    """A worker, in the process of an actor of Ray."""

    def node(self) -> str:
        """The address of its machine."""
        return str(imported().util.get_node_ip_address())

    def work(self, agent_and_environment: tuple[Any, Any], address: str, number: int, token: str | None) -> Told | None:
        """Works until the run is over; what it has failed by."""
        try:
            work(*agent_and_environment, address, number, token)
        except BaseException as error:
            return told(error)
        return None


class _Node:
    """A node, in the process of an actor of Ray; its workers are processes beside it."""

    def node(self) -> str:
        """The address of its machine."""
        return str(imported().util.get_node_ip_address())

    def work(self, agent_and_environment: tuple[Any, Any], address: str, actors: int, token: str | None) -> Told | None:
        """Has so many workers until the run is over; what one has failed by."""
        try:
            workers = _NodeWorkers(agent_and_environment, address, token)
            name = f"{socket.gethostname()}-{os.getpid()}"
            try:
                _native.host_for_run(address, workers, actors=actors, name=name, host=socket.gethostname(), ip=self.node(), token=token)
                workers.supervisor.raise_failure()
            finally:
                workers.supervisor.close()
        except BaseException as error:
            return told(error)
        return None


class _NodeWorkers:
    """The workers of a node, as :func:`relive._native.host_for_run` calls for them."""

    def __init__(self, agent_and_environment: tuple[Any, Any], address: str, token: str | None) -> None:
        agent, environment = (None if value is None else _ByCloudpickle(value) for value in agent_and_environment)
        self._launcher = Processes(agent, environment, token)
        self.supervisor = Supervisor(self._launcher)
        self._address = address

    def hold(self, numbers: list[int], near: str) -> None:
        """Has the workers of these numbers, which take weights at an address."""
        self._launcher.weights_from = near
        self.supervisor.hold(self._address, numbers)

    def watch(self) -> tuple[int, int]:
        """Starts those anew that have ended; how many run, and how often one was started anew."""
        self.supervisor.check()
        return self.supervisor.running, self.supervisor.restarts


class _ByCloudpickle:
    """Goes to another process as Ray's pickle writes it, which knows more than Python's, and is there what was given here."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        from ray import cloudpickle

        return pickle.loads, (cloudpickle.dumps(self._value),)


def free_in(ray: Any) -> dict[str, float]:
    """The resources of a cluster that nobody has."""
    return {name: amount for name, amount in ray.available_resources().items() if "node:" not in name and "memory" not in name}


def first_line(error: BaseException) -> str:
    """What an error says first."""
    return (str(error).strip().splitlines() or [""])[0]


def imported() -> Any:
    """The package ``ray``."""
    try:
        import ray
    except ImportError as error:
        raise ImportError("on='ray' needs Ray: pip install ray") from error
    return ray


def main() -> None:
    """Has actors of Ray act for a run that learns elsewhere, until it is over."""
    parser = argparse.ArgumentParser(
        prog="python -m relive.ray", description="Acts in actors of Ray for a run of `relive rl train ... --listen ADDR --no-spawn`, until it is over."
    )
    parser.add_argument("--join", metavar="ADDR", required=True, help="the address of the run's tables, by which the cluster reaches them")
    parser.add_argument("--actors", metavar="N", type=int, default=2, help="workers, numbered from 0 on [default: 2]")
    parser.add_argument(
        "--workers-per-node", metavar="N", type=int, help="each actor of Ray is a node with so many workers, as processes [default: each is one worker]"
    )
    parser.add_argument("--num-cpus", metavar="N", type=float, default=1.0, help="processors of each [default: 1]")
    parser.add_argument("--num-gpus", metavar="N", type=float, default=0.0, help="GPUs of each [default: 0]")
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        type=pathlib.Path,
        help="has the token that the server with the tables asks for [default: the token in the variable RELIVE_TOKEN]",
    )
    parser.add_argument("--supervised", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.actors < 1:
        parser.error(f"--actors is {options.actors}, but it must be at least 1")
    if options.workers_per_node is not None and options.workers_per_node < 1:
        parser.error(f"--workers-per-node is {options.workers_per_node}, but it must be at least 1")
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
    # Not this module's own: actors of Ray import theirs by its name.
    from relive.ray import main as main_by_name

    main_by_name()
