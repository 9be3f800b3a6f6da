"""Relive's Rust client against both servers, and the dm-reverb client reading data that Relive's client wrote."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from support import data, our_client, steps, tables, wait
from support.our_client import ClientError
from support.tables import table

# dm-reverb's server is down while its host restarts; both clients need no more than gRPC's first backoff.
RECONNECT_S = 40.0

NUMERIC = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
           "uint64", "bool", "complex64", "complex128"]


def everything(seed: int) -> dict:
    """Returns a step with a scalar and a matrix of every dtype, and strings."""
    generator = np.random.default_rng(seed)
    values = {}
    for dtype in NUMERIC:
        values[f"{dtype}_scalar"] = (generator.random() * 200 - 100 if dtype[0] in "fci" else seed % 2)
        values[f"{dtype}_matrix"] = generator.random([2, 3]) * 100
        for name in (f"{dtype}_scalar", f"{dtype}_matrix"):
            values[name] = np.asarray(values[name]).astype(dtype)
    values["string"] = np.asarray([b"x" * seed, "ä".encode(), b""], object)
    values["empty"] = np.zeros([0, 2], np.float32)
    return values


def fill(client, count: int, table_name: str = "replay") -> None:
    """Inserts `count` items of one float64 step each, and waits for confirmation; value and priority are the item's
    number."""
    client.writer(num_keep_alive_refs=1)
    for value in range(count):
        client.append([np.float64(value)])
        client.create_item(table_name, float(value), our_client.last("0", 1))
    client.call("close")


def failure(kind: str, call, *arguments, **options) -> str:
    with pytest.raises(ClientError) as caught:
        call(*arguments, **options)
    assert caught.value.kind == kind, caught.value
    return str(caught.value)


@pytest.mark.parametrize("chunk_length", [1, 3, None])
def test_every_dtype_through_both_clients(start, connect, chunk_length):
    server = start(table())
    ours, theirs = connect(server), server.client()
    written = [everything(seed) for seed in range(7)]
    ours.writer(num_keep_alive_refs=7, chunk_length=chunk_length)
    for step in written:
        ours.append(step)
    names = sorted(written[0])
    ours.create_item("replay", 1.5, *(our_client.last(name, 7) for name in names))
    ours.flush()
    wanted = [np.stack([step[name] for step in written]) for name in names]
    [by_theirs] = steps.samples(theirs, "replay")
    [by_ours] = ours.sample("replay")
    for columns in (by_theirs.data, by_ours.columns):
        for name, got, column in zip(names, columns, wanted, strict=True):
            assert got.shape == column.shape and (got.dtype == column.dtype), name
            np.testing.assert_array_equal(got, column, err_msg=name)
    assert by_theirs.info.priority == by_ours.info["priority"] == 1.5


def test_our_client_reads_what_theirs_writes(start, connect):
    server = start(table(), table("legacy"))
    ours, theirs = connect(server), server.client()
    with theirs.trajectory_writer(num_keep_alive_refs=8) as writer:
        writer.configure((0,), num_keep_alive_refs=8, max_chunk_length=4)
        for step in range(10):
            writer.append([np.full([3], step, np.float32), f"step {step}"])
        column, text = writer.history
        writer.create_item("replay", 2.0, [column[-6:], text[-1], column[-2]])
    with theirs.writer(max_sequence_length=5, delta_encoded=True, chunk_length=3) as writer:
        for step in range(5):
            writer.append([np.arange(4, dtype=np.uint8) * 50 + step, np.float64(step)])
        writer.create_item("legacy", 5, 1.0)
    [sample] = ours.sample("replay")
    assert sample.columns[0][:, 2].tolist() == [4, 5, 6, 7, 8, 9]
    assert sample.columns[1].item() == b"step 9" and sample.columns[2].tolist() == [8, 8, 8]
    [sample] = ours.sample("legacy")
    assert sample.columns[0].tolist() == [[i, 50 + i, 100 + i, 150 + i] for i in range(5)]
    assert sample.columns[1].tolist() == [0, 1, 2, 3, 4]


def test_gaps_strides_and_repeats_are_as_requested(start, connect):
    """dm-reverb's own writer stores the wrong rows for these items; its reader gets the right rows from Relive's
    writer."""
    server = start(table(), table("squeezed"))
    ours, theirs = connect(server), server.client()
    ours.writer(num_keep_alive_refs=8, chunk_length=4)
    for step in range(8):
        ours.append({"x": np.int64(step)})
    chosen = [our_client.rows("x", 0, 2), our_client.rows("x", 2, 0), our_client.strided("x", 0, 7, 2),
              our_client.rows("x", 3, 3, 3), our_client.rows("x", -1, 0, 5, 4)]
    ours.create_item("replay", 1.0, *chosen)
    ours.create_item("squeezed", 1.0, our_client.step("x", -2))
    ours.flush()
    wanted = [[0, 2], [2, 0], [0, 2, 4, 6], [3, 3, 3], [7, 0, 5, 4]]
    [by_theirs] = steps.samples(theirs, "replay")
    [by_ours] = ours.sample("replay")
    assert [column.tolist() for column in by_theirs.data] == wanted
    assert [column.tolist() for column in by_ours.columns] == wanted
    assert steps.samples(theirs, "squeezed")[0].data[0] == 6


def test_nested_and_partial_steps(start, connect):
    server = start(table())
    ours, theirs = connect(server), server.client()
    ours.writer(num_keep_alive_refs=6, chunk_length=2)
    for step in range(6):
        if step % 2 == 0:
            ours.append({"b": {"rare": np.asarray([step, -step])}}, partial=True)
        ours.append({"a": (np.float32(step), [np.int8(step)])})
    ours.create_item("replay", 1.0, our_client.last("a/0", 6), our_client.step("a/1/0", 3),
                     our_client.rows("b/rare", 0, 2, 4))
    ours.flush()
    for columns in (steps.samples(theirs, "replay")[0].data, ours.sample("replay")[0].columns):
        assert columns[0].tolist() == [0, 1, 2, 3, 4, 5]
        assert columns[1] == 3
        assert columns[2].tolist() == [[0, 0], [2, -2], [4, -4]]


def test_tables_share_chunks(start, connect):
    server = start(table("short", max_size=5), table("long"), table("lifo", sampler=tables.lifo()))
    ours, theirs = connect(server), server.client()
    ours.writer(num_keep_alive_refs=6, chunk_length=3)
    for step in range(12):
        ours.append([np.full([10], step, np.int32)])
        ours.create_item("short", 1.0, our_client.last("0", 1))
        if step >= 5:
            ours.create_item("long", float(step), our_client.last("0", 6))
            ours.create_item("lifo", 1.0, our_client.last("0", 2))
    ours.end_episode()
    sizes = {name: info["current_size"] for name, info in ours.tables().items()}
    assert sizes == {"short": 5, "long": 7, "lifo": 7}
    assert steps.samples(theirs, "long")[0].data[0][:, 9].tolist() == [0, 1, 2, 3, 4, 5]
    ours.call("reset", table="long")
    assert ours.sample("lifo")[0].columns[0][:, 0].tolist() == [10, 11]
    assert ours.sample("short")[0].columns[0][:, 0].tolist() == [7]


SELECTORS = [("fifo", tables.fifo(), 0), ("lifo", tables.lifo(), 4), ("min", tables.min_heap(), 0),
             ("max", tables.max_heap(), 4)]


@pytest.mark.parametrize("sampler, wanted", [s[1:] for s in SELECTORS], ids=[s[0] for s in SELECTORS])
def test_deterministic_selectors(start, connect, sampler, wanted):
    ours = connect(start(table(sampler=sampler)))
    fill(ours, 5)
    assert ours.values("replay", 3) == [wanted] * 3


def test_random_selectors(start, connect):
    server = start(table("uniform", sampler=tables.uniform()), table("prio", sampler=tables.prioritized(2.0)))
    ours = connect(server)
    for name in ("uniform", "prio"):
        fill(ours, 4, name)
    samples = ours.sample("uniform", 200)
    assert {sample.info["probability"] for sample in samples} == {0.25}
    assert {float(sample.columns[0][0]) for sample in samples} == {0, 1, 2, 3}
    for sample in ours.sample("prio", 100):
        assert sample.info["probability"] == pytest.approx(sample.info["priority"] ** 2 / 14)


def test_priorities_deletes_and_resets(start, connect):
    ours = connect(start(table(sampler=tables.max_heap())))
    fill(ours, 3)
    keys = {}
    for _ in range(3):
        [sample] = ours.sample("replay")
        keys[float(sample.columns[0][0])] = sample.info["key"]
        ours.call("mutate_priorities", table="replay", updates=[[sample.info["key"], -1.0]], deletes=[])
    assert set(keys) == {0, 1, 2}
    ours.call("mutate_priorities", table="replay", updates=[[keys[1], 9.0], [12345, 1.0]], deletes=[keys[0]])
    assert ours.values("replay") == [1]
    assert ours.tables()["replay"]["current_size"] == 2
    ours.call("reset", table="replay")
    assert ours.tables()["replay"]["current_size"] == 0


def test_the_server_is_described(start, connect):
    signature = {"b": tf.TensorSpec([None, 3], tf.float32), "a": (tf.TensorSpec([], tf.string),)}
    server = start(
        table("plain", remover=tables.lifo(), max_size=77, max_times_sampled=3,
              limiter=tables.ratio(1.5, 2, -4.0, 8.0)),
        table("signed", sampler=tables.prioritized(0.6), signature=signature))
    ours = connect(server)
    info = ours.tables()
    assert set(info) == {"plain", "signed"}
    plain, signed = info["plain"], info["signed"]
    assert (plain["sampler"], plain["remover"]) == ("Fifo", "Lifo")
    assert (plain["max_size"], plain["max_times_sampled"], plain["signature"]) == (77, 3, None)
    assert (plain["limiter"], plain["min_size_to_sample"]) == ([1.5, -4.0, 8.0], 2)
    assert "0.6" in signed["sampler"]
    assert signed["signature"] == ["a/0 string []", "b float [?,3]"]


def test_unknown_tables(start, connect):
    ours = connect(start(table()))
    assert "missing" in failure("NotFound", ours.sample, "missing")
    assert "missing" in failure("NotFound", ours.call, "reset", table="missing")
    assert "missing" in failure("NotFound", ours.insert, [np.float64(0)], {"missing": 1.0})
    ours.writer(num_keep_alive_refs=1, validate_items=False)
    ours.append([np.float64(1)])
    ours.create_item("missing", 1.0, our_client.last("0", 1))
    failure("NotFound", ours.flush)


def test_a_signature_is_checked(start, connect):
    ours = connect(start(table(signature=[tf.TensorSpec([1, 2], tf.float32)])))
    text = failure("InvalidArgument", ours.insert, [np.zeros([3], np.float32)], {"replay": 1.0})
    assert "(1, 2)" in text
    ours.insert([np.zeros([2], np.float32)], {"replay": 1.0})
    assert ours.tables()["replay"]["current_size"] == 1


def test_late_samples_time_out(start, connect):
    ours = connect(start(table(limiter=tables.min_size(2))))
    failure("Timeout", ours.sample, "replay", timeout_ms=100)
    ours.sampler("replay", limiter_timeout_ms=100)
    failure("Timeout", ours.next)
    fill(ours, 2)
    assert ours.next().columns[0][0] == 0


def test_a_blocked_writer_keeps_its_items(start, connect):
    server = start(table(limiter=tables.ratio(1.0, 1, 0.0, 2.0)))
    ours = connect(server)
    ours.writer(num_keep_alive_refs=1)
    for value in range(3):
        ours.append([np.float64(value)])
        ours.create_item("replay", 1.0, our_client.last("0", 1))
    failure("Timeout", ours.flush, timeout_ms=200)
    failure("Timeout", ours.end_episode, timeout_ms=200)
    assert steps.values(server.client(), "replay") == [0]
    ours.flush()
    assert ours.tables()["replay"]["current_size"] == 3


def test_a_sampler_with_workers_ends_after_max_samples(start, connect):
    ours = connect(start(tables.queue(size=200)))
    fill(ours, 100, "queue")
    ours.sampler("queue", workers=3, in_flight=7, max_samples=100, max_samples_per_stream=10)
    values = []
    while (sample := ours.next()) is not None:
        values.append(float(sample.columns[0][0]))
    assert sorted(values) == list(range(100))


def test_a_dropped_sampler_removes_no_more_items(start_relive, connect):
    """On dm-reverb's server, the waiting request from a dead client consumes an item."""
    ours = connect(start_relive(tables.queue()))
    ours.sampler("queue", in_flight=4)
    failure("Timeout", ours.next, timeout_ms=200)
    ours.call("drop_sampler")
    # A cancellation takes effect once the server has received it.
    wait.until(lambda: not ours.call("status")["waiters"], "the end of the reader's request")
    fill(ours, 3, "queue")
    assert ours.values("queue", 3) == [0, 1, 2]


