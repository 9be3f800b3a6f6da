"""`Client.batches`: stacked arrays."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable

import numpy as np
import pytest
from conftest import PATIENCE_S, uniform_table

import relive

Serve = Callable[..., relive.Server]
Connect = Callable[..., relive.Client]

SIGNATURE = {
    "obs": relive.ArraySpec((None, 2), np.float32, "obs"),
    "reward": relive.ArraySpec((), np.float64, "reward"),
}


def signed_table(**rules: object) -> relive.Table:
    return uniform_table(signature=SIGNATURE, **rules)


def write(client: relive.Client, count: int, length: int = 3) -> list[int]:
    """Items of `length` observations, the reward being the number of the newest one."""
    keys = []
    with client.trajectory_writer(length) as writer:
        for step in range(count + length - 1):
            writer.append({"obs": np.full(2, step, np.float32), "reward": np.float64(step)})
            if step >= length - 1:
                history = writer.history
                keys.append(writer.create_item("table", 1.0, {
                    "obs": history["obs"][-length:], "reward": history["reward"][-1]}))
    return keys


def test_columns_are_stacked(connect: Connect) -> None:
    client = connect(signed_table())
    keys = write(client, 10)
    batch = next(client.batches("table", 32, timeout=PATIENCE_S))
    assert batch.data["obs"].shape == (32, 3, 2) and batch.data["obs"].dtype == np.float32
    assert batch.data["reward"].shape == (32,) and batch.data["reward"].dtype == np.float64
    np.testing.assert_array_equal(batch.data["obs"][:, -1, 0], batch.data["reward"])
    np.testing.assert_array_equal(batch.data["obs"][:, 1:] - batch.data["obs"][:, :-1], 1.0)
    newest = {key: 2 + number for number, key in enumerate(keys)}
    assert [newest[key] for key in batch.info.key.tolist()] == batch.data["reward"].tolist()
    assert batch.lengths is None


def test_what_is_known_of_the_items(connect: Connect) -> None:
    client = connect(signed_table())
    write(client, 4)
    info = next(client.batches("table", 8, timeout=PATIENCE_S)).info
    assert [column.dtype.name for column in info] == ["uint64", "float64", "int64", "float64", "int32"]
    assert all(column.shape == (8,) for column in info)
    np.testing.assert_allclose(info.probability, 0.25)
    assert set(info.table_size) == {4} and set(info.priority) == {1.0}
    assert info.times_sampled.max() >= 2


def test_a_number_of_batches(connect: Connect) -> None:
    client = connect(signed_table())
    write(client, 4)
    assert sum(1 for _ in client.batches("table", 5, max_batches=3, timeout=PATIENCE_S)) == 3


@pytest.mark.parametrize("arguments", [
    {"batch_size": 0}, {"batch_size": 1, "prefetch": -1}, {"batch_size": 1, "num_workers": 0},
    {"batch_size": 1, "max_batches": -1}, {"batch_size": 2**21},
])
def test_numbers_out_of_range(connect: Connect, arguments: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="batch_size|prefetch|num_workers|max_batches"):
        connect().batches("table", **arguments)


def test_exact_batches_take_what_they_give(connect: Connect) -> None:
    client = connect(relive.Table.queue("table", 100, signature=SIGNATURE))
    keys = write(client, 30)
    with client.batches("table", 4, prefetch=0, timeout=PATIENCE_S) as batches:
        got = [key for _ in range(3) for key in next(batches).info.key.tolist()]
        assert batches.prefetched == (0, 0)
    assert got == keys[:12]
    assert client.server_info()["table"].current_size == 18


def test_a_timeout_loses_nothing(connect: Connect) -> None:
    client = connect(relive.Table.queue("table", 100, signature=SIGNATURE))
    keys = write(client, 3)
    batches = client.batches("table", 4, prefetch=0, timeout=0.2)
    with pytest.raises(relive.DeadlineExceededError, match="3 of 4"):
        next(batches)
    keys += write(client, 1)
    assert next(batches).info.key.tolist() == keys


def test_an_exact_batch_that_is_late_takes_nothing(connect: Connect) -> None:
    client = connect(relive.Table.queue("table", 100, signature=SIGNATURE))
    with client.batches("table", 2, prefetch=0, timeout=0.2) as batches:
        with pytest.raises(relive.DeadlineExceededError):
            next(batches)
        keys = write(client, 2)
        assert client.server_info()["table"].current_size == 2
    assert [sample.info.key for sample in client.sample("table", 2, emit_timesteps=False, timeout=PATIENCE_S)] == keys


def test_prefetch_can_be_seen(serve: Serve) -> None:
    client = relive.Client(f"localhost:{serve(signed_table()).port}", transport="tcp")
    write(client, 4)
    batches = client.batches("table", 4, prefetch=3, timeout=PATIENCE_S)
    next(batches)
    ready, in_flight = batches.prefetched
    assert 0 <= ready <= 3 and ready * 4 + in_flight <= 12
    batches.close()
    with pytest.raises(StopIteration):
        next(batches)


def test_items_of_different_lengths(connect: Connect) -> None:
    client = connect(signed_table(sampler=relive.selectors.Fifo(), max_times_sampled=1))
    write(client, 1, length=2)
    write(client, 1, length=4)
    batch = next(client.batches("table", 2, pad=True, timeout=PATIENCE_S))
    assert batch.data["obs"].shape == (2, 4, 2)
    assert batch.lengths["obs"].tolist() == [2, 4] and batch.lengths["reward"] is None
    np.testing.assert_array_equal(batch.data["obs"][0, :, 0], [0, 1, 0, 0])
    np.testing.assert_array_equal(batch.data["obs"][1, :, 0], [0, 1, 2, 3])
    write(client, 1, length=2)
    write(client, 1, length=4)
    with pytest.raises(ValueError, match="rows|steps"):
        next(client.batches("table", 2, timeout=PATIENCE_S))


def test_arrays_are_the_caller_s(connect: Connect) -> None:
    """Memory is used again only when nobody refers to it any more."""
    client = connect(signed_table())
    write(client, 50)
    kept = []
    for number, batch in enumerate(client.batches("table", 16, max_batches=60, timeout=PATIENCE_S)):
        batch.data["reward"] += 1000.0
        if number % 7 == 0:
            kept.append((batch.data["obs"][:, -1, 0], batch.data["reward"].copy()))
    gc.collect()
    assert len(kept) == 9
    for observed, reward in kept:
        np.testing.assert_array_equal(observed + 1000.0, reward)
        assert observed.base is not None and observed.flags.writeable


def test_several_iterators_in_several_threads(connect: Connect) -> None:
    client = connect(signed_table())
    write(client, 20)
    seen: list[int] = []

    def read() -> None:
        with client.batches("table", 8, max_batches=25, timeout=PATIENCE_S) as batches:
            seen.append(sum(len(batch.info.key) for batch in batches))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert seen == [200] * 4


def test_strings_are_objects(connect: Connect) -> None:
    client = connect(uniform_table(signature=[relive.ArraySpec((1, 2), np.dtype(object), "names")]))
    client.insert([np.array(["a", "bé"])], {"table": 1.0})
    batch = next(client.batches("table", 3, timeout=PATIENCE_S))
    assert batch.data[0].shape == (3, 1, 2) and batch.data[0][2, 0].tolist() == [b"a", "bé".encode()]


def test_prioritized_probabilities(connect: Connect) -> None:
    client = connect(signed_table(sampler=relive.selectors.Prioritized(1.0)))
    keys = np.array(write(client, 4), np.uint64)
    client.update_priorities("table", keys, [1.0, 2.0, 3.0, 4.0])
    info = next(client.batches("table", 64, timeout=PATIENCE_S, prefetch=0)).info
    expected = {int(key): 0.1 * (1 + number) for number, key in enumerate(keys)}
    np.testing.assert_allclose(info.probability, [expected[int(key)] for key in info.key])
    np.testing.assert_allclose(info.priority / 10.0, info.probability)
