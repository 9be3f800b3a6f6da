"""Arguments of replay buffers, and calls of closed ones."""

from __future__ import annotations

import contextlib
import pathlib
import pickle
import re
import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from buffers import filled, step

import relive
from relive import ReplayBuffer, errors


def test_a_closed_buffer_refuses_all_calls(tmp_path: pathlib.Path) -> None:
    used, unused = filled(), ReplayBuffer(10)
    used.sample()
    for buffer in (used, unused):
        buffer.close()
        buffer.close()
        for call in (buffer.sample, buffer.__len__, lambda: buffer.add(step(0)), lambda: buffer.save(tmp_path)):
            with pytest.raises(relive.errors.ClosedError, match="the buffer is closed"):
                call()


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("beta", float("nan"), ValueError), ("beta", float("inf"), ValueError), ("beta", -0.5, ValueError), ("beta", "0.4", TypeError),
        ("beta", None, TypeError), ("batch_size", None, TypeError), ("batch_size", 32.0, TypeError), ("n_step", 3.0, TypeError),
        ("prioritized", "0.6", TypeError), ("prioritized", True, TypeError), ("prioritized", float("inf"), ValueError),
        ("discount", "0.9", TypeError), ("discount", float("nan"), ValueError), ("capacity", 1e5, TypeError),
    ],
)
def test_numbers_of_a_buffer_are_refused_by_name(name: str, value: Any, kind: type[Exception]) -> None:
    told = re.escape(f"{value}")
    with pytest.raises(kind, match=f"^{name} .*{told}"):
        ReplayBuffer(**{"capacity": 10, "discount": 0.9, name: value})
    if name == "beta":
        with ReplayBuffer(10) as buffer:
            with pytest.raises(kind, match=f"^beta .*{told}"):
                buffer.beta = value
            assert buffer.beta == 0.4


def test_numbers_of_a_buffer_may_be_numpys(tmp_path: pathlib.Path) -> None:
    numbers = {"batch_size": np.int32(5), "prioritized": np.float32(0.5), "beta": np.float64(0.25), "n_step": np.int64(1), "discount": np.array(1)}
    with ReplayBuffer(np.int64(7), **numbers) as buffer:  # type: ignore[arg-type]
        buffer.add(step(0))
        buffer.beta = np.float32(0.75)  # type: ignore[assignment]
        assert buffer.sample()["reward"].shape == (5,)
        buffer.save(tmp_path)
    with ReplayBuffer.load(tmp_path) as loaded:
        assert (loaded.capacity, loaded.batch_size, loaded.beta) == (7, 5, 0.75)
        assert pickle.loads(pickle.dumps(loaded)).beta == 0.75


def test_batch_sizes_and_ports_must_be_whole_numbers() -> None:
    with filled(3) as buffer:
        with pytest.raises(TypeError, match=r"batch_size is 32\.0, but it must be a whole number"):
            buffer.sample(32.0)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="port is '8000', but it must be a whole number"):
            buffer.serve("8000")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("priority", "told"),
    [
        ("3.5", "priority must be a number, not '3.5'"),
        (np.complex64(1), "priority must be a number"),
        (np.timedelta64(1), "priority must be a number"),
    ],
)
def test_priorities_that_are_no_numbers_are_refused(priority: Any, told: str) -> None:
    with ReplayBuffer(10, prioritized=0.5) as buffer:
        buffer.add(step(0))
        with pytest.raises(TypeError, match=told):
            buffer.add(step(0), priority=priority)
        for priorities in ([priority], np.array([priority]), np.array([priority], object)):
            with pytest.raises(TypeError, match="^priority must be"):
                buffer.add_batch({name: np.asarray(value)[None] for name, value in step(0).items()}, priority=priorities)
            with pytest.raises(TypeError, match="^priorities must be"):
                buffer.update([1], priorities)
        with pytest.raises(TypeError, match="a key must be an integer"):
            buffer.update(b"ab", [1.0, 2.0])  # type: ignore[arg-type]
        assert len(buffer) == 1


