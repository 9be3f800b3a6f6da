"""TensorFlow datasets over a server."""

from __future__ import annotations

import numpy as np
import pytest
import reverb
import tensorflow as tf

from support import steps, tables
from support.tables import table

SIGNATURE = {"x": tf.TensorSpec([None, 2], tf.float32), "y": tf.TensorSpec([None], tf.int64)}


def write_trajectories(client, table_name="replay", lengths=(3, 4, 5)):
    with client.trajectory_writer(num_keep_alive_refs=max(lengths)) as writer:
        for index, length in enumerate(lengths):
            for step in range(length):
                writer.append({"x": np.full([2], index, np.float32), "y": np.int64(step)})
            history = writer.history
            writer.create_item(table_name, 1.0 + index, {"x": history["x"][-length:], "y": history["y"][-length:]})
            writer.end_episode()


def test_trajectories_by_the_table_signature(start):
    server = start(table(signature=SIGNATURE, max_times_sampled=1))
    write_trajectories(server.client())
    dataset = reverb.TrajectoryDataset.from_table_signature(
        server.address, "replay", max_in_flight_samples_per_worker=4, rate_limiter_timeout_ms=300)
    got = list(dataset.as_numpy_iterator())
    assert [sample.data["y"].tolist() for sample in got] == [list(range(n)) for n in (3, 4, 5)]
    assert [sample.data["x"][:, 1].tolist() for sample in got] == [[i] * n for i, n in enumerate((3, 4, 5))]
    assert [sample.info.priority for sample in got] == [1.0, 2.0, 3.0]
    assert [sample.info.times_sampled for sample in got] == [1, 1, 1]


def test_timesteps_by_the_table_signature(start):
    step = {"x": tf.TensorSpec([2], tf.float32), "y": tf.TensorSpec([], tf.int64)}
    server = start(table(signature=step, max_times_sampled=1))
    client = server.client()
    for index in range(3):
        client.insert({"x": np.full([2], index, np.float32), "y": np.int64(index)}, {"replay": 1.0})
    dataset = reverb.TimestepDataset.from_table_signature(
        server.address, "replay", max_in_flight_samples_per_worker=1, rate_limiter_timeout_ms=300)
    got = list(dataset.as_numpy_iterator())
    assert [sample.data["y"] for sample in got] == [0, 1, 2]
    assert len({sample.info.key for sample in got}) == 3


def test_timesteps_of_longer_items_arrive_in_order(start):
    client = start(table(max_times_sampled=1)).client()
    with client.writer(max_sequence_length=4) as writer:
        for step in range(8):
            writer.append([np.float64(step)])
            if step % 4 == 3:
                writer.create_item("replay", 4, 1.0)
    dataset = reverb.TimestepDataset(
        client.server_address, "replay", dtypes=[tf.float64], shapes=[tf.TensorShape([])],
        max_in_flight_samples_per_worker=2, rate_limiter_timeout_ms=300)
    assert [float(sample.data[0]) for sample in dataset.as_numpy_iterator()] == list(range(8))


def test_a_dataset_stops_after_max_samples(start):
    client = start(table(sampler=tables.uniform())).client()
    steps.write(client, "replay", 1, 2, 3)
    got = list(steps.dataset(client, "replay", timeout_ms=-1, in_flight=10, max_samples=25))
    assert len(got) == 25


def test_several_workers_share_a_queue(start):
    server = start(tables.queue(size=500))
    client = server.client()
    steps.write(client, "queue", *range(300))
    got = [float(sample.data[0][0]) for sample in
           steps.dataset(client, "queue", timeout_ms=500, in_flight=10, num_workers_per_iterator=3)]
    assert sorted(got) == list(range(300))


def test_many_consecutive_streams(start):
    """`max_samples_per_stream` makes the sampler open a new stream every few samples."""
    client = start(tables.queue(size=100)).client()
    steps.write(client, "queue", *range(60))
    got = steps.dataset(client, "queue", timeout_ms=300, in_flight=3, max_samples_per_stream=4)
    assert [float(sample.data[0][0]) for sample in got] == list(range(60))


def test_in_flight_samples_bound_the_prefetch(start):
    """A dataset from which one sample is requested takes at most this sample and its permitted samples in flight."""
    server = start(tables.queue(size=100))
    client, raw = server.client(), server.raw()
    steps.write(client, "queue", *range(50))
    iterator = steps.dataset(client, "queue", timeout_ms=-1, in_flight=5)
    assert float(next(iterator).data[0][0]) == 0
    assert raw.size("queue") >= 44


def test_batches_are_stacked_by_tensorflow(start):
    server = start(table(sampler=tables.uniform(), signature=SIGNATURE))
    write_trajectories(server.client(), lengths=(4, 4, 4))
    dataset = reverb.TrajectoryDataset.from_table_signature(
        server.address, "replay", max_in_flight_samples_per_worker=10)
    batch = next(dataset.batch(16).as_numpy_iterator())
    assert batch.data["x"].shape == (16, 4, 2)
    assert batch.data["y"].tolist() == [[0, 1, 2, 3]] * 16


def test_an_unknown_table_is_a_tensorflow_error(start):
    client = start(table()).client()
    with pytest.raises(tf.errors.NotFoundError, match="missing"):
        next(steps.dataset(client, "missing", timeout_ms=1000))
    with pytest.raises(ValueError, match="missing"):
        reverb.TrajectoryDataset.from_table_signature(
            client.server_address, "missing", max_in_flight_samples_per_worker=1)


def test_data_that_breaks_the_specification_is_a_tensorflow_error(start):
    client = start(table()).client()
    client.insert([np.zeros([3], np.float32)], {"replay": 1.0})
    with pytest.raises(tf.errors.InvalidArgumentError):
        next(steps.dataset(client, "replay", timeout_ms=1000))


def test_the_tensorflow_client(start):
    server = start(table(signature=[tf.TensorSpec([2], tf.float32)], sampler=tables.max_heap()))
    client = reverb.TFClient(server.address)
    client.insert([tf.constant([1.0, 2.0])], tf.constant(["replay"]), tf.constant([3.0], tf.float64))
    sample = client.sample("replay", [tf.float32])
    assert sample.data[0].numpy().tolist() == [1.0, 2.0]
    client.update_priorities("replay", [sample.info.key], tf.constant([7.0], tf.float64))
    assert client.sample("replay", [tf.float32]).info.priority.numpy() == 7.0
