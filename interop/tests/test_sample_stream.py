"""SampleStream, message by message; and the two calls around it."""

from __future__ import annotations

import os

import grpc
import numpy as np
import pytest

from support import data, protocol, raw as raw_client, tables, wait
from support.tables import table

Code = grpc.StatusCode
TIMEOUT_TEXT = "Rate Limiter: Timeout exceeded before the right to insert was acquired."


def fill(raw, name, count, nbytes=40):
    """Inserts `count` items of one chunk each, and returns their keys."""
    stream = raw.insert_stream()
    keys = []
    for _ in range(count):
        chunk = data.chunk(np.zeros([1, nbytes], np.uint8))
        keys.append(data.new_key())
        stream.insert([chunk], [data.item(name, chunk, key=keys[-1])])
    assert stream.confirmed(count) == keys
    stream.half_close()
    return keys


def test_batches_grow_from_128(start):
    """Batches of 128, of 256 and of the rest; only batches that are queued behind one in transmission may share a
    message."""
    raw = start(table()).raw()
    fill(raw, "replay", 10)
    stream = raw.sample_stream().ask("replay", 500)
    ends = [len(stream.response().entries)]
    while ends[-1] < 500:
        ends.append(ends[-1] + len(stream.response().entries))
    assert ends in ([128, 384, 500], [128, 500])
    # Another request on the same stream is also served.
    assert len(stream.ask("replay", 300).samples(300)) == 300


def test_several_requests_and_tables_share_a_stream(start):
    raw = start(table("a"), table("b", sampler=tables.lifo())).raw()
    a, b = fill(raw, "a", 3), fill(raw, "b", 3)
    stream = raw.sample_stream().ask("a", 2).ask("b", 1).ask("a", 1)
    keys = [entries[0].info.item.key for entries in stream.samples(4)]
    assert keys == [a[0], a[0], b[2], a[0]]
    assert {entries[0].info.item.table for entries in raw.sample("b")} == {"b"}
    assert stream.half_close().status() == (Code.OK, "")


def test_a_sample_reports_its_probability_and_table_size(start):
    raw = start(table(sampler=tables.prioritized(1.0))).raw()
    chunk = data.chunk(data.rows(1))
    items = [data.item("replay", chunk, priority=p) for p in (1.0, 3.0)]
    raw.insert(*items, chunks=[chunk])
    for [entry] in raw.sample("replay", 20):
        info = entry.info
        assert entry.end_of_sequence and info.table_size == 2 and not info.rate_limited
        assert info.probability == {items[0].key: 0.25, items[1].key: 0.75}[info.item.key]
        assert info.item.priority == 4 * info.probability


def test_a_delayed_sample_is_marked(start):
    raw = start(tables.queue()).raw()
    stream = raw.sample_stream().ask("queue", 1)
    assert stream.is_silent(wait.QUIET_S)
    fill(raw, "queue", 1)
    [[entry]] = stream.samples(1)
    assert entry.info.rate_limited


def test_shared_chunks_are_sent_once_per_sample(start):
    raw = start(table()).raw()
    chunk, other = data.chunk(data.rows(1, 2, 3)), data.chunk(data.rows(4))
    slices = [(chunk.chunk_key, 0, 1), (other.chunk_key, 0, 1), (chunk.chunk_key, 2, 1)]
    raw.insert(data.sliced_item("replay", [slices, slices[:1]]), chunks=[chunk, other])
    for [entry] in raw.sample("replay", 2):
        assert [c.chunk_key for c in entry.data] == [chunk.chunk_key, other.chunk_key]


def test_a_sample_beyond_the_message_limit_is_split(start):
    """The sample has ten chunks of 0.57 MiB; a message is closed once it holds more than 2 MiB."""
    raw = start(table()).raw()
    chunks = [data.chunk(np.full([1, 600_000], i, np.uint8)) for i in range(10)]
    stream = raw.insert_stream()
    for chunk in chunks[:-1]:
        stream.insert([chunk])
    stream.insert(chunks[-1:], [data.item("replay", *chunks)]).confirmed(1)
    stream = raw.sample_stream().ask("replay", 2)
    messages = []
    while sum(entry.end_of_sequence for message in messages for entry in message) < 2:
        messages.append(list(stream.response().entries))
    sizes = [[len(entry.data) for entry in message] for message in messages]
    assert sizes[:2] == [[4], [4]] and sizes[2][0] == 2
    assert max(len(message) for message in sizes) <= 2
    entries = [entry for message in messages for entry in message]
    for sample in raw_client.split_samples(entries):
        assert [entry.HasField("info") for entry in sample] == [True] + [False] * (len(sample) - 1)
        assert [entry.end_of_sequence for entry in sample] == [False] * (len(sample) - 1) + [True]
        assert [chunk.chunk_key for entry in sample for chunk in entry.data] == [c.chunk_key for c in chunks]


def test_large_samples_make_small_batches(start):
    """A batch ends at 1 MiB of chunks, so that a reader gets its first sample early."""
    raw = start(table()).raw()
    fill(raw, "replay", 4, nbytes=700_000)
    stream = raw.sample_stream().ask("replay", 6)
    sizes = []
    while sum(sizes) < 6:
        sizes.append(len(stream.response().entries))
    assert sum(sizes) == 6 and max(sizes) <= 4


