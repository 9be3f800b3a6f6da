"""A policy's actions as leaves, in the order of the environment's action spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relive import nest


class ActionLeaves:
    """The structure of an environment's actions. It is inspected only once, since every call of a policy needs it.

    Args:
      spec: the spec of the actions.
      path: the place of the spec in the spec of all actions.
    """

    def __init__(self, spec: Any, path: nest.Path = ()) -> None:
        self._place = f"the actions at {nest.path_text(path)!r}" if path else "the actions"
        self._is_leaf, self._is_mapping = not nest.is_nested(spec), isinstance(spec, Mapping)
        parts = [] if self._is_leaf else nest.children(spec)
        self._parts = [(name, ActionLeaves(part, (*path, name))) for name, part in parts]
        self._names = {name for name, _ in parts}
        self._has_names = self._is_mapping or any(isinstance(name, str) for name in self._names)

    def of(self, actions: Any) -> list[Any]:
        """Returns the leaves of a policy's actions.

        Raises:
          TypeError: a mapping is expected and the actions are of a different type, or vice versa.
          ValueError: the actions have unexpected names, or too many or too few parts.
        """
        leaves: list[Any] = []
        self._collect(actions, leaves)
        return leaves

    def _collect(self, actions: Any, leaves: list[Any]) -> None:
        if self._is_leaf:
            leaves.append(actions)
        elif self._is_mapping:
            self._expect_names(actions, actions.keys() if isinstance(actions, Mapping) else None)
            for name, part in self._parts:
                part._collect(actions[name], leaves)
        else:
            for (_, part), value in zip(self._parts, self._in_order(actions), strict=True):
                part._collect(value, leaves)

    def _in_order(self, actions: Any) -> list[Any]:
        """Returns the parts of a tuple, a list, a named tuple or an attrs object."""
        if isinstance(actions, Mapping) or not nest.is_nested(actions):
            raise TypeError(f"{self._place} are of type {type(actions).__name__}, but they must be a tuple of {len(self._parts)} parts")
        found = nest.children(actions)
        if self._has_names and any(isinstance(name, str) for name, _ in found):
            by_name = dict(found)
            self._expect_names(actions, by_name.keys())
            return [by_name[name] for name, _ in self._parts]
        if len(found) != len(self._parts):
            raise ValueError(f"{self._place} have {len(found)} parts, but the environment's actions have {len(self._parts)}")
        return [part for _, part in found]

    def _expect_names(self, actions: Any, found: Any) -> None:
        if found == self._names:
            return
        expected = ", ".join(map(repr, sorted(self._names)))
        if found is None:
            raise TypeError(f"{self._place} are of type {type(actions).__name__}, but they must be a mapping with the names {expected}")
        differences = [("lack", self._names - found), ("have the unknown", found - self._names)]
        text = " and ".join(f"{verb} {', '.join(sorted(map(repr, names)))}" for verb, names in differences if names)
        raise ValueError(f"{self._place} {text}; the environment's actions have the names {expected}")
