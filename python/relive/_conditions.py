"""Conditions that determine which steps create an item of a pattern."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from relive import _protos, nest


class ConditionBuilder:
    """A number that a condition checks; comparing it with an integer returns the ``Condition`` message.

    The comparisons are ``==``, ``!=``, ``<``, ``<=``, ``>`` and ``>=``. ``% n`` first takes the remainder, which can
    only be compared with ``==`` and ``!=``. Operands other than integers raise ``TypeError``.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, put_operand: Callable[[Any], None], modulus: int | None = None) -> None:
        self._put_operand = put_operand
        self._modulus = modulus

    def __mod__(self, modulus: int) -> ConditionBuilder:
        modulus = operator.index(modulus)
        if modulus < 1:
            raise ValueError(f"the number after % must be at least 1, got {modulus}")
        if self._modulus is not None:
            raise ValueError("a condition can have only one remainder")
        return ConditionBuilder(self._put_operand, modulus)

    def __eq__(self, value: object) -> Any:
        return self._equals(value, inverse=False)

    def __ne__(self, value: object) -> Any:
        return self._equals(value, inverse=True)

    def __ge__(self, value: int) -> Any:
        return self._at_least(operator.index(value), inverse=False)

    def __gt__(self, value: int) -> Any:
        return self._at_least(operator.index(value) + 1, inverse=False)

    def __lt__(self, value: int) -> Any:
        return self._at_least(operator.index(value), inverse=True)

    def __le__(self, value: int) -> Any:
        return self._at_least(operator.index(value) + 1, inverse=True)

    def _equals(self, value: Any, *, inverse: bool) -> Any:
        value = operator.index(value)
        condition = self._condition(inverse)
        if self._modulus is None:
            condition.eq = value
            return condition
        if value < 0:
            raise ValueError(f"a remainder is never negative, so it cannot be compared with {value}")
        condition.mod_eq.mod = self._modulus
        condition.mod_eq.eq = value
        return condition

    def _at_least(self, value: int, *, inverse: bool) -> Any:
        if self._modulus is not None:
            raise ValueError("a remainder can only be compared with == and !=")
        condition = self._condition(inverse)
        condition.ge = value
        return condition

    def _condition(self, inverse: bool) -> Any:
        condition = _protos.message(_protos.PATTERNS, "Condition")()
        self._put_operand(condition)
        if inverse:
            condition.inverse = True
        return condition


class Condition:
    """The values that conditions can check."""

    @staticmethod
    def step_index() -> ConditionBuilder:
        """Returns the index of the newest step in its episode, from 0."""
        return ConditionBuilder(_flag("step_index"))

    @staticmethod
    def steps_since_applied() -> ConditionBuilder:
        """Returns the number of steps since the pattern last created an item."""
        return ConditionBuilder(_flag("steps_since_applied"))

    @staticmethod
    def is_end_episode() -> Any:
        """Returns a condition that holds when the episode ends; it needs no comparison."""
        return ConditionBuilder(_flag("is_end_episode")) == 1

    @staticmethod
    def data(step_structure: Any) -> Any:
        """Returns a nest like ``step_structure`` whose leaves stand for the newest step's values in comparisons. The
        values must be single integers or booleans."""
        columns = iter(range(len(nest.flatten(step_structure))))
        return nest.map_structure(lambda _: ConditionBuilder(_column(next(columns))), step_structure)


def _flag(name: str) -> Callable[[Any], None]:
    return lambda condition: setattr(condition, name, True)


def _column(column: int) -> Callable[[Any], None]:
    return lambda condition: setattr(condition, "flat_source_index", column)
