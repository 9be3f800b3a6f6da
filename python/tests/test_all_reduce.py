"""relive.rl.AllReduce, and several PyTorch learners, in separate processes."""

from __future__ import annotations

import contextlib
import json
import pathlib
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from relive import errors, rl

FOLDER = pathlib.Path(__file__).parent
SECONDS = 120


def free_address() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


@contextlib.contextmanager
def members(mode: str, ranks: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Provides the processes of a ring, which are ended with the block."""
    program = FOLDER / ("all_reduce_members.py" if mode in {"calls", "wait"} else "all_reduce_learners.py")
    address = free_address()
    processes = [
        subprocess.Popen(
            [sys.executable, str(program), mode, str(rank), str(ranks), address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def found(mode: str, ranks: int) -> list[Any]:
    """Returns the results of all members."""
    with members(mode, ranks) as processes:
        return [json.loads(process.communicate(timeout=SECONDS)[0]) for process in processes]


def test_each_call_gives_all_members_the_same_result() -> None:
    expected = {
        "mean": [[2.0] * 3] * 2,
        "sum": [[3.0, 3.0], [[30.0, 30.0]] * 3],
        "weights": [[0, 1, 2], 0.0, []],
        "gathered": [[0.0, 0.5], [1.0, 0.5], [2.0, 0.5]],
    }
    assert found("calls", 3) == [expected] * 3


def test_two_learners_with_half_batches_match_one_with_the_whole_batch() -> None:
    first, second = found("regression", 2)
    assert first == second
    (alone,) = found("regression", 1)
    for of_two, of_one in zip(first, alone, strict=True):
        np.testing.assert_allclose(of_two, of_one, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["gloo", "agent"])
def test_learners_of_two_runs_hold_the_same_weights(mode: str) -> None:
    first, second = found(mode, 2)
    assert first["weights"] == second["weights"]
    assert first["steps"] == second["steps"] == 16
    # Each member has learned from its own episodes.
    assert first["episodes"] != second["episodes"]


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP])
def test_a_lost_member_is_named_to_waiting_members(sent: signal.Signals) -> None:
    with members("wait", 3) as processes:
        for process in processes:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
        processes[2].send_signal(sent)
        told = json.loads(processes[0].communicate(timeout=SECONDS)[0])
    assert told["raised"] == "UnavailableError"
    assert told["text"].startswith("lost member 2 (") and f"process {processes[2].pid}" in told["text"]
    assert told["seconds"] < 30


def test_ctrl_c_ends_a_waiting_call_that_lets_other_threads_run() -> None:
    with members("wait", 2) as processes:
        for process in processes:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
        # The member waits until other threads have run.
        with pytest.raises(subprocess.TimeoutExpired):
            processes[0].wait(timeout=0.5)
        processes[0].send_signal(signal.SIGINT)
        told = json.loads(processes[0].communicate(timeout=SECONDS)[0])
    assert told["raised"] == "KeyboardInterrupt"
    assert told["ticks"] > 20


def test_all_reduce_reports_misuse() -> None:
    with rl.AllReduce(0, 1, "127.0.0.1:0") as ring:
        own = np.ones(3, np.float32)
        ring.mean(own)
        assert own.tolist() == [1.0] * 3 and (ring.rank, ring.ranks) == (0, 1)
        with pytest.raises(TypeError, match="float64, but sums require float32"):
            ring.mean(np.ones(3))  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="list is not a numpy array"):
            ring.mean([[1.0]])  # type: ignore[list-item]
        with pytest.raises(ValueError, match="there are no arrays"):
            ring.sum([])
        own.flags.writeable = False
        with pytest.raises(ValueError, match="an array is read-only"):
            ring.mean(own)
    with pytest.raises(ValueError, match="rank is 2, but it must be 0 to 1"):
        rl.AllReduce(2, 2, "127.0.0.1:0")
    with pytest.raises(errors.UnavailableError, match=r"these of the 3 members did not join within 0.1 s: 1, 2"):
        rl.AllReduce(0, 3, "127.0.0.1:0", meeting_timeout=0.1)
    with pytest.raises(errors.UnavailableError, match="cannot connect"):
        rl.AllReduce(1, 2, free_address(), meeting_timeout=0.1)
