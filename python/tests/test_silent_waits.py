"""No call waits forever or loses items without a message."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest
from conftest import PATIENCE_S, uniform_table

import relive
from relive import errors, rate_limiters, selectors

Serve = Callable[..., relive.Server]
Call = Callable[[relive.Client], object]

CALLS: dict[str, Call] = {
    "server_info": lambda client: client.server_info(),
    "status": lambda client: client.status(),
    "insert": lambda client: client.insert(1, {"table": 1.0}),
    "sample": lambda client: next(client.sample("table")),
    "batches": lambda client: next(client.batches("table", 4)),
    "writer": lambda client: client.trajectory_writer(1),
    "mutate_priorities": lambda client: client.mutate_priorities("table", {1: 1.0}),
    "reset": lambda client: client.reset("table"),
    "items": lambda client: next(client.items("table")),
    "checkpoint": lambda client: client.checkpoint(),
}


@pytest.mark.parametrize("call", sorted(CALLS))
@pytest.mark.parametrize("has_called", [True, False])
@pytest.mark.timeout(PATIENCE_S)
def test_calls_to_a_server_of_this_process_that_was_stopped_fail_at_once(call: str, has_called: bool) -> None:
    server = relive.Server([uniform_table()])
    client, port = server.localhost_client(), server.port
    if has_called:
        client.server_info()
    server.stop()
    with pytest.raises(errors.UnavailableError, match=f"localhost:{port} was stopped"):
        CALLS[call](client)


def test_a_client_finds_the_server_that_replaces_a_stopped_one() -> None:
    first = relive.Server([uniform_table()])
    client, port = first.localhost_client(), first.port
    client.server_info()
    first.stop()
    with relive.Server([uniform_table("other")], port=port):
        assert list(client.server_info()) == ["other"]
    with pytest.raises(errors.UnavailableError):
        client.server_info()


def test_a_client_finds_a_foreign_server_at_the_address_of_a_stopped_one() -> None:
    first = relive.Server([uniform_table()])
    client, port = first.localhost_client(), first.port
    first.stop()
    program = (
        "import relive, sys\n"
        "table = relive.Table('there', relive.selectors.Uniform(), relive.selectors.Fifo(), 1,"
        " relive.rate_limiters.MinSize(1))\n"
        f"server = relive.Server([table], port={port})\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
        assert list(client.server_info(timeout=PATIENCE_S)) == ["there"]
        other.communicate()


def test_a_wait_for_an_unreachable_server_is_logged_with_its_address(caplog: pytest.LogCaptureFixture) -> None:
    server = relive.Server([uniform_table()])
    client = relive.Client(f"localhost:{server.port}", transport="tcp")
    server.stop()
    with pytest.raises(errors.DeadlineExceededError):
        client.server_info(timeout=5.5)
    relive._native.flush_logs()
    told = f"server_info has been waiting for 5 s: the server at localhost:{server.port} has not answered"
    assert any(told in record.getMessage() for record in caplog.records), caplog.text


NEVER = "could never be sampled"


def test_tables_that_can_never_be_sampled_are_refused_with_both_numbers() -> None:
    with pytest.raises(ValueError, match=f"{NEVER}.*max_size is 10.* 100 items .*min_size_to_sample.*raise max_size or"):
        uniform_table(max_size=10, rate_limiter=rate_limiters.MinSize(100))
    with pytest.raises(ValueError, match=NEVER):
        uniform_table(max_size=99, rate_limiter=rate_limiters.SampleToInsertRatio(1.0, 100, 50.0))
    with pytest.raises(ValueError, match=f"{NEVER}.*max_diff is 5.5.*min_diff \\+ 1 = 6.0"):
        uniform_table(rate_limiter=rate_limiters.RateLimiter(1.0, 1, 5.0, 5.5))
    assert uniform_table(max_size=100, rate_limiter=rate_limiters.MinSize(100)).info.max_size == 100


def test_changes_that_make_sampling_impossible_are_refused(serve: Serve, transport: str) -> None:
    server = serve(uniform_table(max_size=100, rate_limiter=rate_limiters.MinSize(50)))
    client = relive.Client(f"localhost:{server.port}", transport=transport)
    for change in ({"max_size": 49}, {"min_size_to_sample": 101}, {"rate_limiter": rate_limiters.MinSize(101)}):
        with pytest.raises(ValueError, match=NEVER):
            client.change_table("table", **change)  # type: ignore[arg-type]
    assert client.server_info()["table"].max_size == 100
    client.change_table("table", max_size=50)


def test_an_insert_error_names_insert() -> None:
    server = relive.Server([uniform_table()])
    server.stop()
    client = relive.Client(f"localhost:{server.port}", transport="tcp")
    with pytest.raises(errors.DeadlineExceededError, match="^insert: ") as caught:
        client.insert(1, {"table": 1.0}, timeout=0.2)
    assert "server_info" not in str(caught.value)


def test_a_timed_out_sample_names_sampling_as_the_blocked_operation(serve: Serve, transport: str) -> None:
    server = serve(uniform_table(rate_limiter=rate_limiters.MinSize(7)))
    client = relive.Client(f"localhost:{server.port}", transport=transport)
    calls: list[Call] = [
        lambda client: next(client.sample("table", timeout=0.05)),
        lambda client: next(client.batches("table", 2, timeout=0.05)),
    ]
    for call in calls:
        with pytest.raises(errors.DeadlineExceededError, match="before a sample was let through") as caught:
            call(client)
        assert "insert was acquired" not in str(caught.value)


def unconfirmed(client: relive.Client, tables: tuple[str, ...] = ("table",)) -> relive.TrajectoryWriter:
    """Returns a writer with three items for each table."""
    writer = client.trajectory_writer(1, chunk_length=1)
    for step in range(3):
        writer.append(np.int64(step))
        for table in tables:
            writer.create_item(table, 1.0, writer.history[-1:])
    return writer


@pytest.fixture
def away() -> relive.Client:
    """Returns a client for a server that is down and has two tables."""
    server = relive.Server([uniform_table(), uniform_table("other")])
    client = relive.Client(f"localhost:{server.port}", transport="tcp")
    with client.trajectory_writer(1) as writer:
        writer.append(np.int64(0))
        for table in ("table", "other"):
            writer.create_item(table, 1.0, writer.history[-1:])
    server.stop()
    return client


def test_closing_a_writer_without_its_server_reports_lost_items(
    away: relive.Client, caplog: pytest.LogCaptureFixture
) -> None:
    writer = unconfirmed(away, ("table", "other", "table"))
    lost = r"9 items not confirmed \(6 for table \"table\", 3 for table \"other\"\)"
    # It takes a moment to detect that the server is down.
    with pytest.raises(errors.DeadlineExceededError, match=r"6 for table \"table\", 3 for table \"other\"\): the server cannot"):
        writer.flush(timeout_ms=1_000)
    with pytest.raises(errors.UnavailableError, match=f"{lost}.*cannot be reached"):
        writer.close()
    writer.close()
    relive._native.flush_logs()
    assert "9 items not confirmed" in caplog.text


def test_closing_a_writer_does_not_hide_another_error(away: relive.Client) -> None:
    writer = unconfirmed(away)
    with pytest.raises(KeyError):
        try:
            raise KeyError("first")
        finally:
            writer.close()


def test_items_lost_at_the_end_of_an_iteration_are_reported(away: relive.Client) -> None:
    writer = unconfirmed(away)
    with pytest.raises((errors.UnavailableError, errors.FailedPreconditionError), match="3 items not confirmed"):
        try:
            next(iter(()))
        except StopIteration:
            writer.close()


def test_a_program_that_exits_with_unconfirmed_items_warns_on_stderr() -> None:
    program = """
