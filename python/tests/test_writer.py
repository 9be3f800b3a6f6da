"""dm-reverb's first writer."""

from __future__ import annotations

import copy
import gc
import math
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import PATIENCE_S, uniform_table

import relive
from relive import structured
from relive.writer import flush_while_there

Connect = Callable[..., relive.Client]


def newest(client: relive.Client) -> list[np.ndarray]:
    (sample,) = client.sample("table", emit_timesteps=False, timeout=PATIENCE_S)
    return list(sample.data)


@pytest.mark.parametrize("arguments", [
    {"max_sequence_length": 0},
    {"max_sequence_length": 3, "chunk_length": 0},
    {"max_sequence_length": 3, "chunk_length": 4},
    {"max_sequence_length": 3, "max_in_flight_items": 0},
])
def test_options_out_of_range(arguments: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=list(arguments)[-1]):
        relive.Client("localhost:1").writer(**arguments)


@pytest.mark.parametrize("delta_encoded", [False, True])
@pytest.mark.parametrize("chunk_length", [None, 1, 2, 3])
def test_items_are_the_newest_steps(connect: Connect, chunk_length: int | None, delta_encoded: bool) -> None:
    client = connect(uniform_table(sampler=relive.selectors.Lifo()))
    with client.writer(3, delta_encoded, chunk_length, None) as writer:
        for step in range(7):
            writer.append({"b": np.full((2, 2), step, np.int32), "a": float(step)})
            if step >= 2:
                writer.create_item("table", num_timesteps=3, priority=1.0)
                writer.flush()
                a, b = newest(client)
                assert a.tolist() == [step - 2, step - 1, step]
                assert b[:, 1, 1].tolist() == [step - 2, step - 1, step]
    assert client.server_info()["table"].current_size == 5


def test_lists_of_numbers_are_arrays_as_in_insert(connect: Connect) -> None:
    client = connect()
    with client.writer(2) as writer:
        for step in range(2):
            writer.append({"x": [step, 2.5], "y": (1, [[step, 2], [3, 4]])})
        writer.append_sequence({"x": [[2, 2.5]], "y": ([1], [[[2, 2], [3, 4]]])})
        writer.create_item("table", 2, 1.0)
    client.insert({"x": [3, 2.5], "y": (1, [[3, 2], [3, 4]])}, {"table": 1.0})
    found = [item.data for item in client.get_items("table", [item.key for item in client.items("table")]) if item is not None]
    assert sorted(data["x"].tolist() for data in found) == [[[1, 2.5], [2, 2.5]], [[3, 2.5]]]
    assert {data["y"][1].shape for data in found} == {(2, 2, 2), (1, 2, 2)}


def test_a_list_that_was_a_nest_stays_one(connect: Connect) -> None:
    client = connect()
    with client.writer(2, chunk_length=1) as writer:
        writer.append({"x": [np.float64(1), np.float64(2)]})
        writer.append({"x": [3.0, 4.0]})
        writer.create_item("table", 2, 1.0)
        # Other tensors.
        writer.append({"x": [5, 6]})
        writer.create_item("table", 1, 1.0)
    found = [item.data for item in client.get_items("table", [item.key for item in client.items("table")]) if item is not None]
    assert sorted([column.tolist() for column in data["x"]] for data in found) == [[[1, 3], [2, 4]], [[5], [6]]]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_writers_are_not_copied(connect: Connect, copied: Callable[[Any], Any]) -> None:
    client = connect()
    step = structured.create_reference_step({"x": None})
    configs = [structured.create_config({"x": step["x"][-1:]}, "table")]
    with client.writer(1) as writer, client.trajectory_writer(1) as trajectories, client.structured_writer(configs) as patterns:
        for each in (writer, trajectories, patterns):
            with pytest.raises(TypeError, match="a writer cannot be copied"):
                copied(each)
            each.append({"x": 1})
        writer.create_item("table", 1, 1.0)
    assert client.server_info()["table"].current_size == 2


def test_sequences_of_steps(connect: Connect) -> None:
    client = connect()
    with client.writer(4) as writer:
        writer.append_sequence([np.arange(6), np.ones((6, 3))])
        writer.create_item("table", 4, 1.0)
    steps, ones = newest(client)
    assert steps.tolist() == [2, 3, 4, 5] and ones.shape == (4, 3)


