"""Blocking calls: they let other threads run, can be interrupted with Ctrl-C, observe deadlines, log what they are
waiting for, and end with the server."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from conftest import PATIENCE_S, uniform_table

import relive

Serve = Callable[..., relive.Server]
Connect = Callable[..., relive.Client]
Call = Callable[[relive.Client], object]


def full_queue(client: relive.Client) -> relive.TrajectoryWriter:
    """Returns a writer with one item that does not fit into the full queue."""
    writer = client.trajectory_writer(1)
    for step in range(2):
        writer.append(np.int64(step))
        writer.create_item("queue", 1.0, writer.history[-1:])
    return writer


BLOCKED: dict[str, Call] = {
    "sample": lambda client: next(client.sample("empty")),
    "batches": lambda client: next(client.batches("empty", 4)),
    "sampler": lambda client: next(client._sampler("empty")),
    "flush": lambda client: full_queue(client).flush(),
    "end_episode": lambda client: full_queue(client).end_episode(),
    "insert": lambda client: (client.insert(0, {"queue": 1.0}), client.insert(1, {"queue": 1.0})),
}


def tables() -> list[relive.Table]:
    return [uniform_table("empty"), relive.Table.queue("queue", 1)]


@pytest.fixture(params=sorted(BLOCKED))
def blocked(request: pytest.FixtureRequest) -> Call:
    return BLOCKED[request.param]


def waits(client: relive.Client, call: Call) -> tuple[threading.Thread, list[BaseException]]:
    """Returns a thread that the server reports to be waiting in `call`, and a list for the call's exception."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call(client)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    watcher = relive.Client(client.server_address)
    # Each round is a call to the server. The call can only return if the waiting thread has released the interpreter.
    while not any(info.waiters for info in watcher.status(timeout=PATIENCE_S)["tables"].values()):
        assert thread.is_alive(), raised
    return thread, raised


def test_waiting_lets_other_threads_run(connect: Connect, serve: Serve, blocked: Call) -> None:
    client = connect(*tables())
    thread, _ = waits(client, blocked)
    assert sum(range(100_000)) == 4_999_950_000 and thread.is_alive()
    release(thread, client.server_address)


def release(thread: threading.Thread, address: str) -> None:
    """Ends a call that waits. Over a network, it would otherwise wait for the server beyond the end of the test."""
    client = relive.Client(address)
    client.insert(0, {"empty": 1.0})
    for _ in range(200):
        if not thread.is_alive():
            return
        with contextlib.suppress(relive.DeadlineExceededError):
            next(client.sample("queue", timeout=0.1))
    raise AssertionError("the call still waits")


# Over a network, the server may return: dm-reverb's clients wait for it, and so do Relive's.
def test_stopping_the_server_ends_waiting_calls_in_its_process(serve: Serve, blocked: Call) -> None:
    server = serve(*tables())
    client = relive.Client(f"localhost:{server.port}", transport="in-process")
    thread, raised = waits(client, blocked)
    server.stop()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert len(raised) == 1 and isinstance(raised[0], RuntimeError), raised


def test_a_stopped_server_is_waited_for_no_longer_than_the_timeout(serve: Serve) -> None:
    server = serve(*tables())
    client = relive.Client(f"localhost:{server.port}", transport="tcp")
    writer = full_queue(client)
    server.stop()
    with pytest.raises(relive.DeadlineExceededError):
        writer.flush(timeout_ms=200)
    with pytest.raises(relive.DeadlineExceededError):
        next(client.batches("empty", 1, timeout=0.2))
    with pytest.raises(relive.DeadlineExceededError):
        next(client.sample("empty", timeout=0.2))


@pytest.mark.parametrize("timeout", [0.5, 1.5])
def test_a_stopped_server_is_waited_for_until_the_timeout(serve: Serve, timeout: float) -> None:
    server = serve(*tables())
    client = relive.Client(f"localhost:{server.port}", transport="tcp")
    client.server_info()
    server.stop()
    for call in (lambda: next(client.sample("empty", timeout=timeout)), lambda: next(client.batches("empty", 1, timeout=timeout))):
        start = time.monotonic()
        with pytest.raises(relive.DeadlineExceededError):
            call()
        assert time.monotonic() - start >= timeout


