"""`Client`, `Writer`, `Server` and `Table`."""

from __future__ import annotations

import collections
import os
import pickle
import threading

import numpy as np
import pytest
import reverb

limiters, selectors = reverb.rate_limiters, reverb.selectors


def _table(name="table", sampler=None, **options):
    options = {"max_size": 100, "rate_limiter": limiters.MinSize(1), **options}
    return reverb.Table(name, sampler or selectors.Fifo(), selectors.Fifo(), **options)


@pytest.fixture
def client(serve):
    return serve(_table("table", selectors.Prioritized(1.0)), _table("other"))


def test_insert_and_sample(client):
    client.insert([np.arange(4, dtype=np.int16), "text", 2.5], {"table": 3.0, "other": 1.0})
    (steps,) = client.sample("table", 1)
    (step,) = steps
    assert isinstance(step, reverb.ReplaySample)
    assert step.data[0].tolist() == [0, 1, 2, 3]
    assert step.data[0].dtype == np.int16
    assert np.asarray(step.data[1]).item() == b"text"
    assert np.asarray(step.data[2]).item() == 2.5
    info = step.info
    assert [type(value) for value in info] == [int, float, int, float, int]
    assert tuple(info)[1:] == (1.0, 1, 3.0, 1)
    (whole,) = client.sample("other", 1, emit_timesteps=False)
    assert whole.data[0].shape == (1, 4)
    assert whole.info.key != info.key


def test_insert_refuses(client):
    with pytest.raises(ValueError):
        client.insert([1], {})
    with pytest.raises(ValueError, match="nowhere"):
        client.insert([1], {"nowhere": 1.0})


def test_samples_in_the_structure_of_the_signature(serve):
    import tensorflow as tf

    signature = {"b": tf.TensorSpec([], tf.int64), "a": (tf.TensorSpec([2], tf.float32),)}
    client = serve(_table(signature=signature), _table("plain"))
    client.insert({"b": np.int64(1), "a": (np.ones(2, np.float32),)}, {"table": 1.0})
    (whole,) = client.sample("table", 1, emit_timesteps=False, unpack_as_table_signature=True)
    assert whole.data["a"][0].tolist() == [[1, 1]]
    ((step,),) = client.sample("table", 1, unpack_as_table_signature=True)
    assert step.data["b"].item() == 1
    with pytest.raises(ValueError):
        next(client.sample("nowhere", 1, unpack_as_table_signature=True))


def test_sample_refuses(client):
    with pytest.raises(RuntimeError, match="nowhere"):
        next(client.sample("nowhere", 1))
    with pytest.raises(ValueError):
        next(client.sample("table", 0))


def test_steps_of_an_item(client):
    with client.writer(max_sequence_length=3, chunk_length=2) as writer:
        for number in range(4):
            writer.append({"x": np.int32(number)})
        writer.create_item("table", num_timesteps=3, priority=1.0)
    (steps,) = client.sample("table", 1)
    assert [np.asarray(step.data[0]).item() for step in steps] == [1, 2, 3]
    assert len({step.info.key for step in steps}) == 1


def test_append_sequence(client):
    with client.writer(5) as writer:
        writer.append_sequence([np.arange(5), np.arange(10).reshape(5, 2)])
        writer.create_item("table", 5, 1.0)
        for wrong in ([], [np.int32(1)], [np.zeros(2), np.zeros(3)]):
            with pytest.raises(ValueError):
                writer.append_sequence(wrong)
    (sample,) = client.sample("table", 1, emit_timesteps=False)
    assert sample.data[0].tolist() == [0, 1, 2, 3, 4]
    assert sample.data[1].shape == (5, 2)


@pytest.mark.parametrize(
    "options",
    [
        {"max_sequence_length": 0},
        {"max_sequence_length": 2, "chunk_length": 0},
        {"max_sequence_length": 2, "chunk_length": 3},
        {"max_sequence_length": 2, "max_in_flight_items": 0},
    ],
)
def test_writers_out_of_range(client, options):
    with pytest.raises(ValueError):
        client.writer(**options)


def test_writer_refuses(client):
    writer = client.writer(2)
    writer.append([np.float32(1)])
    for number, priority in [(0, 1.0), (2, 1.0), (3, 1.0), (1, float("nan"))]:
        with pytest.raises(ValueError):
            writer.create_item("table", number, priority)
    with pytest.raises(ValueError):
        writer.create_item("nowhere", 1, 1.0)
    with pytest.raises(ValueError):
        writer.append([np.float32(1), np.float32(2)])
    writer.close()
    with pytest.raises(ValueError):
        writer.close()
    with pytest.raises(RuntimeError):
        writer.append([np.float32(1)])


def _keys(client, table="table", samples=100):
    return {
        sample.data[0].item(): sample.info.key for sample in client.sample(table, samples, emit_timesteps=False)
    }


def test_mutate_priorities(client):
    for number in range(3):
        client.insert([np.int64(number)], {"table": 1.0})
    keys = _keys(client)
    client.mutate_priorities("table", updates={keys[0]: 4.0, 12345: 2.0}, deletes=[keys[2]])
    left = {sample.data[0].item(): sample.info.priority for sample in client.sample("table", 50, emit_timesteps=False)}
    assert left == {0: 4.0, 1: 1.0}
    with pytest.raises(RuntimeError, match="nowhere"):
        client.mutate_priorities("nowhere", updates={1: 1.0})
    for wrong in (-1.0, float("nan")):
        with pytest.raises(ValueError):
            client.mutate_priorities("table", updates={keys[0]: wrong})