def test_steps_may_change_where_a_chunk_ends(connect: Connect) -> None:
    client = connect(uniform_table(), uniform_table("named"))
    with client.writer(2, chunk_length=1) as writer:
        for step in ([np.zeros(2)], [np.zeros(3)], [np.zeros(3, np.int32)], {"a": 1.0, "b": "text"}):
            writer.append(step)
            writer.create_item("named" if isinstance(step, dict) else "table", 1, 1.0)
        with pytest.raises(ValueError, match=r"its first writer wrote \[_\], but the item is \{a, b\}"):
            writer.create_item("table", 1, 1.0)
        with pytest.raises(ValueError, match="1 steps that were appended since"):
            writer.create_item("named", 2, 1.0)
        writer.append({"a": 2.0, "b": "another text"})
        writer.create_item("named", 2, 1.0)
        with pytest.raises(TypeError, match="not a tensor"):
            writer.append({"a": object(), "b": "text"})
        writer.append_sequence([np.zeros((2, 4))])
        writer.create_item("table", 2, 1.0)
    found = [client.get_items(name, [item.key])[0] for name in ("table", "named") for item in client.items(name)]
    shapes = [sorted((column.shape, column.dtype.char) for column in relive.nest.flatten(sample.data)) for sample in found if sample]
    assert sorted(shapes) == sorted([
        [((1, 2), "d")], [((1, 3), "d")], [((1, 3), "i")], [((1,), "O"), ((1,), "d")],
        [((2,), "O"), ((2,), "d")], [((2, 4), "d")],
    ])


def test_invalid_writer_calls_are_refused(connect: Connect) -> None:
    client = connect()
    writer = client.writer(3)
    with pytest.raises(ValueError, match=r"num_timesteps \(1\)"):
        writer.create_item("table", 1, 1.0)
    writer.append([1, 2])
    with pytest.raises(ValueError, match="3 tensors.*first one had 2"):
        writer.append([1, 2, 3])
    with pytest.raises(ValueError, match="dtype"):
        writer.append([1, 2.0])
    with pytest.raises(TypeError, match="incompatible function arguments"):
        writer.append([1, object()])
    for sequence, why in (
        ([], "at least one"), ([1, 2], "leading dimension"), ([np.ones(2), np.ones(3)], "same leading dimension"),
    ):
        with pytest.raises(ValueError, match=why):
            client.writer(3).append_sequence(sequence)
    writer.append_sequence([np.ones(0, np.int64), np.ones(0, np.int64)])
    for steps, why in ((0, "positive"), (2, "1 steps that were appended"), (4, "max_sequence_length")):
        with pytest.raises(ValueError, match=why):
            writer.create_item("table", steps, 1.0)
    with pytest.raises(ValueError, match="NaN"):
        writer.create_item("table", 1, float("nan"))
    with pytest.raises(ValueError, match="nowhere"):
        writer.create_item("nowhere", 1, 1.0)
    writer.create_item("table", 1, 1.0)
    writer.close()
    with pytest.raises(ValueError, match="closed"):
        writer.close()
    with pytest.raises(ValueError, match="closed"), writer:
        pass
    for call in (lambda: writer.append([1, 2]), lambda: writer.create_item("table", 1, 1.0), writer.flush):
        with pytest.raises(RuntimeError, match="closed"):
            call()
    assert client.server_info()["table"].current_size == 1


def test_a_signature_is_enforced(connect: Connect) -> None:
    client = connect(uniform_table(signature={"x": relive.ArraySpec((3,), np.float32)}))
    with client.writer(1) as writer:
        writer.append({"x": np.float64(1)})
        with pytest.raises(ValueError, match="double|float64"):
            writer.create_item("table", 1, 1.0)


def test_a_signature_may_describe_steps(connect: Connect) -> None:
    client = connect(uniform_table(signature={"x": relive.ArraySpec((2,), np.float32)}))
    client.insert({"x": np.zeros(2, np.float32)}, {"table": 1.0})
    with client.writer(3) as writer:
        for _ in range(3):
            writer.append({"x": np.ones(2, np.float32)})
        writer.create_item("table", 3, 1.0)
        with pytest.raises(ValueError, match="another number|columns"):
            client.insert({"x": np.zeros(2, np.float32), "y": 1}, {"table": 1.0})
    assert client.server_info()["table"].current_size == 2


def test_the_refusal_of_the_server_is_raised(connect: Connect) -> None:
    client = connect(uniform_table(sampler=relive.selectors.Prioritized(1.0)))
    writer = client.writer(1)
    writer.append(1)
    with pytest.raises(ValueError, match="-1"):
        writer.create_item("table", 1, -1.0)
        writer.close()


