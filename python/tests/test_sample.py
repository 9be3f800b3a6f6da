"""`Client.sample`: sequential samples."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator
from typing import Any

import numpy as np
import pytest
from conftest import PATIENCE_S, uniform_table

import relive

Connect = Callable[..., relive.Client]


def write(client: relive.Client, count: int, table: str = "table", length: int = 1) -> list[int]:
    keys = []
    with client.trajectory_writer(length) as writer:
        for step in range(count + length - 1):
            writer.append({"b": np.float32(step), "a": np.full(2, step, np.int32)})
            if step >= length - 1:
                keys.append(writer.create_item(table, 1.0, {name: column[-length:] for name, column in writer.history.items()}))
    return keys


def test_trajectories(connect: Connect) -> None:
    client = connect()
    (key,) = write(client, 1, length=3)
    (sample,) = client.sample("table", 1, emit_timesteps=False)
    assert isinstance(sample, relive.ReplaySample)
    assert sample.info == relive.SampleInfo(key, 1.0, 1, 1.0, 1)
    assert [type(value) for value in sample.info] == [int, float, int, float, int]
    a, b = sample.data
    np.testing.assert_array_equal(a, [[0, 0], [1, 1], [2, 2]])
    np.testing.assert_array_equal(b, np.array([0, 1, 2], np.float32))
    assert b.dtype == np.float32


def test_timesteps(connect: Connect) -> None:
    client = connect()
    write(client, 1, length=3)
    (steps,) = client.sample("table")
    assert [step.data[1] for step in steps] == [0.0, 1.0, 2.0]
    assert len({step.info for step in steps}) == 1


def test_the_structure_is_the_signature_s(connect: Connect) -> None:
    signature = {"x": (relive.ArraySpec((1,), np.int64), relive.ArraySpec((1,), np.float64))}
    client = connect(uniform_table(signature=signature))
    client.insert({"x": (1, 2.0)}, {"table": 1.0})
    (sample,) = client.sample("table", emit_timesteps=False, unpack_as_table_signature=True)
    assert set(sample.data) == {"x"} and isinstance(sample.data["x"], tuple)
    (flat,) = client.sample("table", emit_timesteps=False)
    assert flat.data == [1, 2.0]
    with pytest.raises(relive.errors.NotFoundError, match="nowhere"):
        next(client.sample("nowhere", unpack_as_table_signature=True))


def test_arguments_out_of_range(connect: Connect) -> None:
    client = connect()
    for count in (0, -1):
        with pytest.raises(ValueError, match=rf"max_samples \({count}\)"):
            next(client.sample("table", count))


def test_columns_that_cannot_be_split_are_refused(connect: Connect) -> None:
    client = connect()
    with client.trajectory_writer(2) as writer:
        writer.append([1, 2])
        writer.append([3, 4])
        writer.create_item("table", 1.0, [writer.history[0][-1], writer.history[1][-2:]])
    with pytest.raises(ValueError, match="emit_timesteps=False"):
        next(client.sample("table"))
    (sample,) = client.sample("table", emit_timesteps=False)
    assert sample.data[0].shape == () and sample.data[1].shape == (2,)


def test_a_queue_returns_each_item_once_in_order(connect: Connect) -> None:
    client = connect(relive.Table.queue("q", 100))
    keys = write(client, 50, "q")
    assert [sample.info.key for sample in client.sample("q", 50, emit_timesteps=False)] == keys


def test_leaving_a_queue_early_removes_only_the_read_items(connect: Connect) -> None:
    client = connect(relive.Table.queue("q", 100))
    keys = write(client, 10, "q")
    taken = [sample.info.key for sample in itertools.islice(client.sample("q", 10, emit_timesteps=False), 3)]
    assert taken == keys[:3]
    assert client.server_info()["q"].current_size == 7
    with pytest.raises(relive.DeadlineExceededError):
        list(client.sample("q", 8, timeout=0.3))


def test_many_samples(connect: Connect) -> None:
    client = connect()
    keys = set(write(client, 10))
    samples = list(client.sample("table", 3_000, emit_timesteps=False))
    assert len(samples) == 3_000
    assert {sample.info.key for sample in samples} == keys
    assert all(abs(sample.info.probability - 0.1) < 1e-9 for sample in samples)
    assert client.server_info()["table"].rate_limiter_info.sample_stats.completed == 3_000


def test_an_empty_table_runs_into_the_timeout(connect: Connect) -> None:
    with pytest.raises(relive.DeadlineExceededError, match="1|item"):
        next(connect().sample("table", timeout=0.2))


def test_the_next_item_is_returned_after_a_timeout(connect: Connect) -> None:
    client = connect(relive.Table.queue("table", 10))
    samples = client.sample("table", 2, timeout=0.01)
    for step in range(2):
        with pytest.raises(relive.DeadlineExceededError):
            next(samples)
        client.insert(np.float32(step), {"table": 1.0})
        samples_in_time = itertools.islice(iter(lambda: _or_none(samples), 0), 10_000)
        (found,) = next(found for found in samples_in_time if found is not None)
        assert found.data == [step]
    with pytest.raises(StopIteration):
        next(samples)


def _or_none(samples: Iterator[Any]) -> Any:
    try:
        return next(samples)
    except relive.DeadlineExceededError:
        return None


def test_samples_can_be_closed_like_a_generator(connect: Connect) -> None:
    client = connect()
    write(client, 1)
    samples = client.sample("table", 10)
    assert iter(samples) is samples and isinstance(samples, Generator)
    next(samples)
    samples.send(None)
    samples.close()
    assert next(samples, None) is None
    with pytest.raises(KeyError):
        client.sample("table", 10).throw(KeyError("mine"))


def test_without_replacement_every_item_is_sampled_once_per_epoch(connect: Connect) -> None:
    client = connect(uniform_table(sampler=relive.selectors.WithoutReplacement()))
    keys = set(write(client, 20))
    for _ in range(3):
        assert {sample.info.key for sample in client.sample("table", 20, emit_timesteps=False)} == keys


def test_strings(connect: Connect) -> None:
    client = connect()
    client.insert(["héllo", np.array(["a", "bc"]), b"\x00\xff"], {"table": 1.0})
    (sample,) = client.sample("table", emit_timesteps=False, timeout=PATIENCE_S)
    assert [column.tolist() for column in sample.data] == [["héllo".encode()], [[b"a", b"bc"]], [b"\x00\xff"]]