def test_large_items(start, connect):
    server = start(table())
    ours, theirs = connect(server), server.client()
    big = np.random.default_rng(3).integers(0, 256, [3 << 20], np.uint8)
    ours.writer(num_keep_alive_refs=2, chunk_length=1)
    for shift in range(2):
        ours.append([np.roll(big, shift)])
    ours.create_item("replay", 1.0, our_client.last("0", 2))
    ours.flush()
    for columns in (steps.samples(theirs, "replay")[0].data, ours.sample("replay")[0].columns):
        np.testing.assert_array_equal(columns[0], np.stack([big, np.roll(big, 1)]))


def structured(table_name: str, nodes: list[dict], **options) -> dict:
    return {"table": table_name, "nodes": nodes, **options}


def test_patterns(start, connect):
    server = start(tables.queue("transitions", 50), table("third"), table("end"),
                   table("prio", sampler=tables.max_heap()))
    ours, theirs = connect(server), server.client()
    ours.call("structured_writer", configs=[
        structured("transitions", [{"source": 0, "step": -3}, {"source": 1, "range": [-3, 0, 1]}]),
        structured("third", [{"source": 0, "step": -1}], conditions=[{"step_index_modulo": [3, 0]}]),
        structured("end", [{"source": 0, "range": [-4, 0, 2]}], conditions=["is_end_episode"]),
        structured("prio", [{"source": 1, "range": [-2, 0, 1]}], td_error=[0.9, 1]),
    ])
    for step in range(7):
        ours.append({"a": np.int64(step), "b": np.float32(step * 10)})
    ours.end_episode()
    sizes = {name: info["current_size"] for name, info in ours.tables().items()}
    assert sizes == {"transitions": 5, "third": 3, "end": 1, "prio": 6}
    for first, sample in enumerate(steps.samples(theirs, "transitions", 5)):
        assert sample.data[0] == first
        assert sample.data[1].tolist() == [first * 10, first * 10 + 10, first * 10 + 20]
    # A stride inside one chunk: dm-reverb's writer would store steps 3 and 4.
    assert steps.samples(theirs, "end")[0].data[0].tolist() == [3, 5]
    assert ours.sample("prio")[0].info["priority"] == pytest.approx(0.9 * 60 + 0.1 * 55)


