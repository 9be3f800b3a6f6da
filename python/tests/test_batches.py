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
    """Items of `length` observations; the reward is the number of the newest observation."""
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


def test_batches_have_item_infos(connect: Connect) -> None:
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


def test_exact_batches_remove_only_the_items_they_return(connect: Connect) -> None:
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


def test_a_timed_out_exact_batch_removes_nothing(connect: Connect) -> None:
    client = connect(relive.Table.queue("table", 100, signature=SIGNATURE))
    with client.batches("table", 2, prefetch=0, timeout=0.2) as batches:
        with pytest.raises(relive.DeadlineExceededError):
            next(batches)
        keys = write(client, 2)
        assert client.server_info()["table"].current_size == 2
    assert [sample.info.key for sample in client.sample("table", 2, emit_timesteps=False, timeout=PATIENCE_S)] == keys


def test_prefetched_batches_are_counted(serve: Serve) -> None:
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
    # No prefetching: prefetched items that arrive after the end of the iterator would count as sampled.
    batch = next(client.batches("table", 2, pad=True, prefetch=0, timeout=PATIENCE_S))
    assert batch.data["obs"].shape == (2, 4, 2)
    assert batch.lengths["obs"].tolist() == [2, 4] and batch.lengths["reward"] is None
    np.testing.assert_array_equal(batch.data["obs"][0, :, 0], [0, 1, 0, 0])
    np.testing.assert_array_equal(batch.data["obs"][1, :, 0], [0, 1, 2, 3])
    write(client, 1, length=2)
    write(client, 1, length=4)
    with pytest.raises(ValueError, match="rows|steps"):
        next(client.batches("table", 2, prefetch=0, timeout=PATIENCE_S))


def test_arrays_are_owned_by_the_caller(connect: Connect) -> None:
    """Memory is reused only when no reference to it remains."""
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


def out_arrays(batch_size: int = 4, length: int = 3) -> dict[str, np.ndarray]:
    return {"obs": np.zeros((batch_size, length, 2), np.float32), "reward": np.zeros(batch_size)}


def test_batches_are_gathered_into_output_arrays(connect: Connect) -> None:
    client = connect(signed_table())
    write(client, 10)
    out = out_arrays()
    batches = client.batches("table", 4, timeout=PATIENCE_S, out=out)
    seen = set()
    for _ in range(50):
        batch = next(batches)
        assert batch.data is out and batch.lengths is None
        np.testing.assert_array_equal(out["obs"][:, -1, 0], out["reward"])
        np.testing.assert_array_equal(out["obs"][:, 1:] - out["obs"][:, :-1], 1.0)
        seen.update(out["reward"].tolist())
    assert seen == set(map(float, range(2, 12)))


def test_columns_without_an_output_array_get_new_arrays(connect: Connect) -> None:
    client = connect(signed_table())
    write(client, 3)
    out = {"obs": None, "reward": np.zeros(4)}
    batches = client.batches("table", 4, timeout=PATIENCE_S, out=out)
    first, second = next(batches), next(batches)
    assert first.data["reward"] is second.data["reward"] is out["reward"]
    assert first.data["obs"] is not second.data["obs"] and second.data["obs"].shape == (4, 3, 2)
    np.testing.assert_array_equal(second.data["obs"][:, -1, 0], out["reward"])


def test_output_arrays_may_have_room_for_padding(connect: Connect) -> None:
    client = connect(uniform_table())
    with client.trajectory_writer(3) as writer:
        for step in range(1, 4):
            writer.append([np.int16(step)])
            writer.create_item("table", 1.0, [writer.history[0][-step:]])
    out = [np.full((8, 5), -1, np.int16)]
    batch = next(client.batches("table", 8, timeout=PATIENCE_S, pad=True, out=out))
    for row, length in zip(out[0], batch.lengths[0], strict=True):
        assert row.tolist() == [*range(1, length + 1), *[0] * (5 - length)]
    small = client.batches("table", 64, timeout=PATIENCE_S, pad=True, out=[np.zeros((64, 2), np.int16)])
    with pytest.raises(ValueError, match="has 3 rows, but there is room for 2"):
        next(small)