import numpy as np, relive
server = relive.Server([relive.Table.queue("queue", 1)])
client = relive.Client(f"localhost:{server.port}", transport="tcp")
writer = client.trajectory_writer(1, chunk_length=1)
for step in range(5):
    writer.append(np.int64(step))
    writer.create_item("queue", 1.0, writer.history[-1:])
writer.flush(block_until_num_items=4)
server.stop()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0 and '4 items not confirmed (4 for table "queue")' in done.stderr, done.stderr


def test_writers_soon_report_what_they_wait_for(
    away: relive.Client, caplog: pytest.LogCaptureFixture
) -> None:
    told = threading.Event()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if '3 items (3 for table "table") that have been unconfirmed' in record.getMessage():
                assert "cannot be reached" in record.getMessage()
                told.set()

    listener = Listener()
    logging.getLogger("relive").addHandler(listener)
    try:
        writer = unconfirmed(away)
        assert told.wait(8.0), caplog.text
    finally:
        logging.getLogger("relive").removeHandler(listener)
    with pytest.raises(errors.UnavailableError):
        writer.close()


@pytest.mark.parametrize("role", ["writer", "batches", "sampler"])
def test_a_server_that_restarted_empty_is_reported_once(caplog: pytest.LogCaptureFixture, role: str) -> None:
    first = relive.Server([uniform_table()])
    address = f"localhost:{first.port}"
    client = relive.Client(address, transport="tcp")
    relive.Client(address).insert(np.int64(1), {"table": 1.0})
    told = threading.Event()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "restarted without items that it had before" in record.getMessage():
                told.set()

    listener = Listener()
    logging.getLogger("relive").addHandler(listener)
    try:
        held = []
        if role == "writer":
            writer = unconfirmed(client)
            writer.flush()
            held.append(writer)
        elif role == "batches":
            batches = client.batches("table", 1, prefetch=1)
            next(batches)
            held.append(batches)
        else:
            sampler = client._sampler("table")
            next(sampler)
            held.append(sampler)
        first.stop()
        if role == "writer":
            writer.append(np.int64(5))
            writer.create_item("table", 1.0, writer.history[-1:])
        with relive.Server([uniform_table()], port=int(address.split(":")[1])):
            assert told.wait(10.0), caplog.text
            relive._native.flush_logs()
            if role == "writer":
                writer.flush()
    finally:
        logging.getLogger("relive").removeHandler(listener)
    assert caplog.text.count("restarted without items that it had before") == 1


