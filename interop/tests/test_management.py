"""Priorities, deletes, resets, server information, and the errors of calls on missing tables."""

from __future__ import annotations

import pickle
import socket

import numpy as np
import pytest
import reverb
import tensorflow as tf

from support import steps, tables, wait
from support.tables import table


def test_an_update_changes_what_a_prioritized_table_gives(start):
    client = start(table(sampler=tables.prioritized(1.0))).client()
    steps.write(client, "replay", 1, 2, 3)
    keys = steps.keys_by_value(client, "replay", 200)
    client.mutate_priorities("replay", updates={keys[1]: 0.0, keys[2]: 6.0, keys[3]: 2.0})
    for sample in steps.samples(client, "replay", 100):
        value = float(sample.data[0][0])
        assert (sample.info.priority, sample.info.probability) == {2: (6.0, 0.75), 3: (2.0, 0.25)}[value]


def test_an_update_moves_an_item_of_a_heap(start):
    client = start(table(sampler=tables.max_heap())).client()
    steps.write(client, "replay", 1, 2, 3)
    [sample] = steps.samples(client, "replay")
    client.mutate_priorities("replay", updates={sample.info.key: -1.0})
    assert steps.values(client, "replay") == [2]


def test_a_delete_removes_only_what_it_names(start):
    client = start(table(sampler=tables.uniform())).client()
    steps.write(client, "replay", 1, 2, 3)
    keys = steps.keys_by_value(client, "replay", 100)
    client.mutate_priorities("replay", deletes=[keys[1], keys[3]])
    assert client.server_info()["replay"].current_size == 1
    assert set(steps.values(client, "replay", 20)) == {2}


def test_unknown_keys_are_ignored(start):
    client = start(table()).client()
    steps.write(client, "replay", 1)
    client.mutate_priorities("replay", updates={2**64 - 1: 1.0}, deletes=[2**63])
    assert client.server_info()["replay"].current_size == 1


def test_a_reset_empties_a_table_and_its_counters(start):
    client = start(table(sampler=tables.uniform()), table("other")).client()
    steps.write(client, "replay", 1, 2, 3)
    steps.write(client, "other", 4)
    before = {sample.info.key for sample in steps.samples(client, "replay", 50)}
    client.reset("replay")
    info = client.server_info()
    assert (info["replay"].current_size, info["other"].current_size) == (0, 1)
    assert (info["replay"].num_episodes, info["replay"].num_unique_samples) == (0, 0)
    steps.write(client, "replay", 1, 2, 3)
    after = {sample.info.key for sample in steps.samples(client, "replay", 50)}
    assert len(before) == len(after) == 3 and not before & after


def test_server_info_describes_each_table(start):
    signature = {"b": tf.TensorSpec([None, 3], tf.float32, "bee"), "a": (tf.TensorSpec([], tf.string),)}
    server = start(
        table("plain", sampler=tables.uniform(), remover=tables.lifo(), max_size=77, max_times_sampled=-3,
              limiter=tables.ratio(1.5, 2, -4.0, 8.0)),
        table("signed", sampler=tables.prioritized(0.6), remover=tables.min_heap(), signature=signature))
    info = server.client().server_info(timeout=10)
    assert set(info) == {"plain", "signed"}
    plain, signed = info["plain"], info["signed"]
    assert (plain.name, plain.max_size, plain.max_times_sampled) == ("plain", 77, -3)
    assert plain.sampler_options.uniform and not plain.sampler_options.is_deterministic
    assert plain.remover_options.lifo and plain.remover_options.is_deterministic
    assert plain.signature is None
    limiter = plain.rate_limiter_info
    assert (limiter.samples_per_insert, limiter.min_size_to_sample) == (1.5, 2)
    assert (limiter.min_diff, limiter.max_diff) == (-4.0, 8.0)
    assert signed.sampler_options.prioritized.priority_exponent == 0.6
    assert signed.remover_options.heap.min_heap and signed.remover_options.is_deterministic
    assert signed.signature == signature


def test_every_kind_of_signature_round_trips(start):
    signature = [
        tf.TensorSpec(None, tf.float32), tf.TensorSpec([2, None], tf.bool, "n"),
        tf.TensorSpec([], tf.complex128),
        {"x": tf.TensorSpec([1], dtype) for dtype in [tf.uint8]},
        [tf.TensorSpec([1], dtype) for dtype in
         [tf.float16, tf.bfloat16, tf.int8, tf.int16, tf.int32, tf.int64, tf.uint16, tf.uint32, tf.uint64]],
    ]
    info = start(table(signature=signature)).client().server_info()
    assert tf.nest.flatten(info["replay"].signature) == tf.nest.flatten(signature)
    info_bounded = start(table("bounded", signature=_bounded())).client().server_info()["bounded"]
    assert info_bounded.signature.minimum == 0 and info_bounded.signature.maximum == 3


