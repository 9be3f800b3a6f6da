"""Arrays that several learners have in common."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from relive import _native
from relive.rl._settings import count

Floats = npt.NDArray[np.float32]


class AllReduce:
    """A member of a ring of processes that sum or average their arrays, such as the gradients of learners side by side.

    Each process makes one, with its rank from 0 on; the first opens the meeting at an address and the others join it, in any order. All members make
    the same calls in the same order, and each call waits for all of them. Sums are made in one order and then copied: all members get the same bits, in
    every run.

    ::

        with rl.AllReduce(rank, 2, "10.0.0.5:7100", token=token) as ring:
            ring.broadcast(weights)          # all begin with those of rank 0
            ring.mean(gradient)              # in its place

    Leaving the ``with`` block leaves the ring in order: what the others call after that raises :class:`relive.errors.ClosedError`. With an exception the
    others are told of it.

    Args:
      rank: the number of this process, from 0 on.
      ranks: how many there are.
      address: host and port of the meeting, which all of them reach; the first process listens there.
      job: what they do together: a member of another job is refused.
      token: what members show to be let in. It is sent as it is, like all arrays: there is no TLS.
      meeting_timeout: seconds in which all must have come.
      timeout: seconds that a call waits for members that live.
      silence: a process that sends nothing for so many seconds counts as lost; one that ends is noticed at once.

    Raises:
      ValueError: an argument out of its range.
      relive.errors.UnavailableError: not all have come in time, or nobody can listen there.
      relive.errors.PermissionDeniedError: the meeting refuses this process; the error says why.
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
        """How many processes there are."""
        return self._ranks

    def mean(self, arrays: Floats | Sequence[Floats]) -> None:
        """Puts the mean of all members' arrays in the place of each. Several arrays go around together, as one.

        Raises:
          TypeError: something else than arrays of float32.
          ValueError: an array that cannot be written to; members that call something else, or with arrays of another size.
          relive.errors.UnavailableError: a member is lost; the error names it.
          relive.errors.ClosedError: a member has left the ring.
          relive.errors.DeadlineExceededError: members live and did not come within ``timeout``.
        """
        self._reduce(arrays, is_mean=True)

    def sum(self, arrays: Floats | Sequence[Floats]) -> None:
        """The same with sums."""
        self._reduce(arrays, is_mean=False)

    def broadcast(self, arrays: npt.NDArray[Any] | Sequence[npt.NDArray[Any]]) -> None:
        """Puts the arrays of rank 0 in the place of those of all others. They may be of any numbers, and are as large everywhere.

        Raises:
          Exception: as :meth:`mean`.
        """
        several = _several(arrays)
        data = np.concatenate([np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in several])
        self._ring.broadcast(data)
        _write(several, data, bytes_each=True)

    def gather(self, numbers: Sequence[float]) -> list[list[float]]:
        """The numbers of all members, by rank; each gives equally many.

        Raises:
          Exception: as :meth:`mean`.
        """
        return self._ring.gather([float(number) for number in numbers])

    def close(self) -> None:
        """Leaves the ring in order."""
        self._ring.leave()

    def __enter__(self) -> AllReduce:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self._ring.fail(f"it has raised {kind.__name__}: {error}")

    def _reduce(self, arrays: Floats | Sequence[Floats], *, is_mean: bool) -> None:
        several = _several(arrays)
        for array in several:
            if array.dtype != np.float32:
                raise TypeError(f"an array is of {array.dtype}, but it must be of float32: a sum is made of these")
        if len(several) == 1 and several[0].flags.c_contiguous:
            self._ring.all_reduce(several[0], is_mean)
            return
        together = np.concatenate([array.reshape(-1) for array in several])
        self._ring.all_reduce(together, is_mean)
        _write(several, together)


def _several(arrays: Any) -> list[npt.NDArray[Any]]:
    several = [arrays] if isinstance(arrays, np.ndarray) else list(arrays)
    if not several:
        raise ValueError("there are no arrays: give one at least")
    for array in several:
        if not isinstance(array, np.ndarray):
            raise TypeError(f"{type(array).__name__} is no numpy array; a tensor of PyTorch on the CPU becomes one by .numpy(), which shares its memory")
        if not array.flags.writeable:
            raise ValueError("an array cannot be written to: give one that owns its numbers, such as a copy")
    return several


def _write(arrays: list[npt.NDArray[Any]], data: npt.NDArray[Any], *, bytes_each: bool = False) -> None:
    """Shares out numbers among arrays, in their order."""
    begin = 0
    for array in arrays:
        end = begin + (array.nbytes if bytes_each else array.size)
        array[...] = data[begin:end].view(array.dtype).reshape(array.shape)
        begin = end
