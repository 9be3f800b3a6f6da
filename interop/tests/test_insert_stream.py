"""InsertStream, message by message."""

from __future__ import annotations

import grpc
import numpy as np
import pytest

from support import data, tables, wait
from support.tables import table

Code = grpc.StatusCode


def test_an_empty_request_is_refused(start):
    raw = start(table()).raw()
    assert raw.insert_stream().insert().status()[0] is Code.INVALID_ARGUMENT
    assert raw.insert_stream().insert(keep=[1]).status()[0] is Code.INVALID_ARGUMENT


def test_an_item_with_a_missing_chunk_is_refused(start):
    raw = start(table()).raw()
    chunk = data.chunk(data.rows(1))
    assert raw.insert_stream().insert(items=[data.item("replay", chunk)]).status()[0] is Code.INTERNAL
    # Chunks belong to their stream: other streams cannot refer to them.
    holder = raw.insert_stream().insert([chunk])
    assert raw.insert_stream().insert(items=[data.item("replay", chunk)]).status()[0] is Code.INTERNAL
    assert holder.insert(items=[data.item("replay", chunk)]).confirmed(1)


def test_an_item_without_data_is_refused(start):
    raw = start(table()).raw()
    chunk = data.chunk(data.rows(1))
    nothing = data.sliced_item("replay", [])
    hollow = data.sliced_item("replay", [[]])
    for item in (nothing, hollow):
        assert raw.insert_stream().insert([chunk], [item]).status()[0] is Code.INVALID_ARGUMENT


def test_an_item_of_an_unknown_table_is_refused(start):
    raw = start(table()).raw()
    chunk = data.chunk(data.rows(1))
    code, text = raw.insert_stream().insert([chunk], [data.item("missing", chunk)]).status()
    assert code is Code.NOT_FOUND and "Priority table missing was not found" in text


def test_chunks_may_precede_their_items_and_be_shared(start):
    raw = start(table()).raw()
    first, second = data.chunk(data.rows(1, 2)), data.chunk(data.rows(3, 4))
    stream = raw.insert_stream().insert([first]).insert([second])
    items = [data.item("replay", first, second), data.item("replay", second)]
    assert stream.insert(items=items, keep=[first.chunk_key]).confirmed(2) == [item.key for item in items]
    assert stream.insert(items=[data.item("replay", first)], keep=[]).confirmed(1)
    [[entry]] = raw.sample("replay")
    assert list(entry.data) == [first, second]


def test_chunks_that_are_not_kept_are_dropped(start):
    raw = start(table()).raw()
    first, second = data.chunk(data.rows(1)), data.chunk(data.rows(2))
    stream = raw.insert_stream().insert([first, second])
    assert stream.insert(items=[data.item("replay", first)], keep=[first.chunk_key]).confirmed(1)
    assert stream.insert(items=[data.item("replay", second)]).status()[0] is Code.INTERNAL


def test_keep_keys_of_a_request_without_items_are_ignored(start):
    raw = start(table()).raw()
    first, second = data.chunk(data.rows(1)), data.chunk(data.rows(2))
    stream = raw.insert_stream().insert([first]).insert([second], keep=[999])
    items = [data.item("replay", first), data.item("replay", second)]
    keep = [first.chunk_key, second.chunk_key]
    assert stream.insert(items=items, keep=keep).confirmed(2) == [item.key for item in items]


@pytest.mark.parametrize("keep", ["unknown", "duplicate"])
def test_invalid_keep_keys_end_the_stream_after_its_items(start, keep):
    """The items of this request are still inserted."""
    raw = start(table()).raw()
    chunk = data.chunk(data.rows(1))
    keys = [data.new_key()] if keep == "unknown" else [chunk.chunk_key] * 2
    stream = raw.insert_stream().insert([chunk], [data.item("replay", chunk)], keep=keys)
    assert stream.status()[0] is Code.FAILED_PRECONDITION
    wait.until(lambda: raw.size("replay") == 1, "the item of the refused request")


def test_a_repeated_chunk_key_keeps_its_first_content(start):
    raw = start(table()).raw()
    first = data.chunk(data.rows(1))
    second = data.chunk(data.rows(2))
    second.chunk_key = first.chunk_key
    raw.insert(data.item("replay", first), chunks=[first, second])
    [[entry]] = raw.sample("replay")
    assert list(entry.data) == [first]


def test_chunks_are_returned_byte_for_byte(start):
    """This includes fields that a server does not use."""
    raw = start(table()).raw()
    chunk = data.chunk(np.arange(600, dtype=np.int64).reshape(3, 200), data.rows(1, 2, 3), episode=77, start=5)
    chunk.sequence_range.sparse = True
    item = data.sliced_item("replay", [[(chunk.chunk_key, 0, 2, 0)], [(chunk.chunk_key, 2, 1, 1)]])
    item.flat_trajectory.columns[1].squeeze = True
    raw.insert(item, chunks=[chunk])
    [[entry]] = raw.sample("replay")
    assert entry.data[0].SerializeToString(deterministic=True) == chunk.SerializeToString(deterministic=True)
    assert entry.info.item.flat_trajectory == item.flat_trajectory