def test_a_writer_resumes_in_order_after_a_restart(start, connect):
    """dm-reverb's writer resends items in any order; Relive's keeps their order."""
    server = start(table())
    ours = connect(server)
    ours.writer(num_keep_alive_refs=2)

    def add(value):
        ours.append([np.float64(value)])
        ours.create_item("replay", 1.0, our_client.last("0", 1))

    ours.call("server_info", timeout_ms=10_000)
    add(0)
    ours.flush()
    server.stop()
    for value in range(1, 6):
        add(value)
    failure("Timeout", ours.flush, timeout_ms=100)
    server.start_again()
    ours.flush(timeout_ms=int(RECONNECT_S * 1000))
    server.client().mutate_priorities("replay", updates={}, deletes=[])
    order = []
    for _ in range(5):
        [sample] = ours.sample("replay")
        order.append(float(sample.columns[0][0]))
        ours.call("mutate_priorities", table="replay", updates=[], deletes=[sample.info["key"]])
    assert order == [1, 2, 3, 4, 5]


def test_a_sampler_resumes_after_a_restart(start, connect):
    server = start(tables.queue())
    ours = connect(server, timeout_ms=int(RECONNECT_S * 1000))
    fill(ours, 1, "queue")
    ours.sampler("queue", in_flight=1)
    assert ours.next().columns[0][0] == 0
    server.stop()
    server.start_again()
    steps.write(server.client(), "queue", 7)
    assert ours.next(timeout_ms=int(RECONNECT_S * 1000)).columns[0][0] == 7


