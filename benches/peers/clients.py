"""dm-reverb clients, one process each, which are reused for all runs: importing TensorFlow takes longer than most
runs."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pathlib
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

# Typical use: many small items between two waits for confirmation, and many samples from one call.
FLUSH_EVERY = 200
SAMPLES_PER_CALL = 2000
PATIENCE_S = 180.0


@dataclass
class Result:
    """Totals over all clients."""

    items: int
    items_per_s: float
    client_cpu_s: float


class Clients:
    """A pool of client processes."""

    def __init__(self, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._folder = tempfile.TemporaryDirectory(prefix="relive-peers-")
        self._log = pathlib.Path(self._folder.name, "clients.log")
        self._pipes = []
        self._processes = []
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs, str(self._log)), daemon=True)
            process.start()
            self._pipes.append(ours)
            self._processes.append(process)

    def __enter__(self) -> "Clients":
        return self

    def __exit__(self, *_) -> None:
        for process in self._processes:
            process.kill()
            process.join()
        self._folder.cleanup()

    def fill(self, address: str, nbytes: int, count: int) -> None:
        self._pipes[0].send(("fill", address, nbytes, count))
        self._receive(self._pipes[0])

    def run(self, operation: str, address: str, nbytes: int, clients: int, seconds: float,
            at_start: Callable[[], None]) -> Result:
        """Warms up the clients, calls `at_start`, and lets the clients work at the same time."""
        pipes = self._pipes[:clients]
        for pipe in pipes:
            pipe.send((operation, address, nbytes, seconds))
        for pipe in pipes:
            self._receive(pipe)
        at_start()
        for pipe in pipes:
            pipe.send("go")
        rows = [self._receive(pipe) for pipe in pipes]
        return Result(
            items=sum(items for items, _, _ in rows),
            items_per_s=sum(items / wall for items, wall, _ in rows),
            client_cpu_s=sum(cpu for _, _, cpu in rows),
        )

    def _receive(self, pipe):
        if not pipe.poll(PATIENCE_S):
            raise self._failure(f"was silent for {PATIENCE_S:.0f} s")
        try:
            return pipe.recv()
        except (EOFError, ConnectionResetError):
            raise self._failure("ended") from None

    def _failure(self, what: str) -> SystemExit:
        return SystemExit(f"a client {what}:\n{self._log.read_text(errors='replace')[-3000:]}")


def _work(pipe, log: str) -> None:
    # The terminal belongs to the progress bar.
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    import reverb

    operations = {"fill": _fill, "insert": _insert, "sample": _sample}
    with contextlib.suppress(EOFError):
        while True:
            operation, address, *arguments = pipe.recv()
            operations[operation](reverb.Client(address), pipe, *arguments)


def _rows(nbytes: int, seed: int) -> list:
    import numpy as np

    return [np.random.default_rng(seed + i).random(nbytes // 4, dtype=np.float32) for i in range(16)]


def _write(writer, rows: list, count: int, priority: Callable[[int], float] = lambda _: 1.0) -> None:
    for index in range(count):
        writer.append([rows[index % len(rows)]])
        writer.create_item("t", priority(index), [writer.history[0][-1:]])
    writer.flush()


def _fill(client, pipe, nbytes: int, count: int) -> None:
    rows = _rows(nbytes, 0)
    with client.trajectory_writer(num_keep_alive_refs=1) as writer:
        for start in range(0, count, 500):
            _write(writer, rows, min(500, count - start), lambda index: 1.0 + index % 7)
    pipe.send("filled")


def _insert(client, pipe, nbytes: int, seconds: float) -> None:
    rows = _rows(nbytes, os.getpid())
    with client.trajectory_writer(num_keep_alive_refs=1) as writer:
        _write(writer, rows, 50)

        def burst() -> int:
            _write(writer, rows, FLUSH_EVERY)
            return FLUSH_EVERY

        _measured(pipe, seconds, burst)


def _sample(client, pipe, _nbytes: int, seconds: float) -> None:
    for _ in client.sample("t", num_samples=20, emit_timesteps=False):
        pass
    _measured(pipe, seconds, lambda: sum(
        1 for _ in client.sample("t", num_samples=SAMPLES_PER_CALL, emit_timesteps=False)))


def _measured(pipe, seconds: float, burst: Callable[[], int]) -> None:
    """Reports that it is ready, waits for the other clients, and sends (items, wall-clock seconds, CPU seconds)."""
    pipe.send("ready")
    pipe.recv()
    items = 0
    cpu, start = time.process_time(), time.perf_counter()
    while time.perf_counter() - start < seconds:
        items += burst()
    pipe.send((items, time.perf_counter() - start, time.process_time() - cpu))