def test_an_item_keeps_its_times_sampled_and_gets_a_server_timestamp(start):
    raw = start(table()).raw()
    chunk = data.chunk(data.rows(1))
    item = data.item("replay", chunk)
    item.times_sampled = 41
    item.inserted_at.seconds = 12
    raw.insert(item, chunks=[chunk])
    [[entry]] = raw.sample("replay")
    assert entry.info.item.times_sampled == 42
    assert entry.info.item.inserted_at.seconds > 1_600_000_000


def test_many_items_are_all_confirmed(start):
    """Confirmations may be merged and reordered, as long as there is one key for each item."""
    raw = start(table(max_size=5000)).raw()
    stream = raw.insert_stream()
    keys = []
    for _ in range(40):
        chunk = data.chunk(data.rows(1))
        items = [data.item("replay", chunk) for _ in range(50)]
        keys += [item.key for item in items]
        stream.insert([chunk], items)
    assert stream.confirmed(2000) == keys
    assert stream.half_close().status()[0] is Code.OK
    assert raw.size("replay") == 2000


def test_confirmations_wait_only_for_the_limiter(start):
    """Items of a free table are confirmed although an item of another table in the same request waits."""
    raw = start(tables.queue(size=1), table()).raw()
    chunk = data.chunk(data.rows(1))
    raw.insert(data.item("queue", chunk), chunks=[chunk])
    blocked, free = data.item("queue", chunk), data.item("replay", chunk)
    stream = raw.insert_stream().insert([chunk], [blocked, free])
    assert stream.confirmed(1) == [free.key]
    raw.sampled_keys("queue")
    assert stream.confirmed(1) == [blocked.key]


def test_a_half_close_does_not_wait_for_blocked_inserts(start):
    """The stream ends although an insert is blocked; this insert is executed later and never confirmed."""
    # A large table, because a full queue of pending inserts stops reading, and then a half-close is not noticed.
    raw = start(table("queue", limiter=tables.ratio(1.0, 1, 0.0, 1.0), max_times_sampled=1)).raw()
    chunk = data.chunk(data.rows(1))
    raw.insert(data.item("queue", chunk), chunks=[chunk])
    stream = raw.insert_stream().insert([chunk], [data.item("queue", chunk)])
    assert stream.is_silent(wait.QUIET_S)
    assert stream.half_close().status() == (Code.OK, "")
    raw.sampled_keys("queue")
    wait.until(lambda: raw.tables()["queue"].rate_limiter_info.insert_stats.completed == 2, "the blocked insert")
    assert raw.size("queue") == 1


def test_a_stream_without_messages_ends_with_ok(start):
    assert start(table()).raw().insert_stream().half_close().status() == (Code.OK, "")


def test_a_blocked_table_pauses_reading_from_its_stream(start):
    """The queue of pending inserts has a limit (here one), so a fast writer cannot fill the server's memory."""
    server = start(tables.queue(size=1), table())
    raw = server.raw()
    chunk = data.chunk(data.rows(1))
    raw.insert(data.item("queue", chunk), chunks=[chunk])
    blocked = data.item("queue", chunk)
    behind = data.item("replay", chunk)
    stream = raw.insert_stream().insert([chunk], [blocked], keep=[chunk.chunk_key]).insert(items=[behind])
    assert stream.is_silent(wait.QUIET_S)
    assert raw.size("replay") == 0
    raw.sampled_keys("queue")
    assert stream.confirmed(2) == [blocked.key, behind.key]


def test_negative_priorities_are_accepted_by_heaps(start):
    raw = start(table(sampler=tables.min_heap())).raw()
    chunk = data.chunk(data.rows(1))
    raw.insert(data.item("replay", chunk, priority=-5.0), chunks=[chunk])
    [[entry]] = raw.sample("replay")
    assert entry.info.item.priority == -5.0


@pytest.mark.parametrize("side", ["sampler", "remover"])
@pytest.mark.parametrize("priority", [-1.0, float("nan"), float("inf"), float("-inf")])
def test_priorities_that_a_prioritized_table_cannot_hold_are_refused(start_relive, side, priority):
    """dm-reverb's table is unusable after this."""
    raw = start_relive(table(**{side: tables.prioritized(0.5)})).raw()
    chunk = data.chunk(data.rows(1))
    good, bad = data.item("replay", chunk, priority=2.0), data.item("replay", chunk, priority=priority)
    raw.insert(good, chunks=[chunk])
    code, text = raw.insert_stream().insert([chunk], [bad]).status()
    assert code is Code.INVALID_ARGUMENT and "priority" in text.lower()
    assert raw.sampled_keys("replay", 3) == [good.key] * 3
    another = data.item("replay", chunk)
    assert raw.insert(another, chunks=[chunk]) == [another.key]
    # The same applies to an update through an insert.
    again = data.item("replay", chunk, priority=priority, key=good.key)
    assert raw.insert_stream().insert([chunk], [again]).status()[0] is Code.INVALID_ARGUMENT
    assert raw.size("replay") == 2


