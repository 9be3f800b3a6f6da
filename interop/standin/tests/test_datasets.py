"""The TensorFlow datasets: elements, ends, and refused arguments."""

from __future__ import annotations

import collections
import concurrent.futures
import threading

import numpy as np
import pytest
import reverb
import tensorflow as tf

# In a graph, TensorFlow only distinguishes invalid arguments, which include unknown tables, from other errors of Python
# code.
_NOT_FOUND = (tf.errors.NotFoundError, tf.errors.InvalidArgumentError)

_STEP = {"a": tf.TensorSpec([3], tf.float32), "b": [tf.TensorSpec([], tf.int64), tf.TensorSpec([], tf.string)]}


def _queue(name="queue", signature=None):
    return reverb.Table.queue(name, 100, signature=signature)


def _uniform(signature=None):
    return reverb.Table(
        "uniform",
        reverb.selectors.Uniform(),
        reverb.selectors.Fifo(),
        1000,
        reverb.rate_limiters.MinSize(1),
        signature=signature,
    )


def _with_rows(spec, rows):
    return tf.nest.map_structure(lambda leaf: tf.TensorSpec([rows, *leaf.shape], leaf.dtype), spec)


def _step(number):
    return {"a": np.full(3, number, np.float32), "b": [np.int64(number), b"step %d" % number]}


def _write(client, table, lengths, first=0):
    """Inserts an item for each length, each with its own consecutive steps."""
    with client.trajectory_writer(max(lengths)) as writer:
        number = first
        for length in lengths:
            for _ in range(length):
                writer.append(_step(number))
                number += 1
            trajectory = tf.nest.map_structure(lambda column, length=length: column[-length:], writer.history)
            writer.create_item(table, 1.0, trajectory)
        writer.end_episode()


def _numbers(dataset):
    return [sample.data["b"][0].numpy().tolist() for sample in dataset]


@pytest.fixture(params=["constructor", "signature"])
def trajectories(request):
    """Creates a dataset of whole items with any number of rows, in both ways."""

    def make(client, table="queue", **options):
        options = {"max_in_flight_samples_per_worker": 5, **options}
        if request.param == "signature":
            return reverb.TrajectoryDataset.from_table_signature(client.server_address, table, **options)
        spec = _with_rows(_STEP, None)
        dtypes, shapes = (tf.nest.map_structure(lambda leaf: getattr(leaf, name), spec) for name in ("dtype", "shape"))
        return reverb.TrajectoryDataset(client.server_address, table, dtypes, shapes, **options)

    return make


def test_elements_of_whole_items(serve, trajectories):
    client = serve(_queue(signature=_with_rows(_STEP, None)))
    dataset = trajectories(client, max_samples=3)
    assert isinstance(dataset, tf.data.Dataset)
    scalars = [(tf.uint64,), (tf.float64,), (tf.int64,), (tf.float64,), (tf.int32,)]
    info = reverb.SampleInfo(*(tf.TensorSpec([], dtype) for (dtype,) in scalars))
    rows = {
        "a": tf.TensorSpec([None, 3], tf.float32),
        "b": (tf.TensorSpec([None], tf.int64), tf.TensorSpec([None], tf.string)),
    }
    assert dataset.element_spec == reverb.ReplaySample(info, rows)
    _write(client, "queue", [2, 1, 4])
    samples = list(dataset)
    assert [sample.data["b"][0].numpy().tolist() for sample in samples] == [[0, 1], [2], [3, 4, 5, 6]]
    assert samples[2].data["b"][1].numpy().tolist() == [b"step 3", b"step 4", b"step 5", b"step 6"]
    np.testing.assert_array_equal(samples[0].data["a"], [[0, 0, 0], [1, 1, 1]])
    assert all(isinstance(sample, reverb.ReplaySample) for sample in samples)
    assert [sample.info.times_sampled.numpy() for sample in samples] == [1, 1, 1]
    assert len({sample.info.key.numpy() for sample in samples}) == 3


def test_columns_of_one_cell_are_squeezed(serve):
    client = serve(_queue(signature=_STEP))
    with client.trajectory_writer(1) as writer:
        writer.append(_step(7))
        writer.create_item("queue", 0.5, tf.nest.map_structure(lambda column: column[-1], writer.history))
    (sample,) = reverb.TrajectoryDataset.from_table_signature(client.server_address, "queue", 1, max_samples=1)
    assert sample.data["a"].shape == [3]
    assert sample.data["b"][1].numpy() == b"step 7"
    assert sample.info.priority.numpy() == 0.5


