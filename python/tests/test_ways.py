"""The ways to a server of this machine, and memory that is shared with it."""

from __future__ import annotations

import contextlib
import gc
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
batches = relive.Client(f"localhost:{sys.argv[1]}", transport=sys.argv[2]).batches("table", 64)
next(batches)
child = os.fork()
if child == 0:
    sys.stdin.read()
    os._exit(0)
batches.close()
print("closed", flush=True)
os.waitpid(child, 0)
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


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@contextlib.contextmanager
def server_process(port: int = 0) -> Iterator[tuple[subprocess.Popen[str], int]]:
    process = run(SERVER, port)
    try:
        yield process, int(said(process))
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def shared_places(process: int | str = "self") -> list[range]:
    """Where a process has memory that it shares by Relive's doing."""
    lines = [line.split() for line in Path(f"/proc/{process}/maps").read_text().splitlines()]
    spans = [line[0].split("-") for line in lines if any("memfd:relive" in word for word in line[5:])]
    return [range(int(start, 16), int(end, 16)) for start, end in spans]


def open_files(process: int) -> int:
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


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


def test_every_way_says_what_it_is(connect: Connect, transport: str) -> None:
    assert connect().transport == transport


def test_auto_takes_shared_memory_on_one_machine_and_processes_may_choose_another() -> None:
    with server_process() as (_, port):
        assert relive.Client(f"localhost:{port}").transport == "shm"
        for way in ("tcp", "unix", "shm"):
            assert relive.Client(f"localhost:{port}", transport=way).transport == way
        with pytest.raises(ValueError, match="in this process|of this process"):
            relive.Client(f"localhost:{port}", transport="in-process").server_info()


def test_other_names_are_refused() -> None:
    with pytest.raises(ValueError, match="'auto', 'in-process', 'shm', 'unix', 'tcp', not \"rdma\""):
        relive.Client("localhost:1", transport="rdma")


def test_batches_lie_in_shared_memory_and_may_be_written_to() -> None:
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


def test_memory_comes_back_with_the_arrays_and_goes_with_the_iterator() -> None:
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


def test_a_killed_server_takes_no_array_with_it() -> None:
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
def test_a_closed_iterator_ends_its_connection_also_when_a_child_has_the_socket(way: str) -> None:
    with server_process() as (process, port):
        client = relive.Client(f"localhost:{port}")
        fill(client)
        before = open_files(process.pid)
        parent = run(FORKER, port, way)
        assert said(parent) == "closed"
        assert eventually(lambda: open_files(process.pid) == before)
        assert not shared_places(process.pid)
        parent.communicate("")


def test_a_batch_stays_as_it_is_for_a_child() -> None:
    with server_process() as (_, port):
        fill(relive.Client(f"localhost:{port}"))
        parent = run(INHERITOR, port)
        assert said(parent) == "0"
        parent.communicate()
