"""Calls of the methods of a shard take place between two of its items."""

from __future__ import annotations

import itertools
import logging
import pathlib
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from relive import flow
from relive.flow import LocalIterator


class Weights:
    """What a shard inherits from a class that knows nothing of shards."""

    version = 0

    def set_weights(self, version: int) -> int:
        """Returns the version before."""
        before, self.version = self.version, version
        return before


class Worker(Weights, flow.ParallelIteratorWorker):
    """A shard whose items are the versions of its weights at their beginning and at their end."""

    def __init__(self) -> None:
        self.begun, self.may_end = queue.Queue[None](), queue.Queue[None]()
        super().__init__(self.items)

    def items(self) -> Iterator[tuple[int, int]]:
        while True:
            before = self.version
            self.begun.put(None)
            self.may_end.get(timeout=60)
            yield before, self.version

    def add(self, number: int) -> int:
        return super().set_weights(self.version + number)


def paired_with(shard: Any) -> Callable[[Any], Any]:
    return lambda item: (shard, item)


SHARDS: dict[str, Callable[[LocalIterator[Any]], LocalIterator[Any]]] = {
    "zip_with_source_actor": lambda items: items.zip_with_source_actor(),
    "current_actor": lambda items: items.for_each(lambda item: (flow.get_metrics().current_actor, item)),
    "actors": lambda items: items.for_each(paired_with(items.actors[0])),
}


@pytest.mark.parametrize("call", [lambda shard: shard.set_weights(7), lambda shard: shard.add(7)])
@pytest.mark.parametrize("shards", SHARDS.values(), ids=SHARDS)
@pytest.mark.parametrize("num_async", [1, 4])
def test_a_call_waits_for_the_end_of_the_item(num_async: int, shards: Any, call: Any) -> None:
    worker = Worker()
    pairs = shards(flow.from_actors([worker]).gather_async(num_async=num_async))
    worker.may_end.put(None)
    shard, item = next(pairs)
    assert shard is worker and item == (0, 0)
    for _ in range(2):
        worker.begun.get(timeout=60)
    called = threading.Event()

    def end_items() -> None:
        # A call that does not wait is over before the item.
        while not called.wait(0.1):
            worker.may_end.put(None)

    ending = threading.Thread(target=end_items)
    ending.start()
    assert call(shard) == 0
    called.set()
    ending.join()
    for _ in range(9):
        worker.may_end.put(None)
    while item == (0, 0):
        item = pairs.next(timeout=60)[1]
    assert item == (7, 7)
    pairs.close()


class Helped(flow.ParallelIteratorWorker):
    """A shard that waits for threads of its own, which call its methods."""

    def __init__(self) -> None:
        super().__init__(self.items)

    def items(self) -> Iterator[list[int]]:
        with ThreadPoolExecutor(2) as pool:
            for number in range(4):
                yield [*pool.map(self.double, [number, number + 1]), *pool.map(lambda x: self.double(x), [number]), self.double(number)]

    def double(self, number: int) -> int:
        return 2 * number


def through_its_shard(numbers: list[int]) -> list[int]:
    shard = flow.get_metrics().current_actor
    with ThreadPoolExecutor(1) as pool:
        return list(pool.map(shard.double, numbers))


def test_a_shard_may_wait_for_calls_of_its_own_methods() -> None:
    items = flow.from_actors([Helped()]).gather_sync()
    assert items.actors[0].double(4) == 8
    assert list(items) == [[2 * number, 2 * number + 2, 2 * number, 2 * number] for number in range(4)]
    items = flow.from_actors([Helped()]).for_each(through_its_shard).gather_sync()
    assert next(items) == [0, 4, 0, 0] and next(items) == [4, 8, 4, 4]


def test_calls_of_shards_are_as_before_otherwise() -> None:
    worker = Worker()
    items = flow.from_actors([worker]).gather_async()
    method = worker.set_weights
    assert method.__name__ == "set_weights" and method.__self__ is worker and method == worker.set_weights
    assert Worker.set_weights is Weights.set_weights and Worker.add.__qualname__ == "Worker.add"
    assert "set_weights" in LocalIterator.of([1]).for_each(method).graph() and method.__doc__ == "Returns the version before."
    assert Worker.set_weights(worker, version=3) == 0 and worker.set_weights(version=4) == 3
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        worker.set_weights()  # type: ignore[call-arg]
    items.close()
    helped = Helped()
    flow.from_actors([helped])
    copy = pickle.loads(pickle.dumps(helped))
    assert copy.double(2) == 4 and flow.from_actors([copy], on="serial").take(1) == [[0, 2, 0, 0]]


class Stuck(flow.ParallelIteratorWorker):
    """A shard that never makes its second item, unless it is released."""

    def __init__(self) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()
        super().__init__(self.items)

    def items(self) -> Iterator[int]:
        yield 1
        self.begun.set()
        self.may_end.wait()
        yield 2

    def release(self) -> str:
        self.may_end.set()
        return "released"


