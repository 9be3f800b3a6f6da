"""Ranks: processes that each have one store and together draw from all stores."""

from __future__ import annotations

import abc
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from relive.errors import InvalidArgumentError, UnavailableError
from relive.gpu._given import integer
from relive.gpu._waits import log_long_wait

# Precedes each message: a magic number, the number of the exchange, whether and how the rank failed, and the length of
# the call's name, which follows.
_TAG = struct.Struct("<8sQBB")
_MARK = b"RLVCALL1"
# How a rank failed.
_OK, _UNAVAILABLE, _FAILED = range(3)
_REMEDY = "create the store again on all ranks, with a new group, or load the last checkpoint"


class Group(abc.ABC):
    """A group of processes that make the same calls in the same order. Subclass it for a transport that
    :class:`relive.gpu.Store` does not support.

    Args:
      rank: the rank of this process, counted from 0.
      ranks: the number of processes. Each has a store.
      replica, replicas: this process's share of a global batch, and the number of shares; by default rank and ranks.
        Processes of one replica, such as the stages of a pipeline, read the same rows.

    Raises:
      InvalidArgumentError: ``rank`` is not between 0 and ``ranks - 1``, or ``replica`` is not between 0 and ``replicas
        - 1``.
    """

    _call = "all_gather"
    """The call that exchanges messages, for errors."""
    _exchanges = 0
    """The number of exchanges so far, which is the same on all ranks."""
    _is_unavailable = False
    """Whether every rank that failed in the last exchange raised UnavailableError; all ranks have the same value."""
    _ended: str | None = None
    """Why no further exchange is possible."""

    def __init__(self, rank: int, ranks: int, *, replica: int | None = None, replicas: int | None = None) -> None:
        self.rank = rank
        self.ranks = ranks
        self.replica = rank if replica is None else replica
        self.replicas = ranks if replicas is None else replicas
        for what, value, number in (("rank", rank, ranks), ("replica", self.replica, self.replicas)):
            if not 0 <= integer(what, value) < integer(f"{what}s", number):
                raise InvalidArgumentError(f"{what} is {value} of {number}; it must be 0 to {number - 1}")

    @abc.abstractmethod
    def all_gather(self, message: bytes) -> Sequence[bytes]:
        """Sends this process's bytes to all processes, and returns the bytes of all processes, by rank. All processes
        must call this method. After an exception, the store does not use the group again.

        Raises:
          UnavailableError: a process has ended.
          DeadlineExceededError: a process does not make this call in time.
        """

    def close(self) -> None:
        """Closes the resources that the group itself has opened."""

    def _end(self, why: str) -> None:
        """Ends all exchanges, because the ranks are no longer at the same point; the first reason is kept."""
        self._ended = self._ended or why

    def _fail(self, error: BaseException) -> None:
        """Ends all exchanges, because this rank did not complete one."""
        self._end(f"rank {self.rank} stopped in {self._call}: {str(error) or type(error).__name__}")

    def _check(self) -> None:
        """Raises an error if all exchanges have ended."""
        if self._ended is not None:
            raise UnavailableError(f"{self._ended}; {_REMEDY}")

    def _awaited(self) -> str:
        """Returns a description of the wait in an exchange, for the log."""
        return "the other ranks have not sent theirs; check that all ranks make the same calls in the same order, and that none has ended"


class _Torch(Group):
    """A PyTorch process group, or a module with the functions of ``torch.distributed``, such as ``deepspeed.comm``."""

    def __init__(self, functions: Any, group: Any = None, **share: int) -> None:
        self._functions, self._group = functions, group
        where = {} if group is None else {"group": group}
        super().__init__(functions.get_rank(**where), functions.get_world_size(**where), **share)

    def all_gather(self, message: bytes) -> Sequence[bytes]:
        answers: list[Any] = [None] * self.ranks
        where = {} if self._group is None else {"group": self._group}
        self._functions.all_gather_object(answers, message, **where)
        return answers


class _Mpi(Group):
    """A communicator with the methods of mpi4py."""

    def __init__(self, communicator: Any) -> None:
        self._communicator = communicator
        super().__init__(communicator.Get_rank(), communicator.Get_size())

    def all_gather(self, message: bytes) -> Sequence[bytes]:
        answers: Sequence[bytes] = self._communicator.allgather(message)
        return answers


