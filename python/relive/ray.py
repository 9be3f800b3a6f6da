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
import secrets
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from typing import Any

from relive._remote import Told, end_with_parent, raised, told
from relive.client import Client
from relive.rl._workers import Supervisor, work
from relive.server import Server, Table

# A worker that has no place for so long is reported, each time.
_PLACE_SECONDS = 10.0


class Workers:
    """What the workers of a run need, and where Ray puts them.

    Args:
      num_cpus: processors of each worker; Ray counts them, and does not enforce it.
      num_gpus: GPUs of each worker, or a part of one.
      resources: other resources of each worker, as the cluster names them.
      strategy: ``"SPREAD"`` over the machines or ``"DEFAULT"``, which fills one first; or a scheduling strategy of Ray, such as that of a placement group.
      runtime_env: what Ray is to bring to the machines, such as ``{"pip": ["relive"]}`` or ``{"working_dir": "."}``.
      host: the IP address by which the cluster reaches this machine; by default the one that Ray knows it by.

    Raises:
      ValueError: ``host`` is no IP address.
    """

    def __init__(
        self,
        *,
        num_cpus: float = 1.0,
        num_gpus: float = 0.0,
        resources: dict[str, float] | None = None,
        strategy: Any = "SPREAD",
        runtime_env: dict[str, Any] | None = None,
        host: str | None = None,
    ) -> None:
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
        # Two calls at a time: where it is can be asked while it works.
        self._host = ray.remote(max_concurrency=2, max_restarts=0, **workers.options)(_Host)
        self._needs = {name: workers.options[name] for name in ("num_cpus", "num_gpus", "resources") if workers.options[name]}
        self._token = token

    def start(self, address: str, number: int) -> _Worker:
        host = self._host.remote()
        placed = host.node.remote().future()
        ended = host.work.remote(self._work, address, number, self._token).future()
        return _Worker(self._ray, (host, placed, ended), number, self._needs)

    def close(self) -> None:
        """Nothing is held."""


class _OwnRun(_Launcher):
    """The same for a run of this process, whose tables ask for a token that is made for it."""

    def __init__(self, workers: Workers, agent: Any, environment: Any) -> None:
        token = secrets.token_hex(32)
        super().__init__(workers, agent, environment, token)
        self._tokens = _TokenFile("workers", token)
        host = workers.host or self._ray.util.get_node_ip_address()
        self.other_machines = {"host": host, "token_file": self._tokens.path, "token": token}

    def close(self) -> None:
        self._tokens.close()


class _TokenFile:
    """The file by which a server knows a token."""

    def __init__(self, holder: str, token: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="relive-ray-")
        path = pathlib.Path(self._folder.name, "tokens")
        path.touch(mode=0o600)
        path.write_text(f"{holder} write {token}\n")
        self.path = os.fspath(path)

    def close(self) -> None:
        self._folder.cleanup()


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
        self._tokens = _TokenFile("replay", token)
        try:
            self.server = Server(tables, port, host=address, token_file=self._tokens.path, **options)
        except BaseException:
            self._tokens.close()
            raise
        where = f"[{address}]" if ":" in address else address
        self.client = Client(f"{where}:{self.server.port}", token=token)

    def stop(self) -> None:
        """Ends the server; calls of its clients fail from then on, or wait as their timeouts say."""
        self.server.stop()
        self._tokens.close()

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
    """An actor of Ray that is, or will be, a worker."""

    def __init__(self, ray: Any, of: tuple[Any, Future[str], Future[Told | None]], number: int, needs: dict[str, Any]) -> None:
        self._ray, self._number, self._needs = ray, number, needs
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
        print(f"relive: worker {self._number} waits for Ray to find a place for {self._needs}; free in the cluster: {free_in(self._ray)}", file=sys.stderr)

    def raise_failure(self, seconds: float = 0.0) -> None:
        """Raises what it has failed by; that an actor of Ray has died, or the machine that it was on, is no failure: it can be started anew."""
        try:
            failure = self._ended.result(seconds)
        except (NotYet, self._ray.exceptions.RayActorError):
            return
        except self._ray.exceptions.RayError as error:
            raise RuntimeError(f"worker {self._number} cannot work on Ray: {first_line(error)}") from error
        if failure is not None:
            raise raised(failure, f"in worker {self._number}")

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
    if options.supervised:
        end_with_parent()
    token = options.token_file.read_text().strip() if options.token_file else os.environ.get("RELIVE_TOKEN")
    workers = Workers(num_cpus=options.num_cpus, num_gpus=options.num_gpus)
    supervisor = Supervisor(_Launcher(workers, None, None, token), options.actors)
    try:
        supervisor.start(options.join)
        supervisor.wait()
    finally:
        supervisor.close()


if __name__ == "__main__":
    # Not this module's own: actors of Ray import theirs by its name.
    from relive.ray import main as main_by_name

    main_by_name()
