"""Bounds on bytes: tables evict items, and writers wait."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from conftest import PATIENCE_S, uniform_table

import relive

Serve = Callable[..., relive.Server]
Connect = Callable[..., relive.Client]

STEP_BYTES = 4_000


def noise(seed: int) -> np.ndarray:
    """Returns an incompressible step."""
    return np.random.default_rng(seed).integers(0, 256, STEP_BYTES, dtype=np.uint8)


def test_a_table_stays_within_max_bytes(connect: Connect) -> None:
    table = uniform_table(max_bytes=10_000)
    client = connect(table)
    for seed in range(5):
        client.insert(noise(seed), {"table": 1.0})
    info = table.info
    assert (info.current_size, info.max_bytes, info.num_chunks, info.num_inserts) == (2, 10_000, 2, 5)
    assert info.encoded_bytes is not None and 2 * STEP_BYTES <= info.encoded_bytes <= 10_000
    assert (info.raw_bytes, info.shared_bytes, info.spilled_bytes) == (2 * STEP_BYTES, 0, 0)
    assert info.resident_bytes == info.encoded_bytes == info.referenced_bytes
    status = client.status(timeout=PATIENCE_S)
    assert status["tables"]["table"].max_bytes == 10_000
    assert (status["max_bytes"], status["waiters"], status["shared_bytes"]) == (None, [], 0)
    assert status["resident_bytes"] >= info.resident_bytes
    assert status["process_bytes"] is None or status["process_bytes"] > 1_000_000


def test_tables_report_shared_bytes(connect: Connect) -> None:
    one, other = uniform_table("one"), uniform_table("other")
    client = connect(one, other)
    client.insert(noise(0), {"one": 1.0, "other": 1.0})
    client.insert(noise(1), {"one": 1.0})
    assert one.info.shared_bytes == other.info.shared_bytes == other.info.encoded_bytes
    status = client.status(timeout=PATIENCE_S)
    assert status["shared_bytes"] == other.info.encoded_bytes
    client.reset("other")
    assert (one.info.shared_bytes, other.info.encoded_bytes) == (0, 0)


def test_an_item_larger_than_its_table_is_refused(connect: Connect) -> None:
    client = connect(uniform_table(max_bytes=1_000))
    with pytest.raises(relive.errors.InvalidArgumentError, match="max_bytes is 1000; create items or chunks of fewer steps"):
        client.insert(noise(0), {"table": 1.0}, timeout=PATIENCE_S)


@pytest.mark.parametrize("bad, error", [(0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)])
def test_bounds_are_whole_numbers_from_1_on(bad: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="max_bytes"):
        uniform_table(max_bytes=bad)
    with pytest.raises(error, match="max_bytes"):
        relive.Table.queue("q", 3, max_bytes=bad)  # type: ignore[arg-type]
    with pytest.raises(error, match="max_bytes"):
        relive.Server([uniform_table()], max_bytes=bad)  # type: ignore[arg-type]


def test_every_constructor_accepts_max_bytes() -> None:
    for table in (relive.Table.queue("q", 3, max_bytes=7), relive.Table.stack("s", 3, max_bytes=7)):
        assert table.info.max_bytes == 7
        assert table.replace(name="t").info.max_bytes == 7
        assert table.replace(max_bytes=8).info.max_bytes == 8
    assert uniform_table().info.max_bytes is None


@pytest.fixture
def bounded() -> Callable[..., tuple[relive.Server, relive.Table]]:
    """Creates servers with room for two steps and for the step that is being written."""

    def start(max_bytes_wait: float) -> tuple[relive.Server, relive.Table]:
        table = uniform_table()
        return relive.Server([table], max_bytes=10_000, max_bytes_wait=max_bytes_wait), table

    return start


Bounded = Callable[[float], tuple[relive.Server, relive.Table]]


def fill(client: relive.Client) -> None:
    for seed in range(3):
        client.insert(noise(seed), {"table": 1.0}, timeout=PATIENCE_S)


def test_a_timed_out_writer_gets_a_breakdown_of_memory_use(bounded: Bounded, transport: str) -> None:
    server, table = bounded(0.2)
    with server:
        client = relive.Client(f"localhost:{server.port}", transport=transport)
        fill(client)
        text = "server memory: chunks take .* max_bytes of the server is 10.0 kB.* table \\(.*raise the server"
        with pytest.raises(relive.errors.ResourceExhaustedError, match=text):
            client.insert(noise(9), {"table": 1.0}, timeout=PATIENCE_S)
        assert table.info.current_size == 3
        client.reset("table")
        client.insert(noise(9), {"table": 1.0}, timeout=PATIENCE_S)


def test_a_waiting_writer_is_listed_and_continues(bounded: Bounded, transport: str) -> None:
    server, table = bounded(PATIENCE_S)
    with server:
        client = relive.Client(f"localhost:{server.port}", transport=transport)
        fill(client)
        writer = threading.Thread(target=lambda: client.insert(noise(9), {"table": 1.0}, timeout=PATIENCE_S))
        writer.start()
        while not (waiters := client.status(timeout=PATIENCE_S)["waiters"]):
            pass
        assert waiters[0]["operation"] == "insert" and waiters[0]["reason"].startswith("server memory")
        assert client.status(timeout=PATIENCE_S)["max_bytes"] == 10_000
        client.reset("table")
        writer.join(PATIENCE_S)
        assert not writer.is_alive()
        assert table.info.current_size == 1
        assert client.status(timeout=PATIENCE_S)["waiters"] == []


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Makes Ctrl-C raise KeyboardInterrupt, also in background runs, which ignore it by default."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_the_wait(bounded: Bounded, transport: str) -> None:
    server, _ = bounded(1_000.0)
    with server:
        client = relive.Client(f"localhost:{server.port}", transport=transport)
        fill(client)
        watcher = relive.Client(f"localhost:{server.port}", transport=transport)

        def interrupt() -> None:
            while not watcher.status(timeout=PATIENCE_S)["waiters"]:
                pass
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            client.insert(noise(9), {"table": 1.0})
        assert time.monotonic() - started < PATIENCE_S
        thread.join()


def test_stopping_the_server_ends_the_wait(bounded: Bounded) -> None:
    server, _ = bounded(1_000.0)
    client = server.localhost_client()
    fill(client)
    watcher = server.localhost_client()

    def stop() -> None:
        while not watcher.status(timeout=PATIENCE_S)["waiters"]:
            pass
        server.stop()

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(relive.errors.CancelledError):
        client.insert(noise(9), {"table": 1.0})
    thread.join()
