"""Operators that iterators and parallel iterators both have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relive._numbers import count
from relive.flow._metrics import Binding, within

Operator = tuple[Any, ...]

# The number of threads of a function without a limit.
_MOST_THREADS = 1024


def label(name: str, function: Any) -> str:
    """Returns the name of an operator that applies a function, for graphs and errors.

    Raises:
      TypeError: the function cannot be called.
    """
    if not callable(function):
        raise TypeError(f"{name} needs a function, but got {function!r}")
    called = getattr(function, "__name__", type(function).__name__)
    return name if called == "<lambda>" else f"{name}({called})"


def bound(operator: Operator, binding: Binding) -> Operator:
    """Returns the operator in the extension's form, in which its function also receives the number of the item's
    shard."""
    kind, *arguments = operator
    if kind == "transform":
        name, function = arguments
        get = binding.weakly(function)
        return kind, name, lambda items: get()(items)
    if kind not in ("for_each", "for_each_in_threads", "filter", "combine"):
        return operator
    name, function, *others = arguments
    return kind, name, within(function, binding), *others


def itself(item: Any) -> Any:
    """Returns the item."""
    return item


def each(function: Callable[[Any], Any], max_concurrency: Any) -> Operator:
    """Returns the operator that applies a function to each item.

    Raises:
      TypeError: the function cannot be called, or ``max_concurrency`` is not a whole number.
      ValueError: ``max_concurrency`` is negative.
    """
    name, most = label("for_each", function), count("max_concurrency", max_concurrency)
    return ("for_each", name, function) if most == 1 else ("for_each_in_threads", name, function, most or _MOST_THREADS)