def test_a_dead_port(start, connect):
    server = start(table())
    ours = connect(server, timeout_ms=300)
    server.stop()
    for call in (lambda: ours.call("server_info", timeout_ms=300), lambda: ours.sample("replay", timeout_ms=300)):
        with pytest.raises(ClientError) as caught:
            call()
        assert caught.value.kind in ("Timeout", "Unavailable")


def test_status_lists_waiters_with_their_reasons(start_relive, connect):
    """Relive's own service names the condition that is not met."""
    server = start_relive(table(limiter=tables.min_size(3)))
    ours = connect(server)
    fill(ours, 1)
    waiting = server.raw().sample_stream().ask("replay", 1)
    [reason] = wait.until(lambda: ours.call("status")["waiters"], "the waiting reader")
    assert "3" in reason and "1" in reason
    waiting.cancel()


def test_dm_reverb_does_not_implement_the_relive_service(reverb_servers, connect):
    """A client that requests a Relive-only feature from dm-reverb's server gets an error and does not hang."""
    server = reverb_servers.start(table())
    failure("Unimplemented", connect(server).call, "status")
    server.stop()


@pytest.mark.parametrize("codec", ["raw", "lz4", "zstd"])
def test_dm_reverb_is_never_sent_another_codec(reverb_servers, connect, codec):
    server = reverb_servers.start(table())
    ours = connect(server)
    ours.writer(num_keep_alive_refs=1, codec=codec)
    ours.append([np.float64(1)])
    ours.create_item("replay", 1.0, our_client.last("0", 1))
    text = failure("Unimplemented", ours.flush)
    assert f"snappy, but not {codec}" in text
    assert server.client().server_info()["replay"].current_size == 0
    server.stop()


