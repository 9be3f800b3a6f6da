"""The number of threads that PyTorch uses for one operation, in each thread of a run.

PyTorch divides a large operation among the threads of an OpenMP pool. Each thread that calls PyTorch has its own pool.
Idle threads spin as long as the pools of a process have no more threads in total than there are processors. With more
threads, idle threads sleep and each operation has to wake them, so small networks learn at less than half the speed.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import sys
import threading
from typing import Any

from relive._numbers import count

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
    """Limits the actors of a run to one PyTorch thread each, divides the threads among its learners, and limits a learner
    to its ``torch_threads``.

    With ``OMP_NUM_THREADS``, there are no limits.

    Args:
      has_actors: whether policies that explore act in threads or processes of their own.
      learners: the number of learners on this machine.
    """

    def __init__(self, *, has_actors: bool, learners: int = 1) -> None:
        self._has_actors, self._learners = has_actors, learners

    def limit_learner(self, learner: Any = None) -> None:
        """Limits the calling thread, in which this learner learns."""
        own = getattr(learner, "torch_threads", None)
        # A thread may have learned in an earlier run.
        if own is not None or self._learners > 1 or hasattr(_own, "limits"):
            _limit_thread(own, share_of=self._learners)

    def limit_actor(self) -> None:
        """Limits the calling thread, which acts."""
        if self._has_actors:
            _limit_thread(1)


def _limit_thread(most: int | None, *, share_of: int = 1) -> None:
    """Limits the number of PyTorch threads that the calling thread uses, at its first call after PyTorch has been
    imported, and at later calls with other arguments.

    Args:
      most: the largest number; ``None``: as many as there are.
      share_of: the number of threads like this one, which divide PyTorch's threads among themselves.
    """
    if getattr(_own, "limits", None) == (most, share_of):
        return
    torch = _adjustable()
    if torch is None:
        return
    most_or_all = math.inf if most is None else count("torch_threads", most, least=1)
    _own.limits = most, share_of
    with _changing:
        # This call also prepares the thread; PyTorch would otherwise do that later, and undo the change.
        before = _own.before = getattr(_own, "before", torch.get_num_threads())
        torch.set_num_threads(max(1, int(min(most_or_all, before // share_of))))
        # The change also applies to threads that have not used PyTorch, and to the matrix library. A short-lived thread
        # undoes that; the calling thread keeps its own number.
        undoing = threading.Thread(target=torch.set_num_threads, args=(before,))
        undoing.start()
        undoing.join()


def _adjustable() -> Any:
    """Returns PyTorch, if it has been imported, and the user has not set its number of threads in the environment."""
    torch = None if "OMP_NUM_THREADS" in os.environ else sys.modules.get("torch")
    return torch if hasattr(torch, "set_num_threads") else None
