"""The transports to a server on this machine, and memory that is shared with it."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import PATIENCE_S

import relive

Connect = Callable[..., relive.Client]

SERVER = """
import sys, relive
server = relive.Server(tables=[relive.Table(
    "table", relive.selectors.Uniform(), relive.selectors.Fifo(), 1000, relive.rate_limiters.MinSize(1))],
    port=int(sys.argv[1]))
if len(sys.argv) > 2:
    relive.Client(f"localhost:{server.port}", transport="in-process").insert([float(sys.argv[2])] * 256, {"table": 1.0})
print(server.port, flush=True)
server.wait()
"""

READER = """
import sys, relive
batches = relive.Client(f"localhost:{sys.argv[1]}", transport="shm").batches("table", 64)
kept = [next(batches) for _ in range(5)]
print("ready", flush=True)
sys.stdin.read()
"""

FORKER = """
import os, sys, relive
client = relive.Client(f"localhost:{sys.argv[1]}", transport=sys.argv[2])
client.server_info()
print("connected", flush=True)
sys.stdin.readline()
batches = client.batches("table", 64)
next(batches)
until_parent_ends = os.pipe()
child = os.fork()
if child == 0:
    os.close(until_parent_ends[1])
    os.read(until_parent_ends[0], 1)
    os._exit(0)
print("forked", flush=True)
sys.stdin.readline()
batches.close()
print("closed", flush=True)
sys.stdin.read()
"""

INHERITOR = """
import os, sys, relive
batches = relive.Client(f"localhost:{sys.argv[1]}", transport="shm").batches("table", 64)
(kept,) = next(batches).data
before = kept.copy()
to_child = os.pipe()
child = os.fork()
if child == 0:
    os.read(to_child[0], 1)
    os._exit(0 if (kept == before).all() else 1)
del kept
for _ in range(50):
    next(batches)