def test_a_step_without_a_value_is_refused(connect: Connect) -> None:
    client = connect()
    with pytest.raises(TypeError, match="None in the place of a tensor"):
        client.writer(1).append([1, None])
    with pytest.raises(TypeError, match="None in the place of a tensor"):
        client.insert({"a": 1, "b": (None,)}, {"table": 1.0})
    assert client.server_info()["table"].current_size == 0


def test_a_flush_continues_while_the_server_is_reachable(connect: Connect) -> None:
    late = iter([relive.DeadlineExceededError("not yet"), relive.DeadlineExceededError("not yet"), None])

    def flush(items: int, timeout_ms: int | None) -> None:
        error = next(late)
        if error is not None:
            raise error

    flush_while_there(flush, connect()._native, None)
    assert next(late, "all are confirmed") == "all are confirmed"


def test_a_flush_ends_without_a_server_or_at_its_timeout(connect: Connect) -> None:
    calls = 0

    def flush(items: int, timeout_ms: int | None) -> None:
        nonlocal calls
        calls += 1
        raise relive.DeadlineExceededError("nobody confirms")

    nobody = relive.Client("localhost:1", transport="tcp")
    for client, timeout in ((nobody, None), (connect(), 0.5)):
        with pytest.raises(relive.DeadlineExceededError, match="nobody confirms"):
            flush_while_there(flush, client._native, timeout)
    assert calls == 2


def test_a_garbage_collected_writer_writes_its_items(connect: Connect) -> None:
    client = connect()
    writer = client.writer(1)
    writer.append(1)
    writer.create_item("table", 1, 1.0)
    del writer
    gc.collect()
    assert client.server_info()["table"].current_size == 1


# The ends of a program with a writer that it does not close.
ENDS = {
    "unconfirmed": ("writer.create_item('table', 1, 1.0)", 1),
    "confirmed": ("writer.create_item('table', 1, 1.0); writer.flush()", 1),
    "empty": ("", 0),
    "failing": ("writer.create_item('table', 1, 1.0); raise SystemExit(3)", 1),
    "forked": ("writer.create_item('table', 1, 1.0); process = os.fork()\nif process: os.waitpid(process, 0)", 1),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_writer_that_is_open_when_the_program_ends_writes_its_items(end: str) -> None:
    how, size = ENDS[end]
    with relive.Server([uniform_table()]) as server:
        program = f"import os, relive; writer = relive.Client('localhost:{server.port}').writer(1); writer.append(1); {how}"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.stderr == "" and done.returncode == (3 if end == "failing" else 0)
        assert server.localhost_client().server_info()["table"].current_size == size


def test_a_timeout_may_be_infinite_but_not_negative(connect: Connect) -> None:
    client = connect()
    writer = client.writer(1)
    writer.append(1)
    writer.create_item("table", 1, 1.0)
    for timeout in (-1.0, math.nan):
        for call in (writer.flush, writer.close):
            with pytest.raises(ValueError, match="timeout must be a number of seconds, at least 0, or None to wait forever, got"):
                call(timeout=timeout)
    writer.flush(timeout=math.inf)
    writer.close(timeout=1e300)
    assert client.server_info()["table"].current_size == 1


WAITS: dict[str, Callable[[Any], None]] = {
    "flush": lambda writer: writer.flush(timeout=math.inf),
    "close": lambda writer: writer.close(timeout=math.inf),
    "close_once": lambda writer: writer.close(retry_on_unavailable=False, timeout=math.inf),
}


@pytest.mark.parametrize("wait", WAITS)
def test_an_infinite_timeout_is_longer_than_that_of_the_client(serve: Callable[..., relive.Server], wait: str) -> None:
    address = f"localhost:{serve(relive.Table.queue('queue', 1)).port}"
    writer = relive.Client(address, timeout=0.2).writer(1)
    for number in range(2):
        writer.append([number])
        writer.create_item("queue", 1, 1.0)
    errors: list[Exception] = []

    def finish() -> None:
        try:
            WAITS[wait](writer)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=finish)
    thread.start()
    # The queue is full, so the second item waits, for longer than the client would.
    thread.join(1.0)
    assert thread.is_alive() and not errors
    samples = relive.Client(address).sample("queue", 2, emit_timesteps=False, timeout=PATIENCE_S)
    assert [int(sample.data[0].item()) for sample in samples] == [0, 1]
    thread.join(PATIENCE_S)
    assert not thread.is_alive() and not errors