def test_a_server_listens_on_localhost_by_default(caplog: pytest.LogCaptureFixture) -> None:
    with relive.Server([uniform_table()]) as server:
        assert listening_addresses(server.port) == {"0100007F"}
    assert not caplog.records
    with relive.Server([uniform_table()], host="*") as server:
        assert listening_addresses(server.port) & {"0" * 32, "0" * 8}
    assert "without TLS and tokens" in caplog.text


def listening_addresses(port: int) -> set[str]:
    """Returns the local addresses that listen on `port`, in the system's notation."""
    found = set()
    for name in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(name) as table:
            for line in table.readlines()[1:]:
                address, at = line.split()[1].split(":")
                if int(at, 16) == port and line.split()[3] == "0A":
                    found.add(address)
    return found


def test_a_server_without_a_port_is_reached_from_this_process_until_it_listens() -> None:
    server = relive.Server([uniform_table()], listen=False)
    client = server.localhost_client()
    client.insert(np.int64(1), {"table": 1.0})
    with pytest.raises(errors.FailedPreconditionError, match="no port"):
        _ = server.port
    assert "port=None" in repr(server)
    port = server.listen()
    other = relive.Client(f"localhost:{port}", transport="tcp")
    assert port == server.port and other.server_info()["table"].current_size == 1
    with pytest.raises(errors.FailedPreconditionError, match="already"):
        server.listen()
    server.stop()
    with pytest.raises(errors.UnavailableError, match="stopped"):
        client.server_info()
    with pytest.raises(errors.ClosedError):
        server.listen()
    with pytest.raises(ValueError, match="listen is False"):
        relive.Server([uniform_table()], port=0, listen=False)