@pytest.mark.parametrize("codec", ["raw", "lz4", "zstd", "snappy"])
def test_clients_of_dm_reverb_read_every_codec(start_relive, connect, codec):
    """dm-reverb's clients support only Snappy, and do not declare any codecs, so the server re-encodes their
    samples."""
    server = start_relive(table())
    ours, theirs = connect(server), server.client()
    written = [everything(seed) for seed in range(4)]
    ours.writer(num_keep_alive_refs=4, chunk_length=4, codec=codec)
    for step in written:
        ours.append(step)
    names = sorted(written[0])
    ours.create_item("replay", 1.0, *(our_client.last(name, 4) for name in names))
    ours.flush()
    [by_theirs] = steps.samples(theirs, "replay")
    [by_ours] = ours.sample("replay")
    for columns in (by_theirs.data, by_ours.columns):
        for name, got in zip(names, columns, strict=True):
            np.testing.assert_array_equal(got, np.stack([step[name] for step in written]), err_msg=name)


def test_chunks_of_our_client_are_valid_for_a_raw_reader(start, connect):
    server = start(table())
    ours, raw = connect(server), server.raw()
    ours.writer(num_keep_alive_refs=4, chunk_length=2)
    for step in range(4):
        ours.append([np.float32(step)])
    ours.create_item("replay", 1.0, our_client.last("0", 4))
    ours.flush()
    [[entry]] = raw.sample("replay")
    ranges = [(chunk.sequence_range.start, chunk.sequence_range.end) for chunk in entry.data]
    assert ranges == [(0, 1), (2, 3)]
    assert {chunk.data_tensors_len for chunk in entry.data} == {1}
    assert {chunk.data_uncompressed_size for chunk in entry.data} == {8}
    assert len({chunk.sequence_range.episode_id for chunk in entry.data}) == 1
    assert data.item("replay", *entry.data).flat_trajectory == entry.info.item.flat_trajectory
