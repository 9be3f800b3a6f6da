"""Misuse of the API that occurs in real programs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import PATIENCE_S, uniform_table

import relive

Connect = Callable[..., relive.Client]


def test_a_class_that_reads_the_writer_in_its_finalizer(connect: Connect) -> None:
    writer = connect().trajectory_writer(2)

    class Step(dict):  # type: ignore[type-arg]
        def __del__(self) -> None:
            if len(self) == 1 and not isinstance(self["x"], int):
                try:
                    writer.history
                except RuntimeError:
                    pass

    writer.append(Step(x=1))
    assert len(writer.history) == 1
    writer.append(Step(x=1, y=2))
    assert len(writer.history) == 2


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, SystemExit, MemoryError])
def test_an_exception_of_a_value_is_propagated(connect: Connect, error: type[BaseException]) -> None:
    class Lazy:
        def __array__(self, *_: Any, **__: Any) -> np.ndarray:
            raise error("its own")

    writer = connect().trajectory_writer(1)
    with pytest.raises(error, match="its own"):
        writer.append({"x": Lazy()})


def test_unsortable_keys_are_refused(connect: Connect) -> None:
    client = connect()
    with pytest.raises(TypeError, match="sort"):
        client.insert({10: 1, "a": 2}, {"table": 1.0})
    with pytest.raises(TypeError, match="None"):
        client.insert({10: 1, 2: None}, {"table": 1.0})
    with pytest.raises(TypeError, match="must be strings"):
        uniform_table(signature={2: relive.ArraySpec((), np.int64), 10: relive.ArraySpec((), np.int64)})
    with client.trajectory_writer(1) as writer:
        writer.append({2: 200, 10: 1000})
        writer.create_item("table", 1.0, {key: column[-1] for key, column in writer.history.items()})
    client.insert({10: 1000, 2: 200}, {"table": 1.0})
    for sample in client.sample("table", 10, emit_timesteps=False, timeout=PATIENCE_S):
        assert [column.item() for column in sample.data] == [200, 1000]


def test_tuples_with_false_fields_are_refused(connect: Connect) -> None:
    class Pair(tuple):  # type: ignore[type-arg]
        _fields = ("first",)

    with pytest.raises(ValueError, match="2 values.*1 fields"):
        connect().insert(Pair((1, 2)), {"table": 1.0})


def test_slices_beyond_all_numbers(connect: Connect) -> None:
    writer = connect().trajectory_writer(2)
    writer.append(1)
    for key in (slice(-(2**63), None), slice(-(2**63), 2**63 - 1), -(2**63), [-(2**63)]):
        with pytest.raises(ValueError, match="before the first"):
            writer.history[key]


def test_too_many_dimensions_are_refused(connect: Connect) -> None:
    with pytest.raises(ValueError, match="63 dimensions"):
        connect().insert([np.zeros((1,) * 63)], {"table": 1.0})


@pytest.mark.parametrize("timeout", [-1, float("nan")])
def test_invalid_timeouts_are_refused(connect: Connect, timeout: float) -> None:
    client = connect()
    with pytest.raises(ValueError, match="None to wait forever"):
        client.insert(1, {"table": 1.0}, timeout=timeout)
    client.insert(1, {"table": 1.0}, timeout=float("inf"))


AT_THE_END = """
import threading, time, sys
import numpy as np, relive
server = relive.Server(tables=[relive.Table(
    "t", relive.selectors.Fifo(), relive.selectors.Fifo(), 100, relive.rate_limiters.MinSize(1))])
started = threading.Barrier(4)
def actor():
    writer = relive.Client(f"localhost:{server.port}").trajectory_writer(2)
    writer.append({"x": np.zeros(3), "r": 0.0})
    started.wait()
    while True:
        writer.append({"x": np.zeros(3), "r": 0.0})
        writer.create_item("t", 1.0, {"x": writer.history["x"][-1:]})
for _ in range(3):
    threading.Thread(target=actor, daemon=True).start()
started.wait()
"""


def test_programs_can_exit_while_threads_write() -> None:
    for _ in range(8):
        done = subprocess.run(
            [sys.executable, "-c", AT_THE_END], capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 0, done.stderr


FORKED_WRITER = """
import os, relive
server = relive.Server(tables=[relive.Table.queue("q", 10)])
client = relive.Client(f"localhost:{server.port}", transport="WAY")
writer, batches = client.trajectory_writer(1), client.batches("q", 1)
child = os.fork()
if child == 0:
    refused = 0
    for call in (lambda: writer.append(1), writer.flush, lambda: next(batches)):
        try:
            call()
        except RuntimeError as error:
            refused += "before a fork" in str(error)
    del writer, batches
    os._exit(refused)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("way", ["in-process", "tcp"])
def test_a_child_cannot_use_its_parent_s_writers(way: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED_WRITER.replace("WAY", way)],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr


def test_chunks_that_take_long_to_encode(connect: Connect) -> None:
    """An item may be confirmed before its chunk's bytes were counted."""
    client = connect(uniform_table(max_size=20))
    writer = client.trajectory_writer(2, chunk_length=2)
    writer.configure(("c",), num_keep_alive_refs=1, max_chunk_length=1)
    random = np.random.default_rng(0)
    small, big = random.random(300), random.random(500_000)
    for step in range(10):
        writer.append({"a": small, "c": np.float64(step)}, partial_step=True)
        writer.append({"b": big})
        history = writer.history
        ready, first, second = history["c"][-1:], history["a"][-1:], history["b"][-1:]
        for column in (ready, first, second):
            writer.create_item("table", 1.0, [column])
        writer.flush(timeout_ms=30_000)
    assert writer.pending_items == 0
    writer.close()