def test_output_arrays_besides_string_columns(connect: Connect) -> None:
    client = connect(uniform_table())
    with client.trajectory_writer(1) as writer:
        writer.append({"name": b"x", "value": 1.5})
        writer.create_item("table", 1.0, {key: column[-1] for key, column in writer.history.items()})
    out = {"name": None, "value": np.zeros(2)}
    batch = next(client.batches("table", 2, timeout=PATIENCE_S, out=out))
    assert batch.data["name"].tolist() == [b"x", b"x"] and out["value"].tolist() == [1.5, 1.5]
    with pytest.raises(ValueError, match=r"out\['name'\] is a string column"):
        next(client.batches("table", 2, timeout=PATIENCE_S, out={"name": np.zeros(2), "value": None}))


@pytest.mark.parametrize(("bad", "message"), [
    ([1, 2], r"out\['obs'\]\[0\] must be a numpy array or None, got a <class 'int'>"),
    (np.zeros((4, 3, 2), object), r"out\['obs'\] has the data type object"),
])
def test_output_values_that_are_not_arrays_are_refused(connect: Connect, bad: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        connect(signed_table()).batches("table", 4, out={"obs": bad, "reward": None})


def readonly() -> np.ndarray:
    array = np.zeros((4, 3, 2), np.float32)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(("bad", "message"), [
    (np.zeros((5, 3, 2), np.float32), r"out\['obs'\] has the shape \(5, 3, 2\).*must be batch_size, 4"),
    (np.zeros((), np.float32), r"out\['obs'\] has the shape \(\)"),
    (np.zeros((4, 3, 2), np.float32, order="F"), r"cannot write to out\['obs'\]: it is not C-contiguous"),
    (np.zeros((8, 3, 2), np.float32)[::2], "not C-contiguous"),
    (np.zeros((4, 3, 2), ">f4"), "this machine's byte order"),
    (np.frombuffer(bytearray(97), np.uint8)[1:].view(np.float32).reshape(4, 3, 2), "not aligned"),
    (readonly(), "read-only"),
])
def test_read_only_output_arrays_are_refused(connect: Connect, bad: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        connect(signed_table()).batches("table", 4, out={"obs": bad, "reward": None})


@pytest.mark.parametrize(("out", "message"), [
    ({**out_arrays(), "obs": np.zeros((4, 3, 2))}, r"out\['obs'\] is float64 \(4, 3, 2\).*needs float32 \(4, 3, 2\)"),
    (out_arrays(length=2), r"out\['obs'\] is float32 \(4, 2, 2\).*needs float32 \(4, 3, 2\)"),
    ({**out_arrays(), "more": None}, "out has 3 arrays, but the items have 2 columns; give one array for each column"),
    ({"other": out_arrays()["obs"], "reward": np.zeros(4)}, "structure of the items of table 'table'.*'other'"),
    (list(out_arrays().values()), "structure of the items"),
])
def test_output_arrays_that_differ_from_the_items_are_refused(connect: Connect, out: object, message: str) -> None:
    client = connect(signed_table())
    write(client, 3)
    batches = client.batches("table", 4, timeout=PATIENCE_S, out=out)
    for _ in range(2):
        with pytest.raises(ValueError, match=message):
            next(batches)


def test_arrays_that_share_memory_are_refused(connect: Connect) -> None:
    array = np.zeros((8, 3, 2), np.float32)
    with pytest.raises(ValueError, match="share memory"):
        connect(signed_table()).batches("table", 4, out={"obs": array[:4], "reward": array.reshape(-1)[:4]})


def test_an_output_array_may_not_change_its_dtype_or_shape(connect: Connect) -> None:
    client = connect(signed_table())
    write(client, 3)
    out = out_arrays()
    batches = client.batches("table", 4, timeout=PATIENCE_S, out=out)
    next(batches)
    out["reward"].flags.writeable = False
    with pytest.raises(ValueError, match=r"cannot write to out\['reward'\]"):
        next(batches)
    out["reward"].flags.writeable = True
    next(batches)


def test_output_arrays_are_written_by_one_call_at_a_time(connect: Connect) -> None:
    """Threads that share arrays get an error or a complete batch, and the arrays can be used again afterwards."""
    client = connect(signed_table())
    write(client, 20)
    out = out_arrays(256)
    failures = []

    def read() -> None:
        batches = client.batches("table", 256, timeout=PATIENCE_S, out=out)
        for _ in range(200):
            try:
                next(batches)
            except RuntimeError as error:
                failures.append(str(error))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all("another call is writing to" in failure for failure in failures)
    batch = next(client.batches("table", 256, timeout=PATIENCE_S, out=out))
    np.testing.assert_array_equal(batch.data["obs"][:, -1, 0], batch.data["reward"])
