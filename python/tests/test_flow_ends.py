"""The ends of flows: dropped, closed, interrupted, after a fork, and at the end of the program."""

from __future__ import annotations

import gc
import logging
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from relive import flow
from relive.flow import LocalIterator

BEGIN = """
import os, sys, threading, time
from relive import flow
from relive.flow import LocalIterator

def slow(item):
    for _ in range(5_000_000):
        pass
    return item

def never(item):
    print("waits", flush=True)
    threading.Event().wait()

shards = flow.from_iterators([range(30)])
"""

STREAMS = [
    "shards.for_each(slow).gather_async().transform(lambda items: (item for item in items))",
    "shards.for_each(slow).gather_async().for_each(str, max_concurrency=2)",
    "LocalIterator.of(range(50)).for_each(slow).prefetch(2).transform(lambda items: (item for item in items))",
    "LocalIterator.of(range(50)).for_each(slow, max_concurrency=3)",
]


def run(program: str, tmp_path: pathlib.Path) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "program.py"
    script.write_text(BEGIN + program)
    return subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("ends", ["del stream", "stream.close()", "sys.exit(3)"])
def test_a_stream_ends_while_its_threads_call_python(stream: str, ends: str, tmp_path: pathlib.Path) -> None:
    done = run(f"stream = {stream}\nnext(stream)\n{ends}\nsys.exit(3)\n", tmp_path)
    assert (done.returncode, done.stderr) == (3, "")


def test_a_stream_ends_by_itself_while_its_threads_call_python(tmp_path: pathlib.Path) -> None:
    acted = "flow.from_iterators([range(10**6)]).for_each(slow).gather_async(num_async=8)"
    joined = f"flow.ratio(LocalIterator.of(range(2)), {acted}, 1).transform(lambda items: (item for item in items))"
    done = run(f"print(list({joined}))\n", tmp_path)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout in ("[0, 0, 1, 1]\n", "[0, 1, 0, 1]\n")


def test_a_program_ends_although_an_iterator_is_slow_to_end(tmp_path: pathlib.Path) -> None:
    program = """
class Slow:
    def __iter__(self):
        return Items()

class Items:
    def __iter__(self):
        return self

    def __next__(self):
        return 1

    def __del__(self):
        # This takes longer than a stream waits for its end.
        time.sleep(3)

stream = LocalIterator.of(Slow())
next(stream)
sys.exit(3)
"""
    done = run(program, tmp_path)
    assert (done.returncode, done.stderr) == (3, "")


@pytest.mark.parametrize("then", [".transform(lambda items: (item for item in items))", ".for_each(str, max_concurrency=2)"])
def test_ctrl_c_ends_a_wait(then: str, tmp_path: pathlib.Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(f"{BEGIN}\nshards.for_each(never).gather_async(){then}.take(1)\n")
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None and program.stdout.readline() == "waits\n"
        program.send_signal(signal.SIGINT)
        errors = program.communicate(timeout=60)[1]
    assert program.returncode == -signal.SIGINT and "KeyboardInterrupt" in errors


def test_after_an_interrupt_a_pull_does_not_wait_for_its_threads(tmp_path: pathlib.Path) -> None:
    program = """
import signal

class Interrupted(Exception):
    pass

def interrupt(*_):
    global since
    since = time.monotonic()
    raise Interrupted

signal.signal(signal.SIGALRM, interrupt)
try:
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    shards.for_each(never).gather_async().take(1)
except Interrupted:
    pass
print(time.monotonic() - since)
"""
    done = run(program, tmp_path)
    # A thread that does not end is otherwise waited for for a second.
    assert float(done.stdout.split()[-1]) < 0.9, done


WAITS = {
    "the items of shards": ("a pull from a stream of relive.flow", "gather_async of 2 shards", lambda get: flow.from_iterators([get, []]).gather_async()),
    "a thread": ("a pull from a stream of relive.flow", "prefetch(1)", lambda get: LocalIterator.of(get()).prefetch(1).for_each(str)),
    "an iterator": ("an iterator of transform()", "prefetch(1)", lambda get: LocalIterator.of(get()).prefetch(1).transform(iter)),
}


@pytest.mark.parametrize(("what", "operator", "items"), WAITS.values(), ids=WAITS)
def test_a_long_wait_is_logged_with_its_operators(what: str, operator: str, items: Any) -> None:
    arrived: queue.Queue[int] = queue.Queue()
    texts: list[str] = []
    told = f"{what} has been waiting for 5 s: no item from {operator}"

    class Watch(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            texts.append(record.getMessage())
            if texts[-1] == told:
                arrived.put(1)

    logger, watch = logging.getLogger("relive"), Watch()
    logger.addHandler(watch)
    stream = items(lambda: (arrived.get(timeout=60) for _ in range(1)))
    try:
        assert int(stream.next(timeout=60)) == 1, texts
    finally:
        logger.removeHandler(watch)


@pytest.mark.parametrize("child, code", [
    ("stream = None\nos._exit(7)", 7),
    ("sys.exit(5)", 5),
    ("try: next(stream)\nexcept Exception as error: print(error, flush=True)\nos._exit(9)", 9),
])
def test_a_forked_child_may_have_a_stream_of_its_parent(child: str, code: int, tmp_path: pathlib.Path) -> None:
    program = f"""
stream = flow.from_range(100).gather_async()
next(stream)
process = os.fork()
if not process:
{''.join(f'    {line}' + chr(10) for line in child.splitlines())}
print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
print(len(list(stream)))
"""
    done = run(program, tmp_path)
    *told, status, count = done.stdout.splitlines()
    assert (status, count, done.returncode) == (str(code), "99", 0), done.stderr
    assert all("created before a fork" in line for line in told)
