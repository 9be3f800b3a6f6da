"""Patterns: the steps and columns of an item."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from relive import _protos, _reference_steps, _structured_value, nest

Pattern = Any
"""A nest of ``PatternNode`` messages."""

ReferenceStep = Any
"""A nest of nodes that can be indexed."""


class ReferenceNode:
    """A reference to a column of a step, for use in patterns; indexing it selects steps, counted back from the newest.

    ``node[-1]`` is the newest step, without a leading dimension; ``node[-3:]`` the newest three, ``node[-3:-1]`` the
    two before the newest, ``node[-6::2]`` every second step of the newest six.
    """

    __slots__ = ("_column", "_outline")

    def __init__(self, column: int, outline: Any) -> None:
        self._column = column
        # The outline of the reference step.
        self._outline = outline

    def __getitem__(self, key: int | slice) -> Any:
        """Returns the ``PatternNode`` message for the steps ``key``.

        Raises:
          ValueError: a key that is neither an integer nor a slice, or a slice without a start.
          TypeError: a slice of values that are not integers.
        """
        node = _protos.message(_protos.PATTERNS, "PatternNode")(flat_source_index=self._column)
        if hasattr(key, "__index__"):
            node.stop = operator.index(key)
        elif isinstance(key, slice):
            _put_slice(node, key)
        else:
            # Existing tests compare the first sentence verbatim.
            raise ValueError(
                f"Key must be int or slice by got {key} (type {type(key)}). Select steps by their distance from the newest, "
                "as in x[-1] or x[-3:]"
            )
        _reference_steps.remember(node, (self._outline,))
        return node

    def __repr__(self) -> str:
        return f"ReferenceNode({self._column})"


def create_reference_step(step_structure: Any) -> ReferenceStep:
    """Returns a nest like ``step_structure`` with leaves that can be indexed to create patterns. The steps that are
    written must have the same structure and names; the values in ``step_structure`` do not matter.

    >>> step = create_reference_step({"obs": None, "action": None})
    >>> pattern = {"history": step["obs"][-4:], "action": step["action"][-1]}
    """
    columns = iter(range(len(nest.flatten(step_structure))))
    outline = nest.outline(step_structure)
    return nest.map_structure(lambda _: ReferenceNode(next(columns), outline), step_structure)


def pattern_from_transform(step_structure: Any, transform: Callable[[ReferenceStep], Pattern]) -> Pattern:
    """Returns the pattern that ``transform`` creates from a reference step."""
    return transform(create_reference_step(step_structure))


def create_config(
    pattern: Pattern, table: str, conditions: Sequence[Any] | None = (), priority: Any | None = None
) -> Any:
    """Returns a configuration of a structured writer, a ``StructuredWriterConfig`` message.

    Args:
      pattern: a nest of nodes, obtained by indexing a reference step; the items have the structure of this nest.
      table: the table of the items.
      conditions: conditions that must all hold for a step to create an item; see ``Condition``.
      priority: the priority of the items, 1 by default; see ``constant_priority_fn`` and ``td_error``.

    Raises:
      TypeError: the table is not a string, or a leaf of the pattern, a condition or the priority has the wrong type; the
        error names its path.
    """
    if not isinstance(table, (str, bytes)):
        raise TypeError(f"table must be a string, got {table!r}")
    if conditions is not None and not isinstance(conditions, Iterable):
        raise TypeError(f"conditions must be a list of conditions, got {conditions!r}")
    config = _protos.message(_protos.PATTERNS, "StructuredWriterConfig")(table=table)
    nodes = nest.flatten_with_path(pattern)
    for path, node in nodes:
        config.flat.append(_message("PatternNode", node, f"the leaf of the pattern at {path}"))
    config.pattern_structure.CopyFrom(_structured_value.encode_structure(pattern))
    for position, condition in enumerate(conditions or ()):
        config.conditions.append(_message("Condition", condition, f"the condition at position {position}"))
    if priority is None:
        priority = constant_priority_fn(1.0)
    config.priority.CopyFrom(_message("Priority", priority, "the priority"))
    _reference_steps.remember(config, _reference_steps.outlines_of(node for _, node in nodes))
    return config


def unpack_pattern(config: Any) -> Pattern:
    """Returns the pattern of a configuration: a nest of ``PatternNode``, or a list if the pattern has no structure.

    Raises ``ValueError`` if the numbers of leaves and nodes differ.
    """
    if not config.HasField("pattern_structure"):
        return list(config.flat)
    return _structured_value.fill_structure(config.pattern_structure, list(config.flat))


def constant_priority_fn(value: float) -> Any:
    """Returns the priority ``value`` for every item, as a ``Priority`` message."""
    priority = _protos.message(_protos.PATTERNS, "Priority")()
    priority.constant_fn.value = value
    return priority


def td_error(
    max_priority_weight: float, step_structure: Any, get_field_from_step_fn: Callable[[Any], Any]
) -> Any:
    """Returns the priority w max|x| + (1 - w) mean|x| of a column x of temporal-difference errors.

    This is equation (4) of Kapturowski et al., "Recurrent Experience Replay in Distributed Reinforcement Learning"
    (2019).

    Args:
      max_priority_weight: w, from 0 to 1.
      step_structure: a nest with the structure of the steps.
      get_field_from_step_fn: selects the column of a step.

    Raises:
      ValueError: ``max_priority_weight`` is out of range.
      TypeError: the selection is not a single leaf of the step.
    """
    if not 0 <= max_priority_weight <= 1:
        raise ValueError(f"max_priority_weight must be from 0 to 1, got {max_priority_weight}")
    columns = iter(range(len(nest.flatten(step_structure))))
    column = get_field_from_step_fn(nest.map_structure(lambda _: next(columns), step_structure))
    if not isinstance(column, int):
        raise TypeError(f"get_field_from_step_fn must return one leaf of the step, but returned {column!r}")
    priority = _protos.message(_protos.PATTERNS, "Priority")()
    priority.td_error.max_priority_weight = max_priority_weight
    priority.td_error.flat_source_index = column
    return priority


def _put_slice(node: Any, key: slice) -> None:
    if key.start is None:
        raise ValueError(
            f"a slice of a pattern's column needs a start, but {key} has none; "
            "x[-2] is one step, x[-5:-2] are the three before it"
        )
    node.start = key.start
    if key.stop is not None:
        node.stop = key.stop
    if key.step is not None:
        node.step = key.step


def _message(name: str, value: Any, what: str) -> Any:
    """Converts ``value`` to a message of our own type; messages with the same name from dm-reverb's own files are also
    accepted."""
    wanted = _protos.message(_protos.PATTERNS, name)
    if isinstance(value, wanted):
        return value
    descriptor = getattr(value, "DESCRIPTOR", None)
    if descriptor is None or getattr(descriptor, "full_name", None) != wanted.DESCRIPTOR.full_name:
        raise TypeError(f"{what} must be a {name}, but it is {value!r} (type {type(value).__name__})")
    return wanted.FromString(value.SerializeToString())
