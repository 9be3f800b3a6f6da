"""Runs Gymnasium environments in worker processes, as one vector environment.

>>> envs = ProcessVectorEnv([lambda: gymnasium.make("Ant-v5")] * 8, workers=2)  # doctest: +SKIP
>>> observations, infos = envs.reset(seed=1)  # doctest: +SKIP

Observations and actions are in memory that the processes share. A worker steps several environments each time it wakes
up.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import pickle
import queue
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import CloudpickleWrapper, batch_space

from relive import nest
from relive._numbers import count, seconds
from relive._remote import raised
from relive.rl._vector_infos import merged
from relive.rl._vector_memory import Memory, leaves_of, write_all
from relive.rl._vector_resets import mask_of, seeds_of
from relive.rl._vector_worker import CALL, CLOSE, RESET, SET, STEP, after, current_processor, work
from relive.rl.gymnasium_adapters import expect_supported

__all__ = ["ProcessVectorEnv"]

# The interval at which the parent checks that a worker is alive, and the time limit for all workers to end.
_LOOK_SECONDS, _GRACE_SECONDS = 0.5, 5.0
# The time limit for starting a process and creating its environments, which includes imports.
_START_SECONDS = 600.0


class ProcessVectorEnv(VectorEnv[Any, Any, Any]):
    """Environments in worker processes, which step in parallel.

    After the end of an episode, an environment starts a new episode at the next step, and the action is ignored
    (Gymnasium's ``NEXT_STEP``). The same seeds and actions produce the same episodes with any number of workers. As
    with all :mod:`multiprocessing` processes that are not forked, guard the program with ``if __name__ ==
    "__main__":``; functions can be lambdas.

    Args:
      env_fns: functions that each create one environment; all environments must have the same spaces.
      workers: the number of processes; by default the number of processors that this process may use, but at most one
        for each environment.
      timeout: the number of seconds that a step or a reset may take; by default no bound. The processes start with the
        vector; the first call waits until they have created their environments. This time is not counted, but is
        limited to 600 seconds.
      copy: whether observations are copied; otherwise the next step overwrites them.

    Raises:
      TypeError: spaces without arrays of a fixed shape.
      ValueError: no environments, or ``workers`` below 1.
    """

    def __init__(
        self, env_fns: Sequence[Callable[[], gymnasium.Env[Any, Any]]], *, workers: int | None = None, timeout: float | None = None, copy: bool = True
    ) -> None:
        self.num_envs = len(env_fns)
        if not self.num_envs:
            raise ValueError("env_fns is empty, but a vector must have at least one environment")
        expect_supported()
        processes = min(self.num_envs, count("workers", workers, 1) if workers is not None else len(os.sched_getaffinity(0)))
        self._timeout = seconds(timeout)
        # A forked copy of this process has no workers of its own.
        self._owner = os.getpid()
        example = env_fns[0]()
        if not hasattr(example, "observation_space"):
            raise TypeError(f"env_fns[0]() returned {example!r}, but it must return an environment of Gymnasium")
        self.single_observation_space, self.single_action_space = example.observation_space, example.action_space
        self.render_mode = getattr(example, "render_mode", None)
        self.metadata = {**example.metadata, "autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP}
        example.close()
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        layout = leaves_of(self.single_observation_space, "the observation space"), leaves_of(self.single_action_space, "the action space")
        self._memory, self._copy = Memory(layout, self.num_envs), copy
        spaces = self.single_observation_space, self.single_action_space
        self._workers: list[_Process] = []
        for number in range(processes):
            self._workers.append(_Process(env_fns, spaces, self._memory, number, processes))
        # Whether all environments have executed the newest step or reset.
        self._is_whole = True

    def reset(self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts an episode in each environment, or in those that the array of bools ``options["reset_mask"]`` selects;
        the other options are for the environments. If ``seed`` is a number, it is the first environment's seed, and
        the other environments get the following numbers."""
        self._expect_open()
        seeds, (mask, options) = seeds_of(seed, self.num_envs), mask_of(options, self.num_envs)
        if not mask.all():
            self._expect_whole()
        infos = self._together(RESET, [(seeds[worker.first : worker.end], mask[worker.first : worker.end], options) for worker in self._workers])
        return self._observations(), infos

    def step(self, actions: Any) -> tuple[Any, np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any], dict[str, Any]]:
        """Takes one step in each environment.

        Raises:
          ValueError: the actions do not have the structure or the shapes of ``action_space``.
          TypeError: the actions are not whole numbers, but the action space requires them.
          RuntimeError: a worker has ended (create a new vector), or the previous step or reset failed, was interrupted
            or timed out (reset the vector first).
          TimeoutError: an environment took longer than ``timeout``.
        """
        self._expect_open()
        self._expect_whole()
        write_all(self._memory.actions, actions)
        infos = self._together(STEP)
        memory = self._memory
        return self._observations(), memory.rewards.copy(), memory.terminated.copy(), memory.truncated.copy(), infos

    def render(self) -> tuple[Any, ...]:
        """Renders each environment, and returns the results."""
        return self.call("render")

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Calls a method of each environment, or reads an attribute, and returns the results.

        Raises:
          TypeError: a result cannot be pickled.
        """
        self._expect_open()
        results = self._exchange(CALL, [(name, args, kwargs)] * len(self._workers))
        # Workers have consecutive environments.
        return tuple(result for of_worker in results for result in of_worker)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Returns an attribute of each environment."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Sets an attribute of the environments: to one value for each, if ``values`` is a list or a tuple, and otherwise
        to the same value.

        Raises:
          ValueError: the number of values is wrong.
        """
        self._expect_open()
        each = list(values) if isinstance(values, (list, tuple)) else [values] * self.num_envs
        if len(each) != self.num_envs:
            raise ValueError(f"got {len(each)} values for {self.num_envs} environments; give one for each")
        self._exchange(SET, [(name, each[worker.first : worker.end]) for worker in self._workers])

    def _expect_open(self) -> None:
        if self.closed:
            raise gymnasium.error.ClosedEnvironmentError("the vector of environments is closed")

    def _expect_whole(self) -> None:
        if not self._is_whole and not any(worker.has_ended for worker in self._workers):
            raise RuntimeError("the previous step or reset failed, was interrupted or timed out, so only some environments may have taken it; "
                               "call reset() first")

    def _together(self, command: int, arguments: Sequence[Any] | None = None) -> dict[str, Any]:
        """Executes a command as :meth:`_exchange` does, and returns the environments' infos as one mapping."""
        parts = [infos for infos in self._exchange(command, arguments) if infos is not None]
        return merged(parts, self.num_envs, self._add_info)

    def _exchange(self, command: int, arguments: Sequence[Any] | None = None) -> list[Any]:
        """Sends the same command to all workers, with arguments for each, and waits for them. Returns the workers'
        answers."""
        # Arguments that cannot be pickled are refused before any worker begins.
        messages = [None] * len(self._workers) if arguments is None else [
            worker.message(command, part) for worker, part in zip(self._workers, arguments, strict=True)
        ]
        was_whole = self._is_whole
        if command in (STEP, RESET):
            self._is_whole = False
        for worker, sent in self._in_order_of_waking(messages):
            worker.begin(command, sent)
        begun = time.monotonic()
        results = [worker.wait(begun, self._timeout) for worker in self._workers]
        # Only a reset makes up for an interrupted step. A worker does not go on with its other environments after an error.
        has_failed = command in (STEP, RESET) and any(isinstance(result, tuple) for result in results)
        self._is_whole = not has_failed and (was_whole or command == RESET)
        for worker, result in zip(self._workers, results, strict=True):
            if isinstance(result, tuple):
                raise raised(result, f"in another process ({worker})")
        return results

    def _in_order_of_waking(self, messages: list[Any]) -> list[tuple[_Process, Any]]:
        """Returns the workers with their messages. The worker that last ran on this thread's processor is woken last.
        Otherwise, since this thread is still running, that worker would move to another processor, where its data is not in
        the cache, and displace the worker there."""
        here = current_processor()
        return sorted(zip(self._workers, messages, strict=True), key=lambda pair: pair[0].processor == here)

    def _observations(self) -> Any:
        seen = self._memory.observations
        return nest.map_structure(np.copy, seen) if self._copy else seen

    def close_extras(self, **_: Any) -> None:
        """Ends the workers. A forked copy of the process that created them leaves them alone."""
        if os.getpid() != self._owner:
            return
        for worker in self._workers:
            worker.begin(CLOSE)
        until = time.monotonic() + _GRACE_SECONDS
        for worker in self._workers:
            worker.close(until)

    def __del__(self) -> None:
        if not getattr(self, "closed", True) and hasattr(self, "_workers"):
            self.close()


