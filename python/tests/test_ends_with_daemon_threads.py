"""Programs that end normally while a daemon thread keeps servers and stores alive."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

# The thread keeps the names of the program alive, because its function belongs to the program.
PROGRAM = """
import os, threading
import numpy as np
import relive
from relive import checkpointers, gpu
def idle():
    threading.Event().wait()
{work}
threading.Thread(target=idle, daemon=True).start()
"""
SERVER = """
saved = checkpointers.DefaultCheckpointer({folder!r}, at_shutdown=True)
server = relive.Server([relive.Table.queue("q", 10)], checkpointer=saved)
writer = server.localhost_client().trajectory_writer(num_keep_alive_refs=1)
writer.append(np.float32(1))
writer.create_item("q", 1.0, writer.history[-1:])
"""
STORE = """
store = gpu.Store({{"a": "float32"}}, capacity=4, max_steps=2, name={name!r})
assert os.path.exists("/dev/shm/" + {name!r})
"""


def run(work: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(work=work)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("times", [1, 2])
def test_the_final_checkpoint_is_written(tmp_path: pathlib.Path, times: int) -> None:
    for _ in range(times):
        run(SERVER.format(folder=str(tmp_path)))
    assert len(list(tmp_path.glob("checkpoint-*"))) == times


def test_the_file_of_a_named_store_is_removed(tmp_path: pathlib.Path) -> None:
    name = f"relive-{tmp_path.name}-daemon"
    run(STORE.format(name=name))
    assert not pathlib.Path("/dev/shm", name).exists()


def test_a_forked_child_leaves_its_parents_server_alone(tmp_path: pathlib.Path) -> None:
    child = "\nif os.fork() == 0:\n    import atexit\n    atexit._run_exitfuncs()\n    os._exit(0)\nos.wait()\nassert server.port\n"
    run(SERVER.format(folder=str(tmp_path)) + "writer.flush()" + child + 'server.localhost_client().insert(np.float32(2), {"q": 1.0})')
    assert len(list(tmp_path.glob("checkpoint-*"))) == 1
