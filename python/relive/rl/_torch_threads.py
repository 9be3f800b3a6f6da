"""The number of threads that PyTorch uses for one operation, in each thread of a run.

PyTorch divides a large operation among the threads of an OpenMP pool. Each thread that calls PyTorch has its own pool.
Idle threads spin as long as the pools of a process have no more threads in total than there are processors. With more
threads, idle threads sleep and each operation has to wake them, so small networks learn at less than half the speed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

# OpenMP 5.0's `omp_pause_soft`.
_SOFT = 1

_changing = threading.Lock()
_own = threading.local()
_is_forked = False


def _after_fork() -> None:
    global _changing, _is_forked
    _changing, _is_forked = threading.Lock(), True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def release_pool() -> None:
    """Ends the pool of the calling thread, which only waits during a run. PyTorch creates another pool when this thread
    needs it."""
    # A forked process has its parent's pool without the threads, so waiting for their end would never stop.
    if sys.platform != "linux" or _is_forked or "torch" not in sys.modules or len(os.listdir("/proc/self/task")) == 1:
        return
    # The library that PyTorch has loaded, unless it lacks this function of OpenMP.
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).omp_pause_resource_all(_SOFT)


def number_of_threads() -> int | None:
    """Returns PyTorch's number of threads in the calling thread; ``None`` if PyTorch is not in use, or if the user has
    set ``OMP_NUM_THREADS``."""
    torch = _adjustable()
    return None if torch is None else int(torch.get_num_threads())


def set_number_of_threads(number: int | None) -> None:
    """Sets PyTorch's number of threads for this process, which has just started."""
    torch = _adjustable()
    if torch is not None and number is not None:
        torch.set_num_threads(number)


class TorchThreads:
    """Limits the actors of a run to one PyTorch thread each, and divides the threads among its learners.

    With ``OMP_NUM_THREADS``, there are no limits.

    Args:
      has_actors: whether policies that explore act in threads or processes of their own.
      learners: the number of learners on this machine.
    """

    def __init__(self, *, has_actors: bool, learners: int = 1) -> None:
        self._has_actors, self._learners = has_actors, learners

    def limit_learner(self) -> None:
        """Limits the calling thread, which learns."""
        if self._learners > 1:
            _limit_thread(lambda number: max(1, number // self._learners))

    def limit_actor(self) -> None:
        """Limits the calling thread, which acts."""
        if self._has_actors:
            _limit_thread(lambda number: 1)


def _limit_thread(limit: Callable[[int], int]) -> None:
    """Changes the number of PyTorch threads that the calling thread uses, at its first call after PyTorch has been
    imported."""
    if hasattr(_own, "is_limited"):
        return
    torch = _adjustable()
    if torch is None:
        return
    _own.is_limited = True
    with _changing:
        # This call also prepares the thread; PyTorch would otherwise do that later, and undo the change.
        number = torch.get_num_threads()
        torch.set_num_threads(limit(number))
        # The change also applies to threads that have not used PyTorch, and to the matrix library. A short-lived thread
        # undoes that; the calling thread keeps its own number.
        undoing = threading.Thread(target=torch.set_num_threads, args=(number,))
        undoing.start()
        undoing.join()


def _adjustable() -> Any:
    """Returns PyTorch, if it has been imported, and the user has not set its number of threads in the environment."""
    torch = None if "OMP_NUM_THREADS" in os.environ else sys.modules.get("torch")
    return torch if hasattr(torch, "set_num_threads") else None