@pytest.mark.parametrize("count", [0, -1])
def test_a_request_for_zero_samples_is_refused(start, count):
    raw = start(table()).raw()
    assert raw.sample_stream().ask("replay", count).status()[0] is Code.INVALID_ARGUMENT


def test_an_unknown_table_is_refused(start):
    raw = start(table()).raw()
    code, text = raw.sample_stream().ask("missing", 1).status()
    assert code is Code.NOT_FOUND and "Priority table missing was not found" in text


def test_a_timeout_has_its_code_and_text(start):
    raw = start(table()).raw()
    code, text = raw.sample_stream().ask("replay", 1, timeout_ms=50).status()
    assert code is Code.DEADLINE_EXCEEDED and TIMEOUT_TEXT in text


@pytest.mark.parametrize("timeout_ms", [None, 0, -1])
def test_without_a_timeout_a_sample_waits_forever(start, timeout_ms):
    """This includes zero: an old client expresses \"at once\" in another way."""
    raw = start(table()).raw()
    stream = raw.sample_stream().ask("replay", 1, timeout_ms)
    assert stream.is_silent(wait.QUIET_S)
    [key] = fill(raw, "replay", 1)
    assert stream.samples(1)[0][0].info.item.key == key


def test_available_samples_are_sent_before_waiting_for_more(start):
    raw = start(tables.queue()).raw()
    keys = fill(raw, "queue", 3)
    stream = raw.sample_stream().ask("queue", 5)
    assert [entries[0].info.item.key for entries in stream.samples(3)] == keys
    assert stream.is_silent(wait.QUIET_S)
    keys = fill(raw, "queue", 2)
    assert [entries[0].info.item.key for entries in stream.samples(2)] == keys


def test_waiting_readers_are_served_in_order(start):
    server = start(tables.queue())
    readers = []
    for _ in range(3):
        readers.append(server.raw().sample_stream().ask("queue", 1))
        assert readers[-1].is_silent(wait.QUIET_S)
    keys = fill(server.raw(), "queue", 3)
    assert [reader.samples(1)[0][0].info.item.key for reader in readers] == keys


def test_a_withdrawn_reader_removes_nothing(start_relive):
    """dm-reverb sends the next item to a disconnected reader, and the item is lost."""
    raw = start_relive(tables.queue()).raw()
    for _ in range(3):
        gone = raw.sample_stream().ask("queue", 5)
        assert gone.is_silent(wait.QUIET_S)
        gone.cancel()
        gone.status()
    # The server receives a cancellation a moment after the client; a later call on the same connection arrives after
    # it.
    raw.call("ServerInfo")
    timed_out = raw.sample_stream().ask("queue", 1, timeout_ms=50)
    assert timed_out.status()[0] is Code.DEADLINE_EXCEEDED
    keys = fill(raw, "queue", 4)
    assert raw.sampled_keys("queue", 4) == keys
    assert raw.size("queue") == 0


def test_a_stream_without_messages_ends_with_ok(start):
    assert start(table()).raw().sample_stream().half_close().status() == (Code.OK, "")


def test_foreign_clients_get_no_pointer(start):
    """With address zero, a client samples over gRPC."""
    raw = start(table()).raw()
    for name in ("replay", "missing"):
        stream = raw.initialize_stream()
        stream.send(protocol.InitializeConnectionRequest(pid=os.getpid(), table_name=name))
        assert stream.response().address == 0
        stream.half_close()
        assert stream.status()[0] is Code.OK


def test_no_client_gets_a_pointer(start_relive):
    """This applies even if its process id equals the server's, as is possible in two containers."""
    server = start_relive(table())
    stream = server.raw().initialize_stream()
    stream.send(protocol.InitializeConnectionRequest(pid=server.handle.pid, table_name="replay"))
    assert stream.response().address == 0


def test_deletes_and_updates_of_one_request(start):
    raw = start(table(sampler=tables.max_heap())).raw()
    first, second = fill(raw, "replay", 2)
    update = protocol.schema.KeyWithPriority(key=second, priority=8.0)
    raw.call("MutatePriorities", table="replay", updates=[update], delete_keys=[first])
    assert raw.size("replay") == 1
    [[entry]] = raw.sample("replay")
    assert (entry.info.item.key, entry.info.item.priority) == (second, 8.0)


def test_unary_calls_of_unknown_tables(start):
    raw = start(table()).raw()
    for method in ("MutatePriorities", "Reset"):
        code, text = raw_client.refusal(lambda: raw.call(method, table="missing"))
        assert code is Code.NOT_FOUND and "Priority table missing was not found" in text


def test_bad_updates_have_their_code(start):
    raw = start(table(sampler=tables.prioritized(1.0))).raw()
    [key] = fill(raw, "replay", 1)
    update = protocol.schema.KeyWithPriority(key=key, priority=-1.0)
    code, _ = raw_client.refusal(lambda: raw.call("MutatePriorities", table="replay", updates=[update]))
    assert code is Code.INVALID_ARGUMENT