def test_steps_one_by_one(serve):
    client = serve(_queue(signature=_STEP))
    dataset = reverb.TimestepDataset.from_table_signature(client.server_address, "queue", 5, max_samples=2)
    data = dataset.element_spec.data
    assert data == {"a": tf.TensorSpec([3], tf.float32), "b": (tf.TensorSpec([], tf.int64), tf.TensorSpec([], tf.string))}
    with client.writer(3) as writer:
        for number in range(3):
            writer.append(_step(number))
        writer.create_item("queue", 3, 1.0)
        writer.create_item("queue", 2, 1.0)
    keys = collections.Counter()
    numbers = []
    for sample in dataset:
        numbers.append(int(sample.data["b"][0]))
        keys[sample.info.key.numpy()] += 1
    # Samples are counted in items.
    assert numbers == [0, 1, 2, 1, 2]
    assert list(keys.values()) == [3, 2]


def test_the_rate_limiter_timeout_ends_the_dataset(serve, trajectories):
    client = serve(_queue(signature=_with_rows(_STEP, None)))
    dataset = trajectories(client, rate_limiter_timeout_ms=100)
    assert _numbers(dataset) == []
    _write(client, "queue", [1, 2])
    assert _numbers(dataset) == [[0], [1, 2]]


def test_an_endless_dataset_waits_for_items(serve, trajectories):
    client = serve(_queue(signature=_with_rows(_STEP, None)))
    iterator = iter(trajectories(client))
    writing = threading.Timer(0.3, _write, (client, "queue", [2]))
    writing.start()
    assert next(iterator).data["b"][0].numpy().tolist() == [0, 1]
    writing.join()


def test_each_iterator_samples_again(serve, trajectories):
    client = serve(_uniform(_with_rows(_STEP, None)))
    _write(client, "uniform", [1])
    dataset = trajectories(client, "uniform", max_samples=4)
    assert _numbers(dataset) == [[0]] * 4
    assert _numbers(dataset) == [[0]] * 4


def test_several_workers(serve, trajectories):
    client = serve(_uniform(_with_rows(_STEP, None)))
    _write(client, "uniform", [1, 1, 1, 1, 1])
    dataset = trajectories(client, "uniform", num_workers_per_iterator=4, max_samples_per_stream=3, max_samples=200)
    counts = collections.Counter(number for (number,) in _numbers(dataset))
    assert sum(counts.values()) == 200
    assert sorted(counts) == [0, 1, 2, 3, 4]


def test_in_an_interleave(serve):
    client = serve(_uniform(_with_rows(_STEP, 2)))
    _write(client, "uniform", [2, 2, 2])

    def make(_):
        return reverb.TrajectoryDataset.from_table_signature(client.server_address, "uniform", 10).map(
            lambda sample: sample.data["b"][0]
        )

    dataset = tf.data.Dataset.range(3).interleave(make, cycle_length=3, num_parallel_calls=3, deterministic=False)
    batch = next(iter(dataset.batch(60).prefetch(1))).numpy()
    assert batch.shape == (60, 2)
    assert {tuple(rows) for rows in batch.tolist()} == {(0, 1), (2, 3), (4, 5)}


def test_in_a_graph_function(serve, trajectories):
    client = serve(_queue(signature=_with_rows(_STEP, None)))
    _write(client, "queue", [1, 2, 3])
    dataset = trajectories(client, max_samples=3)

    @tf.function
    def total():
        result = tf.zeros([], tf.int64)
        for sample in dataset:
            result += tf.reduce_sum(sample.data["b"][0])
        return result

    assert total().numpy() == sum(range(6))


def test_a_dataset_created_in_a_graph_function(serve):
    client = serve(_uniform(_with_rows(_STEP, 1)))
    _write(client, "uniform", [1])

    @tf.function
    def first():
        dataset = reverb.TrajectoryDataset.from_table_signature(client.server_address, "uniform", 1, max_samples=1)
        result = tf.zeros([1, 3])
        for sample in dataset:
            result = sample.data["a"] + 5
        return result

    assert first().numpy().tolist() == [[5, 5, 5]]


