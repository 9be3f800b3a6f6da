"""Nested structures, flattened as in dm-tree."""

import collections
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relive import nest, specs
from relive.specs import ArraySpec


class Point(NamedTuple):
    y: Any
    x: Any


class Attrs:
    """A class like those that the package attrs creates."""

    __attrs_attrs__ = (types.SimpleNamespace(name="b"), types.SimpleNamespace(name="a"))

    def __init__(self, b: Any, a: Any) -> None:
        self.b = b
        self.a = a


NESTS = st.recursive(
    st.integers(),
    lambda parts: st.one_of(
        st.lists(parts, max_size=3),
        st.lists(parts, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=3), parts, max_size=3),
        st.tuples(parts, parts).map(lambda pair: Point(*pair)),
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("structure", "paths"),
    [
        (7, [()]),
        (None, [()]),
        ([1, (2, 3)], [(0,), (1, 0), (1, 1)]),
        ({"b": 1, "a": 2}, [("a",), ("b",)]),
        (collections.OrderedDict(b=1, a=2), [("a",), ("b",)]),
        (Point(1, 2), [("y",), ("x",)]),
        (Attrs(1, [2]), [("b",), ("a", 0)]),
        ([], []),
        ({}, []),
    ],
)
def test_paths_in_order(structure: Any, paths: list[nest.Path]) -> None:
    assert [path for path, _ in nest.flatten_with_path(structure)] == paths
    assert nest.flatten_outlined(nest.outline(structure), structure) == nest.flatten(structure)


@given(NESTS)
def test_flattened_structures_can_be_unflattened(structure: Any) -> None:
    leaves = nest.flatten(structure)
    assert nest.unflatten_as(structure, leaves) == structure
    assert [leaf for _, leaf in nest.flatten_with_path(structure)] == leaves
    assert nest.flatten_outlined(nest.outline(structure), structure) == leaves


@given(NESTS)
def test_a_filler_can_be_reused(structure: Any) -> None:
    count, fill = nest.filler(structure)
    assert count == len(nest.flatten(structure))
    for leaves in ([f"{n}" for n in range(count)], tuple(range(count))):
        filled, expected = fill(leaves), nest.unflatten_as(structure, leaves)
        assert filled == expected and type(filled) is type(expected)
        if isinstance(expected, dict):
            assert list(filled) == list(expected), "the order of the keys is kept"


@given(NESTS)
def test_mapping_keeps_the_containers(structure: Any) -> None:
    mapped = nest.map_structure(lambda leaf: (leaf,), structure)
    nest.assert_same_structure(structure, nest.map_structure(lambda _: 0, structure))
    assert nest.flatten(nest.map_structure(lambda leaf: -leaf, structure)) == [-leaf for leaf in nest.flatten(structure)]
    assert nest.map_structure_up_to(lambda leaf: leaf[0], structure, mapped) == structure


def test_containers_keep_their_types() -> None:
    for structure in (Point(1, 2), collections.OrderedDict(b=1, a=2), collections.defaultdict(list, b=1)):
        made = nest.map_structure(str, structure)
        assert type(made) is type(structure)
    assert list(nest.map_structure(str, collections.OrderedDict(b=1, a=2))) == ["b", "a"]
    assert nest.map_structure(str, collections.defaultdict(list, b=1))["new"] == []
    attrs = nest.map_structure(str, Attrs(1, 2))
    assert (attrs.b, attrs.a) == ("1", "2")


def test_several_structures() -> None:
    assert nest.map_structure(lambda a, b: a + b, {"x": [1]}, {"x": (2,)}) == {"x": [3]}
    assert nest.map_structure_with_path(lambda path, leaf: (path, leaf), {"x": [1]}) == {"x": [(("x", 0), 1)]}


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ({"a": [1, 2]}, {"a": [1]}, r"at 'a': the first has the parts \[0, 1\], but another has \[0\]"),
        ({"a": 1}, {"a": [1]}, r"at 'a': the first has the leaf 1, but another has \[1\]"),
        ({"a": [1]}, {"a": 1}, "at 'a': the first has a value of type list, but another has one of type int"),
        ({"a": 1}, {"b": 1}, r"differ: .*\['a'\].*\['b'\]"),
        ({"a": 1}, [1], "differ: .*dict.*list"),
    ],
)
def test_different_structures(first: Any, second: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        nest.assert_same_structure(first, second)


@pytest.mark.parametrize("leaves", [[1], [1, 2, 3]])
def test_wrong_number_of_leaves(leaves: list[int]) -> None:
    with pytest.raises(ValueError, match=f"2 leaves cannot be filled with {len(leaves)} values"):
        nest.unflatten_as([0, 0], leaves)


def test_leaves_in_a_known_structure() -> None:
    known = nest.outline({"b": 0, "a": [0, 0]})
    assert known == (("a", ((0, None), (1, None))), ("b", None))
    assert nest.flatten_outlined(known, {"b": 3, "a": (1, 2)}) == [1, 2, 3]
    for other in ({"a": (1, 2), "c": 3}, {"a": (1, 2), "b": [3]}, {"a": 1, "b": 3}, {"a": (1, 2)}, 3, [1, 2, 3]):
        assert nest.flatten_outlined(known, other) is None
    assert nest.flatten_outlined(nest.outline(0), 5) == [5]
    assert nest.flatten_outlined(nest.outline(0), [5]) is None


def test_unsortable_dict_keys_are_refused() -> None:
    with pytest.raises(TypeError, match="sortable.*'a'"):
        nest.flatten({"a": 1, 2: 3})


def test_path_text() -> None:
    assert nest.path_text(("a", 0, "b")) == "a/0/b"
    assert nest.path_text(()) == ""


@pytest.mark.parametrize(
    "function",
    [
        nest.flatten, nest.outline, nest.flatten_with_path, nest.filler, lambda nested: nest.map_structure(id, nested),
        lambda nested: nest.map_structure(max, nested, nested), lambda nested: nest.assert_same_structure(nested, nested), specs.as_spec,
    ],
)
def test_structures_that_are_too_deep_are_refused(function: Callable[[Any], Any]) -> None:
    endless: dict[str, Any] = {}
    endless["a"] = endless
    deep: Any = ArraySpec((), "int8")
    for _ in range(64):
        deep = [deep]
    if function is not specs.as_spec:
        function([0])
    for nested in (endless, [deep]):
        with pytest.raises(ValueError, match="structures can be nested at most 64 levels deep"):
            function(nested)
    assert len(nest.flatten(deep)) == 1
