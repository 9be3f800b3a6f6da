"""Load for a server from Python clients: `load_worker.py JOB`, a JSON object.

Clients are distributed over a few processes and their threads; each client has its own connection and writer or
iterator. Two hundred processes would not fit in memory, and two hundred threads of one process would mostly wait for
its interpreter. Reads the address of the server, prints `ready` when all clients are warmed up, starts at the next line
of input, and prints one line of JSON.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np

TABLE = "t"
PROCESSES = 4
BATCH = 256
# The maximum number of bytes in all clients' batches together; with many clients and large items, batches are smaller.
BATCHES_BYTES = 512 << 20
BATCHES_PER_CLIENT = 4
FLUSH_EVERY = 200
FLUSH_BYTES = 4 << 20
# The number of items in the table before it is sampled.
FILL_ITEMS = 100_000
FILL_BYTES = 512 << 20
PATIENCE_S = 120.0


# Operations that need items to read.
READING = ("sample", "update", "mixed", "sample-one")


class Client:
    """One client of the load."""

    def __init__(self, told: dict, number: int) -> None:
        self.told, self.nbytes = told, told["nbytes"]
        self.package = importlib.import_module(told["package"])
        if told["package"] == "relive":
            self.client = self.package.Client(told["address"], transport=told["transport"])
        else:
            self.client = self.package.Client(told["address"])
        random = np.random.default_rng(number)
        self.rows = [random.random(self.nbytes // 4, dtype=np.float32) for _ in range(16)]
        self.priorities = random.random((16, BATCH)) + 0.01
        self.number = number
        self.items, self.took = 0, []

    def act(self, operation: str) -> Callable[[], int]:
        """Returns the operation to repeat, which returns the number of items that it has handled."""
        if operation == "mixed":
            operation = ("insert", "sample")[self.number % 2]
        return {"insert": self.insert, "sample": self.sample, "update": self.update, "insert-one": self.insert_one,
                "sample-one": self.sample_one}[operation]()

    def insert(self, burst: int | None = None) -> Callable[[], int]:
        burst = burst or burst_items(self.nbytes)
        writer = self.client.trajectory_writer(num_keep_alive_refs=1)

        def act() -> int:
            for index in range(burst):
                writer.append([self.rows[index % 16]])
                writer.create_item(TABLE, 1.0, [writer.history[0][-1]])
            writer.flush()
            return burst
        return act

    def insert_one(self) -> Callable[[], int]:
        return self.insert(1)

    def sample_one(self) -> Callable[[], int]:
        return lambda: sum(1 for _ in self.client.sample(TABLE, 1, emit_timesteps=False))

    def sample(self) -> Callable[[], int]:
        batches = self.batches()
        return lambda: len(next(batches)[1])

    def update(self) -> Callable[[], int]:
        batches = self.batches()

        def act() -> int:
            keys, data = next(batches)
            priorities = self.priorities[np.random.randint(16)][:len(keys)]
            if self.told["package"] == "relive":
                self.client.update_priorities(TABLE, keys, priorities)
            else:
                self.client.mutate_priorities(TABLE, updates=dict(zip(keys.tolist(), priorities.tolist())))
            return len(data)
        return act

    def batches(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yields keys and steps of batches, without end."""
        size = batch_size(self.nbytes, self.told["clients"])
        if self.told["package"] == "relive":
            for batch in self.client.batches(TABLE, size):
                yield batch.info.key, batch.data[0]
        import tensorflow as tf

        dataset = self.package.TrajectoryDataset(
            self.told["address"], TABLE, dtypes=[tf.float32], shapes=[tf.TensorShape([self.nbytes // 4])],
            max_in_flight_samples_per_worker=2 * size)
        for sample in dataset.batch(size, drop_remainder=True).prefetch(2).as_numpy_iterator():
            yield sample.info.key, sample.data[0]

    def fill(self) -> None:
        burst = burst_items(self.nbytes)
        insert = self.insert(burst)
        for _ in range(-(-fill_items(self.nbytes) // burst)):
            insert()

    def work(self, barrier: threading.Barrier) -> None:
        operation, seconds = self.told["operation"], self.told["seconds"]
        if self.number == 0 and operation in READING:
            self.fill()
        act = self.act(operation)
        act()
        barrier.wait(PATIENCE_S)
        barrier.wait()
        now = time.perf_counter()
        end = now + seconds
        while now < end:
            items = act()
            before, now = now, time.perf_counter()
            # A call that extends beyond the end counts partially; otherwise, slow calls would seem faster.
            self.items += items * min(1.0, (end - before) / (now - before))
            self.took.append(now - before)


def batch_size(nbytes: int, clients: int) -> int:
    return max(1, min(BATCH, BATCHES_BYTES // (clients * BATCHES_PER_CLIENT * nbytes)))


def burst_items(nbytes: int) -> int:
    return max(1, min(FLUSH_EVERY, FLUSH_BYTES // nbytes))


def fill_items(nbytes: int) -> int:
    return min(FILL_ITEMS, max(500, FILL_BYTES // nbytes))


def process(told: dict, numbers: list[int], pipe) -> None:
    """Runs a few clients on threads: reports that they are ready, waits for the start signal, and sends their
    results."""
    try:
        clients = [Client(told, number) for number in numbers]
    except Exception as failure:
        pipe.send(repr(failure))
        return
    barrier, failures = threading.Barrier(len(numbers) + 1), []

    def guarded(client: Client) -> None:
        try:
            client.work(barrier)
        except threading.BrokenBarrierError:
            pass
        except BaseException as failure:
            failures.append(repr(failure))
            barrier.abort()

    threads = [threading.Thread(target=guarded, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    try:
        barrier.wait(PATIENCE_S)
        pipe.send("ready")
        pipe.recv()
        cpu = time.process_time()
        barrier.wait()
        for thread in threads:
            thread.join()
        cpu = time.process_time() - cpu
    except threading.BrokenBarrierError:
        failures.append("a client was not ready in time")
    if failures:
        pipe.send(failures[0])
    else:
        pipe.send({"items": [client.items for client in clients], "cpu": cpu,
                   "took": np.concatenate([client.took for client in clients])})
    # Exits at once, because open streams and threads of libraries would delay the exit.
    os._exit(0)


def start(told: dict) -> list:
    """Returns the pipes to the processes, each of which runs its share of the clients."""
    context, pipes = multiprocessing.get_context("fork"), []
    count = min(PROCESSES, told["clients"])
    for index in range(count):
        ours, theirs = context.Pipe()
        numbers = list(range(index, told["clients"], count))
        context.Process(target=process, args=(told, numbers, theirs), daemon=True).start()
        pipes.append(ours)
    return pipes


def receive(pipe):
    if not pipe.poll(PATIENCE_S):
        raise SystemExit(f"a process of clients was silent for {PATIENCE_S:.0f} s")
    try:
        heard = pipe.recv()
    except EOFError:
        raise SystemExit("a process of clients ended") from None
    if isinstance(heard, str) and heard != "ready":
        raise SystemExit(heard)
    return heard


def main() -> None:
    told = json.loads(sys.argv[1])
    # Imported once, before processes are forked.
    importlib.import_module(told["package"])
    if told["package"] == "reverb":
        import tensorflow  # noqa: F401
    told["address"] = sys.stdin.readline().strip()
    pipes = start(told)
    for pipe in pipes:
        receive(pipe)
    print("ready", flush=True)
    sys.stdin.readline()
    for pipe in pipes:
        pipe.send("go")
    print(json.dumps(summary([receive(pipe) for pipe in pipes], told["seconds"])), flush=True)


def summary(rows: list[dict], seconds: float) -> dict:
    items = [count for row in rows for count in row["items"]]
    p50, p99 = np.quantile(np.concatenate([row["took"] for row in rows]), [0.5, 0.99])
    return {
        "items": sum(items), "items_per_s": sum(items) / seconds, "client_cpu_s": sum(row["cpu"] for row in rows),
        "p50_ms": p50 * 1e3, "p99_ms": p99 * 1e3, "slowest_of_mean": min(items) / (sum(items) / len(items)),
    }


if __name__ == "__main__":
    main()
