"""Waits are logged and end in time, and closed objects release all resources."""

from __future__ import annotations

import gc
import logging
import os
import pathlib
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from relive import errors, gpu
from relive.gpu import _waits
from relive.gpu._group import exchange

PATIENCE_S = 60.0
X = {"x": np.ones(2, np.float32)}


class Told(logging.Handler):
    """Waits until the log contains a text."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._changed = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        with self._changed:
            self.texts.append(record.getMessage())
            self._changed.notify_all()

    def expect(self, text: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: any(text in told for told in self.texts), PATIENCE_S), self.texts


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    """Provides the log; waits are logged after 50 ms."""
    monkeypatch.setattr(_waits, "_FIRST_S", 0.05)
    monkeypatch.setattr(_waits, "_watch", _waits._Watch())
    handler = Told()
    logging.getLogger("relive").addHandler(handler)
    yield handler
    logging.getLogger("relive").removeHandler(handler)


def store(**options: object) -> gpu.Store:
    return gpu.Store({"x": "float32"}, **{"capacity": 1, "max_steps": 2, **options})  # type: ignore[arg-type]


def meanwhile(wait: Callable[[], object], release: Callable[[], object]) -> None:
    """Calls ``wait`` in another thread, ends the wait with ``release``, and checks that ``wait`` did not fail."""
    failed: list[BaseException] = []

    def work() -> None:
        try:
            wait()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        release()
    finally:
        thread.join()
    assert not failed


def test_writers_report_what_they_wait_for(told: Told) -> None:
    with store() as made, made.writer() as writer:

        def give_row() -> None:
            told.expect("writer 0 has been waiting for 0.05 s: begin() waits for a row; check that the store's process calls scan()")
            told.expect("writer 0 has been waiting for 0.1 s")
            made.scan()

        def answer() -> None:
            told.expect("ask() waits for an answer; check that the store's process calls scan() and answer()")
            made.answer(made.scan(timeout=PATIENCE_S).requests, {"x": [3.0]})

        meanwhile(writer.begin, give_row)
        meanwhile(lambda: writer.ask("x"), answer)


def test_insertions_report_a_lack_of_room(told: Told) -> None:
    with store(removal=lambda _: None) as made:
        place = made.insert(X)

        def make_room() -> None:
            told.expect("insert() has been waiting for 0.05 s: there is no room")
            made.remove([place.index])

        meanwhile(lambda: made.insert(X, timeout=PATIENCE_S), make_room)


def test_ranks_report_which_ranks_they_wait_for(told: Told) -> None:
    name, groups = f"waits-{os.getpid()}", []

    def join(rank: int) -> gpu.LocalGroup:
        groups.append(gpu.LocalGroup(name, rank, 2, timeout=PATIENCE_S))
        return groups[-1]

    def come() -> None:
        told.expect(f"group '{name}', rank 0 has been waiting for 0.05 s: ranks [1] have not connected; waiting up to 60.0 s")
        second = join(1)
        told.expect("rank 0 of 2 has been waiting for 0.05 s: rank 1 sends nothing")
        exchange(second, lambda: b"second")

    meanwhile(lambda: exchange(join(0), lambda: b"first"), come)
    for group in groups:
        group.close()


def test_short_waits_are_not_logged(told: Told) -> None:
    for _ in range(100):
        with _waits.log_long_wait("a short wait", lambda: "nothing"):
            pass
    with _waits.log_long_wait("a long wait", lambda: "the log"):
        told.expect("a long wait has been waiting for 0.05 s: the log")
    assert not any("short" in text for text in told.texts)


def test_the_network_timeout_also_applies_to_its_ranks() -> None:
    other = """
        import sys
        from relive import gpu

        network = gpu.Network(host="127.0.0.1", timeout=0.2)
        store = gpu.Store({"x": "float32"}, capacity=1, max_steps=2, name=sys.argv[1], rank=1, ranks=2, network=network)
        sys.stdin.read()
    """
    name = f"network-waits-{os.getpid()}"
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(other), name], stdin=subprocess.PIPE) as process:
        with store(name=name, rank=0, ranks=2, network=gpu.Network(host="127.0.0.1", timeout=0.2)) as made:
            made.insert(X)
            with pytest.raises(errors.DeadlineExceededError, match="rank 1 sends nothing within 0.2 s"):
                made.update_weights([0], [1.0])
        process.communicate(b"")
        assert process.returncode == 0


def test_an_exception_in_a_removal_function_is_raised_at_once() -> None:
    def fails(candidates: gpu.Candidates) -> int:
        raise KeyError("mine")

    with store(removal=fails) as made:
        made.insert(X)
        began = time.monotonic()
        with pytest.raises(KeyError, match="mine"):
            made.insert(X, timeout=10 * PATIENCE_S)
        assert time.monotonic() - began < PATIENCE_S


def test_a_removal_function_is_asked_again_until_it_chooses() -> None:
    answers = iter([None, None, 0])
    with store(removal=lambda _: next(answers)) as made:
        made.insert(X)
        assert made.insert(X, timeout=PATIENCE_S).generation == 2


def test_a_store_referenced_by_its_removal_function_ends_with_its_process() -> None:
    program = """
        import pathlib, sys
        import numpy as np
        from relive import gpu

        made = gpu.Store({"x": "float32"}, capacity=1, max_steps=2, name=sys.argv[1], removal=lambda candidates: len(made) - 1)
        for _ in range(3):
            made.insert({"x": np.ones(2, np.float32)})
        assert pathlib.Path("/dev/shm", sys.argv[1]).exists()
    """
    name = f"reached-{os.getpid()}"
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program), name], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert not pathlib.Path("/dev/shm", name).exists()


def test_a_store_referenced_by_its_removal_function_is_freed() -> None:
    name = f"freed-{os.getpid()}"

    def make() -> None:
        made = store(name=name, removal=lambda candidates: len(made) - 1)
        made.insert(X)
        made.insert(X)

    make()
    gc.collect()
    store(name=name).close()
