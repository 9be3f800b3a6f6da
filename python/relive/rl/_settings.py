"""Settings of agents, by name."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, TypeVar

import numpy as np

from relive import _native
from relive._numbers import count, number

S = TypeVar("S", bound="Settings")

UNCLIPPED = 3.4028234663852886e38
"""The greatest float32, which disables clipping where Rust requires a number."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """The common methods of all agents' settings. Settings are checked at construction."""

    agent: ClassVar[str]
    """The agent's name."""

    # Names of settings, and their names in Rust if they differ.
    _rust_names: ClassVar[Mapping[str, str]] = {}

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, _checked(field, getattr(self, field.name)))
        try:
            _native.check_agent(self.agent, self._json())
        except ValueError as error:
            text = str(error)
            for name, rust in self._rust_names.items():
                text = text.replace(f"{rust} is ", f"{name} is ", 1)
            raise ValueError(text) from None

    @classmethod
    def for_environment(cls: type[S], name: str) -> S:
        """Returns tuned settings for a known environment, such as ``"CartPole-v1"``, or the defaults for any other
        environment. ``relive rl train`` uses the same settings by default."""
        settings = json.loads(_native.agent_for_environment(cls.agent, name))
        names = {rust: name for name, rust in cls._rust_names.items()}
        return cls(**{names.get(name, name): value for name, value in settings.items()})

    def _values(self) -> dict[str, Any]:
        """Returns the settings in Rust's form, except for the names."""
        return dataclasses.asdict(self)

    def _json(self) -> str:
        return as_json({self._rust_names.get(name, name): value for name, value in self._values().items()})


class _Group(dict[str, Any]):
    """A group of settings, which is read-only. A dictionary, so that it can be written as JSON."""

    def __new__(cls, *entries: Any, **more: Any) -> Any:
        """Returns a plain dictionary, since :func:`dataclasses.asdict` calls this to create its copy."""
        return dict(*entries, **more)

    @classmethod
    def of(cls, entries: Mapping[str, Any]) -> _Group:
        """Returns a group with these entries."""
        group: _Group = dict.__new__(cls)
        dict.update(group, entries)
        return group

    def __reduce__(self) -> tuple[Any, tuple[dict[str, Any]]]:
        return _Group.of, (dict(self),)

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise TypeError("settings are read-only; create a changed copy with dataclasses.replace()")

    __setitem__ = __delitem__ = __ior__ = update = setdefault = pop = popitem = clear = _refuse


def merged(tuned: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the tuned settings with the given ones in their place. A given group changes only its entries."""
    settings = dict(tuned)
    for name, value in given.items():
        is_group = isinstance(value, Mapping) and isinstance(settings.get(name), Mapping)
        settings[name] = {**settings[name], **value} if is_group else value
    return settings


def as_json(settings: Mapping[str, Any]) -> str:
    """Returns settings, which may contain numpy's numbers and arrays and paths, as JSON.

    Raises:
      ValueError: JSON cannot represent a setting; the error names it.
    """
    for name, value in settings.items():
        try:
            json.dumps(value, default=_plain, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{name} is {value!r}, but it must consist of finite numbers, bools, strings, lists, mappings and None: {error}"
            ) from None
    return json.dumps(dict(settings), default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not supported")


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} is {value!r}, but it must be True or False")
    return bool(value)


def _numbers(name: str, value: Any, checked: Callable[[str, Any], Any]) -> tuple[Any, ...]:
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise TypeError(f"{name} is {value!r}, but it must be a sequence of numbers")
    return tuple(checked(name, element) for element in value)


def _checked(field: dataclasses.Field[Any], value: Any) -> Any:
    """Converts a setting to its annotated type."""
    name, kind = field.name, str(field.type)
    if value is None and kind.endswith("| None"):
        return None
    match kind.removesuffix(" | None"):
        case "int":
            return count(name, value)
        case "float":
            return number(name, value)
        case "bool":
            return _flag(name, value)
        case "tuple[int, ...]":
            return _numbers(name, value, count)
        case "tuple[float, float]":
            return _numbers(name, value, number)
        case "Mapping[str, Any]" if isinstance(value, Mapping):
            return _Group.of(value)
        case _:
            return value