class _Process:
    """A worker and its environments: those from ``first`` up to, but excluding, ``end``."""

    def __init__(self, env_fns: Sequence[Any], spaces: tuple[Any, Any], memory: Memory, number: int, count: int) -> None:
        total = len(env_fns)
        self._number, self.first, self.end = number, number * total // count, (number + 1) * total // count
        self._memory = memory
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._go, self._done = context.Semaphore(0), context.Semaphore(0)
        factories = [CloudpickleWrapper(make) for make in env_fns[self.first : self.end]]
        pickled_spaces = CloudpickleWrapper(spaces)  # type: ignore[arg-type]
        shared = memory.layout, memory.count, memory.shared
        arguments = factories, pickled_spaces, self.first, shared, number, (theirs, self._go, self._done)
        self._process = context.Process(target=work, args=arguments, name=f"relive environments {number}", daemon=True)
        self._process.start()
        theirs.close()
        # One thread sends messages and another one receives them as they arrive, so that a process never waits to send
        # until the other one receives, and Ctrl-C never interrupts a message in the middle.
        self._unsent: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._received: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        threading.Thread(target=_send_all, args=(self._pipe, self._unsent), name=f"relive sender {number}", daemon=True).start()
        self._receiver = threading.Thread(target=_receive_all, args=(self._pipe, self._received), name=f"relive receiver {number}", daemon=True)
        self._receiver.start()

    def __str__(self) -> str:
        last = self.end - 1
        which = f"environment {last}" if last == self.first else f"environments {self.first} to {last}"
        return f"worker {self._number}, with {which}"

    @property
    def has_ended(self) -> bool:
        return self._process.exitcode is not None

    @property
    def processor(self) -> int:
        """The processor on which the worker has executed its newest command."""
        return int(self._memory.processors[self._number])

    def message(self, command: int, arguments: Any) -> Any:
        """Returns the pickled arguments of the next command."""
        return ForkingPickler.dumps((self._next(command), arguments))

    def begin(self, command: int, message: Any = None) -> None:
        """Sends a command, whose arguments, if any, are in ``message``."""
        asked = self._next(command)
        if message is not None:
            self._unsent.put(message)
        self._memory.asked[self._number] = asked
        self._go.release()

    def _next(self, command: int) -> int:
        return after(int(self._memory.asked[self._number]), command)

    def wait(self, begun: float, timeout: float | None) -> Any:
        """Waits until the worker has executed the command that was sent at the time ``begun``, and returns its answer.

        Raises:
          RuntimeError: the worker has ended.
          TimeoutError: the worker took too long.
        """
        memory, number = self._memory, self._number
        while not self._has_answered(until := self._deadline(begun, timeout)):
            code = self._process.exitcode
            if code is not None:
                how = f"signal {-code}" if code < 0 else f"exit code {code}"
                raise RuntimeError(f"{self}, ended with {how}; create a new vector")
            if until is not None and time.monotonic() >= until:
                if not memory.ready_at[number]:
                    raise TimeoutError(f"{self}, did not create its environments within {_START_SECONDS:.0f} s")
                raise TimeoutError(f"{self}, did not finish in time: one of its environments hangs, or timeout is too short")
        size = int(memory.message_sizes[number])
        if size >= 0:
            return pickle.loads(memory.messages[number, :size])[1] if size else None
        # The worker has sent its message before it announced the answer.
        while (sent := self._received.get()) is not None:
            asked, message = pickle.loads(sent)
            if asked == memory.asked[number]:
                return message
        raise RuntimeError(f"{self}, ended before its answer was received; create a new vector")

    def _deadline(self, begun: float, timeout: float | None) -> float | None:
        ready_at = float(self._memory.ready_at[self._number])
        if not ready_at:
            return begun + _START_SECONDS
        return None if timeout is None else max(begun, ready_at) + timeout

    def _has_answered(self, until: float | None) -> bool:
        """Waits for a moment, and returns whether the worker has executed the newest command."""
        # The wake-up may belong to an earlier, interrupted call, and that call may also have consumed this call's
        # wake-up.
        self._done.acquire(timeout=_LOOK_SECONDS if until is None else max(0.0, min(_LOOK_SECONDS, until - time.monotonic())))
        return bool(self._memory.answered[self._number] == self._memory.asked[self._number])

    def close(self, until: float) -> None:
        """Waits until the worker has ended after the command to close, and kills it if that takes too long."""
        self._process.join(max(0.0, until - time.monotonic()))
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._unsent.put(None)
        self._receiver.join(_GRACE_SECONDS)
        self._log_failures()
        self._pipe.close()

    def _log_failures(self) -> None:
        """Logs the errors of environments that failed to close."""
        while not self._received.empty() and (sent := self._received.get()) is not None:
            message = pickle.loads(sent)
            if isinstance(message, tuple) and len(message) == 2 and isinstance(message[0], str):
                what, (error, text) = message
                logging.getLogger("relive").warning("%s: %s: %s\n%s", what, type(error).__name__, error, text)


def _receive_all(pipe: Connection, received: queue.SimpleQueue[bytes | None]) -> None:
    """Receives a worker's messages until it ends, which is reported as ``None``."""
    try:
        while True:
            received.put(pipe.recv_bytes())
    except (EOFError, OSError):
        received.put(None)


def _send_all(pipe: Connection, unsent: queue.SimpleQueue[Any]) -> None:
    """Sends messages to a worker in order, until ``None``. The worker receives them like objects that have been sent."""
    while (message := unsent.get()) is not None:
        # If the worker has ended, the wait for its answer reports that.
        with contextlib.suppress(OSError):
            pipe.send_bytes(message)
