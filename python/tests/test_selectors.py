"""Selectors as descriptions."""

import pickle
from typing import Any

import pytest

from relive import item_selectors, pybind, selectors
from relive.item_selectors import ItemSelector

ALL = [
    (selectors.Fifo(), "FifoSelector", ("fifo",)),
    (selectors.Lifo(), "LifoSelector", ("lifo",)),
    (selectors.Uniform(), "UniformSelector", ("uniform",)),
    (selectors.WithoutReplacement(), "WithoutReplacementSelector", ("without_replacement",)),
    (selectors.MinHeap(), "HeapSelector(sign=1)", ("min_heap",)),
    (selectors.MaxHeap(), "HeapSelector(sign=-1)", ("max_heap",)),
    (selectors.Prioritized(0.5), "PrioritizedSelector(priority_exponent=0.5)", ("prioritized", 0.5)),
    (selectors.Prioritized(1), "PrioritizedSelector(priority_exponent=1)", ("prioritized", 1.0)),
]


@pytest.mark.parametrize(("selector", "text", "spec"), ALL)
def test_each(selector: ItemSelector, text: str, spec: Any) -> None:
    assert isinstance(selector, ItemSelector)
    assert repr(selector) == text
    assert selector._spec == spec
    assert item_selectors.from_spec(spec) == selector
    assert pickle.loads(pickle.dumps(selector)) == selector


def test_selectors_differ() -> None:
    made = [selector for selector, _, _ in ALL]
    assert all((one == other) == (one is other) for one in made for other in made)
    assert len(set(made)) == len(made)


def test_heaps_are_one_class() -> None:
    assert isinstance(selectors.MinHeap(), pybind.HeapSelector)
    assert selectors.MinHeap() == pybind.HeapSelector(True)
    assert selectors.MaxHeap() == pybind.HeapSelector(False)


def test_classes_have_the_names_of_dm_reverb() -> None:
    assert selectors.Uniform is pybind.UniformSelector
    assert selectors.Prioritized is pybind.PrioritizedSelector


@pytest.mark.parametrize("exponent", ["1", None, [1]])
def test_exponent_is_a_number(exponent: Any) -> None:
    with pytest.raises(TypeError, match="priority_exponent"):
        selectors.Prioritized(exponent)


def test_exponent_is_needed() -> None:
    with pytest.raises(TypeError):
        selectors.Prioritized()  # type: ignore[call-arg]


def test_unknown_spec() -> None:
    with pytest.raises(ValueError, match="unknown selector 'other'"):
        item_selectors.from_spec(("other",))