def test_a_close_that_failed_can_be_repeated() -> None:
    buffer = ReplayBuffer(10)
    buffer.add(x=1.0)
    server, failed = buffer.server, []

    class Closing:
        def __array__(self, *_: Any, **__: Any) -> npt.NDArray[Any]:
            try:
                buffer.close()
            except Exception as error:
                failed.append(error)
            return np.zeros(())

    # The writer is in use while it reads the step.
    with contextlib.suppress(Exception):
        buffer.add(x=Closing())
    assert failed and server._native.is_running
    buffer.close()
    assert not server._native.is_running
    buffer.close()


def test_a_buffer_may_be_closed_by_two_threads_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = ReplayBuffer(10)
    buffer.add(x=1.0)
    server, flush, failed = buffer.server, buffer._table.flush, []

    def close() -> None:
        try:
            buffer.close()
        except Exception as error:
            failed.append(error)

    def flush_meanwhile() -> None:
        other = threading.Thread(target=close)
        other.start()
        other.join()
        flush()

    monkeypatch.setattr(buffer._table, "flush", flush_meanwhile)
    buffer.close()
    assert not failed and not server._native.is_running


def test_a_buffer_that_is_closed_by_another_thread_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = filled()
    buffer.sample(4)
    iterator = buffer._table._iterators[4]
    taken = type(iterator).__next__

    def closing(self: Any) -> Any:
        closer = threading.Thread(target=buffer.close)
        closer.start()
        closer.join()
        return taken(self)

    monkeypatch.setattr(type(iterator), "__next__", closing)
    with pytest.raises(errors.ClosedError, match="the buffer is closed"):
        buffer.sample(4)


def test_invalid_buffer_arguments_are_refused_with_the_reason(tmp_path: pathlib.Path) -> None:
    for arguments, told in [
        ({"capacity": 0}, "capacity must be from 1 to 2147483647, got 0"),
        ({"capacity": 2**40}, "capacity must be from 1 to 2147483647, got 1099511627776"),
        ({"capacity": 1, "prioritized": -0.5}, "prioritized must be at least 0"),
        ({"capacity": 1, "batch_size": 0}, "batch_size"),
        ({"capacity": 1, "n_step": 0, "discount": 0.9}, "n_step"),
        ({"capacity": 1, "n_step": 3}, "requires a discount"),
        ({"capacity": 1, "discount": 1.5}, "discount must be"),
        ({"capacity": 1, "seed": -1}, "seed"),
    ]:
        with pytest.raises(ValueError, match=told):
            ReplayBuffer(**arguments)  # type: ignore[arg-type]
    buffer = ReplayBuffer(10)
    with pytest.raises(ValueError, match="is empty"):
        buffer.sample()
    buffer.add(step(0))
    with pytest.raises(ValueError, match="at least 1"):
        buffer.sample(0)
    with pytest.raises(ValueError, match="no priorities"):
        buffer.update([1], [1.0])
    with pytest.raises(ValueError, match="float32"):
        buffer.add({**step(0), "reward": np.float64(1.0)})
    prioritized = ReplayBuffer(10, prioritized=0.5)
    with pytest.raises(ValueError, match="rename"):
        prioritized.add(weights=1.0)
    several = ReplayBuffer(10, n_step=2, discount=0.9)
    for steps, told in [
        ({"reward": [1.0]}, "terminated or done"),
        ({"done": [False]}, "needs a reward"),
        ({"reward": [1.0], "done": [False], "discount": [1.0]}, "omit it"),
    ]:
        with pytest.raises(ValueError, match=told):
            several.add_batch(steps)
    several.add_batch(reward=[1.0, 2.0], done=[False, False], next_value=[1, 1])
    with pytest.raises(ValueError, match="one number for each environment"):
        several.add_batch(reward=[1.0], done=[False], next_value=[1])
    with pytest.raises(TypeError, match="column 'done' must contain numbers, but its data type is <U5"):
        several.add_batch(reward=[1.0, 2.0], done=["False", "True"], next_value=[1, 1])
    with pytest.raises(FileNotFoundError, match="nothing is not a folder in which a ReplayBuffer was saved: it has no file replay_buffer.json"):
        ReplayBuffer.load(tmp_path / "nothing")
    buffer.close()
    with pytest.raises(errors.ReverbError):
        buffer.add(step(0))
