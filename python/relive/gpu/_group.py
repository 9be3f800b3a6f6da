"""Ranks: processes that each have one store and together draw from all stores."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any

from relive.errors import InvalidArgumentError, UnavailableError
from relive.gpu._waits import log_long_wait

_FINE, _FAILED = b"\0", b"\1"


class Group(abc.ABC):
    """A group of processes that make the same calls in the same order. Subclass it for a transport that
    :class:`relive.gpu.Store` does not support.

    Args:
      rank: the rank of this process, counted from 0.
      ranks: the number of processes. Each has a store.
      replica, replicas: this process's share of a global batch, and the number of shares; by default rank and ranks.
        Processes of one replica, such as the stages of a pipeline, read the same rows.

    Raises:
      InvalidArgumentError: a rank or replica is not below the respective number.
    """

    def __init__(self, rank: int, ranks: int, *, replica: int | None = None, replicas: int | None = None) -> None:
        self.rank = rank
        self.ranks = ranks
        self.replica = rank if replica is None else replica
        self.replicas = ranks if replicas is None else replicas
        for what, value, number in (("rank", rank, ranks), ("replica", self.replica, self.replicas)):
            if not 0 <= value < number:
                raise InvalidArgumentError(f"{what} is {value} of {number}; it must be 0 to {number - 1}")

    @abc.abstractmethod
    def all_gather(self, message: bytes) -> Sequence[bytes]:
        """Sends this process's bytes to all processes, and returns the bytes of all processes, by rank. All processes
        must call this method.

        Raises:
          UnavailableError: a process has ended.
          DeadlineExceededError: a process does not make this call in time.
        """

    def close(self) -> None:
        """Closes the resources that the group itself has opened."""

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
        raise InvalidArgumentError(f"the topology has {replicas} data-parallel ranks of {group.ranks} processes, which is not divisible")
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


def exchange(group: Group, make: Callable[[], bytes]) -> list[bytes]:
    """Returns the bytes of each rank, by rank.

    Raises:
      UnavailableError: another rank failed; the error gives the reason. This rank's own exception takes precedence.
    """
    failed: Exception | None = None
    try:
        message = _FINE + make()
    except Exception as error:
        failed, message = error, _FAILED + str(error).encode(errors="replace")
    with log_long_wait(f"rank {group.rank} of {group.ranks}", group._awaited):
        answers = [bytes(answer) for answer in group.all_gather(message)]
    if failed is not None:
        raise failed
    for rank, answer in enumerate(answers):
        if answer[:1] != _FINE:
            raise UnavailableError(f"rank {rank} cannot continue: {answer[1:].decode(errors='replace')}")
    return [answer[1:] for answer in answers]