os.write(to_child[1], b"x")
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def run(program: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def tell(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdin is not None
    print(word, file=process.stdin, flush=True)


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@contextlib.contextmanager
def server_process(port: int = 0, *items: float) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Provides a server in a separate process, with items that were not inserted over a connection."""
    process = run(SERVER, port, *items)
    try:
        yield process, int(said(process))
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def shared_places(process: int | str = "self") -> list[range]:
    """Returns the memory mappings that a process shares through Relive."""
    lines = [line.split() for line in Path(f"/proc/{process}/maps").read_text().splitlines()]
    spans = [line[0].split("-") for line in lines if any("memfd:relive" in word for word in line[5:])]
    return [range(int(start, 16), int(end, 16)) for start, end in spans]


def sockets(process: int) -> set[str]:
    """Returns the sockets of a process, by inode number."""
    found = set()
    for link in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed after it was listed
            found.add(os.readlink(link))
    return {name[len("socket:[") : -1] for name in found if name.startswith("socket:")}


def connections(process: int, port: int) -> int:
    """Returns the number of open connections of a server's process: TCP connections on `port`, and Unix connections,
    which are recognized by the name of the listening socket."""
    tcp = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    tcp += [line.split() for line in Path("/proc/net/tcp6").read_text().splitlines()[1:]]
    held = {row[9] for row in tcp if int(row[1].rsplit(":")[-1], 16) == port and row[3] != "0A"}
    unix = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    held |= {row[6] for row in unix if row[5] == "03" and "relive" in row[-1]}
    return len(held & sockets(process))


def eventually(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if holds():
            return True
    return False


def fill(client: relive.Client, items: int = 10) -> None:
    with client.trajectory_writer(num_keep_alive_refs=1) as writer:
        for item in range(items):
            writer.append([np.full(256, item, np.float32)])
            writer.create_item("table", 1.0, [writer.history[0][-1]])


def test_every_transport_reports_its_name(connect: Connect, transport: str) -> None:
    assert connect().transport == transport


def test_auto_uses_shared_memory_locally_and_others_can_be_chosen() -> None:
    with server_process() as (_, port):
        assert relive.Client(f"localhost:{port}").transport == "shm"
        for way in ("tcp", "unix", "shm"):
            assert relive.Client(f"localhost:{port}", transport=way).transport == way
        with pytest.raises(ValueError, match=f"this process has no server at localhost:{port}"):
            relive.Client(f"localhost:{port}", transport="in-process").server_info()


def test_unknown_transports_are_refused() -> None:
    with pytest.raises(ValueError, match="'auto', 'in-process', 'shm', 'unix', 'tcp', got \"rdma\""):
        relive.Client("localhost:1", transport="rdma")


def test_batches_are_in_shared_memory_and_writable() -> None:
    with server_process() as (_, port):
        client = relive.Client(f"localhost:{port}", transport="shm")
        fill(client)
        batches = client.batches("table", 64)
        (column,) = next(batches).data
        address = column.__array_interface__["data"][0]
        assert any(address in place for place in shared_places())
        assert column.flags.writeable and column.flags.aligned and address % 64 == 0
        before = column.copy()
        column += 1
        np.testing.assert_array_equal(column, before + 1)
        assert set(np.unique(next(batches).data[0])) <= set(range(10)), "what was written is nobody else's"


def test_memory_is_reused_after_the_arrays_and_freed_with_the_iterator() -> None:
    with server_process() as (process, port):
        client = relive.Client(f"localhost:{port}", transport="shm")
        fill(client)
        batches = client.batches("table", 64)
        for _ in range(300):
            next(batches)
        assert len(shared_places(process.pid)) <= 8, "pieces are used again"
        kept = [next(batches).data[0] for _ in range(30)]
        assert len({array.__array_interface__["data"][0] for array in kept}) == 30
        assert all(len(np.unique(array, axis=1)[0]) == 1 for array in kept)
        batches.close()
        del batches, kept
        gc.collect()
        assert eventually(lambda: not shared_places(process.pid) and not shared_places())


def test_a_killed_reader_leaves_nothing_with_the_server() -> None:
    with server_process() as (process, port):
        client = relive.Client(f"localhost:{port}", transport="shm")
        fill(client)
        reader = run(READER, port)
        assert said(reader) == "ready"
        assert shared_places(process.pid)
        reader.kill()
        reader.communicate()
        assert eventually(lambda: not shared_places(process.pid))
        assert len(next(client.batches("table", 8)).data[0]) == 8, "the server goes on"


def test_arrays_stay_valid_after_the_server_is_killed() -> None:
    with server_process() as (process, port):
        client = relive.Client(f"localhost:{port}", transport="shm")
        fill(client)
        batches = client.batches("table", 64, timeout=PATIENCE_S)
        kept = next(batches).data[0]
        values = kept.copy()
        process.kill()
        process.wait()
        np.testing.assert_array_equal(kept, values)
        with server_process(port):
            fill(relive.Client(f"localhost:{port}"), 1)
            assert eventually(lambda: not next(batches).data[0].any()), "only the new server has zeros alone"
        np.testing.assert_array_equal(kept, values)
        batches.close()
        del batches, kept
        gc.collect()
        assert eventually(lambda: not shared_places())


@pytest.mark.parametrize("way", ["shm", "tcp"])
def test_a_closed_iterator_ends_its_connection_despite_a_forked_child(way: str) -> None:
    with server_process(0, 1.0) as (process, port):
        parent = run(FORKER, port, way)
        try:
            assert said(parent) == "connected"
            before = connections(process.pid, port)
            tell(parent, "fork")
            assert said(parent) == "forked"
            assert connections(process.pid, port) > before
            tell(parent, "close")
            assert said(parent) == "closed"
            assert eventually(lambda: connections(process.pid, port) == before)
            assert not shared_places(process.pid)
        finally:
            parent.communicate("")


def test_a_batch_is_unchanged_in_a_forked_child() -> None:
    with server_process() as (_, port):
        fill(relive.Client(f"localhost:{port}"))
        parent = run(INHERITOR, port)
        assert said(parent) == "0"
        parent.communicate()
