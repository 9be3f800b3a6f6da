"""Environments write trajectories in place, and the store's process serves them."""

from __future__ import annotations

import concurrent.futures
import os
import signal
import subprocess
import sys
import textwrap
import threading
from typing import Any

import numpy as np
import pytest
from gpu_ranks import together
from relive import errors, gpu

COLUMNS: dict[str, Any] = {"observation": ("float32", (2,)), "action": "int64", "reward": "float32"}


def store(**options: Any) -> gpu.Store:
    return gpu.Store(COLUMNS, **{"capacity": 8, "max_steps": 6, **options})


def run(script: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


ENVIRONMENT = """
    import sys
    import numpy as np
    from relive import gpu
    with gpu.attach_writer({name!r}, {columns!r}, max_steps=6, rank={rank!r}) as writer:
        for episode in range({episodes}):
            writer.begin()
            for step in range(1 + episode % 6):
                writer.write({{"observation": np.array([{first} + episode, step], "float32")}})
                action = writer.ask("action")
                assert action == 10 * step, action
                writer.append({{"reward": float(action)}})
            writer.finish(weight=episode + 1)
"""


@pytest.mark.parametrize("ranks", [1, 2])
def test_processes_act_with_answers_of_the_store(ranks: int) -> None:
    """Also on a rank whose first index is not 0."""
    name = f"writers-{os.getpid()}"

    def work(group: gpu.Group) -> None:
        with store(capacity=16, name=name, group=group) as made:
            serve(made, name, group, 2 // ranks)

    together(ranks, work)


def serve(made: gpu.Store, name: str, group: gpu.Group, count: int) -> None:
    """Serves so many processes until they have ended, and checks what they have written."""
    rank = group.rank if group.ranks > 1 else None
    given = {"name": name, "columns": COLUMNS, "rank": rank, "episodes": 6}
    processes = [run(ENVIRONMENT.format(first=100 * number, **given)) for number in range(count)]
    finished: list[gpu.Inserted] = []
    while len(finished) < 6 * count:
        scan = made.scan(timeout=30.0)
        assert scan.requests or scan.finished or scan.aborted, "nobody wants anything"
        finished += scan.finished
        if scan.requests:
            seen = made.observe(scan.requests, "observation")
            assert seen[:, 1].tolist() == [request.step for request in scan.requests]
            made.answer(scan.requests, {"action": 10 * seen[:, 1].astype(np.int64)})
    for process in processes:
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
    assert {place.index // 16 for place in finished} == {group.rank}
    batch = made.collect([place.index for place in finished], {key: gpu.Window(-6, 6, pad="tail") for key in COLUMNS})
    assert batch.generations.tolist() == [place.generation for place in finished]
    for row, length in enumerate(batch.lengths):
        observation, reward = batch.data["observation"][row], batch.data["reward"][row]
        assert observation[0, 0] % 100 == length - 1
        assert observation[:length, 1].tolist() == list(range(length))
        assert reward[:length].tolist() == batch.data["action"][row][:length].tolist() == [10 * step for step in range(length)]
    assert sorted(made.weights()) == [0] * (16 - len(finished)) + sorted([1, 2, 3, 4, 5, 6] * count)


@pytest.mark.parametrize("at", ["begin()", "begin(); writer.write({'reward': 1})", "begin(); writer.append(step)", "begin(); writer._native.request()"])
def test_a_killed_writer_leaves_nothing_behind(at: str) -> None:
    name = f"killed-{os.getpid()}"
    with store(capacity=2, writers=1, name=name) as made:
        script = f"""
            import numpy as np
            from relive import gpu
            step = {{"observation": np.ones(2, "float32"), "action": 1, "reward": 0}}
            writer = gpu.attach_writer({name!r})
            writer.{at}
            print("there", flush=True)
            __import__("signal").pause()
        """
        process = run(script)
        there = threading.Thread(target=process.stdout.readline)  # type: ignore[union-attr]
        there.start()
        while there.is_alive():
            made.scan(timeout=0.05)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert made.scan(timeout=30.0).aborted == 1
        assert [made.status(index).state for index in range(2)] == ["free", "free"]
        assert made.metrics()["dead_writers"] == 1
        # The writer's slot is free for another writer.
        made.writer().close()


def test_an_ended_store_is_detected() -> None:
    name = f"gone-{os.getpid()}"
    process = run(f"""
        from relive import gpu
        made = gpu.Store({COLUMNS!r}, capacity=2, max_steps=6, name={name!r})
        print("there", flush=True)
        __import__("signal").pause()
    """)
    assert process.stdout is not None and process.stdout.readline() == "there\n"
    with gpu.attach_writer(name) as writer:
        process.kill()
        process.communicate()
        with pytest.raises(errors.UnavailableError, match="ended"):
            writer.begin(timeout=60.0)
    # A killed process leaves its memory behind.
    os.unlink(f"/dev/shm/{name}")


def test_invalid_store_writer_calls_are_refused() -> None:
    step = {"observation": np.ones(2, "float32"), "action": 1, "reward": 0}
    with store(writers=1) as made:
        writer = made.writer()
        assert (writer.number, writer.max_steps, writer.steps) == (0, 6, 0)
        with pytest.raises(errors.UnavailableError, match="writer slots"):
            made.writer()
        with pytest.raises(errors.DeadlineExceededError, match="check that the store's process scans"):
            writer.begin(timeout=0.0)
        made.scan()
        writer.begin()
        for values, text in (
            ({"nothing": 1}, "no column 'nothing'"),
            ({"observation": np.ones(3)}, "shape"),
            ({"action": 1.5}, "do not fit int64"),
        ):
            with pytest.raises((errors.InvalidArgumentError, errors.NotFoundError), match=text):
                writer.write(values)
        with pytest.raises(errors.InvalidArgumentError, match=r"has no \['action'\]"):
            writer.append({"observation": np.ones(2), "reward": 0})
        writer.write({"reward": 1})
        with pytest.raises(errors.InvalidArgumentError, match="only"):
            writer.finish()
        writer.abandon()
        with pytest.raises(errors.InvalidArgumentError, match="no steps"):
            writer.finish()
        for _ in range(6):
            writer.append(step)
        with pytest.raises(errors.InvalidArgumentError, match="all of its 6 steps"):
            writer.append(step)
        with pytest.raises(errors.InvalidArgumentError, match="weight"):
            writer.finish(-1.0)
        with pytest.raises(errors.NotFoundError, match="no open request"):
            made.observe([gpu.Request(0, 0, 6, 1)], "action")
        writer.finish(2.0)
        assert made.scan() == gpu.Scan([], [gpu.Inserted(0, 1)], 0, 0)
        writer.close()
        with pytest.raises(errors.ClosedError):
            writer.begin()


def test_a_writer_waits_for_a_pinned_row() -> None:
    with store(capacity=1, removal="fifo") as made:
        writer = made.writer()
        step = {"observation": np.ones(2, "float32"), "action": 1, "reward": 0}
        with pytest.raises(errors.DeadlineExceededError):
            writer.begin(timeout=0.0)
        made.scan()
        writer.begin()
        writer.append(step)
        writer.finish()
        made.scan()
        # The writer gets the same row again, because there is only one.
        writer.begin()
        assert len(made) == 0


def test_closing_a_store_ends_waits() -> None:
    name = f"closed-{os.getpid()}"
    for wait in (lambda made: made.scan(timeout=60.0), lambda made: made.insert({"x": np.zeros(1, np.float32)}, timeout=60.0)):
        with gpu.Store({"x": "float32"}, capacity=1, max_steps=2, name=name, removal=lambda candidates: None) as made:
            made.insert({"x": np.zeros(1, np.float32)})
            with concurrent.futures.ThreadPoolExecutor() as pool:
                waiting = pool.submit(wait, made)
                with pytest.raises(concurrent.futures.TimeoutError):
                    waiting.result(timeout=0.2)
                made.close()
                with pytest.raises(errors.ClosedError):
                    waiting.result(timeout=20.0)


def begun(made: gpu.Store) -> gpu.Writer:
    """Returns a writer with a row."""
    writer = made.writer()
    with pytest.raises(errors.DeadlineExceededError):
        writer.begin(timeout=0.0)
    made.scan()
    writer.begin()
    return writer


def asked(made: gpu.Store, writer: gpu.Writer, column: str) -> gpu.Request:
    with pytest.raises(errors.DeadlineExceededError):
        writer.ask(column, timeout=0.0)
    (request,) = made.scan().requests
    return request


def test_a_writer_cannot_begin_in_the_middle_of_a_trajectory() -> None:
    with store() as made:
        writer = begun(made)
        writer.write({"action": 1})
        with pytest.raises(errors.InvalidArgumentError, match="has begun step 0"):
            writer.begin()
        writer.append({"observation": np.ones(2), "reward": 0})
        with pytest.raises(errors.InvalidArgumentError, match="unfinished trajectory of 1 steps; finish or abandon it first"):
            writer.begin()
        writer.abandon()
        writer.begin()
        assert writer.steps == 0


def test_a_late_answer_reaches_no_other_writer() -> None:
    with store() as made:
        old, other = begun(made), begun(made)
        old.write({"observation": np.ones(2)})
        late, request = asked(made, old, "action"), asked(made, other, "action")
        old.close()
        assert made.scan().aborted == 1
        new = begun(made)
        new.write({"observation": np.full(2, 7)})
        current = asked(made, new, "action")
        assert (current.writer, current.generation > late.generation or current.index != late.index) == (late.writer, True)
        assert made.observe([late, current], "observation").tolist() == [[0, 0], [7, 7]]
        made.answer([late, request], {"action": [1, 2]})
        assert other.wait(timeout=0.0) == 2
        with pytest.raises(errors.DeadlineExceededError):
            new.wait(timeout=0.0)
        made.answer([current], {"action": [3]})
        assert new.wait(timeout=0.0) == 3


def test_an_answer_counts_for_all_of_its_columns() -> None:
    with store() as made:
        writer = begun(made)
        writer.write({"observation": np.ones(2)})
        made.answer([asked(made, writer, "action")], {"action": [3], "reward": [0.5]})
        assert writer.wait() == 3
        writer.append({})
        # Values of the previous step and of earlier trajectories in the row are not an answer.
        made.answer([asked(made, writer, "action")], {"reward": [0.5]})
        with pytest.raises(errors.InvalidArgumentError, match="has no 'action'; the store's process must pass this column"):
            writer.wait()
        with pytest.raises(errors.InvalidArgumentError, match=r"step 1 has no \['action', 'observation'\]"):
            writer.append({})
        writer.append({"observation": np.ones(2), "action": 4})
        with pytest.raises(errors.InvalidArgumentError, match="waits for nothing; call ask"):
            writer.wait()
        writer.finish()
        made.scan()
        assert made.collect([0], {"action": gpu.Window(-2, 2)}).data["action"].tolist() == [[3, 4]]
