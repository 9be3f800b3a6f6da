"""The number of threads that PyTorch uses for one operation, in each thread and process of a run.

PyTorch divides a large operation among the threads of an OpenMP pool. Each thread that calls PyTorch has its own pool.
While all pools of a process together have at most as many threads as there are processors, idle threads wait actively;
otherwise each operation waits until the system has woken them, and small networks learn at less than half the speed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from typing import Any

# OpenMP 5.0's `omp_pause_soft`.
_SOFT = 1


def release_pool() -> None:
    """Ends the pool of the calling thread, which only waits during a run. PyTorch creates another pool when this thread
    needs it."""
    # The library that PyTorch has loaded; other OpenMP libraries, such as LLVM's, have other rules for waiting.
    with contextlib.suppress(AttributeError, OSError):
        if "torch" in sys.modules:
            ctypes.CDLL(None).omp_pause_resource_all(_SOFT)


class TorchThreads:
    """Limits actors to one thread each, and divides the threads among the learners on this machine.

    With ``OMP_NUM_THREADS``, each actor and each learner uses that many threads instead.

    Args:
      has_actors: whether policies that explore act in threads or processes of their own.
      learners: the number of learners on this machine.
    """

    def __init__(self, *, has_actors: bool, learners: int = 1) -> None:
        self._has_actors, self._learners = has_actors, learners
        # The numbers of threads before the run, and of the learner.
        self._before, self._for_learner = 0, 0
        # How many actors have been limited, and how many of them the learner has noticed.
        self._limited, self._noticed = 0, 0
        self._own = threading.local()

    def begin_learner(self) -> None:
        """Divides the threads among the learners. The thread that learns calls it, before any actor acts."""
        torch = _adjustable()
        if torch is not None:
            self._before = torch.get_num_threads()
            self._for_learner = max(1, self._before // self._learners)
            if self._for_learner != self._before:
                torch.set_num_threads(self._for_learner)

    def before_acting(self) -> None:
        """Limits the calling thread to one thread, the first time that an actor calls it."""
        if not self._has_actors or hasattr(self._own, "is_limited"):
            return
        self._own.is_limited = True
        torch = _adjustable()
        if torch is not None:
            # This call also prepares the thread, which would undo an earlier change.
            threads = torch.get_num_threads()
            self._before = self._before or threads
            torch.set_num_threads(1)
            self._limited += 1

    def before_learning(self) -> None:
        """Makes up for the limits of actors in this process: the matrix library has one limit for all threads."""
        if self._noticed != self._limited and self._for_learner:
            self._noticed = self._limited
            sys.modules["torch"].set_num_threads(self._for_learner)

    def end(self) -> None:
        """Ends the limits, also for threads that are started after the run."""
        if self._limited or self._before != self._for_learner:
            sys.modules["torch"].set_num_threads(self._before)


def _adjustable() -> Any:
    """Returns PyTorch, if it is in use, and its number of threads is not determined by the user."""
    return None if "OMP_NUM_THREADS" in os.environ else sys.modules.get("torch")
