"""A worker of a vector: a process that steps some of the environments."""

from __future__ import annotations

import ctypes
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from multiprocessing.synchronize import Semaphore
from typing import Any

from relive._remote import end_with_parent, describe_error
from relive.rl import _faults
from relive.rl._vector_infos import Infos, infos_of
from relive.rl._vector_memory import Memory, own_row, write

STEP, RESET, CLOSE, CALL, SET = _COMMANDS = range(5)

# Only Linux has this function. It is called without releasing the interpreter, since it returns immediately.
_getcpu = getattr(ctypes.PyDLL(None), "sched_getcpu", None) if sys.platform == "linux" else None


def after(asked: int, command: int) -> int:
    """Returns the number of the command that follows the command with the number ``asked``. A number contains the kind
    of its command, so a worker that is woken while the next command is announced reads either both or neither."""
    return (asked // len(_COMMANDS) + 1) * len(_COMMANDS) + command


def current_processor() -> int:
    """Returns the number of the processor that this thread is running on; -1 if the system does not report it."""
    return _getcpu() if _getcpu is not None else -1


def work(
    factories: Any, spaces: Any, first: int, memory: tuple[Any, int, Any], number: int, parts: tuple[Connection, Semaphore, Semaphore]
) -> None:
    """Executes commands until the command to close."""
    # Only the parent process, which steps the vector, handles Ctrl-C.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    pipe, go, done = parts
    shared, worker = Memory(*memory), None
    while True:
        go.acquire()
        asked = int(shared.asked[number])
        command = asked % len(_COMMANDS)
        if command == CLOSE:
            break
        # After an interrupted call, one command may have been announced twice.
        if asked == shared.answered[number]:
            continue
        try:
            arguments = () if command == STEP else _received(pipe, asked)
            if worker is None:
                worker = _Worker([factory.fn() for factory in factories], first, shared, spaces.fn)
                shared.ready_at[number] = time.monotonic()
            message = worker.execute(command, arguments)
        except BaseException as error:
            message = describe_error(error)
        shared.message_sizes[number] = 0
        if message:
            sent = _pickled(asked, message, "results" if command == CALL else "infos")
            if not shared.put_message(number, sent):
                pipe.send_bytes(sent)
        shared.processors[number] = current_processor()
        shared.answered[number] = asked
        done.release()
    if worker is not None:
        for failure in worker.close():
            pipe.send(failure)


def _received(pipe: Connection, asked: int) -> Any:
    """Returns the arguments of the command with this number; arguments of interrupted calls are discarded."""
    while True:
        number, arguments = pipe.recv()
        if number == asked:
            return arguments


def _pickled(asked: int, message: Any, what: str) -> Any:
    """Returns the infos of a step, the results of a call, or an error, with the number of the command."""
    try:
        return ForkingPickler.dumps((asked, message))
    except Exception as error:
        unsent = TypeError(f"the environments' {what} cannot be sent to another process: {type(error).__name__}: {error}")
        return ForkingPickler.dumps((asked, describe_error(unsent)))


class _Worker:
    """Consecutive environments of a vector."""

    def __init__(self, environments: list[Any], first: int, memory: Memory, spaces: tuple[Any, Any]) -> None:
        self._environments = list(enumerate(environments, first))
        self._called = {number: f"{_faults.name_of(environment)} (environment {number})" for number, environment in self._environments}
        self._spaces = {number: _faults.Spaces(environment, "observation_space", "action_space") for number, environment in self._environments}
        self._memory = memory
        self._ended = {number: False for number, _ in self._environments}
        for number, environment in self._environments:
            self._expect_spaces(number, environment, spaces)

    def _expect_spaces(self, number: int, environment: Any, spaces: tuple[Any, Any]) -> None:
        for name, expected in zip(("observation_space", "action_space"), spaces, strict=True):
            found = getattr(environment, name)
            if found != expected:
                # As in Gymnasium, a RuntimeError.
                raise RuntimeError(f"{self._called[number]}: its {name} is {found}, but the first environment's is {expected}; all "
                                   "environments of a vector must have the same spaces")

    def execute(self, command: int, arguments: Any) -> Any:
        """Executes a command, and returns the environments' infos or results."""
        if command == STEP:
            return self.step()
        others: dict[int, Callable[..., Any]] = {RESET: self.reset, CALL: self.call, SET: self.set}
        return others[command](*arguments)

    def reset(self, seeds: list[int | None], mask: Any, options: Any) -> Infos | None:
        """Starts an episode in each environment that the mask selects, and returns the environments' infos."""
        infos = {}
        for (number, environment), seed, is_selected in zip(self._environments, seeds, mask, strict=True):
            if is_selected:
                infos[number] = self._begin(number, environment, seed=seed, options=options)
        return infos_of(infos)

    def call(self, name: str, arguments: Any, options: Any) -> list[Any]:
        """Calls a method of each environment or reads an attribute, and returns the results."""
        results = []
        for _, environment in self._environments:
            found = environment.get_wrapper_attr(name)
            results.append(found(*arguments, **options) if callable(found) else found)
        return results

    def set(self, name: str, values: list[Any]) -> None:
        """Sets an attribute of each environment."""
        for (_, environment), value in zip(self._environments, values, strict=True):
            environment.set_wrapper_attr(name, value)

    def step(self) -> Infos | None:
        """Takes one step in each environment, and returns the environments' infos."""
        memory, infos = self._memory, {}
        for number, environment in self._environments:
            if self._ended[number]:
                memory.rewards[number], memory.terminated[number], memory.truncated[number] = 0.0, False, False
                info = self._begin(number, environment)
            else:
                answer = environment.step(own_row(memory.actions, number))
                try:
                    observation, reward, terminated, truncated, info = _faults.transition(answer)
                    write(memory.observations, number, observation)
                    memory.rewards[number] = _faults.reward(reward)
                    ends, info = (_faults.flag(terminated, "terminated"), _faults.flag(truncated, "truncated")), _faults.info(info)
                    memory.terminated[number], memory.truncated[number] = ends
                except _faults.WRONG as error:
                    raise _faults.wrong(self._called[number], "step", error) from error
                self._ended[number] = any(ends)
            infos[number] = info
        return infos_of(infos)

    def _begin(self, number: int, environment: Any, **arguments: Any) -> Any:
        answer = environment.reset(**arguments)
        self._spaces[number].expect_same(self._called[number])
        try:
            observation, info = _faults.beginning(answer)
            write(self._memory.observations, number, observation)
            info = _faults.info(info)
        except _faults.WRONG as error:
            raise _faults.wrong(self._called[number], "reset", error) from error
        self._ended[number] = False
        return info

    def close(self) -> list[Any]:
        """Closes all environments, and returns the errors, with the names of the environments."""
        failures = []
        for number, environment in self._environments:
            try:
                environment.close()
            except Exception as error:
                failures.append((f"{self._called[number]}.close() failed", describe_error(error)))
        return failures