def test_a_call_does_not_wait_for_the_item_of_a_closed_stream() -> None:
    stuck = Stuck()
    items = flow.from_actors([stuck]).gather_async()
    assert next(items) == 1 and stuck.begun.wait(60)
    items.close()
    assert stuck.release() == "released"


def test_a_long_wait_for_an_item_is_logged() -> None:
    stuck = Stuck()

    class Watch(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            texts.append(record.getMessage())
            if texts[-1].startswith("Stuck.release() "):
                stuck.may_end.set()

    texts: list[str] = []
    logger, watch = logging.getLogger("relive"), Watch()
    logger.addHandler(watch)
    try:
        items = flow.from_actors([stuck]).gather_async().zip_with_source_actor()
        shard, _ = next(items)
        assert stuck.begun.wait(60) and shard.release() == "released"
    finally:
        logger.removeHandler(watch)
    told = "Stuck.release() has been waiting for 5 s: the thread of the shard is making an item, or another thread calls a method"
    assert any(text.startswith(told) for text in texts), texts


def test_ctrl_c_ends_the_wait_of_a_call(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "program.py"
    script.write_text("""
import threading
from relive import flow

class Stuck(flow.ParallelIteratorWorker):
    def __init__(self):
        super().__init__(self.items)

    def items(self):
        yield 1
        begun.set()
        threading.Event().wait()

    def call(self):
        pass

begun = threading.Event()
items = flow.from_actors([Stuck()]).gather_async().zip_with_source_actor()
shard, _ = next(items)
begun.wait()
print("waits", flush=True)
shard.call()
""")
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None and program.stdout.readline() == "waits\n"
        program.send_signal(signal.SIGINT)
        errors = program.communicate(timeout=60)[1]
    assert program.returncode == -signal.SIGINT and "KeyboardInterrupt" in errors


def test_calls_from_several_threads_have_their_turns() -> None:
    class Counts(flow.ParallelIteratorWorker):
        def __init__(self) -> None:
            self.inside, self.calls = 0, 0
            super().__init__(self.items)

        def alone(self) -> bool:
            self.inside += 1
            threading.Event().wait(0.0001)
            self.inside -= 1
            return self.inside == 0

        def items(self) -> Iterator[bool]:
            while True:
                yield self.alone()

        def call(self) -> bool:
            self.calls += 1
            return self.alone()

    items = flow.from_actors([Counts()]).gather_async(num_async=8)
    call = items.actors[0].call
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(call) for _ in range(200)]
        assert all(itertools.islice(items, 200)) and all(done.result(timeout=60) for done in calls)
    assert items.actors[0].calls == 200
    items.close()


class Knows(flow.ParallelIteratorWorker):
    """A shard whose items come from the method of another one."""

    other: Knows

    def __init__(self) -> None:
        self.both = threading.Barrier(2)
        super().__init__(self.items)

    def items(self) -> Iterator[str]:
        while True:
            self.both.wait(timeout=60)
            yield self.other.get()

    def get(self) -> str:
        return "from the other"


def test_shards_that_call_each_other_do_not_wait_for_each_other() -> None:
    first, second = Knows(), Knows()
    first.other, second.other = second, first
    second.both = first.both

    def others(item: str) -> tuple[str, str]:
        return item, flow.get_metrics().current_actor.other.get()

    items = flow.from_actors([first, second]).for_each(others).gather_async(num_async=1)
    assert [items.next(timeout=60) for _ in range(6)] == [("from the other", "from the other")] * 6


def test_closing_one_of_two_copies_keeps_the_turns() -> None:
    worker = Worker()
    items = flow.from_actors([worker]).gather_async(num_async=1)
    worker.may_end.put(None)
    shard = items.actors[0]
    one, other = items.duplicate(2)
    assert next(one) == (0, 0) and next(other) == (0, 0)
    # The second item has begun, too: a call before it would be between two items.
    for _ in range(2):
        worker.begun.get(timeout=60)
    one.close()
    done = threading.Event()

    def set_weights() -> None:
        shard.set_weights(7)
        done.set()

    # A thread that gets the shard from the graph takes turns; so does this one, which created it.
    caller = ThreadPoolExecutor(1).submit(lambda: (items.actors, set_weights()))
    assert not done.wait(0.2), "the call does not interrupt the item"
    for _ in range(3):
        worker.may_end.put(None)
    assert caller.result(timeout=60) is not None
    other.close()


def test_abstract_methods_stay_abstract() -> None:
    import abc

    class Base(flow.ParallelIteratorWorker, abc.ABC):
        @abc.abstractmethod
        def sample(self) -> int: ...

    class Whole(Base):
        def sample(self) -> int:
            return 3

    assert Base.__abstractmethods__ == {"sample"}
    with pytest.raises(TypeError, match="abstract"):
        Base([1])  # type: ignore[abstract]
    assert Whole([1]).sample() == 3
