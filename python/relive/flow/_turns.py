"""Calls of the methods of a shard that runs in a thread: they take place between two of its items."""

from __future__ import annotations

import threading
import types
from collections.abc import Callable
from typing import Any

from relive import _native

_here = threading.local()


def take_turns_here() -> None:
    """Makes the calls of this thread wait for their turn. Threads that a plan does not know, such as those that a shard
    itself has started, call methods at once: the shard may be waiting for them."""
    _here.takes_turns = True


class TakesTurns:
    """A class whose methods are called between two items, once its object is a shard in a thread: the public methods of
    subclasses, but not those whose names begin with an underscore, nor properties, static methods and class methods."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for base in cls.__mro__:
            # The methods of a base class that is a subclass itself have been replaced.
            if base is not cls and issubclass(base, TakesTurns):
                continue
            for name, value in list(vars(base).items()):
                if name.startswith("_") or not isinstance(value, types.FunctionType):
                    continue
                if base is cls:
                    setattr(cls, name, _Method(value))
                elif name not in vars(cls):
                    setattr(cls, name, _Inherited(cls, name))


def turns_of(shard: Any) -> _native.FlowTurns | None:
    """Returns the turns of a shard, or ``None`` if its methods are called at any time."""
    turns = getattr(getattr(shard, "_items", None), "turns", None)
    return turns if isinstance(turns, _native.FlowTurns) else None


class _Method:
    """A method of a shard."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __get__(self, shard: Any, kind: Any = None) -> Any:
        method = self._of(shard, kind)
        if shard is None or not getattr(_here, "takes_turns", False):
            return method
        turns = turns_of(shard)
        # Within a turn, a method may be passed to threads for which the shard then waits.
        return method if turns is None or turns.is_held_here() else _Call(turns, method)

    @property
    def __isabstractmethod__(self) -> bool:
        return bool(getattr(self._function, "__isabstractmethod__", False))

    def _of(self, shard: Any, kind: Any) -> Any:
        return self._function.__get__(shard, kind)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_function":
            raise AttributeError(name)
        return getattr(self._function, name)


class _Inherited(_Method):
    """A method that a shard's class inherits from another class than that of shards."""

    def __init__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def _of(self, shard: Any, kind: Any) -> Any:
        return getattr(super(self._owner, kind if shard is None else shard), self._name)


class _Call:
    """A method of a shard; calling it waits for a turn."""

    def __init__(self, turns: _native.FlowTurns, method: Any) -> None:
        self._turns, self._method = turns, method
        self.__doc__ = method.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = getattr(self._method, "__qualname__", "a method of a shard")
        return self._turns.call(f"{name}()", self._method, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._method, name)

    def __eq__(self, other: object) -> bool:
        return bool(self._method == (other._method if isinstance(other, _Call) else other))

    def __hash__(self) -> int:
        return hash(self._method)

    def __reduce__(self) -> Any:
        return self._method.__reduce__()

    def __repr__(self) -> str:
        return repr(self._method)
