"""Memory that a vector of environments shares with its workers."""

from __future__ import annotations

import ctypes
import multiprocessing
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from relive import nest
from relive.rl.specs import converted

_ALIGNMENT = 64

# The size of the space for each worker's message; larger messages are sent through its pipe.
_MESSAGE_BYTES = 4096


def leaves_of(space: gymnasium.Space[Any], what: str) -> Any:
    """Returns the arrays of a space, as a nest of pairs of shape and data type.

    Raises:
      TypeError: a space without arrays of a fixed shape.
    """
    if isinstance(space, gymnasium.spaces.Dict):
        return {name: leaves_of(part, f"{what}[{name!r}]") for name, part in space.spaces.items()}
    if isinstance(space, gymnasium.spaces.Tuple):
        return tuple(leaves_of(part, f"{what}[{number}]") for number, part in enumerate(space.spaces))
    if space.shape is None or space.dtype is None or space.dtype.hasobject:
        raise TypeError(f"{what} is {space!r}, but only Box, Discrete, MultiDiscrete and MultiBinary, and dicts and tuples of these, are "
                        "supported")
    return _Leaf(space.shape, space.dtype)


class _Leaf:
    """Shape and data type of an array."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)


class Memory:
    """Observations, actions and answers for all environments, one row for each, in memory shared by several processes.

    The memory has no name. The system frees it when no process has an array in it.

    Args:
      layout: nests of the observations' and the actions' leaves.
      count: the number of environments.
      shared: memory that another process has created; by default new memory is created.
    """

    def __init__(self, layout: tuple[Any, Any], count: int, shared: Any = None) -> None:
        self.layout, self.count = layout, count
        flag = _Leaf((), np.bool_)
        # Commands and messages have one row per worker; there are no more workers than environments.
        answers = {
            "rewards": _Leaf((), np.float64), "terminated": flag, "truncated": flag,
            "asked": _Leaf((), np.int64), "answered": _Leaf((), np.int64), "ready_at": _Leaf((), np.float64),
            "processors": _Leaf((), np.int32), "messages": _Leaf((_MESSAGE_BYTES,), np.uint8), "message_sizes": _Leaf((), np.int64),
        }
        everything = (*layout, answers)
        sizes = [count * max(1, int(np.prod(leaf.shape))) * leaf.dtype.itemsize for leaf in nest.flatten(everything)]
        places = np.cumsum([0, *(-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes)])
        self.shared = multiprocessing.RawArray(ctypes.c_uint8, int(places[-1]) + _ALIGNMENT) if shared is None else shared
        # The memory begins at the same offset in a page of each process.
        first = -ctypes.addressof(self.shared) % _ALIGNMENT
        buffer = memoryview(self.shared).cast("B")
        arrays = [
            np.ndarray((count, *leaf.shape), leaf.dtype, buffer, first + int(place))
            for leaf, place in zip(nest.flatten(everything), places)
        ]
        self.observations, self.actions, found = nest.unflatten_as(everything, arrays)
        self.rewards, self.terminated, self.truncated = found["rewards"], found["terminated"], found["truncated"]
        # Each worker's newest message, and its size: 0 if there is none, -1 if it is in the worker's pipe.
        self.messages, self.message_sizes = found["messages"], found["message_sizes"]
        # The numbers of each worker's newest command, and of the newest command that it has executed; a number contains the
        # kind of its command.
        self.asked, self.answered = found["asked"], found["answered"]
        # The time at which each worker had created its environments, by `time.monotonic()`, which all processes share; 0
        # before that.
        self.ready_at = found["ready_at"]
        # The processor on which each worker has executed its newest command.
        self.processors = found["processors"]

    def put_message(self, worker: int, message: bytes) -> bool:
        """Writes a worker's message, and returns whether there was enough space."""
        size = len(message)
        if size > _MESSAGE_BYTES:
            self.message_sizes[worker] = -1
            return False
        self.messages[worker, :size], self.message_sizes[worker] = np.frombuffer(message, np.uint8), size
        return True


def own_row(arrays: Any, row: int) -> Any:
    """Returns copies of the same row of all arrays of a nest, which environments may keep."""
    return nest.map_structure(lambda array: array[row].copy(), arrays)


def write(arrays: Any, row: int, value: Any) -> None:
    """Writes an observation into a row of the arrays of a nest.

    Raises:
      ValueError: a part is missing or unexpected, or has another shape.
      TypeError: the conversion to the array's data type would change whole numbers.
    """
    if isinstance(arrays, np.ndarray):
        _fill(arrays[row, ...], value, "observation")
    else:
        names = ("the observation space", "the observation")
        nest.map_structure_up_to(lambda array, part: _fill(array[row, ...], part, "observation"), arrays, arrays, value, names=names)


def write_all(arrays: Any, values: Any) -> None:
    """Writes the actions of all environments into the arrays of a nest; the exceptions are those of :func:`write`."""
    if isinstance(arrays, np.ndarray):
        _fill(arrays, values, "actions")
    else:
        names = ("the action space", "the action")
        nest.map_structure_up_to(lambda array, part: _fill(array, part, "actions"), arrays, arrays, values, names=names)


def _fill(array: npt.NDArray[Any], value: Any, what: str) -> None:
    given = np.asarray(value)
    # numpy would broadcast a smaller array.
    if given.shape != array.shape:
        raise ValueError(f"{what}: expected {array.dtype} {array.shape}, got {given.dtype} {given.shape}")
    array[...] = converted(given, array.dtype)
