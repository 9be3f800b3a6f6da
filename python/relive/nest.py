"""Nested structures: lists, deques, tuples, named tuples, mappings and attrs classes around leaves.

Steps, trajectories and signatures are such structures. Everything else is a leaf, including ``None``. Leaves are
ordered as in dm-tree and dm-reverb: by position, and in mappings by sorted key.

>>> flatten({"b": (1, 2), "a": 3})
[3, 1, 2]
>>> unflatten_as({"b": (0, 0), "a": 0}, [3, 1, 2])
{'b': (1, 2), 'a': 3}
"""

from __future__ import annotations

import collections
import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

Path = tuple[Any, ...]
"""The path of a leaf: keys of mappings, positions in lists and tuples, names of fields and attributes."""

# The largest number of containers around a leaf, the same as in the extension. A structure that contains itself has
# more.
_MAX_DEPTH = 64

# The names that errors use for the structures.
_FIRST_AND_OTHER = ("the first", "another")


# The kinds of values.
_LEAF, _MAPPING, _ATTRS, _NAMEDTUPLE, _SEQUENCE = range(5)


@functools.lru_cache(maxsize=1024)
def _kind(cls: type) -> int:
    """Returns the kind of the values of a class. Checking it without a cache would take most of the time of the functions
    below. Callers pass ``value.__class__``, which a proxy takes from the value behind it."""
    if issubclass(cls, Mapping):
        return _MAPPING
    if hasattr(cls, "__attrs_attrs__"):
        return _ATTRS
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return _NAMEDTUPLE
    return _SEQUENCE if issubclass(cls, (list, tuple, collections.deque)) else _LEAF


def is_namedtuple(value: Any) -> bool:
    """Returns whether ``value`` is an instance of a named tuple class."""
    return _kind(value.__class__) == _NAMEDTUPLE


def is_nested(value: Any) -> bool:
    """Returns whether ``value`` is a container rather than a leaf."""
    return _kind(value.__class__) != _LEAF


def children(container: Any) -> list[tuple[Any, Any]]:
    """Yields (path element, part) for each direct part of a container, in flattening order.

    Raises ``TypeError`` if the keys of a mapping cannot be sorted.
    """
    kind = _kind(container.__class__)
    if kind == _MAPPING:
        return [(key, container[key]) for key in sorted_keys(container)]
    if kind == _ATTRS:
        return [(name, getattr(container, name)) for name in _attrs_names(container)]
    if kind == _NAMEDTUPLE:
        return list(zip(container._fields, container, strict=True))
    return list(enumerate(container))


def sorted_keys(mapping: Mapping[Any, Any]) -> list[Any]:
    """Returns the keys of a mapping in the order in which its parts are flattened."""
    try:
        return sorted(mapping)
    except TypeError as error:
        raise TypeError(
            f"the keys of a mapping must be sortable, because they determine the order of its leaves: {list(mapping)!r}"
        ) from error


def flatten(structure: Any) -> list[Any]:
    """Returns the leaves of a structure in order.

    Raises ``ValueError`` if the structure is nested more than 64 levels deep, as do the other functions that go through
    whole structures.
    """
    leaves: list[Any] = []
    _collect(structure, leaves, 0, None)
    return leaves


def flatten_with_lists(structure: Any) -> tuple[list[Any], list[list[Any]]]:
    """Returns the leaves of a structure in order, and the lists in it."""
    leaves: list[Any] = []
    lists: list[list[Any]] = []
    _collect(structure, leaves, 0, lists)
    return leaves, lists


def outline(structure: Any) -> Any:
    """Returns the names in a structure and, recursively, in its parts, as tuples; ``None`` for a leaf.

    >>> outline({"b": (1, 2), "a": 3})
    (('a', None), ('b', ((0, None), (1, None))))
    """
    return _outline(structure, 0)


def shown(outlined: Any) -> str:
    """Returns an ``outline`` as text for errors.

    >>> shown(outline({"b": (1, 2), "a": 3}))
    '{a, b: {0, 1}}'
    """
    if outlined is None:
        return "of a single value"
    return "{" + ", ".join(f"{name}" if inner is None else f"{name}: {shown(inner)}" for name, inner in outlined) + "}"


def flatten_outlined(
    outlined: Any, structure: Any, as_leaf: Callable[[Any], Any] | None = None
) -> list[Any] | None:
    """Returns the leaves of ``structure`` in order, like ``flatten``, or ``None`` if its ``outline`` is not
    ``outlined``.

    ``as_leaf`` is called with a container in the place of a leaf, and returns a leaf that replaces it, or ``None``."""
    leaves: list[Any] = []
    return leaves if _collect_outlined(outlined, structure, leaves, as_leaf) else None


def outlined_paths(outlined: Any, path: Path = ()) -> list[Path]:
    """Returns the paths of the leaves of a structure with the ``outline`` ``outlined``, in order.

    >>> outlined_paths(outline({"b": (1, 2), "a": 3}))
    [('a',), ('b', 0), ('b', 1)]
    """
    if outlined is None:
        return [path]
    return [found for name, inner in outlined for found in outlined_paths(inner, (*path, name))]


