"""Calls that dm-reverb accepts or answers in its own way."""

from collections.abc import Iterator

import pytest
import reverb
from reverb import pybind, trajectory_writer


@pytest.fixture
def client() -> Iterator[reverb.Client]:
    server = reverb.Server([reverb.Table.queue(b"table", 10)])
    yield server.localhost_client()
    server.stop()


def test_names_can_be_bytes(client: reverb.Client) -> None:
    client.insert(1, {b"table": 1.0})
    with client.trajectory_writer(1) as writer:
        writer.append(2)
        writer.create_item(b"table", 1.0, writer.history[:])
    with client.writer(1) as old_writer:
        old_writer.append(3)
        old_writer.create_item(b"table", 1, 1.0)
    assert [step.data for (step,) in client.sample(b"table", 3)] == [[1], [2], [3]]
    client.mutate_priorities(b"table", updates={1: 2.0})
    client.reset(b"table")
    assert client.server_info()["table"].current_size == 0


def test_numbers_can_be_bools() -> None:
    limiters, fifo = reverb.rate_limiters, reverb.selectors.Fifo()
    for table in (
        reverb.Table("table", fifo, fifo, True, limiters.MinSize(True), max_times_sampled=True),
        reverb.Table.queue("table", True),
        reverb.Table.stack("table", True),
    ):
        assert (table.info.max_size, table.info.max_times_sampled) == (1, 1)
    for limiter in (
        limiters.MinSize(True),
        limiters.SampleToInsertRatio(1.0, True, 5.0),
        limiters.RateLimiter(1.0, True, 0.0, 5.0),
        pybind.RateLimiter(1.0, True, 0.0, 5.0),
    ):
        assert limiter.min_size_to_sample == 1


@pytest.mark.parametrize("table", ["table", "unknown"])
def test_minus_one_samples_are_none(client: reverb.Client, table: str) -> None:
    assert list(client.sample(table, -1)) == []


@pytest.mark.parametrize("data", [{}, []])
@pytest.mark.parametrize("kind", [RuntimeError, ValueError])
def test_inserts_need_data(client: reverb.Client, data: object, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="^Error when confirming that all items written to table"):
        client.insert(data, {"table": 1.0})


def test_the_compiled_sampler_ends_with_an_error(client: reverb.Client) -> None:
    client.insert(1, {"table": 1.0})
    sampler = pybind.Client(client.server_address).NewSampler("table", 1, 1)
    sampler.GetNextTrajectory()
    for read in (sampler.GetNextTrajectory, sampler.GetNextTimestep):
        with pytest.raises(RuntimeError, match="^`max_samples` already returned"):
            read()


def test_columns_of_the_history_have_the_known_class(client: reverb.Client) -> None:
    writer = client.trajectory_writer(1)
    writer.append([1])
    assert isinstance(writer.history[0], trajectory_writer._ColumnHistory)
    assert not isinstance(writer.history[0][:], trajectory_writer._ColumnHistory)


def test_functions_of_structures() -> None:
    union = trajectory_writer._tree_union({"a": 1, "c": (1, 2)}, {"b": 2, "c": (1, 2, 3)})
    assert union == {"a": 1, "b": 2, "c": (1, 2, 3)}
    assert trajectory_writer._tree_filter({"a": 1, "b": 2}, [(("b",), None), (("c",), None)]) == [2, None]
    assert not trajectory_writer._is_named_tuple((1, 2))


@pytest.mark.tensorflow
def test_a_tensorflow_client_may_insert_into_no_table(client: reverb.Client) -> None:
    import tensorflow as tf

    inserter = reverb.TFClient(client.server_address)
    assert inserter.insert([tf.constant(1)], tf.constant([], tf.string), tf.constant([], tf.float64)) is None
    assert client.server_info()["table"].current_size == 0