def group_of(given: Any) -> Group:
    """Returns the group of a framework's object.

    Raises:
      InvalidArgumentError: the object is not one of these.
      UnavailableError: ``torch.distributed`` has not been initialized.
    """
    if isinstance(given, Group):
        return given
    if _has(given, "get_data_parallel_rank", "get_data_parallel_world_size"):
        return _of_topology(given)
    if _has(given, "get_rank", "get_world_size", "all_gather_object"):
        return _Torch(_initialized(given))
    if _has(given, "Get_rank", "Get_size", "allgather"):
        return _Mpi(given)
    if _is_process_group(given):
        return _Torch(_distributed(), given)
    raise InvalidArgumentError(
        f"group is a {type(given).__name__}; give torch.distributed, a process group of it, a topology with get_data_parallel_rank() and "
        "get_data_parallel_world_size(), a communicator of mpi4py, or a relive.gpu.Group"
    )


def _of_topology(topology: Any) -> Group:
    """All processes have stores; processes with the same data-parallel rank read the same rows."""
    replica, replicas = topology.get_data_parallel_rank(), topology.get_data_parallel_world_size()
    group = _Torch(_distributed(), replica=replica, replicas=replicas)
    if group.ranks % replicas:
        raise InvalidArgumentError(f"the topology has {replicas} data-parallel ranks, which do not divide its {group.ranks} processes evenly")
    return group


def _has(given: Any, *names: str) -> bool:
    return all(callable(getattr(given, name, None)) for name in names)


def _is_process_group(given: Any) -> bool:
    return any(kind.__name__ == "ProcessGroup" and kind.__module__.startswith("torch") for kind in type(given).__mro__)


def _distributed() -> Any:
    import torch.distributed

    return _initialized(torch.distributed)


def _initialized(functions: Any) -> Any:
    if not functions.is_initialized():
        raise UnavailableError("torch.distributed is not initialized; call torch.distributed.init_process_group first")
    return functions


def exchange(group: Group, make: Callable[[], bytes], call: str = "next(loader)") -> list[bytes]:
    """Returns the bytes of each rank, by rank.

    All ranks can continue after an ``Exception`` of ``make``. Any other failure, such as Ctrl-C or a timeout, leaves
    the ranks at different points. It therefore ends the group: every later exchange raises an error with the reason.

    Args:
      make: returns this rank's bytes.
      call: the call that needs the exchange. Ranks that are in different calls get an error.

    Raises:
      UnavailableError: another rank failed, or the group has ended; the error gives the reason. This rank's own
        exception takes precedence.
      InvalidArgumentError: the ranks make different calls. This ends the group.
    """
    group._is_unavailable = False
    group._check()
    group._call = call
    try:
        failed, message = _outcome(group, make)
        with log_long_wait(f"rank {group.rank} of {group.ranks}", group._awaited):
            answers = [_parsed(answer) for answer in group.all_gather(message)]
        group._exchanges += 1
    except BaseException as error:
        group._fail(error)
        raise
    finally:
        group._call = Group._call
    _check_calls(group, answers)
    group._is_unavailable = {answer.failure for answer in answers} - {_OK} == {_UNAVAILABLE}
    if failed is not None:
        raise failed
    for rank, answer in enumerate(answers):
        if answer.failure != _OK:
            raise UnavailableError(f"rank {rank} cannot continue: {answer.body.decode(errors='replace')}")
    return [answer.body for answer in answers]


class _Answer(NamedTuple):
    at: str
    """The number of the exchange, and the call."""
    failure: int
    """``_OK``, or how the rank failed."""
    body: bytes


def _outcome(group: Group, make: Callable[[], bytes]) -> tuple[Exception | None, bytes]:
    """Returns the exception of ``make``, if any, and the message for the other ranks."""
    failed, failure = None, _OK
    try:
        body = make()
    except Exception as error:
        failed, body = error, str(error).encode(errors="replace")
        failure = _UNAVAILABLE if isinstance(error, UnavailableError) else _FAILED
    name = group._call.encode()
    return failed, _TAG.pack(_MARK, group._exchanges, failure, len(name)) + name + body


def _parsed(given: Any) -> _Answer:
    message = bytes(given) if isinstance(given, (bytes, bytearray, memoryview)) else b""
    if len(message) < _TAG.size or not message.startswith(_MARK):
        return _Answer("a different program", _OK, b"")
    _, number, failure, length = _TAG.unpack_from(message)
    begin = _TAG.size + length
    return _Answer(f"{message[_TAG.size:begin].decode(errors='replace')} (exchange {number})", failure, message[begin:])


def _check_calls(group: Group, answers: Sequence[_Answer]) -> None:
    """Checks that all ranks make the same call, and have made the same number of calls before it."""
    for rank, answer in enumerate(answers):
        if answer.at != answers[0].at:
            group._end(f"rank 0 is in {answers[0].at}, but rank {rank} is in {answer.at}; all ranks must make the same calls in the same order")
            raise InvalidArgumentError(str(group._ended))