def flatten_with_path(structure: Any) -> list[tuple[Path, Any]]:
    """Returns (path, leaf) for each leaf, in order. The path of a structure that is itself a leaf is ``()``."""
    return list(iterate(structure))


def iterate(structure: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yields (path, leaf) for each leaf in order."""
    if not is_nested(structure):
        yield path, structure
        return
    deeper(len(path))
    for name, part in children(structure):
        yield from iterate(part, (*path, name))


def unflatten_as(structure: Any, leaves: Iterable[Any]) -> Any:
    """Returns ``structure`` with its leaves replaced by ``leaves``; the containers keep their types.

    Raises ``ValueError`` if there are more or fewer leaves than places.
    """
    wanted = len(flatten(structure))
    given = list(leaves)
    if len(given) != wanted:
        raise ValueError(f"a structure of {wanted} leaves cannot be filled with {len(given)} values")
    rest = iter(given)
    return map_structure(lambda _: next(rest), structure)


def filler(structure: Any) -> tuple[int, Callable[[Sequence[Any]], Any]]:
    """Returns the number of leaves, and a function that applies ``unflatten_as`` to a sequence of that length.

    The structure is inspected only once, which makes repeated calls about ten times as fast.

    >>> count, fill = filler({"b": (0, 0), "a": 0})
    >>> count, fill([3, 1, 2])
    (3, {'b': (1, 2), 'a': 3})
    """
    return _filler(structure, 0, 0)


def map_structure(function: Callable[..., Any], structure: Any, *others: Any) -> Any:
    """Returns ``function(leaf, *leaves of the other structures)`` for each leaf, in a structure like the first one.

    Raises ``ValueError``, naming the path, if the other structures differ from the first.
    """
    if not others:
        return _map_leaves(function, structure, 0)
    return map_structure_with_path(lambda _, *leaves: function(*leaves), structure, *others)


def map_structure_with_path(function: Callable[..., Any], structure: Any, *others: Any) -> Any:
    """Like ``map_structure``, with the path of the leaf as the first argument."""
    return _map(function, (), structure, others)


def map_structure_up_to(
    function: Callable[..., Any], shallow: Any, *others: Any, names: tuple[str, str] = _FIRST_AND_OTHER
) -> Any:
    """Like ``map_structure``, but the other structures may have a nest in place of a leaf of ``shallow``.

    Errors refer to ``shallow`` and the other structures by these ``names``.

    >>> map_structure_up_to(len, {"a": None}, {"a": [1, 2]})
    {'a': 2}
    """
    return _map(lambda _, __, *parts: function(*parts), (), shallow, others, up_to=True, names=names)


def assert_same_structure(first: Any, second: Any, *, names: tuple[str, str] = _FIRST_AND_OTHER) -> None:
    """Raises ``ValueError`` with the first path at which the two structures differ; the error refers to them by these
    ``names``.

    Lists and tuples are treated as equal, since only the order of the leaves matters.
    """
    _map(lambda *_: None, (), first, (second,), names=names)


def path_text(path: Path) -> str:
    """Joins the path with ``/``, as in the names of flattened columns: ``('a', 0)`` becomes ``a/0``."""
    return "/".join(str(element) for element in path)


def rebuild(container: Any, parts: list[Any]) -> Any:
    """Builds a container like ``container`` from other direct parts, given in flattening order."""
    kind = _kind(container.__class__)
    if kind == _MAPPING:
        by_key = dict(zip(sorted_keys(container), parts, strict=True))
        return mapping_like(container, {key: by_key[key] for key in container})
    if kind == _ATTRS:
        # By name, because the parameters may be keyword-only.
        return container.__class__(**dict(zip(_attrs_parameters(container), parts, strict=True)))
    if kind == _NAMEDTUPLE:
        return type(container)(*parts)
    return type(container)(parts)


def mapping_like(mapping: Mapping[Any, Any], content: dict[Any, Any]) -> Any:
    """Returns ``content`` as a mapping of the same type as ``mapping``."""
    if isinstance(mapping, collections.defaultdict):
        return type(mapping)(mapping.default_factory, content)
    return content if type(mapping) is dict else type(mapping)(content)  # type: ignore[call-arg]


def deeper(depth: int) -> int:
    """Returns the depth of the parts of a container that is itself at ``depth``.

    Raises ``ValueError`` if that is too deep.
    """
    if depth == _MAX_DEPTH:
        raise ValueError(f"structures can be nested at most {_MAX_DEPTH} levels deep")
    return depth + 1


def _outline(structure: Any, depth: int) -> Any:
    if not is_nested(structure):
        return None
    depth = deeper(depth)
    return tuple((name, _outline(part, depth)) for name, part in children(structure))


def _filler(structure: Any, first: int, depth: int) -> tuple[int, Callable[[Sequence[Any]], Any]]:
    """Fills the structure with leaves, starting at leaf number ``first``."""
    if not is_nested(structure):
        return 1, operator.itemgetter(first)
    count, fill, depth = 0, {}, deeper(depth)
    for name, part in children(structure):
        leaves, fill[name] = _filler(part, first + count, depth)
        count += leaves
    if type(structure) is dict:
        items = [(key, fill[key]) for key in structure]
        return count, lambda leaves: {key: part(leaves) for key, part in items}
    parts = list(fill.values())
    if type(structure) is list:
        return count, lambda leaves: [part(leaves) for part in parts]
    return count, lambda leaves: rebuild(structure, [part(leaves) for part in parts])


def _collect(structure: Any, leaves: list[Any], depth: int, lists: list[list[Any]] | None) -> None:
    """Like ``iterate``, but without the paths, which account for most of the cost of ``iterate``. Writers call this
    function for each step."""
    if not is_nested(structure):
        leaves.append(structure)
        return
    if lists is not None and type(structure) is list:
        lists.append(structure)
    depth = deeper(depth)
    for _, part in children(structure):
        # Calling this function for a leaf, too, would take a third of the time.
        if _kind(part.__class__) == _LEAF:
            leaves.append(part)
        else:
            _collect(part, leaves, depth, lists)


def _collect_outlined(
    outlined: Any, structure: Any, leaves: list[Any], as_leaf: Callable[[Any], Any] | None
) -> bool:
    if not is_nested(structure):
        leaves.append(structure)
        return outlined is None
    if outlined is None:
        leaf = None if as_leaf is None else as_leaf(structure)
        leaves.append(leaf)
        return leaf is not None
    parts = _matching_outline(outlined, structure)
    if parts is None:
        return False
    for (_, inner), part in zip(outlined, parts, strict=True):
        if inner is None and _kind(part.__class__) == _LEAF:
            leaves.append(part)
        elif not _collect_outlined(inner, part, leaves, as_leaf):
            return False
    return True


def _matching_outline(outlined: Any, container: Any) -> list[Any] | None:
    """Returns the direct parts of a container in order, or ``None`` if their names differ from the outline's."""
    if type(container) is dict and len(container) == len(outlined):
        # The usual case, which needs no sorting.
        try:
            return [container[name] for name, _ in outlined]
        except KeyError:
            return None
    parts = children(container)
    return [part for _, part in parts] if [name for name, _ in parts] == [name for name, _ in outlined] else None


def _map_leaves(function: Callable[[Any], Any], structure: Any, depth: int) -> Any:
    """Like ``_map`` for one structure, but without the paths. Batches are converted to tensors in this way."""
    if not is_nested(structure):
        return function(structure)
    depth = deeper(depth)
    if type(structure) is dict:
        # The usual case, at half of the cost.
        parts = {name: _map_leaves(function, structure[name], depth) for name in sorted_keys(structure)}
        return {name: parts[name] for name in structure}
    return rebuild(structure, [_map_leaves(function, part, depth) for _, part in children(structure)])


def _map(
    function: Callable[..., Any],
    path: Path,
    first: Any,
    others: tuple[Any, ...],
    *,
    up_to: bool = False,
    names: tuple[str, str] = _FIRST_AND_OTHER,
) -> Any:
    if not is_nested(first):
        for other in others:
            if is_nested(other) and not up_to:
                raise ValueError(f"{_differ(path)}: {names[0]} has the leaf {first!r}, but {names[1]} has {other!r}")
        return function(path, first, *others)
    deeper(len(path))
    parts = children(first)
    other_parts = [_matching(path, first, parts, other, names) for other in others]
    mapped = [
        _map(function, (*path, name), part, tuple(other[index] for other in other_parts), up_to=up_to, names=names)
        for index, (name, part) in enumerate(parts)
    ]
    return rebuild(first, mapped)


def _matching(
    path: Path, first: Any, parts: list[tuple[Any, Any]], other: Any, names: tuple[str, str]
) -> list[Any]:
    kinds = _kind(first.__class__), _kind(other.__class__)
    if kinds[1] == _LEAF or (kinds[0] == _MAPPING) != (kinds[1] == _MAPPING):
        types = type(first).__name__, type(other).__name__
        raise ValueError(f"{_differ(path)}: {names[0]} has a value of type {types[0]}, but {names[1]} has one of type {types[1]}")
    found = children(other)
    keys, other_keys = [name for name, _ in parts], [name for name, _ in found]
    if keys != other_keys:
        raise ValueError(f"{_differ(path)}: {names[0]} has the parts {keys}, but {names[1]} has {other_keys}")
    return [part for _, part in found]


def _differ(path: Path) -> str:
    return f"the structures differ at {path_text(path)!r}" if path else "the structures differ"


def _attrs_names(value: Any) -> list[str]:
    return [attribute.name for attribute in value.__class__.__attrs_attrs__]


def _attrs_parameters(value: Any) -> list[str]:
    """Returns the names of the constructor's parameters, which lack the underscores of private attributes."""
    return [getattr(attribute, "alias", None) or attribute.name.lstrip("_") for attribute in value.__class__.__attrs_attrs__]
