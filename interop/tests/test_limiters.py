"""Rate limiters: permitted calls, blocked calls, and the error at a caller's timeout."""

from __future__ import annotations

import numpy as np
import pytest
import reverb

from support import data, steps, tables, wait
from support.tables import table


def fill(writer, value) -> None:
    writer.append([np.float64(value)])
    writer.create_item("replay", 1.0, [writer.history[0][-1:]])


def test_min_size_holds_samples_back_until_it_is_reached(start):
    client = start(table(limiter=tables.min_size(3))).client()
    steps.write(client, "replay", 1, 2)
    sampling = wait.Background(lambda: steps.values(client, "replay"))
    assert sampling.is_blocked()
    steps.write(client, "replay", 3)
    assert sampling.result() == [1]


def test_deletes_count_for_the_min_size(start):
    client = start(table(limiter=tables.min_size(2))).client()
    steps.write(client, "replay", 1, 2)
    [sample] = steps.samples(client, "replay")
    client.mutate_priorities("replay", deletes=[sample.info.key])
    assert steps.drained(client, "replay") == []


def test_a_ratio_limits_both_sides(start):
    """With two samples per insert, a minimum size of two items and a cursor within [0, 8], four inserts pass and the
    fifth waits."""
    server = start(table(limiter=tables.ratio(2.0, 2, 0.0, 8.0)))
    raw = server.raw()
    chunk = data.chunk(data.rows(1, 2, 3, 4, 5))
    items = [data.sliced_item("replay", [[(chunk.chunk_key, i, 1)]]) for i in range(5)]
    stream = raw.insert_stream().insert([chunk], items)
    assert stream.confirmed(4) == [item.key for item in items[:4]]
    assert stream.is_silent(wait.QUIET_S)
    assert raw.size("replay") == 4
    # Two samples make room for it; then the cursor permits 10 samples in all.
    samples = raw.sample_stream().ask("replay", 2, 10_000)
    assert len(samples.samples(2)) == 2
    assert stream.confirmed(1) == [items[4].key]
    samples.ask("replay", 8, 10_000)
    assert len(samples.samples(8)) == 8
    samples.ask("replay", 1, 100)
    assert samples.status()[0].name == "DEADLINE_EXCEEDED"
    info = raw.tables()["replay"].rate_limiter_info
    assert (info.insert_stats.completed, info.sample_stats.completed) == (5, 10)


def test_a_waiting_insert_blocks_later_ones(start):
    """Inserts into a table keep their order, even from different clients."""
    server = start(tables.queue(size=1))
    first, second = server.raw(), server.raw()
    chunks = [data.chunk(data.rows(value)) for value in (1, 2, 3)]
    streams = [first.insert_stream(), first.insert_stream(), second.insert_stream()]
    items = [data.item("queue", chunk) for chunk in chunks]
    streams[0].insert([chunks[0]], [items[0]]).confirmed(1)
    for stream, chunk, item in zip(streams[1:], chunks[1:], items[1:]):
        stream.insert([chunk], [item])
        assert stream.is_silent(wait.QUIET_S)
    assert [first.sampled_keys("queue")[0] for _ in range(3)] == [item.key for item in items]


def test_a_queue_returns_every_item_once_and_in_order(start):
    client = start(tables.queue(size=4)).client()
    writing = wait.Background(lambda: steps.write(client, "queue", *range(10)))
    assert writing.is_blocked()
    assert steps.values(client, "queue", 10) == list(range(10))
    writing.result()
    assert steps.drained(client, "queue") == []


def test_a_stack_returns_the_newest_item_once(start):
    client = start(tables.stack(size=4)).client()
    steps.write(client, "stack", 1, 2, 3, 4)
    assert steps.values(client, "stack", 4) == [4, 3, 2, 1]


def test_a_blocked_flush_times_out(start):
    client = start(table(limiter=tables.ratio(1.0, 1, 0.0, 2.0))).client()
    writer = client.trajectory_writer(num_keep_alive_refs=1)
    for value in range(3):
        fill(writer, value)
    with pytest.raises(reverb.DeadlineExceededError):
        writer.flush(timeout_ms=200)
    with pytest.raises(reverb.DeadlineExceededError):
        writer.end_episode(timeout_ms=200)
    assert steps.values(client, "replay") == [0]
    writer.flush(timeout_ms=10_000)
    assert client.server_info()["replay"].current_size == 3
    writer.close()


def test_flush_waits_for_all_but_the_given_number_of_items(start):
    client = start(table(limiter=tables.ratio(1.0, 1, 0.0, 2.0))).client()
    writer = client.trajectory_writer(num_keep_alive_refs=1)
    for value in range(4):
        fill(writer, value)
    writer.flush(block_until_num_items=2, timeout_ms=10_000)
    with pytest.raises(reverb.DeadlineExceededError):
        writer.flush(block_until_num_items=1, timeout_ms=200)
    writer.close()


def test_a_reset_releases_a_blocked_writer(start):
    client = start(table(limiter=tables.ratio(1.0, 1, 0.0, 2.0))).client()
    writing = wait.Background(lambda: steps.write(client, "replay", 1, 2, 3, 4))
    assert writing.is_blocked()
    client.reset("replay")
    writing.result()
    assert client.server_info()["replay"].current_size == 2


def test_a_dataset_ends_with_its_timeout(start):
    client = start(tables.queue()).client()
    steps.write(client, "queue", 1, 2, 3)
    assert steps.drained(client, "queue", timeout_ms=300) == [1, 2, 3]


def test_server_info_contains_the_limiter_counters(start):
    server = start(table(limiter=tables.ratio(1.5, 2, -3.0, 9.0)))
    client, raw = server.client(), server.raw()
    steps.write(client, "replay", 1, 2, 3)
    assert len(steps.values(client, "replay", 4)) == 4
    info = raw.tables()["replay"].rate_limiter_info
    assert (info.samples_per_insert, info.min_size_to_sample) == (1.5, 2)
    assert (info.min_diff, info.max_diff) == (-3.0, 9.0)
    assert (info.insert_stats.completed, info.sample_stats.completed) == (3, 4)
    client.reset("replay")
    info = raw.tables()["replay"].rate_limiter_info
    assert info.HasField("insert_stats") and info.HasField("sample_stats")
    assert (info.insert_stats.completed, info.sample_stats.completed) == (0, 0)


def test_inserting_a_known_key_is_an_update(start):
    server = start(table(sampler=tables.max_heap()))
    raw = server.raw()
    old, new = data.chunk(data.rows(1)), data.chunk(data.rows(2))
    item = data.item("replay", old, priority=1.0)
    raw.insert(item, chunks=[old])
    again = data.item("replay", new, priority=9.0, key=item.key)
    assert raw.insert(again, chunks=[new]) == [item.key]
    [[entry]] = raw.sample("replay")
    assert entry.info.item.priority == 9.0
    assert [chunk.chunk_key for chunk in entry.data] == [old.chunk_key]
    info = raw.tables()["replay"]
    assert (info.current_size, info.rate_limiter_info.insert_stats.completed) == (1, 1)
