"""Datasets in TensorFlow 1 programs: iterators in graphs and sessions, and distribution strategies."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest
import reverb
import tensorflow as tf

_SIGNATURE = {"x": tf.TensorSpec([1, 2], tf.float32), "n": tf.TensorSpec([1], tf.int64)}
_ITEMS = 20

tf1 = tf.compat.v1


@pytest.fixture
def client(serve):
    limiter = reverb.rate_limiters.MinSize(1)
    uniform = reverb.Table(
        "uniform", reverb.selectors.Uniform(), reverb.selectors.Fifo(), 100, limiter, signature=_SIGNATURE
    )
    client = serve(uniform, reverb.Table.queue("queue", 100, signature=_SIGNATURE))
    for number in range(_ITEMS):
        client.insert({"x": np.full(2, number, np.float32), "n": np.int64(number)}, {"uniform": 1.0})
    return client


def _dataset(client, table="uniform", **options):
    return reverb.TrajectoryDataset.from_table_signature(client.server_address, table, 5, **options)


_VARIANTS = {
    "itself": (lambda dataset: dataset.map(lambda sample: sample.data["n"]), (1,)),
    "batch": (lambda dataset: dataset.batch(3).map(lambda sample: sample.data["n"]), (3, 1)),
    "map": (lambda dataset: dataset.map(lambda sample: sample.data["n"]).batch(2).prefetch(1), (2, 1)),
    "repeat": (lambda dataset: dataset.map(lambda sample: sample.data["x"]).repeat().batch(4), (4, 1, 2)),
}


def _initializable(session, dataset):
    iterator = dataset.make_initializable_iterator()
    session.run(iterator.initializer)
    return iterator.get_next()


def _initializable_by_function(session, dataset):
    iterator = tf1.data.make_initializable_iterator(dataset)
    session.run(iterator.initializer)
    return iterator.get_next()


def _structured(session, dataset):
    types, shapes = tf1.data.get_output_types(dataset), tf1.data.get_output_shapes(dataset)
    iterator = tf1.data.Iterator.from_structure(types, shapes)
    session.run(iterator.make_initializer(dataset))
    return iterator.get_next()


_ITERATORS = {
    "initializable": _initializable,
    "initializable by function": _initializable_by_function,
    "from structure": _structured,
    "one shot": lambda _, dataset: dataset.make_one_shot_iterator().get_next(),
    "one shot by function": lambda _, dataset: tf1.data.make_one_shot_iterator(dataset).get_next(),
}


@pytest.mark.parametrize(("change", "shape"), _VARIANTS.values(), ids=_VARIANTS)
@pytest.mark.parametrize("next_of", _ITERATORS.values(), ids=_ITERATORS)
def test_iterators_in_a_session(client, next_of, change, shape):
    with tf.Graph().as_default(), tf1.Session() as session:
        element = next_of(session, change(_dataset(client)))
        for _ in range(3):
            values = session.run(element)
            assert values.shape == shape
            assert set(values.ravel().tolist()) <= set(range(_ITEMS))


@pytest.mark.parametrize("next_of", _ITERATORS.values(), ids=_ITERATORS)
def test_samples_in_a_session(client, next_of):
    with tf.Graph().as_default(), tf1.Session() as session:
        sample = session.run(next_of(session, _dataset(client)))
    assert isinstance(sample, reverb.ReplaySample)
    assert sample.data["x"].tolist() == [[sample.data["n"][0]] * 2]
    assert sample.info.table_size == _ITEMS


def test_time_steps_in_a_session(serve):
    signature = {"n": tf.TensorSpec([], tf.int64)}
    client = serve(reverb.Table.queue("queue", 100, signature=signature))
    client.insert({"n": np.int64(7)}, {"queue": 1.0})
    with tf.Graph().as_default(), tf1.Session() as session:
        dataset = reverb.TimestepDataset.from_table_signature(client.server_address, "queue", 5)
        assert session.run(_initializable(session, dataset)).data["n"] == 7


def test_eager_iterators(client):
    assert next(_dataset(client).make_one_shot_iterator()).data["n"].shape == [1]
    assert next(_dataset(client).batch(3).make_one_shot_iterator()).data["n"].shape == [3, 1]
    assert next(tf1.data.make_one_shot_iterator(_dataset(client).batch(3))).data["n"].shape == [3, 1]


def test_classes(client):
    dataset = _dataset(client)
    assert isinstance(dataset, tf.data.Dataset)
    assert isinstance(dataset, tf1.data.Dataset)
    assert dataset.output_types.data == {"x": tf.float32, "n": tf.int64}
    assert dataset.output_shapes.data["x"] == tf.TensorShape([1, 2])
    assert next(iter(dataset.filter_with_legacy_function(lambda _: True))).data["n"].shape == [1]


def test_the_address_may_be_fed(client):
    dtypes = tf.nest.map_structure(lambda spec: spec.dtype, _SIGNATURE)
    shapes = tf.nest.map_structure(lambda spec: spec.shape, _SIGNATURE)
    with tf.Graph().as_default(), tf1.Session() as session:
        # TensorFlow 1's name for a value that is fed when the graph runs.
        address = tf1.placeholder(tf.string, [])
        dataset = reverb.TrajectoryDataset(address, tf.constant("uniform"), dtypes, shapes, 5)
        iterator = dataset.make_initializable_iterator()
        session.run(iterator.initializer, {address: client.server_address})
        assert session.run(iterator.get_next()).data["n"].shape == (1,)


def test_an_ended_iterator_can_be_reinitialized(client):
    with tf.Graph().as_default(), tf1.Session() as session:
        iterator = _dataset(client, max_samples=3).make_initializable_iterator()
        element = iterator.get_next()
        for _ in range(2):
            session.run(iterator.initializer)
            for _ in range(3):
                session.run(element)
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run(element)


def test_unknown_tables(client):
    with tf.Graph().as_default(), tf1.Session() as session:
        dataset = reverb.TrajectoryDataset(client.server_address, "nowhere", tf.float32, tf.TensorShape([]), 5)
        with pytest.raises(tf.errors.NotFoundError, match="Priority table nowhere was not found"):
            session.run(_initializable(session, dataset))


def test_a_session_that_closes_while_a_read_waits(client):
    """The read ends with an error, and items inserted afterwards stay in the table."""
    with tf.Graph().as_default():
        iterator = _dataset(client, "queue").make_initializable_iterator()
        element = iterator.get_next()
        session = tf1.Session()
        session.run(iterator.initializer)
    outcome = []

    def read():
        try:
            outcome.append(session.run(element))
        except tf.errors.OpError as error:
            outcome.append(error)

    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    # This must happen while the read waits, which cannot be detected.
    reading.join(0.5)
    session.close()
    reading.join(30)
    assert not reading.is_alive()
    assert isinstance(outcome[0], tf.errors.CancelledError)
    del iterator, element
    client.insert({"x": np.zeros(2, np.float32), "n": np.int64(1)}, {"queue": 1.0})
    assert client.server_info(timeout=5)["queue"].current_size == 1
    assert next(client.sample("queue", emit_timesteps=False)).data[0].tolist() == [1]


_STRATEGIES = {
    "mirrored": lambda: tf.distribute.MirroredStrategy(["/cpu:0"]),
    "one device": lambda: tf.distribute.OneDeviceStrategy("/cpu:0"),
    "default": tf.distribute.get_strategy,
}

strategies = pytest.mark.parametrize("strategy", _STRATEGIES.values(), ids=_STRATEGIES)


@strategies
@pytest.mark.parametrize("batch_size", [None, 4])
def test_distributed_datasets(client, strategy, batch_size):
    dataset = _dataset(client)
    dataset = dataset if batch_size is None else dataset.batch(batch_size)
    sample = next(iter(strategy().experimental_distribute_dataset(dataset)))
    assert sample.data["n"].shape == ([1] if batch_size is None else [batch_size, 1])


@strategies
def test_datasets_distributed_by_a_function(client, strategy):
    strategy = strategy()
    iterator = iter(strategy.distribute_datasets_from_function(lambda _: _dataset(client).batch(4)))

    @tf.function
    def step():
        return strategy.run(lambda sample: tf.reduce_max(sample.data["n"]), args=(next(iterator),))

    assert 0 <= step().numpy() < _ITEMS


# The devices of a process must be known before its first operation. The iterators must be gone before the interpreter
# is finalized: TensorFlow may otherwise wait forever for threads that need the interpreter.
_TWO_REPLICAS = """
import sys
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
import reverb


def main(address):
    dataset = lambda _=None: reverb.TrajectoryDataset.from_table_signature(address, "uniform", 5).batch(4)
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    rows = lambda sample: tf.shape(sample.data["n"])[0]
    for distributed in (
        strategy.experimental_distribute_dataset(dataset()),
        strategy.distribute_datasets_from_function(dataset),
    ):
        iterator = iter(distributed)
        print(*(int(n) for n in strategy.experimental_local_results(strategy.run(rows, args=(next(iterator),)))))
        del iterator


main(sys.argv[1])
"""


def test_two_replicas(client):
    program = subprocess.run(
        [sys.executable, "-c", _TWO_REPLICAS, client.server_address], capture_output=True, text=True, timeout=100
    )
    assert program.stdout.splitlines() == ["2 2", "4 4"], program.stderr
