"""`TFClient`, eagerly and in graph functions."""

from __future__ import annotations

import numpy as np
import pytest
import reverb
import tensorflow as tf

_NOT_FOUND = (tf.errors.NotFoundError, tf.errors.InvalidArgumentError)


@pytest.fixture
def client(serve):
    def table(name):
        limiter = reverb.rate_limiters.MinSize(1)
        return reverb.Table(name, reverb.selectors.Prioritized(1.0), reverb.selectors.Fifo(), 100, limiter)

    return serve(table("first"), table("second"))


@pytest.fixture
def tf_client(client):
    return reverb.TFClient(client.server_address)


def _run(in_graph, function, *arguments):
    return tf.function(function)(*arguments) if in_graph else function(*arguments)


in_both = pytest.mark.parametrize("in_graph", [False, True], ids=["eager", "graph"])


def test_address(tf_client, client):
    assert tf_client.server_address == client.server_address


@in_both
def test_sample(client, tf_client, in_graph):
    client.insert([np.arange(3, dtype=np.float32), np.int64(5), "text"], {"first": 2.5})
    dtypes = {"a": tf.float32, "b": (tf.int64, tf.string)}
    sample = _run(in_graph, lambda: tf_client.sample("first", dtypes))
    assert isinstance(sample, reverb.ReplaySample)
    np.testing.assert_array_equal(sample.data["a"], [0, 1, 2])
    number, text = sample.data["b"]
    assert (number.numpy(), text.numpy()) == (5, b"text")
    info = sample.info
    assert [value.dtype for value in info] == [tf.uint64, tf.float64, tf.int64, tf.float64, tf.int32]
    assert [value.numpy() for value in info[1:]] == [1.0, 1, 2.5, 1]
    (again,) = client.sample("first", 1, emit_timesteps=False)
    assert info.key.numpy() == again.info.key


def test_sample_takes_the_first_step(client, tf_client):
    with client.writer(3) as writer:
        for number in range(3):
            writer.append(np.int32(number))
        writer.create_item("first", 3, 1.0)
    assert tf_client.sample("first", tf.int32).data.numpy() == 0


@in_both
def test_insert(client, tf_client, in_graph):
    def insert(numbers, text):
        tf_client.insert(
            [numbers, text], tf.constant(["first", "second"]), tf.constant([1.5, 2.5], tf.float64)
        )

    _run(in_graph, insert, tf.constant([[1, 2], [3, 4]], tf.uint8), tf.constant(b"text"))
    for table, priority in [("first", 1.5), ("second", 2.5)]:
        (sample,) = client.sample(table, 1, emit_timesteps=False)
        assert sample.info.priority == priority
        np.testing.assert_array_equal(sample.data[0], [[[1, 2], [3, 4]]])
        assert sample.data[0].dtype == np.uint8
        assert sample.data[1].tolist() == [b"text"]


@in_both
def test_a_table_that_is_named_twice_gets_two_items(client, tf_client, in_graph):
    def insert(number):
        tables = tf.constant(["first", "second", "first", "first"])
        tf_client.insert([number], tables, tf.constant([1.0, 2.0, 3.0, 4.0], tf.float64))

    _run(in_graph, insert, tf.constant(7))
    sizes = {table: info.current_size for table, info in client.server_info().items()}
    assert sizes == {"first": 3, "second": 1}
    drawn = client.sample("first", 200, emit_timesteps=False)
    assert {sample.info.priority for sample in drawn} == {1.0, 3.0, 4.0}


@in_both
def test_update_priorities(client, tf_client, in_graph):
    for number in range(4):
        client.insert(np.int32(number), {"first": 1.0})
    keys = {}
    for sample in client.sample("first", 200, emit_timesteps=False):
        keys[sample.data[0].item()] = sample.info.key
    assert len(keys) == 4
    update = lambda keys, priorities: tf_client.update_priorities("first", keys, priorities) and None  # noqa: E731
    new = [0.0, 3.0, 0.0]
    _run(in_graph, update, tf.constant([keys[0], keys[1], keys[2]], tf.uint64), tf.constant(new, tf.float64))
    seen = {sample.data[0].item(): sample.info for sample in client.sample("first", 100, emit_timesteps=False)}
    assert {number: info.priority for number, info in seen.items()} == {1: 3.0, 3: 1.0}
    assert seen[1].probability == pytest.approx(0.75)


def test_unknown_keys_are_skipped(client, tf_client):
    for number in range(2):
        client.insert(np.int32(number), {"first": 1.0})
    keys = sorted({sample.info.key for sample in client.sample("first", 100, emit_timesteps=False)})
    unknown = next(key for key in range(3) if key not in keys)
    tf_client.update_priorities("first", tf.constant([unknown, keys[0]], tf.uint64), tf.constant([2, 3], tf.float64))
    seen = {sample.info.key: sample.info.priority for sample in client.sample("first", 100, emit_timesteps=False)}
    assert seen == {keys[0]: 3.0, keys[1]: 1.0}


@pytest.mark.parametrize(
    ("tables", "priorities"),
    [
        (tf.constant("first"), tf.constant([1.0], tf.float64)),
        (tf.constant([1]), tf.constant([1.0], tf.float64)),
        (tf.constant(["first"]), tf.constant([1.0], tf.float32)),
        (tf.constant(["first"]), tf.constant(1.0, tf.float64)),
        (tf.constant(["first", "second"]), tf.constant([1.0], tf.float64)),
    ],
    ids=["rank of tables", "type of tables", "type of priorities", "rank of priorities", "different lengths"],
)
def test_insert_checks_its_arguments(tf_client, tables, priorities):
    with pytest.raises(ValueError, match="tables|priorities"):
        tf_client.insert([tf.zeros([1])], tables, priorities)


def test_insert_into_an_unknown_table(tf_client):
    with pytest.raises(tf.errors.InvalidArgumentError, match="nowhere"):
        tf_client.insert([tf.zeros([1])], tf.constant(["nowhere"]), tf.constant([1.0], tf.float64))


@pytest.mark.parametrize(
    ("keys", "priorities"),
    [([1, 2], [1.0]), (1, 1.0), ([[1]], [[1.0]])],
    ids=["different lengths", "scalars", "rank 2"],
)
def test_update_priorities_checks_its_arguments(tf_client, keys, priorities):
    with pytest.raises(tf.errors.InvalidArgumentError, match="keys.*priorities"):
        tf_client.update_priorities("first", tf.constant(keys, tf.uint64), tf.constant(priorities, tf.float64))


@in_both
def test_unknown_tables(tf_client, in_graph):
    with pytest.raises(_NOT_FOUND, match="nowhere"):
        _run(in_graph, lambda: tf_client.sample("nowhere", [tf.float32]))
    with pytest.raises(_NOT_FOUND, match="nowhere"):
        tf_client.update_priorities("nowhere", tf.constant([1], tf.uint64), tf.constant([1.0], tf.float64))


@in_both
def test_sample_with_the_wrong_number_of_columns(client, tf_client, in_graph):
    client.insert([np.float32(1), np.float32(2)], {"first": 1.0})
    with pytest.raises(tf.errors.InvalidArgumentError):
        _run(in_graph, lambda: tf_client.sample("first", [tf.float32]))
