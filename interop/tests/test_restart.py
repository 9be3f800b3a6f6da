"""Clients that outlive the server."""

from __future__ import annotations

import numpy as np
import pytest
import reverb

from support import steps, tables, wait
from support.tables import table

# The dm-reverb client reconnects after gRPC's backoff, which grows to several seconds.
RECONNECT_S = 40.0


def fill(writer, value) -> None:
    writer.append([np.float64(value)])
    writer.create_item("replay", 1.0, [writer.history[0][-1:]])


def test_a_writer_resumes_after_a_restart(start):
    server = start(table())
    writer = server.client().trajectory_writer(num_keep_alive_refs=3)
    fill(writer, 1)
    writer.flush(timeout_ms=10_000)
    server.stop()
    for value in (2, 3):
        fill(writer, value)
    with pytest.raises(reverb.DeadlineExceededError):
        writer.flush(timeout_ms=100)
    server.start_again()
    wait.Background(lambda: writer.flush()).result(RECONNECT_S)
    info = server.client().server_info()["replay"]
    assert info.current_size == 2
    writer.close()


def test_a_sampler_resumes_after_a_restart(start):
    server = start(table())
    client = server.client()
    steps.write(client, "replay", 1)
    iterator = client.sample("replay", num_samples=1_000_000, emit_timesteps=False)
    assert float(next(iterator).data[0][0]) == 1
    server.stop()
    server.start_again()
    steps.write(server.client(), "replay", 2)
    seen = wait.Background(lambda: next(s for s in iterator if s.data[0][0] == 2)).result(RECONNECT_S)
    assert seen.info.table_size == 1


def test_a_blocked_dataset_resumes_after_a_restart(start):
    server = start(tables.queue())
    client = server.client()
    iterator = steps.dataset(client, "queue", timeout_ms=-1)
    waiting = wait.Background(lambda: float(next(iterator).data[0][0]))
    assert waiting.is_blocked()
    server.stop()
    server.start_again()
    steps.write(server.client(), "queue", 7)
    assert waiting.result(RECONNECT_S) == 7
    client.server_info()


def test_resent_items_are_not_duplicated_after_a_lost_stream(start):
    """A client that resends an item, because the confirmation was lost, must not create a second item."""
    server = start(table())
    client, raw = server.client(), server.raw()
    steps.write(client, "replay", 1)
    [[entry]] = raw.sample("replay")
    again = entry.info.item
    again.ClearField("inserted_at")
    assert raw.insert(again, chunks=list(entry.data)) == [again.key]
    assert raw.size("replay") == 1
