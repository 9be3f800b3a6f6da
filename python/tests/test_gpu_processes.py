"""Stores of trajectories between processes and threads."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
from gpu_stores import put, simple
from relive import errors, gpu

READS = """
    import sys
    import numpy as np
    from relive import errors, gpu

    name = sys.argv[1]
    with gpu.attach(name, {"x": "float32"}, max_steps=5) as reader:
        assert reader.capacity == 4
        batch = next(reader.loader(16, {"x": gpu.Window()}, sampling="weighted"))
        assert set(batch.data["x"][:, 0].tolist()) == {2.0, 3.0}, batch
    assert list(gpu.attach(name).columns) == ["x"]
    try:
        gpu.attach(name, {"x": ("float32", (2,))}, max_steps=5)
    except errors.InvalidArgumentError as error:
        print(error)
"""


def test_another_process_reads() -> None:
    name = f"relive-test-{np.random.default_rng().integers(1 << 60)}"
    with simple(name=name) as store:
        for value, weight in ((1, 0.0), (2, 1.0), (3, 1.0)):
            put(store, value, weight)
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(READS), name], capture_output=True, text=True, timeout=120,
            check=False
        )
        assert done.returncode == 0, done.stderr
        assert "float32[2]" in done.stdout and "float32[]" in done.stdout, "the error shows both schemas"
        with pytest.raises(errors.UnavailableError):
            simple(name=name)
    with pytest.raises(errors.NotFoundError):
        gpu.attach(name)


def test_a_forked_child_does_no_harm() -> None:
    program = """
        import os
        from relive import errors, gpu
        import numpy as np

        store = gpu.Store({"x": "float32"}, capacity=2, max_steps=2, name=f"relive-test-fork-{os.getpid()}")
        store.insert({"x": np.ones(2, np.float32)})
        child = os.fork()
        if child == 0:
            try:
                len(store)
            except errors.FailedPreconditionError:
                del store
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert next(gpu.attach(f"relive-test-fork-{os.getpid()}").loader(1, {"x": gpu.Window()})).data["x"] == 1
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120,
        check=False
    )
    assert done.returncode == 0, done.stderr


def test_writers_and_a_loader_at_the_same_time() -> None:
    """Rows that are replaced while they are drawn never mix two trajectories."""
    store = gpu.Store({"x": ("float32", (32,))}, capacity=8, max_steps=16)
    stop = threading.Event()
    for value in range(8):
        store.insert({"x": np.full((16, 32), value, np.float32)})

    def write() -> None:
        value = 8
        while not stop.is_set():
            store.insert({"x": np.full((16, 32), value, np.float32)}, timeout=10)
            value += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        loader = store.loader(4, {"x": gpu.Window(-16, 16)}, steps="last", prefetch=0)
        for _ in range(300):
            x = next(loader).data["x"].reshape(4, -1)
            assert (x == x[:, :1]).all()
    finally:
        stop.set()
        writer.join()


def test_relive_gpu_is_imported_lazily() -> None:
    program = "import sys, relive; assert 'relive.gpu' not in sys.modules; relive.gpu.Store"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