def test_the_address_may_be_a_tensor(serve):
    client = serve(_queue())
    client.insert(np.float32(4), {"queue": 1.0})
    dataset = reverb.TrajectoryDataset(
        tf.constant(client.server_address), tf.constant("queue"), tf.float32, tf.TensorShape([1]), 1, max_samples=1
    )
    assert [sample.data.numpy().tolist() for sample in dataset] == [[4]]


def test_in_flight_samples_bound_what_is_fetched(serve, trajectories):
    client = serve(_queue(signature=_with_rows(_STEP, None)))
    _write(client, "queue", [1] * 20)
    iterator = iter(trajectories(client, max_in_flight_samples_per_worker=3))
    assert next(iterator).data["b"][0].numpy().tolist() == [0]
    assert client.server_info(timeout=5)["queue"].current_size >= 20 - 2 * 3 - 1


@pytest.mark.parametrize("dataset", ["TrajectoryDataset", "TimestepDataset"])
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_in_flight_samples_per_worker", 0),
        ("max_in_flight_samples_per_worker", -1),
        ("num_workers_per_iterator", 0),
        ("num_workers_per_iterator", -2),
        ("max_samples_per_stream", 0),
        ("max_samples_per_stream", -2),
        ("rate_limiter_timeout_ms", -2),
        ("max_samples", 0),
        ("max_samples", -2),
    ],
)
def test_options_out_of_range(dataset, option, value):
    options = {"max_in_flight_samples_per_worker": 1, option: value}
    with pytest.raises(ValueError, match=option) as raised:
        getattr(reverb, dataset)("localhost:1", "table", tf.float32, tf.TensorShape([]), **options)
    assert str(value) in str(raised.value)
    if option == "rate_limiter_timeout_ms":
        assert "integer >= -1" in str(raised.value)


@pytest.mark.parametrize("dataset", ["TrajectoryDataset", "TimestepDataset"])
@pytest.mark.parametrize(
    ("dtypes", "shapes", "error"),
    [
        ({"a": tf.float32}, tf.TensorShape([]), ValueError),
        ([tf.float32], [tf.TensorShape([]), tf.TensorShape([])], ValueError),
        ({"a": tf.float32}, {"b": tf.TensorShape([])}, ValueError),
        ({"a": tf.float32}, [tf.TensorShape([])], TypeError),
    ],
    ids=["leaf", "number", "names", "kind"],
)
def test_dtypes_and_shapes_of_different_structures(dataset, dtypes, shapes, error):
    with pytest.raises(error):
        # dm-reverb compares the structures completely only here.
        _ = getattr(reverb, dataset)("localhost:1", "table", dtypes, shapes, 1).element_spec


@pytest.mark.parametrize("dataset", ["TrajectoryDataset", "TimestepDataset"])
@pytest.mark.parametrize(("of_dtypes", "of_shapes"), [(list, tuple), (tuple, list), (list, list)])
def test_lists_and_tuples_are_one_structure(dataset, of_dtypes, of_shapes):
    dtypes, shapes = of_dtypes([tf.float32, tf.int64]), of_shapes([tf.TensorShape([2]), tf.TensorShape([])])
    made = getattr(reverb, dataset)("localhost:1", "table", {"a": dtypes}, {"a": shapes}, 1)
    assert made.element_spec.data == {"a": (tf.TensorSpec([2], tf.float32), tf.TensorSpec([], tf.int64))}


@pytest.mark.parametrize("dataset", ["TrajectoryDataset", "TimestepDataset"])
def test_tables_without_a_signature(serve, dataset):
    client = serve(_queue("plain"), _queue("other"))
    make = getattr(reverb, dataset).from_table_signature
    with pytest.raises(ValueError, match="plain") as raised:
        make(client.server_address, "plain", 1)
    assert client.server_address in str(raised.value)
    with pytest.raises(ValueError, match="nowhere") as raised:
        make(client.server_address, "nowhere", 1)
    assert client.server_address in str(raised.value)
    assert str(raised.value).index("other") < str(raised.value).rindex("plain")


def _stopped_server():
    """Returns the port of a server of this process that has stopped."""
    server = reverb.Server([_queue()])
    port = server.port
    server.stop()
    return port


