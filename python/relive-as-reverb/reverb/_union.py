"""The union of the structures of several steps: all places of all steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from relive import nest


class _Nothing:
    def __repr__(self) -> str:
        return "NOTHING"


NOTHING: Any = _Nothing()
"""The structure before the first step."""


def union(known: Any, step: Any, path: nest.Path = ()) -> Any:
    """Returns ``known`` with the additional places of ``step``; its leaves are ``None``.

    A ``None`` in the step matches everything, like a missing part.

    Raises:
      ValueError: a leaf in one is not a leaf in the other, or a mapping is a sequence; the error names the path.
    """
    if known is NOTHING:
        return nest.map_structure(lambda _: None, step)
    if step is None or not (nest.is_nested(known) or nest.is_nested(step)):
        return known
    if _kind(known) != _kind(step):
        raise ValueError(
            f"the step does not fit the ones before at {path}: a {_kind(step)} there, but a {_kind(known)} before"
        )
    if isinstance(known, Mapping):
        return _union_of_mappings(known, step, path)
    if nest.is_namedtuple(known) or nest.is_namedtuple(step):
        return _union_of_namedtuples(known, step, path)
    if isinstance(known, (list, tuple)):
        return type(known)(_union_of_parts(known, step, range(max(len(known), len(step))), path))
    return nest.rebuild(known, _union_of_attributes(known, step, path))


def _kind(value: Any) -> str:
    if isinstance(value, Mapping):
        return "mapping"
    if isinstance(value, (list, tuple)):
        return "sequence"
    return type(value).__name__ if nest.is_nested(value) else "leaf"


def _union_of_mappings(known: Mapping[Any, Any], step: Mapping[Any, Any], path: nest.Path) -> Any:
    keys = [*known, *(key for key in step if key not in known)]
    parts = {key: union(known.get(key, NOTHING), step.get(key), (*path, key)) for key in keys}
    return nest.mapping_like(known, parts)


def _union_of_namedtuples(known: Any, step: Any, path: nest.Path) -> Any:
    """Returns the union in the class that has more fields; common fields must be in the same positions."""
    wider = known if len(known) >= len(step) else step
    names = getattr(known, "_fields", ()), getattr(step, "_fields", ())
    if any(name != other for name, other in zip(*names, strict=False)) or not all(names):
        raise ValueError(f"the step does not fit the ones before at {path}: {type(step)} there, {type(known)} before")
    return nest.rebuild(wider, _union_of_parts(known, step, wider._fields, path))


def _union_of_parts(known: Any, step: Any, names: Iterable[Any], path: nest.Path) -> list[Any]:
    return [
        union(
            known[index] if index < len(known) else NOTHING,
            step[index] if index < len(step) else None,
            (*path, name),
        )
        for index, name in enumerate(names)
    ]


def _union_of_attributes(known: Any, step: Any, path: nest.Path) -> list[Any]:
    parts = zip(nest.children(known), nest.children(step), strict=True)
    return [union(one, other, (*path, name)) for (name, one), (_, other) in parts]


def tree_union(known: Any, other: Any) -> Any:
    """Returns the union with the leaves of both; ``known`` takes precedence. Only existing programs use this function."""
    leaves = {**dict(nest.flatten_with_path(other)), **dict(nest.flatten_with_path(known))}
    return nest.map_structure_with_path(lambda path, _: leaves.get(path), union(known, other))


def tree_filter(source: Any, wanted: Iterable[tuple[nest.Path, Any]]) -> list[Any]:
    """Returns the leaves of ``source`` at the paths of ``wanted``; ``None`` where it has none. Only existing programs use
    this function."""
    leaves = dict(nest.flatten_with_path(source))
    return [leaves.get(path) for path, _ in wanted]