def nan_on_heap():
    return [tables.min_heap(), tables.max_heap()]


@pytest.mark.parametrize("sampler", nan_on_heap(), ids=["min", "max"])
def test_a_heap_refuses_nan(start_relive, sampler):
    raw = start_relive(table(sampler=sampler)).raw()
    chunk = data.chunk(data.rows(1))
    bad = data.item("replay", chunk, priority=float("nan"))
    assert raw.insert_stream().insert([chunk], [bad]).status()[0] is Code.INVALID_ARGUMENT
    assert raw.size("replay") == 0


BAD_SLICES = {
    "offset past the end": lambda key: [[(key, 4, 1)]],
    "length past the end": lambda key: [[(key, 2, 3)]],
    "negative offset": lambda key: [[(key, -1, 2)]],
    "negative length": lambda key: [[(key, 0, -1)]],
    "no length": lambda key: [[(key, 0, 0)]],
    "offset and length beyond int32": lambda key: [[(key, 2**31 - 1, 2**31 - 1)]],
    "index past the end": lambda key: [[(key, 0, 1, 1)]],
    "negative index": lambda key: [[(key, 0, 1, -1)]],
    "an empty column behind a full one": lambda key: [[(key, 0, 1)], []],
}


@pytest.mark.parametrize("columns", BAD_SLICES.values(), ids=BAD_SLICES.keys())
def test_unreadable_slices_are_refused(start_relive, columns):
    """dm-reverb accepts them, and every later sample of the item fails."""
    server = start_relive(table())
    raw = server.raw()
    chunk = data.chunk(data.rows(1, 2, 3, 4))
    item = data.sliced_item("replay", columns(chunk.chunk_key))
    code, text = raw.insert_stream().insert([chunk], [item]).status()
    assert code is Code.INVALID_ARGUMENT and text
    good = data.item("replay", chunk)
    raw.insert(good, chunks=[chunk])
    assert server.raw().sampled_keys("replay", 2) == [good.key] * 2


def test_a_squeezed_column_of_several_rows_is_refused(start_relive):
    raw = start_relive(table()).raw()
    chunk = data.chunk(data.rows(1, 2))
    item = data.sliced_item("replay", [[(chunk.chunk_key, 0, 2)]], squeeze=True)
    assert raw.insert_stream().insert([chunk], [item]).status()[0] is Code.INVALID_ARGUMENT
    assert raw.size("replay") == 0


def test_a_column_of_two_dtypes_or_shapes_is_refused(start_relive):
    raw = start_relive(table()).raw()
    floats, wide = data.chunk(data.rows(1)), data.chunk(np.zeros([1, 2], np.float32))
    ints = data.chunk(np.zeros([1], np.int64))
    for other in (wide, ints):
        stream = raw.insert_stream().insert([floats, other], [data.item("replay", floats, other)])
        assert stream.status()[0] is Code.INVALID_ARGUMENT


CORRUPT = {
    "no bytes": b"",
    "a length that never ends": b"\xff" * 12,
    "too long a length": data.snappy(bytes(400)),
    "too short a length": data.snappy(bytes(4)),
    "a literal past the end": bytes([16, 61 << 2, 0xFF, 0xFF]) + bytes(8),
    "a copy before the beginning": bytes([16, 0b001_100_01, 200]),
    "a copy of nothing": bytes([16, 3 << 2]) + bytes(4) + bytes([0b000_000_01, 0]),
    "bytes behind the end": data.snappy(bytes(16)) + b"x",
}


@pytest.mark.parametrize("content", CORRUPT.values(), ids=CORRUPT.keys())
def test_corrupt_snappy_is_refused(start_relive, content):
    """dm-reverb's readers return uninitialized memory for it."""
    server = start_relive(table())
    raw = server.raw()
    bad = data.chunk(data.rows(1, 2, 3, 4), content=content)
    code, text = raw.insert_stream().insert([bad], [data.item("replay", bad)]).status()
    assert code is Code.INVALID_ARGUMENT and str(bad.chunk_key) in text
    good = data.chunk(data.rows(1, 2, 3, 4))
    item = data.item("replay", good)
    server.raw().insert(item, chunks=[good])
    assert server.raw().sampled_keys("replay") == [item.key]


def test_confirmed_items_are_all_there_after_a_cancel(start_relive):
    """A stream breaks in the middle: confirmed items stay, and the server continues to serve."""
    server = start_relive(table(max_size=100_000))
    raw, witness = server.raw(), server.raw()
    for _ in range(5):
        before = witness.size("replay")
        stream = raw.insert_stream()
        for _ in range(100):
            chunk = data.chunk(data.rows(1))
            stream.insert([chunk], [data.item("replay", chunk)])
        confirmed = len(stream.response().keys)
        stream.cancel()
        assert witness.size("replay") - before >= confirmed