def _bounded():
    from tensorflow.python.framework import tensor_spec

    return tensor_spec.BoundedTensorSpec([], tf.int32, 0, 3, "action")


def test_the_counts_follow_episodes_and_samples(start):
    client = start(table(max_size=2)).client()
    for episode in range(3):
        with client.trajectory_writer(num_keep_alive_refs=2) as writer:
            for step in range(2):
                writer.append([np.float64(step)])
            writer.create_item("replay", 1.0, [writer.history[0][:]])
    steps.values(client, "replay", 3)
    info = client.server_info()["replay"]
    assert (info.current_size, info.num_episodes, info.num_deleted_episodes) == (2, 2, 1)
    assert info.num_unique_samples == 1


def test_the_state_id_is_constant_per_server_and_unique(start):
    one, other = start(table()), start(table())
    ids = [server.raw().call("ServerInfo").tables_state_id for server in (one, one, other)]
    assert ids[0] == ids[1] != ids[2]


def test_a_dead_port_is_a_deadline_exceeded():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    with pytest.raises(reverb.DeadlineExceededError):
        reverb.Client(f"localhost:{port}").server_info(timeout=1)


def test_a_client_can_be_pickled(start):
    client = start(table()).client()
    steps.write(client, "replay", 5)
    copy = pickle.loads(pickle.dumps(client))
    assert steps.values(copy, "replay") == [5]


def test_unknown_tables_give_the_error_text_of_dm_reverb(start):
    client = start(table()).client()
    unknown = "Priority table missing was not found"
    with pytest.raises(RuntimeError, match=unknown):
        steps.samples(client, "missing")
    with pytest.raises(RuntimeError, match=unknown):
        client.mutate_priorities("missing", deletes=[1])
    with pytest.raises(RuntimeError, match=unknown):
        client.reset("missing")
    with pytest.raises(RuntimeError, match=unknown):
        writer = client.trajectory_writer(num_keep_alive_refs=1, validate_items=False)
        writer.append([np.float64(1)])
        writer.create_item("missing", 1.0, [writer.history[0][-1:]])
        writer.flush(timeout_ms=10_000)
    with pytest.raises(ValueError):
        client.insert([np.float64(1)], {"missing": 1.0})


def test_a_refused_stream_stays_refused_and_a_new_one_works(start):
    client = start(table()).client()
    writer = client.trajectory_writer(num_keep_alive_refs=1, validate_items=False)
    writer.append([np.float64(1)])
    writer.create_item("missing", 1.0, [writer.history[0][-1:]])
    for _ in range(2):
        with pytest.raises(RuntimeError):
            writer.flush(timeout_ms=10_000)
    steps.write(client, "replay", 3)
    assert steps.values(client, "replay") == [3]


def test_a_signature_is_checked_by_the_writer(start):
    client = start(table(signature=[tf.TensorSpec([1, 2], tf.float32)])).client()
    with client.trajectory_writer(num_keep_alive_refs=1) as writer:
        writer.append([np.zeros([3], np.float32)])
        with pytest.raises(ValueError):
            writer.create_item("replay", 1.0, [writer.history[0][-1:]])
    with client.trajectory_writer(num_keep_alive_refs=1) as writer:
        writer.append([np.zeros([2], np.float32)])
        writer.create_item("replay", 1.0, [writer.history[0][-1:]])
    assert client.server_info()["replay"].current_size == 1


def test_bad_priorities_of_updates_are_refused(start):
    client = start(table(sampler=tables.prioritized(1.0))).client()
    steps.write(client, "replay", 1, 2)
    keys = steps.keys_by_value(client, "replay", 100)
    for bad in (-1.0, float("nan")):
        with pytest.raises(ValueError):
            client.mutate_priorities("replay", updates={keys[1]: bad})
    assert wait.Background(lambda: steps.values(client, "replay", 50)).result()


def test_a_refused_update_changes_nothing(start_relive):
    """dm-reverb keeps the invalid priority in the item, although its selector refused it."""
    client = start_relive(table(sampler=tables.prioritized(1.0))).client()
    steps.write(client, "replay", 1)
    [sample] = steps.samples(client, "replay")
    for bad in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError):
            client.mutate_priorities("replay", updates={sample.info.key: bad})
    assert steps.samples(client, "replay")[0].info.priority == 1.0


def test_a_checkpoint_without_a_checkpointer_is_an_error(start_relive):
    client = start_relive(table()).client()
    with pytest.raises((RuntimeError, ValueError, NotImplementedError), match="(?i)checkpoint"):
        client.checkpoint()
    steps.write(client, "replay", 1)
    assert steps.values(client, "replay") == [1]
