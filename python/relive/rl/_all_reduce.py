"""Arrays that several learners share."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from relive import _native
from relive._numbers import count

Floats = npt.NDArray[np.float32]


class AllReduce:
    """A member of a ring of processes that sum or average arrays, such as the gradients of parallel learners.

    Each process creates one member, with ranks starting at 0. The first process listens at an address, to which the
    other processes connect in any order. All members make the same calls in the same order, and each call waits for all
    members. Sums are computed in one order and then copied, so all members receive the same bits, in every run.

    ::

        with rl.AllReduce(rank, 2, "10.0.0.5:7100", token=token) as ring:
            ring.broadcast(weights)          # all start with those of rank 0
            ring.mean(gradient)              # in place

    At the end of the ``with`` block, the process leaves the ring normally: later calls from the other members raise
    :class:`relive.errors.ClosedError`. If an exception ends the block, the other members receive it.

    Args:
      rank: the number of this process, starting at 0.
      ranks: the number of processes.
      address: the host and port at which the processes meet, which all of them must be able to reach; the first process
        listens there.
      job: the name of the common job; members that belong to another job are rejected.
      token: the token that members must send. TLS is not used: neither the token nor the arrays are encrypted.
      meeting_timeout: the number of seconds within which all processes must connect.
      timeout: the number of seconds that a call waits for members that are alive.
      silence: the number of seconds without a message after which a process counts as lost; the exit of a process is
        detected immediately.

    Raises:
      ValueError: an argument that is out of range.
      relive.errors.UnavailableError: not all processes connected in time, or this process cannot listen at the address.
      relive.errors.PermissionDeniedError: the meeting rejects this process; the error gives the reason.
    """

    def __init__(
        self,
        rank: int,
        ranks: int,
        address: str,
        *,
        job: str = "",
        token: str = "",
        meeting_timeout: float = 60.0,
        timeout: float = 600.0,
        silence: float = 10.0,
    ) -> None:
        self._rank, self._ranks = count("rank", rank), count("ranks", ranks, 1)
        self._ring = _native.Ring(self._rank, self._ranks, address, job, token, meeting_timeout, timeout, silence)

    @property
    def rank(self) -> int:
        """The number of this process."""
        return self._rank

    @property
    def ranks(self) -> int:
        """The number of processes."""
        return self._ranks

    def mean(self, arrays: Floats | Sequence[Floats]) -> None:
        """Replaces the arrays of each member with the mean over all members. Several arrays are sent together, as one.

        Raises:
          TypeError: a value that is not an array of float32.
          ValueError: a read-only array; members that make a different call, or pass arrays of a different size.
          relive.errors.UnavailableError: a member is lost; the error names it.
          relive.errors.ClosedError: a member has left the ring.
          relive.errors.DeadlineExceededError: members are alive but did not make the call within ``timeout``.
        """
        self._reduce(arrays, is_mean=True)

    def sum(self, arrays: Floats | Sequence[Floats]) -> None:
        """Like :meth:`mean`, with sums."""
        self._reduce(arrays, is_mean=False)

    def broadcast(self, arrays: npt.NDArray[Any] | Sequence[npt.NDArray[Any]]) -> None:
        """Replaces the arrays of all other members with the arrays of rank 0. The arrays may have any numeric type, and
        must have the same size everywhere.

        Raises:
          Exception: as for :meth:`mean`.
        """
        several = _several(arrays)
        data = np.concatenate([np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in several])
        self._ring.broadcast(data)
        _write(several, data, bytes_each=True)

    def gather(self, numbers: Sequence[float]) -> list[list[float]]:
        """Returns the numbers of all members, by rank; each member must pass the same number of them.

        Raises:
          Exception: as for :meth:`mean`.
        """
        return self._ring.gather([float(number) for number in numbers])

    def close(self) -> None:
        """Leaves the ring normally."""
        self._ring.leave()

    def __enter__(self) -> AllReduce:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self._ring.fail(f"it raised {kind.__name__}: {error}")

    def _reduce(self, arrays: Floats | Sequence[Floats], *, is_mean: bool) -> None:
        several = _several(arrays)
        for array in several:
            if array.dtype != np.float32:
                raise TypeError(f"an array has dtype {array.dtype}, but sums require float32")
        if len(several) == 1 and several[0].flags.c_contiguous:
            self._ring.all_reduce(several[0], is_mean)
            return
        together = np.concatenate([array.reshape(-1) for array in several])
        self._ring.all_reduce(together, is_mean)
        _write(several, together)


def _several(arrays: Any) -> list[npt.NDArray[Any]]:
    several = [arrays] if isinstance(arrays, np.ndarray) else list(arrays)
    if not several:
        raise ValueError("there are no arrays; give at least one")
    for array in several:
        if not isinstance(array, np.ndarray):
            raise TypeError(f"{type(array).__name__} is not a numpy array; for a PyTorch tensor on the CPU, use .numpy(), which shares "
                            "its memory")
        if not array.flags.writeable:
            raise ValueError("an array is read-only; give a writable one, such as a copy")
    return several


def _write(arrays: list[npt.NDArray[Any]], data: npt.NDArray[Any], *, bytes_each: bool = False) -> None:
    """Distributes numbers among arrays, in order."""
    begin = 0
    for array in arrays:
        end = begin + (array.nbytes if bytes_each else array.size)
        array[...] = data[begin:end].view(array.dtype).reshape(array.shape)
        begin = end
