"""The ends of shards and workers whose Ray cluster fails, without a cluster."""

from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import Future
from typing import Any

import pytest

import relive.ray
from relive._ray_launcher import Launcher, _Worker
from relive.flow import _ray, _remote_shards
from relive.rl._workers import Supervisor


class Gone:
    """The package ``ray`` after its cluster was lost: each call raises an exception."""

    def __init__(self) -> None:
        self.util, self.calls = self, list[str]()

    def __getattr__(self, name: str) -> Any:
        def call(*_: Any, **__: Any) -> None:
            self.calls.append(name)
            raise RuntimeError("the cluster is gone")

        return call


def worker(ray: Any, number: int) -> _Worker:
    placed, ended = Future[str](), Future[Any]()
    ended.set_exception(RuntimeError("the actor died"))
    return _Worker(ray, (object(), placed, ended), (f"worker {number}", {}))


def test_all_workers_and_the_placement_group_end_although_the_cluster_is_gone() -> None:
    ray = Gone()
    launcher = Launcher.__new__(Launcher)
    launcher._ray, launcher._group, launcher._workers = ray, object(), relive.ray.Workers()
    supervisor = Supervisor(launcher)
    supervisor._workers = {number: worker(ray, number) for number in range(2)}
    supervisor.close()
    assert ray.calls == ["kill", "kill", "remove_placement_group"]


def test_a_launcher_closes_although_a_worker_cannot_be_ended() -> None:
    class Stubborn:
        def end(self, seconds: float) -> None:
            raise KeyboardInterrupt

    class Launcher:
        is_closed = False

        def close(self) -> None:
            self.is_closed = True

    launcher: Any = Launcher()
    supervisor = Supervisor(launcher)
    stubborn: Any = Stubborn()
    supervisor._workers = {0: stubborn}
    with pytest.raises(KeyboardInterrupt):
        supervisor.close()
    assert launcher.is_closed


class HalfStarted:
    """A connection whose start fails halfway."""

    where = "the shard"

    def __init__(self) -> None:
        self.ends = 0

    def begin(self) -> None:
        raise ConnectionError("no room for an actor")

    def ask(self, items: int) -> None: ...

    def tell(self, call: bytes) -> None: ...

    def receive(self) -> Any: ...

    def end(self) -> None:
        self.ends += 1


def test_a_shard_whose_start_fails_is_ended() -> None:
    link = HalfStarted()
    shards = _remote_shards.RemoteShards.of([0], "shards", lambda *_: link)
    items = shards.gather_sync()
    with pytest.raises(ConnectionError, match="no room"):
        next(items)
    assert link.ends == 1
    items.close()
    assert link.ends == 1


def test_a_stream_without_an_actor_ends() -> None:
    class Cluster:
        """A cluster in which no actor can be created."""

        token = "token"
        port = relive._native.StreamPort("127.0.0.1", token)
        ray: Any = Gone()

        def stream(self) -> int:
            return 3

        def host(self) -> Any:
            raise RuntimeError("the cluster is gone")

    cluster: Any = Cluster()
    stream = _ray._Stream(cluster, None, 0, ahead="most")
    stream.end()
    with pytest.raises(RuntimeError, match="gone"):
        stream.begin()
    stream.end()
    # The number is free again, because the reader was closed.
    cluster.port.reader(3, 1)


def test_a_port_ends_without_the_interpreter() -> None:
    """A port that is dropped waits up to two seconds for its connections; other threads run in the meantime."""
    port = relive._native.StreamPort("127.0.0.1", "token")
    host, _, number = port.address.rpartition(":")
    with socket.create_connection((host, int(number))) as silent:
        # The port accepts connections in order, so it has accepted the silent one once it has refused the other.
        other = relive._native.StreamWriter(port.address, 0, "wrong")
        with pytest.raises(RuntimeError, match="token"):
            other.wait_for_room()
        ticks, is_over = list[float](), threading.Event()

        def tick() -> None:
            while not is_over.wait(0.01):
                ticks.append(time.monotonic())

        ticking = threading.Thread(target=tick)
        ticking.start()
        begun = time.monotonic()
        del port
        ended = time.monotonic()
        is_over.set()
        ticking.join()
        assert silent.fileno() >= 0 and ended - begun > 0.5, "the port waited"
    assert len([moment for moment in ticks if begun < moment < ended]) > 5
