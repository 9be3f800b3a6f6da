"""One measurement with one package: `package_worker.py PACKAGE OPERATION NBYTES TRANSPORT SECONDS`; one line of JSON.

The server is in a separate process for the transport `tcp`, and in this process for `local`.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import sys
import time

import numpy as np

TABLE = "t"
BATCH_SIZE = 256
FLUSH_EVERY = 200
SEQUENCE = 100
FRAME_SHAPE = (84, 84)
STACK = 4
FRAME_BATCH_SIZE = 32
FRAMES = 10_000


def make_server(package, nbytes: int):
    table = package.Table(
        name=TABLE,
        sampler=package.selectors.Uniform(),
        remover=package.selectors.Fifo(),
        max_size=min(1_000_000, max(1_000, (2 << 30) // nbytes)),
        rate_limiter=package.rate_limiters.MinSize(1),
    )
    return package.Server(tables=[table])


def serve(name: str, nbytes: int, pipe) -> None:
    server = make_server(importlib.import_module(name), nbytes)
    pipe.send(server.port)
    pipe.recv()
    server.stop()


class Bench:
    """A server with a client, over the given transport."""

    def __init__(self, name: str, nbytes: int, transport: str, seconds: float) -> None:
        self.package = importlib.import_module(name)
        self.name, self.nbytes, self.seconds = name, nbytes, seconds
        self._process = self._server = None
        if transport == "local":
            self._server = make_server(self.package, nbytes)
            port = self._server.port
        else:
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(target=serve, args=(name, nbytes, theirs), daemon=True)
            self._process.start()
            port = self._pipe.recv()
        self.address = f"localhost:{port}"
        self.client = self.package.Client(self.address)
        random = np.random.default_rng(1)
        self.rows = [random.random(nbytes // 4, dtype=np.float32) for _ in range(16)]

    def stop(self) -> None:
        if self._process is not None:
            self._pipe.send("stop")
            self._process.join(20)
        else:
            self._server.stop()

    def fill(self, count: int) -> None:
        with self.client.trajectory_writer(num_keep_alive_refs=1) as writer:
            self.write(writer, count)

    def write(self, writer, count: int) -> None:
        for index in range(count):
            writer.append([self.rows[index % 16]])
            writer.create_item(TABLE, 1.0, [writer.history[0][-1:]])
            if index % FLUSH_EVERY == FLUSH_EVERY - 1:
                writer.flush()
        writer.flush()

    def timed(self, act) -> dict:
        """Calls `act`, which returns the number of handled items, for the duration of the run."""
        act()
        done, start = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < self.seconds:
            done += act()
        return {"items_per_s": done / elapsed}


def insert(bench: Bench) -> dict:
    with bench.client.trajectory_writer(num_keep_alive_refs=1) as writer:
        return bench.timed(lambda: bench.write(writer, FLUSH_EVERY) or FLUSH_EVERY)


def insert_sequence(bench: Bench, chunk_length: int | None = None) -> dict:
    """Writes `SEQUENCE` steps per call, with an item per step; waits for confirmation every hundred calls."""
    steps = [np.random.default_rng(2).random((SEQUENCE, bench.nbytes // 4), dtype=np.float32)]
    priorities, ends = np.ones(SEQUENCE), np.arange(-SEQUENCE, 0)
    calls = 100
    with bench.client.trajectory_writer(num_keep_alive_refs=SEQUENCE, chunk_length=chunk_length) as writer:
        def act() -> int:
            for _ in range(calls):
                writer.append_sequence(steps)
                writer.create_window_items(TABLE, priorities, ends, length=1)
            writer.flush()
            return calls * SEQUENCE
        return bench.timed(act)


def batches(bench: Bench) -> dict:
    bench.fill(min(20_000, max(500, (256 << 20) // bench.nbytes)))
    source = batch_source(bench, [bench.nbytes // 4], np.float32, BATCH_SIZE)
    def act() -> int:
        data = next(source)
        assert data.shape[0] == BATCH_SIZE and data.nbytes == BATCH_SIZE * bench.nbytes
        return BATCH_SIZE
    return bench.timed(act)


def batch_source(bench: Bench, shape: list[int], dtype, batch_size: int, squeezed: bool = False):
    """Yields the first column of batches as arrays, without end."""
    if bench.name == "relive":
        for batch in bench.client.batches(TABLE, batch_size):
            yield batch.data[0]
    import tensorflow as tf

    dataset = bench.package.TrajectoryDataset(
        bench.address, TABLE, dtypes=[tf.as_dtype(dtype)], shapes=[tf.TensorShape(shape if squeezed else [1, *shape])],
        max_in_flight_samples_per_worker=2 * batch_size)
    dataset = dataset.batch(batch_size, drop_remainder=True).prefetch(2)
    for sample in dataset.as_numpy_iterator():
        yield sample.data[0]


def sample_one(bench: Bench) -> dict:
    bench.fill(1_000)
    return bench.timed(lambda: sum(1 for _ in bench.client.sample(TABLE, 1, emit_timesteps=False)))


def frame(number: int) -> np.ndarray:
    """Returns a ball and a paddle on a plain background with some texture, which compresses like the frame of a
    game."""
    random = np.random.default_rng(number % 97)
    image = np.zeros(FRAME_SHAPE, np.uint8)
    image[10:14] = random.integers(0, 255, (4, 84), dtype=np.uint8)
    image[(number * 3) % 80:][:4, (number * 7) % 80:][:, :4] = 255
    image[80:82, (number * 5) % 70:][:, :12] = 180
    return image


def frames(bench: Bench) -> dict:
    """Stores each frame once, and stacks of four frames by reference."""
    with bench.client.trajectory_writer(num_keep_alive_refs=STACK) as writer:
        for number in range(FRAMES):
            writer.append([frame(number)])
            if number >= STACK - 1:
                writer.create_item(TABLE, 1.0, [writer.history[0][-STACK:]])
            if number % FLUSH_EVERY == 0:
                writer.flush()
    source = batch_source(bench, [STACK, *FRAME_SHAPE], np.uint8, FRAME_BATCH_SIZE, squeezed=True)
    def act() -> int:
        data = next(source)
        assert data.shape == (FRAME_BATCH_SIZE, STACK, *FRAME_SHAPE)
        return FRAME_BATCH_SIZE
    return bench.timed(act) | stored_bytes(bench)


def stored_bytes(bench: Bench) -> dict:
    """Returns the bytes of a frame in the table, compared with a single frame that is compressed in the same way."""
    if bench.name != "relive":
        return {"bytes_per_frame": 0.0, "compressed_frame_bytes": 0.0}
    stored = bench.client.status(timeout=20)["encoded_bytes"] / FRAMES
    single = bench.package.Server(tables=[bench.package.Table.queue("single", 1_000_000)])
    client = single.localhost_client()
    with client.trajectory_writer(num_keep_alive_refs=1, chunk_length=1) as writer:
        for number in range(1_000):
            writer.append([frame(number)])
            writer.create_item("single", 1.0, [writer.history[0][-1]])
    alone = client.status(timeout=20)["encoded_bytes"] / 1_000
    single.stop()
    return {"bytes_per_frame": stored, "compressed_frame_bytes": alone}


def insert_sequence_in_chunks(bench: Bench) -> dict:
    """Inserts the sequence with ten steps per chunk, which is more work for readers of single steps."""
    return insert_sequence(bench, chunk_length=10)


OPERATIONS = {"insert": insert, "insert-sequence": insert_sequence, "insert-sequence-10": insert_sequence_in_chunks, "batches": batches, "sample-one": sample_one,
              "frames": frames}


def main() -> None:
    name, operation, nbytes, transport, seconds = sys.argv[1:]
    bench = Bench(name, int(nbytes), transport, float(seconds))
    try:
        result = OPERATIONS[operation](bench)
    finally:
        bench.stop()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