DEADLINES: dict[str, Call] = {
    "sample": lambda client: next(client.sample("empty", timeout=0.1)),
    "batches": lambda client: next(client.batches("empty", 4, timeout=0.1)),
    "sampler": lambda client: client._sampler("empty", rate_limiter_timeout_ms=100).next(),
    "flush": lambda client: full_queue(client).flush(timeout_ms=100),
    "end_episode": lambda client: full_queue(client).end_episode(timeout_ms=100),
    "insert": lambda client: (client.insert(0, {"queue": 1.0}), client.insert(1, {"queue": 1.0}, timeout=0.1)),
    "writer": lambda client: legacy_flush(client),
}


def test_a_client_may_have_a_timeout_for_all_calls(serve: Serve, transport: str) -> None:
    server = serve(*tables())
    client = relive.Client(f"localhost:{server.port}", transport=transport, timeout=0.1)
    for call in BLOCKED.values():
        with pytest.raises(relive.DeadlineExceededError):
            call(client)
        client.reset("queue", timeout=PATIENCE_S)


def legacy_flush(client: relive.Client) -> None:
    writer = client.writer(1)
    try:
        for step in range(2):
            writer.append(step)
            writer.create_item("queue", 1, 1.0)
        writer.flush(timeout=0.1)
    finally:
        client.reset("queue")
        writer.close(timeout=PATIENCE_S)


@pytest.mark.parametrize("call", DEADLINES.values(), ids=DEADLINES.keys())
def test_every_wait_has_a_deadline(connect: Connect, call: Call) -> None:
    with pytest.raises(relive.DeadlineExceededError):
        call(connect(*tables()))


INTERRUPTED = """
import sys, threading, signal, os
sys.path[:0] = [{tests!r}]
# If the tests were started in the background, this signal is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
import numpy as np
import relive, test_waiting
server = relive.Server(tables=test_waiting.tables())
client = relive.Client(f"localhost:{{server.port}}", transport={transport!r})
watcher = relive.Client(f"localhost:{{server.port}}")
def interrupt():
    while not any(info.waiters for info in watcher.status(timeout=30)["tables"].values()):
        pass
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
try:
    test_waiting.BLOCKED[{call!r}](client)
except KeyboardInterrupt:
    print("interrupted", flush=True)
server.stop()
"""


@pytest.mark.parametrize("call", sorted(BLOCKED))
@pytest.mark.parametrize("way", ["in-process", "tcp"])
def test_ctrl_c_ends_a_wait(call: str, way: str) -> None:
    program = INTERRUPTED.format(tests=os.path.dirname(__file__), transport=way, call=call)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0 and done.stdout == "interrupted\n", done.stderr


def test_ctrl_c_ends_server_wait() -> None:
    program = """
import os, signal, threading, relive
signal.signal(signal.SIGINT, signal.default_int_handler)
server = relive.Server(tables=[relive.Table.queue("q", 1)])
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    server.wait()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0 and done.stdout == "interrupted\n", done.stderr


def test_a_long_wait_logs_what_it_waits_for(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """The first notice comes after five seconds."""
    client = connect(uniform_table("empty", rate_limiter=relive.rate_limiters.MinSize(7)))
    told = threading.Event()

    class Watch(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.set()

    logger, watch = logging.getLogger("relive"), Watch()
    logger.addHandler(watch)
    try:
        with caplog.at_level(logging.WARNING, "relive"), pytest.raises(relive.DeadlineExceededError):
            next(client.batches("empty", 1, timeout=8.0))
        assert told.wait(PATIENCE_S)
    finally:
        logger.removeHandler(watch)
    # Threads of earlier tests may still be waiting.
    messages = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [text for text in messages if text.startswith("batches has been waiting for 5 s: ") and "7" in text], messages
