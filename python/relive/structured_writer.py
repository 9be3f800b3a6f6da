"""Writes items according to patterns: for each pattern, a step that satisfies the conditions creates an item.

>>> step = create_reference_step({"obs": None, "action": None, "reward": None})
>>> config = create_config(
...     pattern={"obs": step["obs"][-2:], "action": step["action"][-2], "reward": step["reward"][-1]},
...     table="transitions",
...     conditions=[Condition.step_index() >= 1],
... )

``client.structured_writer([config])`` returns the writer.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, NoReturn

from relive import _native, _protos, _reference_steps, errors, nest
from relive._conditions import Condition
from relive._infer_signature import infer_signature
from relive._patterns import (
    Pattern,
    ReferenceStep,
    constant_priority_fn,
    create_config,
    create_reference_step,
    pattern_from_transform,
    td_error,
    unpack_pattern,
)
from relive.writer import CLOSE_TIMEOUT_S, flush_while_there, joined_list, with_path

__all__ = [
    "Condition",
    "Pattern",
    "PatternTransform",
    "ReferenceStep",
    "StructuredWriter",
    "constant_priority_fn",
    "create_config",
    "create_reference_step",
    "infer_signature",
    "pattern_from_transform",
    "td_error",
    "unpack_pattern",
]

# Messages, created at first use, since creating them imports protobuf.
_MESSAGES = {"ConditionProto": "Condition", "Config": "StructuredWriterConfig"}

PatternTransform = Callable[[ReferenceStep], Pattern]
"""A function that derives a pattern from a reference step."""

# The form in which the compiled writer reports an invalid value; it identifies columns only by their numbers.
_MISMATCH = re.compile(
    r"column (\d+) \(path [^)]*\) got (dtype|shape) (.*), but expected (.*) as in its first value"
)

# The form in which it reports a value that a condition or a priority cannot use.
_UNUSABLE = re.compile(r"column (\d+) is(.*; a (?:condition|priority) needs .*)")


class StructuredWriter:
    """Writes steps. A step creates an item for each pattern whose conditions it satisfies.

    Created by ``Client.structured_writer``. As a context manager, it flushes and closes on exit. A writer that is
    deleted without a flush or close also flushes, but only while its server accepts items, and for at most a few
    seconds; lost items are logged.
    """

    def __init__(self, native: _native.StructuredWriter, client: _native.Client | None = None) -> None:
        self._writer = native
        # The client that shows whether the server is available.
        self._client = client
        # The outline of the reference step, or of the first step if the reference step is not known.
        self._outline: Any = None
        self._has_outline = False
        self._outlined = "first"
        self._closed = False

    @classmethod
    def from_configs(
        cls, client: _native.Client, configs: Sequence[Any], *, codec: str = "auto"
    ) -> StructuredWriter:
        """Creates a writer for ``configs`` from ``create_config``.

        Raises:
          ValueError: no configuration, an invalid configuration (the error names its position), configurations from
            reference steps with different structures, or an unknown codec.
          TypeError: ``configs`` are not configurations.
        """
        if not isinstance(configs, Iterable):
            raise TypeError(f"configs must be a list of configurations from create_config(), not {configs!r}")
        configs = list(configs)
        if not configs:
            raise ValueError("a structured writer needs at least one configuration")
        natives = []
        for position, config in enumerate(configs):
            if not hasattr(config, "pattern_structure"):
                raise TypeError(f"the configuration at position {position} must be from create_config(), but it is {config!r}")
            try:
                natives.append(_config_to_native(config))
            except ValueError as error:
                raise ValueError(f"Invalid configuration at position {position}: {error}") from error
        outlines = cls._reference_outlines(configs)
        writer = cls(client.structured_writer(natives, codec=codec), client)
        if outlines:
            (writer._outline,), writer._has_outline, writer._outlined = outlines, True, "reference"
        return writer

    @staticmethod
    def _reference_outlines(configs: list[Any]) -> tuple[Any, ...]:
        """Returns the outline of the reference step of all configurations, in a tuple that is empty if it is not
        known."""
        outlines = _reference_steps.outlines_of(configs)
        if len(outlines) > 1:
            raise ValueError(
                f"the configurations are from reference steps with different structures, {nest.shown(outlines[0])} and "
                f"{nest.shown(outlines[1])}; create them from one reference step, which has the structure of the steps"
            )
        return outlines

    def append(self, data: Any, *, partial_step: bool = False) -> None:
        """Appends a step: a nest of tensors with the structure and names of the reference step, and ``None`` in place of
        missing leaves.

        Lists of Python numbers are interpreted as in :class:`relive.TrajectoryWriter`, but in the place of a list of
        the reference step, a list is a nest. If the reference step is not known, because the configurations were
        copied or created without one, all steps must have the structure of the first one.

        Args:
          data: the step.
          partial_step: whether the step stays open, to be completed by the next call; each leaf can be given only once.

        Raises:
          ValueError: another structure or other names, or a leaf with a different data type or shape than before; a
            value that a condition or a priority cannot use; or an item that does not match its table's signature.
          NotFoundError: a table of the patterns does not exist.
          TypeError: a leaf that is not a tensor; the error names its path.
          DeadlineExceededError: the server did not respond within the client's timeout.
          RuntimeError: a leaf that the open step already has, or a writer that is closed or has failed.
        """
        leaves = self._leaves_of(data)
        try:
            self._writer.append(leaves, bool(partial_step))
        except (TypeError, ValueError) as error:
            raise _with_path(error, self._paths_of(data)) from error.__cause__
        if not self._has_outline:
            self._outline, self._has_outline = nest.outline(_native.with_lists_joined(data)), True

    def _leaves_of(self, step: Any) -> list[Any]:
        """Returns the leaves of a step, which must have the outline of the reference step or of the first step."""
        if not self._has_outline:
            return nest.flatten(_native.with_lists_joined(step))
        # A list that is itself the step is a nest.
        leaves = nest.flatten_outlined(self._outline, step, None if self._outline is None else joined_list)
        if leaves is None:
            raise ValueError(
                f"the {self._outlined} step of this writer has the structure {nest.shown(self._outline)}, but this one has "
                f"{nest.shown(nest.outline(step))}; all steps must have the same names, with None for missing values"
            )
        return leaves

    def _paths_of(self, step: Any) -> list[nest.Path]:
        """Returns the paths of the leaves of a step."""
        return nest.outlined_paths(self._outline if self._has_outline else nest.outline(_native.with_lists_joined(step)))

    def flush(self, block_until_num_items: int = 0, timeout_ms: int | None = None) -> None:
        """Waits until at most ``block_until_num_items`` items are unconfirmed.

        Args:
          block_until_num_items: the number of items that may remain unconfirmed.
          timeout_ms: the longest time to wait, in milliseconds; 0 does not wait, and with ``None`` or a negative
            number, there is no limit.

        Raises:
          ValueError: ``block_until_num_items`` is negative.
          DeadlineExceededError: more items are unconfirmed after ``timeout_ms``.
          RuntimeError: the server rejected an item.
        """
        if block_until_num_items < 0:
            raise ValueError(f"block_until_num_items must be >= 0, got {block_until_num_items}")
        self._writer.flush(block_until_num_items, timeout_ms)

    def end_episode(self, clear_buffers: bool = True, timeout_ms: int | None = None) -> None:
        """Creates the items that are due at the end of the episode, flushes, and starts a new episode.

        Args:
          clear_buffers: whether to clear the history, so that items of the new episode cannot refer to steps of this
            one.
          timeout_ms: as in ``flush``.

        Raises:
          DeadlineExceededError: not all items are confirmed after ``timeout_ms``; the episode continues.
          RuntimeError: the server rejected an item.
        """
        self._writer.end_episode(bool(clear_buffers), timeout_ms)

    @property
    def step_is_open(self) -> bool:
        """Whether the newest step is partial."""
        return self._writer.step_is_open

    def close(self) -> None:
        """Closes the writer; unconfirmed items are dropped with a warning. A second close does nothing."""
        self._closed = True
        self._writer.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(errors._NOT_COPIED)

    def __del__(self) -> None:
        client = getattr(self, "_client", None)
        if client is None or self._closed:
            return
        try:
            flush_while_there(self._writer.flush, client, CLOSE_TIMEOUT_S)
        except Exception:
            # No caller could catch the exception.
            logging.getLogger("relive").warning("a writer was dropped without flush(), so items were lost", exc_info=True)

    def __enter__(self) -> StructuredWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if errors._allows_flush(error):
                self.flush()
        finally:
            self.close()


def _with_path(error: TypeError | ValueError, paths: list[nest.Path]) -> Exception:
    """Returns the error for a value that does not match its column or cannot be used, with its path in the step."""
    if unusable := _UNUSABLE.match(str(error)):
        path = paths[int(unusable[1])]
        return type(error)(f"column {nest.path_text(path)!r} is{unusable[2]}")
    found = _MISMATCH.search(str(error))
    if found is None:
        return with_path(error, paths)
    column, what, got, expected = int(found[1]), found[2], found[3], found[4]
    path = paths[column]
    # Existing tests compare these texts verbatim.
    if what == "dtype":
        text = f"Tensor of wrong dtype provided for column {column} (path={path}). Got {got} but expected {expected}."
    else:
        text = (
            f"Tensor of incompatible shape provided for column {column} (path={path}). "
            f"Got {got} which is incompatible with {expected}."
        )
    return type(error)(text)


def _config_to_native(config: Any) -> dict[str, Any]:
    """Converts a ``StructuredWriterConfig`` message to plain values for ``relive._native``."""
    return {
        "table": config.table,
        "structure": nest.map_structure(lambda _: 0, unpack_pattern(config)),
        "nodes": [
            (node.flat_source_index, _given(node, "start"), _given(node, "stop"), _given(node, "step"))
            for node in config.flat
        ],
        "priority": _priority_to_native(config.priority),
        "conditions": [_condition_to_native(condition) for condition in config.conditions],
    }


def _given(message: Any, field: str) -> int | None:
    return getattr(message, field) if message.HasField(field) else None


def _priority_to_native(priority: Any) -> tuple[Any, ...]:
    if priority.WhichOneof("priority_fn") == "td_error":
        return ("td_error", priority.td_error.max_priority_weight, priority.td_error.flat_source_index)
    # dm-reverb treats an empty message as priority 1.
    constant = priority.constant_fn.value if priority.HasField("constant_fn") else 1.0
    return ("constant", constant)


def _condition_to_native(condition: Any) -> tuple[Any, ...]:
    left = condition.WhichOneof("left")
    if left is None:
        raise ValueError("a condition must have a left side (`left`)")
    comparison = condition.WhichOneof("cmp")
    if comparison is None:
        raise ValueError("a condition must have a comparison (`cmp`)")
    column = None
    if left == "flat_source_index":
        left, column = "data", condition.flat_source_index
    if comparison == "mod_eq":
        values = [condition.mod_eq.mod, condition.mod_eq.eq]
    else:
        values = [getattr(condition, comparison)]
    return (left, column, comparison, values, condition.inverse)


def __getattr__(name: str) -> Any:
    if name in _MESSAGES:
        return _protos.message(_protos.PATTERNS, _MESSAGES[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
