"""Members of rings, each in its own process: ``all_reduce_members.py MODE RANK RANKS ADDRESS``. Each member prints its
results as JSON. The members that learn are in ``all_reduce_learners.py``, because PyTorch takes seconds to import."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from relive import rl


def calls(ring: rl.AllReduce) -> Any:
    """Makes each call once, and returns the results."""
    own = np.full((2, 3), ring.rank + 1, np.float32)
    ring.mean(own)
    parts = [np.full(2, ring.rank, np.float32), np.zeros((3, 4), np.float32)[:, ::2]]
    parts[1][...] = 10 * ring.rank
    ring.sum(parts)
    weights = [np.arange(3) + ring.rank, np.array(ring.rank, np.float64), np.zeros(0, np.uint8)]
    ring.broadcast(weights)
    return {
        "mean": own.tolist(),
        "sum": [part.tolist() for part in parts],
        "weights": [array.tolist() for array in weights],
        "gathered": ring.gather([ring.rank, 0.5]),
    }


def wait(ring: rl.AllReduce) -> Any:
    """Lets the first member wait for the others, which never join, and counts the steps that another thread takes in
    the meantime."""
    ticks = [0]
    is_over = threading.Event()

    def tick() -> None:
        while not is_over.wait(0.001):
            ticks[0] += 1

    ticking = threading.Thread(target=tick)
    ticking.start()
    print("ready", flush=True)
    begun = time.monotonic()
    try:
        if ring.rank == 0:
            ring.mean(np.zeros(4, np.float32))
        else:
            sys.stdin.read()
    except BaseException as error:
        return {"raised": type(error).__name__, "text": str(error), "ticks": ticks[0], "seconds": time.monotonic() - begun}
    finally:
        is_over.set()
        ticking.join()


def join(mode: str, rank: int, ranks: int, address: str, act: Callable[[rl.AllReduce], Any], silence: float = 10.0) -> None:
    """Joins a ring, and prints the result of ``act``."""
    with rl.AllReduce(rank, ranks, address, job=mode, token="secret", silence=silence, meeting_timeout=30) as ring:
        print(json.dumps(act(ring)), flush=True)


if __name__ == "__main__":
    mode, rank, ranks, address = sys.argv[1:]
    act, silence = {"calls": (calls, 10.0), "wait": (wait, 2.0)}[mode]
    join(mode, int(rank), int(ranks), address, act, silence)