def test_reset(client):
    for number in range(3):
        client.insert([np.int64(number)], {"table": 1.0})
    before = set(_keys(client).values())
    client.reset("table")
    assert client.server_info(timeout=5)["table"].current_size == 0
    client.insert([np.int64(0)], {"table": 1.0})
    assert not before & set(_keys(client).values())
    with pytest.raises(RuntimeError):
        client.reset("nowhere")


def test_server_info(client):
    client.insert([1], {"table": 1.0})
    next(client.sample("table"))
    info = client.server_info()
    assert sorted(info) == ["other", "table"]
    table = info["table"]
    assert isinstance(table, reverb.reverb_types.TableInfo)
    assert (table.name, table.max_size, table.max_times_sampled) == ("table", 100, 0)
    assert (table.current_size, table.num_unique_samples) == (1, 1)
    assert table.rate_limiter_info.insert_stats.completed == 1
    assert table.signature is None


def test_server_info_without_a_server_exceeds_the_deadline():
    with pytest.raises(reverb.DeadlineExceededError):
        reverb.Client("localhost:1").server_info(timeout=1)
    assert issubclass(reverb.DeadlineExceededError, reverb.ReverbError)


def test_clients_can_be_pickled(client):
    again = pickle.loads(pickle.dumps(client))
    assert again.server_address == client.server_address
    assert again._server_address == client._server_address
    assert repr(again) == repr(client) == f"Client, server_address={client.server_address}"
    again.insert([1], {"table": 1.0})
    assert client.server_info(timeout=5)["table"].current_size == 1


def test_writers_in_threads(client):
    def write(first):
        with client.trajectory_writer(1) as writer:
            for number in range(first, first + 10):
                writer.append({"x": np.int64(number)})
                writer.create_item("other", 1.0, {"x": writer.history["x"][-1]})

    threads = [threading.Thread(target=write, args=(10 * number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.server_info(timeout=5)["other"].current_size == 80
    numbers = collections.Counter(
        sample.data[0].item() for sample in client.sample("other", 80, emit_timesteps=False)
    )
    assert len(numbers) == 1  # a FIFO that keeps its items returns the oldest item repeatedly


def test_a_queue_waits_for_its_samples(serve):
    table = reverb.Table.queue("queue", 3)
    client = serve(table)
    assert table.can_insert(3)
    assert not table.can_insert(4)
    assert not table.can_sample(1)
    for number in range(3):
        client.insert([np.int64(number)], {"queue": 1.0})
    assert table.can_sample(3)
    assert not table.can_insert(1)
    numbers = [sample.data[0].item() for sample in client.sample("queue", 3, emit_timesteps=False)]
    assert numbers == [0, 1, 2]
    assert table.info.current_size == 0


def test_a_stack_returns_the_newest_item(serve):
    client = serve(reverb.Table.stack("stack", 3))
    for number in range(3):
        client.insert([np.int64(number)], {"stack": 1.0})
    numbers = [sample.data[0].item() for sample in client.sample("stack", 3, emit_timesteps=False)]
    assert numbers == [2, 1, 0]


def test_replace():
    table = _table(max_times_sampled=2)
    again = table.replace(name="again", max_size=7)
    assert (again.name, again.info.max_size, again.info.max_times_sampled) == ("again", 7, 2)
    assert (table.name, table.info.max_size) == ("table", 100)
    relaxed = table.replace(rate_limiter=limiters.MinSize(5))
    assert relaxed.info.rate_limiter_info.min_size_to_sample == 5


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"max_size": 0}, ValueError),
        ({"name": ""}, ValueError),
        ({"signature": {"x": 1}}, ValueError),
    ],
)
def test_invalid_tables_are_refused(options, error):
    with pytest.raises(error):
        _table(**options)


def test_invalid_servers_are_refused():
    with pytest.raises(ValueError):
        reverb.Server([])
    with pytest.raises(ValueError):
        reverb.Server([_table(), _table()])


@pytest.mark.parametrize(
    "make",
    [
        lambda: limiters.MinSize(0),
        lambda: limiters.SampleToInsertRatio(0.0, 1, 1.0),
        lambda: limiters.SampleToInsertRatio(1.0, 0, 1.0),
        lambda: limiters.SampleToInsertRatio(4.0, 1, (1.0, 2.0)),
    ],
)
def test_invalid_limiters_are_refused(make):
    with pytest.raises(ValueError):
        make()


def test_servers_report_their_port_and_stop():
    server = reverb.Server([_table()], port=None)
    client = server.localhost_client()
    assert client.server_address == f"localhost:{server.port}"
    assert client.server_info(timeout=5)["table"].current_size == 0
    server.stop()
    server.stop()


def test_checkpoints(tmp_path):
    checkpointer = lambda: reverb.checkpointers.DefaultCheckpointer(path=str(tmp_path))  # noqa: E731
    server = reverb.Server([_table()], checkpointer=checkpointer())
    client = server.localhost_client()
    for number in range(3):
        client.insert([np.int64(number)], {"table": number})
    first, path = client.checkpoint(), client.checkpoint()
    assert os.path.dirname(path) == str(tmp_path)
    assert os.listdir(tmp_path) == [os.path.basename(path)] and first != path
    assert "DONE" in os.listdir(path)
    server.stop()
    server = reverb.Server([_table()], checkpointer=checkpointer())
    client = server.localhost_client()
    assert client.server_info(timeout=5)["table"].current_size == 3
    (sample,) = client.sample("table", 1, emit_timesteps=False)
    assert (sample.data[0].item(), sample.info.priority) == (0, 0.0)
    server.stop()
