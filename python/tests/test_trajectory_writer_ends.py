"""The ends of trajectory writers, and their use by several threads."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest
from conftest import PATIENCE_S, uniform_table
from trajectories import Connect, Serve

import relive


def test_a_closed_writer_reports_that_it_is_closed(connect: Connect) -> None:
    writer = connect().trajectory_writer(1)
    writer.append(1)
    writer.create_item("table", 1.0, writer.history[-1:])
    writer.flush()
    column = writer.history[-1:]
    writer.close()
    writer.close()
    for call in (lambda: writer.append(1), lambda: writer.create_item("table", 1.0, column), writer.flush,
                 writer.end_episode, lambda: writer.history[-1:]):
        with pytest.raises(RuntimeError, match="TrajectoryWriter::Close has been called"):
            call()
    assert column.numpy().tolist() == [1]


@pytest.mark.parametrize("reason", [KeyError, SystemExit, GeneratorExit])
def test_leaving_the_context_flushes(connect: Connect, reason: type[BaseException]) -> None:
    client = connect()
    with pytest.raises(reason), client.trajectory_writer(1) as writer:
        writer.append(1)
        writer.create_item("table", 1.0, writer.history[-1:])
        raise reason("user's own")
    assert client.server_info()["table"].current_size == 1


def test_leaving_the_context_by_a_refused_argument_flushes(connect: Connect) -> None:
    client = connect()
    with pytest.raises(relive.errors.InvalidArgumentError), client.trajectory_writer(1) as writer:
        writer.append(1)
        writer.create_item("table", 1.0, writer.history[-1:])
        writer.create_item("table", float("nan"), writer.history[-1:])
    assert client.server_info()["table"].current_size == 1


@pytest.mark.parametrize("reason", [KeyboardInterrupt, relive.errors.UnavailableError, relive.DeadlineExceededError])
def test_leaving_the_context_by_an_interrupt_or_server_error_does_not_wait(
    serve: Serve, reason: type[BaseException]
) -> None:
    client = serve(relive.Table.queue("table", 1)).localhost_client()
    with pytest.raises(reason), client.trajectory_writer(1) as writer:
        for step in range(2):
            writer.append(step)
            writer.create_item("table", 1.0, writer.history[-1:])
        raise reason("without a flush, which would wait for a sample")


def test_later_calls_raise_the_refusal_of_the_server(connect: Connect) -> None:
    client = connect(uniform_table(sampler=relive.selectors.Prioritized(1.0)))
    writer = client.trajectory_writer(1)
    writer.append(1)
    with pytest.raises(ValueError, match="-1"):
        writer.create_item("table", -1.0, writer.history[-1:])
        writer.flush()


def test_two_threads_cannot_use_one_writer(serve: Serve) -> None:
    server = serve(relive.Table.queue("table", 1))
    client = server.localhost_client()
    writer = client.trajectory_writer(1)
    for step in range(2):
        writer.append(step)
        writer.create_item("table", 1.0, writer.history[-1:])
    flusher = threading.Thread(target=writer.flush)
    flusher.start()
    while not client.status(timeout=PATIENCE_S)["tables"]["table"].waiters:
        pass
    # The flush is using the writer; this call must not wait for it.
    with pytest.raises(RuntimeError, match="another thread"):
        while flusher.is_alive():
            writer.append(3)
    next(client.sample("table", timeout=PATIENCE_S))
    flusher.join(PATIENCE_S)
    assert not flusher.is_alive()


def test_writers_in_several_threads(connect: Connect) -> None:
    client = connect(uniform_table(max_size=10_000))

    def write() -> None:
        with client.trajectory_writer(1) as writer:
            for step in range(200):
                writer.append(step)
                writer.create_item("table", 1.0, writer.history[-1:])

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert client.server_info()["table"].current_size == 800


def test_a_garbage_collected_writer_frees_everything(connect: Connect) -> None:
    client = connect()
    writer = client.trajectory_writer(1)
    writer.append(np.zeros(1_000))
    del writer
    gc.collect()
    assert client.status()["num_chunks"] == 0
