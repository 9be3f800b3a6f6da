"""dm-reverb's first writer, for steps whose tensors change."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from conftest import PATIENCE_S, uniform_table

import relive

Connect = Callable[..., relive.Client]

SERVER = """
import sys, relive
server = relive.Server(tables=[relive.Table.queue("table", 1_000)])
print(server.port, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def elsewhere() -> Iterator[relive.Client]:
    """A client of a queue in another process."""
    with subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        yield relive.Client(f"localhost:{int(process.stdout.readline())}", timeout=PATIENCE_S)
        process.stdin.close()


def write(writer: relive.Writer, number: int, length: int) -> None:
    """Appends a step with a number and a vector, and creates an item from it."""
    writer.append([np.int64(number), np.zeros(length)])
    writer.create_item("table", 1, 1.0)


def read(client: relive.Client, items: int) -> list[tuple[int, int]]:
    """Returns the numbers and the lengths of the vectors of a queue's next items."""
    samples = client.sample("table", items, emit_timesteps=False, timeout=PATIENCE_S)
    return [(int(number[-1]), vector.shape[-1]) for number, vector in (sample.data for sample in samples)]


@pytest.mark.parametrize("chunk_length", [1, 2])
def test_items_of_all_kinds_arrive_in_order(elsewhere: relive.Client, chunk_length: int) -> None:
    lengths = [step // chunk_length for step in range(300)]
    with elsewhere.writer(2, chunk_length=chunk_length) as writer:
        for step, length in enumerate(lengths):
            write(writer, step, length)
    assert read(elsewhere, 300) == list(enumerate(lengths))


def test_a_writer_has_one_episode_regardless_of_its_kinds_of_steps(connect: Connect) -> None:
    client = connect()
    with client.writer(1) as writer:
        for step in range(100):
            write(writer, step, step)
    assert client.server_info()["table"].num_episodes == 1


def test_an_append_does_not_wait_for_a_full_table(serve: Callable[..., relive.Server], transport: str) -> None:
    """The items are only read after all have been written, so a wait for their confirmation would not end."""
    address = f"localhost:{serve(relive.Table.queue('table', 1)).port}"
    client = relive.Client(address, transport=transport, timeout=PATIENCE_S)
    with client.writer(1) as writer:
        for step in range(5):
            write(writer, step, step)
        assert read(client, 5) == [(step, step) for step in range(5)]


def test_kinds_of_steps_that_return_start_a_new_history(connect: Connect) -> None:
    client = connect(relive.Table.queue("table", 100))
    with client.writer(2, chunk_length=1) as writer:
        for step in range(20):
            write(writer, step, step % 2)
            with pytest.raises(ValueError, match="1 steps that were appended"):
                writer.create_item("table", 2, 1.0)
        write(writer, 20, 1)
        writer.create_item("table", 2, 1.0)
    assert read(client, 22) == [(step, step % 2) for step in range(20)] + [(20, 1)] * 2


def test_former_kinds_of_steps_are_not_kept(connect: Connect) -> None:
    with connect().writer(1) as writer:
        for step in range(30):
            write(writer, step, step)
        writer.append([np.int64(0)])
        assert len(writer._writer.history) == 1


def test_a_flush_ends_the_chunk_that_an_item_needs(connect: Connect) -> None:
    client = connect(relive.Table.queue("table", 100))
    with client.writer(4, chunk_length=3) as writer:
        write(writer, 0, 2)
        writer.flush()
        write(writer, 1, 3)
        writer.flush()
        writer.append_sequence([np.arange(2, 5), np.zeros((3, 3))])
        write(writer, 5, 4)
        writer.flush()
        writer.append([np.float32(6), np.zeros(4)])
        writer.create_item("table", 1, 1.0)
    samples = list(client.sample("table", 4, emit_timesteps=False, timeout=PATIENCE_S))
    found = [(number.tolist(), number.dtype.char, vector.shape) for number, vector in (sample.data for sample in samples)]
    assert found == [([0], "l", (1, 2)), ([1], "l", (1, 3)), ([5], "l", (1, 4)), ([6.0], "f", (1, 4))]


def test_other_tensors_within_a_chunk_are_refused(connect: Connect) -> None:
    """After a flush, a chunk has its full length again; a flush without items does not end the chunk."""
    writer = connect().writer(4, chunk_length=3)
    write(writer, 0, 2)
    writer.flush()
    for step in range(2):
        writer.append([np.int64(step), np.zeros(2)])
        writer.flush()
        with pytest.raises(ValueError, match=r"tensor 1 .*shape \(3,\), but .* shape \(2,\)"):
            writer.append([np.int64(3), np.zeros(3)])
        with pytest.raises(ValueError, match="tensor 0 .*dtype float32"):
            writer.append([np.float32(3), np.zeros(2)])
        with pytest.raises(ValueError, match="1 tensors, but the first one had 2"):
            writer.append([np.int64(3)])
    writer.append([np.int64(2), np.zeros(2)])
    write(writer, 3, 3)
    with pytest.raises(ValueError, match="tensor 0 .*dtype float32"):
        writer.append([np.float32(3), np.zeros(3)])
    writer.close()


def test_a_chunk_that_is_cut_because_all_items_wait_for_it_has_ended(connect: Connect) -> None:
    client = connect(relive.Table.queue("table", 100))
    with client.writer(4, chunk_length=2, max_in_flight_items=2) as writer:
        write(writer, 0, 2)
        writer.create_item("table", 1, 1.0)
        writer.create_item("table", 1, 1.0)
        write(writer, 1, 3)
        write(writer, 2, 3)
        assert read(client, 5) == [(0, 2), (0, 2), (0, 2), (1, 3), (2, 3)]


def test_an_item_waits_for_room_without_cutting_a_chunk(connect: Connect) -> None:
    client = connect(relive.Table.queue("table", 100))
    with client.writer(4, chunk_length=2, max_in_flight_items=2) as writer:
        for step in range(40):
            write(writer, step, step // 2)
            writer.create_item("table", 1 + step % 2, 1.0)
        writer.flush()
        assert [number for number, _ in read(client, 80)] == sorted([*range(40)] * 2)
