"""The other learners of a run, each of which is a process on this machine."""

from __future__ import annotations

import os
import socket
import time
from typing import Any

from relive import _native
from relive.rl._local_workers import Process, sendable_parts
from relive.rl._own import in_extension_form
from relive.rl._sources import source_of
from relive.rl._torch_threads import TorchThreads, number_of_threads, set_number_of_threads
from relive.rl._workers import Supervisor

# How long learners may take to end by themselves when the run is over, and to report errors.
_GRACE_SECONDS, _REPORT_SECONDS = 4.0, 2.0
# How long the run may take to detect and report the loss of a learner. Until all learners have connected, the run
# cannot detect a loss.
_NOTICE_SECONDS = 3.0
_HOST = "127.0.0.1"


class Learners:
    """Starts the other learners of a run, and its workers if they are processes. A learner is not restarted, since the
    other learners cannot continue without it.

    While it is open, this process has the environment variables that ``torch.distributed`` needs to connect:
    ``MASTER_ADDR``, ``MASTER_PORT``, ``RANK`` and ``WORLD_SIZE``.
    """

    def __init__(self, workers: Supervisor | None, agent: Any, environment: Any, count: int) -> None:
        self._workers, self._count = workers, count
        self._arguments = sendable_parts("learners", agent, environment)
        self._learners: list[Process] = []
        self._lost: float | None = None
        self._torch_threads = number_of_threads()
        others = self.other_machines
        self._token = None if others is None else str(others["token"])
        self._variables = {"MASTER_ADDR": _HOST, "MASTER_PORT": str(_free_port()), "RANK": "0", "WORLD_SIZE": str(count)}
        self._before = {name: os.environ.get(name) for name in self._variables}
        os.environ.update(self._variables)

    @property
    def has_workers(self) -> bool:
        """Whether the workers are processes."""
        return self._workers is not None

    @property
    def by_nodes(self) -> bool:
        """Whether nodes run the workers."""
        return self._workers is not None and self._workers.by_nodes

    @property
    def other_machines(self) -> dict[str, Any] | None:
        """The address of the run for workers on other machines, if possible."""
        return None if self._workers is None else self._workers.other_machines

    def start(self, address: str) -> None:
        """Starts all processes for the run at the given address."""
        if self._workers is not None:
            self._workers.start(address)
        for rank in range(len(self._learners) + 1, self._count):
            variables = {**self._variables, "RANK": str(rank)}
            self._learners.append(Process(f"learner {rank}", _learn, (*self._arguments, address, rank, variables, self._token, self._torch_threads)))

    def check(self) -> None:
        """Checks all processes.

        Raises:
          Exception: a process raised an exception.
          RuntimeError: a learner has ended while the run continues.
        """
        if self._workers is not None:
            self._workers.check()
        for rank, learner in enumerate(self._learners, 1):
            how = learner.ended()
            if how:
                self._lost = self._lost or time.monotonic()
                if time.monotonic() > self._lost + _NOTICE_SECONDS:
                    learner.raise_failure()
                    raise RuntimeError(f"learner {rank} (process {learner.id}) ended with {how}; if the run has a checkpoint_dir, the same call resumes it")

    def raise_failure(self, after: BaseException | None = None) -> None:
        """Raises a process's error, if any, and waits for an error that is about to be reported. An exception of this
        process's learner, ``after``, may be the consequence of another learner's error."""
        until = time.monotonic() + _REPORT_SECONDS
        for learner in self._learners:
            learner.raise_failure(max(0.0, until - time.monotonic()) if learner.ended() else 0.0)
        if self._workers is not None:
            self._workers.raise_failure(after)

    def close(self) -> None:
        """Ends all processes when the run is over."""
        until = time.monotonic() + _GRACE_SECONDS
        for learner in self._learners:
            learner.end(max(0.0, until - time.monotonic()))
        if self._workers is not None:
            self._workers.close()
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _free_port() -> int:
    with socket.create_server((_HOST, 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def _learn(
    agent: Any, environment: Any, address: str, rank: int, variables: dict[str, str], token: str | None, number: int | None
) -> None:
    """The main function of a learner's process; ``number`` is the number of PyTorch threads of the first learner."""
    os.environ.update(variables)
    set_number_of_threads(number)
    torch_threads = TorchThreads(has_actors=True, learners=int(variables["WORLD_SIZE"]))
    native, _ = in_extension_form(agent, is_saved=True, torch_threads=torch_threads)
    _native.learn_for_run(native, source_of(environment), address, rank, token)
