"""Forks, pickling, and the cost of importing the package."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from collections.abc import Callable

import pytest
from conftest import PATIENCE_S

import relive

Serve = Callable[..., relive.Server]


def insert(client: relive.Client, value: int) -> None:
    client.insert(value, {"table": 1.0}, timeout=PATIENCE_S)


FORKED = """
import os, sys, traceback
import relive
server = relive.Server(tables=[relive.Table(
    "table", relive.selectors.Uniform(), relive.selectors.Fifo(), 10, relive.rate_limiters.MinSize(1))])
client = relive.Client(f"localhost:{{server.port}}", transport={way!r})
client.insert(1, {{"table": 1.0}}, timeout=30)
next(client.sample("table", timeout=30))
child = os.fork()
if child == 0:
    try:
        server.stop()
        client.insert(2, {{"table": 1.0}}, timeout=30)
        (steps,) = client.sample("table", timeout=30)
        assert client.transport == {{"auto": "shm"}}.get({way!r}, {way!r}) and steps[0].data[0] in (1, 2)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
client.insert(3, {{"table": 1.0}}, timeout=30)
print(client.server_info()["table"].current_size)
"""


@pytest.mark.parametrize("way", ["auto", "tcp"])
def test_a_forked_child_opens_its_own_connection(way: str) -> None:
    """Runs in a new interpreter, because other tests load libraries with threads, which do not support forks. The
    child's `stop` does not end its parent's server."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED.format(way=way)],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr


def test_clients_can_be_sent_to_other_processes(serve: Serve) -> None:
    client = serve().localhost_client()
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=insert, args=(client, value)) for value in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE_S)
        assert worker.exitcode == 0
    assert client.server_info()["table"].current_size == 2


def test_the_package_is_light() -> None:
    program = """
import re, sys, time
import numpy
start = time.perf_counter()
import relive
taken = time.perf_counter() - start
heavy = {"google.protobuf", "tensorflow", "torch", "jax", "gymnasium"} & set(sys.modules)
peak_kib = re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1]
print(taken, int(peak_kib) / 1024, sorted(heavy))
"""
    measured = []
    # The best of three measurements, because the machine may be busy.
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        taken, resident_mib, heavy = done.stdout.split(maxsplit=2)
        assert heavy.strip() == "[]"
        measured.append((float(taken), float(resident_mib)))
    assert min(taken for taken, _ in measured) < 0.2
    assert min(resident_mib for _, resident_mib in measured) < 60


@pytest.mark.parametrize(
    ("imports", "name", "module"),
    [
        ("import relive", "relive.extensions", "relive.extensions"),
        ("import relive", "relive.rl.adders", "relive.rl.adders"),
        ("from relive import rl", "rl.adders", "relive.rl.adders"),
    ],
)
def test_modules_are_imported_on_access(imports: str, name: str, module: str) -> None:
    # Runs in a separate process, because this process has already imported the modules.
    program = f"""
import sys
{imports}
package, _, last = {name!r}.rpartition(".")
assert last in dir(eval(package))
assert {module!r} not in sys.modules
assert {name} is sys.modules[{module!r}]
assert {name}.__all__
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE_S)


def test_a_star_import_needs_no_other_package() -> None:
    program = """
import sys
sys.modules["tensorflow"] = None
from relive import *
import relive
assert Client is relive.Client
assert "TFClient" in dir(relive) and "TFClient" not in globals()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE_S)


def test_a_program_that_forgets_to_stop_still_ends() -> None:
    program = """
import relive
server = relive.Server(tables=[relive.Table.queue("q", 10)])
client = server.localhost_client()
writer = client.trajectory_writer(1)
writer.append(1)
writer.create_item("q", 1.0, writer.history[-1:])
batches = client.batches("q", 2)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