@pytest.mark.parametrize("dataset", ["TrajectoryDataset", "TimestepDataset"])
@pytest.mark.parametrize("port", [lambda: 1, _stopped_server], ids=["no server", "stopped"])
def test_an_unresponsive_server_exceeds_the_deadline(dataset, port):
    with pytest.raises(reverb.DeadlineExceededError):
        getattr(reverb, dataset).from_table_signature(
            f"localhost:{port()}", "table", 1, get_signature_timeout_secs=1
        )


def test_an_iterator_waits_for_a_server_that_starts_again():
    port = _stopped_server()
    dataset = reverb.TrajectoryDataset(f"localhost:{port}", "queue", tf.float32, _SHAPE([1]), 1)
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        first = threads.submit(lambda: next(iter(dataset)))
        with pytest.raises(TimeoutError):
            first.result(timeout=2)
        server = reverb.Server([_queue()], port)
        try:
            reverb.Client(f"localhost:{port}").insert(np.float32(5), {"queue": 1.0})
            assert first.result(timeout=60).data.numpy() == [5]
        finally:
            server.stop()


def _first(client, table, dtypes, shapes, dataset="TrajectoryDataset"):
    make = getattr(reverb, dataset)
    return next(iter(make(client.server_address, table, dtypes, shapes, 1, rate_limiter_timeout_ms=2000)))


_SHAPE = tf.TensorShape
_WRONG_REQUESTS = {
    "number": ([tf.float32], [_SHAPE([2])], ["1", "2"]),
    "dtype": ([tf.float32, tf.int32], [_SHAPE([2]), _SHAPE([])], ["(int32, [])", "(int64, [])"]),
    "shape": ([tf.float32, tf.int64], [_SHAPE([2]), _SHAPE([3])], ["(int64, [3])", "(int64, [])"]),
}


@pytest.mark.parametrize(("dtypes", "shapes", "evidence"), _WRONG_REQUESTS.values(), ids=_WRONG_REQUESTS)
@pytest.mark.parametrize("dataset", ["TrajectoryDataset", "TimestepDataset"])
def test_requests_that_violate_the_signature_are_refused(serve, dataset, dtypes, shapes, evidence):
    client = serve(_queue(signature=[tf.TensorSpec([2], tf.float32), tf.TensorSpec([], tf.int64, "number")]))
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        _first(client, "queue", dtypes, shapes, dataset)
    text = raised.value.message
    for part in ["'queue'", *evidence, "number"]:
        assert part in text
        text = text[text.index(part) + len(part) :] if part != evidence[-1] else text


@pytest.mark.parametrize("dataset", ["TrajectoryDataset", "TimestepDataset"])
@pytest.mark.parametrize(
    ("dtypes", "shapes", "wanted"),
    [
        ([tf.float64, tf.int64], [_SHAPE(None), _SHAPE(None)], "(double, <unknown>)"),
        ([tf.float32, tf.int64], [_SHAPE([9, 9, 9]), _SHAPE(None)], "(float, [9,9,9])"),
    ],
)
def test_data_that_differs_from_the_request_is_an_error(serve, dataset, dtypes, shapes, wanted):
    client = serve(_queue())
    client.insert([np.zeros(2, np.float32), np.int64(1)], {"queue": 1.0})
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        _first(client, "queue", dtypes, shapes, dataset)
    text = raised.value.message
    have = "(float, [2])" if dataset == "TimestepDataset" else "(float, [1,2])"
    assert text.index("'queue'") < text.index(wanted) < text.index(have)


def test_unknown_tables(serve):
    client = serve(_queue())
    with pytest.raises(_NOT_FOUND, match="nowhere"):
        _first(client, "nowhere", tf.float32, _SHAPE([]))


def test_a_stopping_server_ends_its_iterators(is_standin):
    if not is_standin:
        pytest.skip("dm-reverb's samplers wait for ever for a stopped server of their own process")
    server = reverb.Server([_queue()])
    address = f"localhost:{server.port}"
    dataset = reverb.TrajectoryDataset(address, "queue", tf.float32, _SHAPE([1]), 1)
    reverb.Client(address).insert(np.float32(1), {"queue": 1.0})
    iterator = iter(dataset)
    next(iterator)
    stopping = threading.Timer(0.2, server.stop)
    stopping.start()
    with pytest.raises(tf.errors.OpError):
        next(iterator)
    stopping.join()
