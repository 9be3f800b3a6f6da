"""Patterns, and the writer that creates items from steps according to patterns."""

import importlib.util
import re
from collections.abc import Sequence
from typing import Any

from relive import _infer_signature, _structured_value, nest
from relive import structured_writer as _relive
from relive.structured_writer import *  # noqa: F403

from reverb import _borrowed, _texts


def _td_error_text(found: re.Match[str]) -> str:
    if found[1] in ("float", "double", "int32", "int64"):
        return "TD Error expects a scalar tensor"
    numbers = {_texts.dtype_text(name): number for name, number in _structured_value._DTYPE_NUMBERS.items()}
    number = numbers["object" if found[1] == "string" else found[1]]
    return f"TD Error expects a double/float/int tensor and it is {number}"


_APPEND = (
    _texts.rule(r"^column .* is (\S+) \S*; a priority needs", _td_error_text),
    _texts.rule(
        r"column (\d+) \(path \"\d+\"\) was already set",
        r"A value for column \1 was provided by multiple Append/AppendPartial calls in the same step. This should never happen "
        r"so please contact the Reverb team if you encounter this error.",
    ),
    _texts.arguments_of("Append"),
)


def infer_signature(configs: Sequence[Any], step_spec: Any) -> Any:
    """Like ``relive.structured.infer_signature``; if TensorFlow is installed, the specs are always
    ``tf.TensorSpec``."""
    signature = _infer_signature.infer_signature(configs, step_spec)
    if importlib.util.find_spec("tensorflow") is None:
        return signature
    return nest.map_structure(_infer_signature._tensor_spec, signature)


class StructuredWriter(_relive.StructuredWriter):
    __doc__ = _relive.StructuredWriter.__doc__

    _num_leaves: int | None = None

    @classmethod
    def from_configs(cls, client: Any, configs: Sequence[Any], *, codec: str = "auto") -> "StructuredWriter":
        if not configs:
            raise ValueError("At least one config must be provided.")
        for position, config in enumerate(configs):
            fault = _fault(config)
            if fault is not None:
                raise ValueError(f"Invalid configuration at position {position}: {fault}")
        return super().from_configs(client, configs, codec=codec)  # type: ignore[return-value]

    @_texts.tells(_texts.UNKNOWN_TABLE, *_APPEND)
    def append(self, data: Any, *, partial_step: bool = False) -> None:
        super().append(data, partial_step=partial_step)

    def _leaves_of(self, step: Any) -> list[Any]:
        leaves = nest.flatten(step)
        if self._num_leaves is None:
            self._num_leaves = len(leaves)
        if len(leaves) != self._num_leaves:
            raise ValueError(
                f"Flattened data has an unexpected length, got {len(leaves)} but wanted {self._num_leaves}."
            )
        return leaves

    def _paths_of(self, step: Any) -> list[nest.Path]:
        return [path for path, _ in nest.flatten_with_path(step)]

    @staticmethod
    def _reference_outlines(configs: list[Any]) -> tuple[Any, ...]:
        # dm-reverb does not compare the steps with the reference step.
        return ()

    @_texts.tells(_texts.UNKNOWN_TABLE)
    def flush(self, block_until_num_items: int = 0, timeout_ms: int | None = None) -> None:
        _texts.check_block_until(block_until_num_items)
        with _texts.deadline("Flush", timeout_ms):
            super().flush(block_until_num_items, timeout_ms)

    @_texts.tells(_texts.UNKNOWN_TABLE)
    def end_episode(self, clear_buffers: bool = True, timeout_ms: int | None = None) -> None:
        with _texts.deadline("End episode", timeout_ms):
            super().end_episode(clear_buffers, timeout_ms)


def _fault(config: Any) -> str | None:
    """Returns the error in a configuration's numbers, if any, in dm-reverb's words."""
    if not config.flat:
        return "`flat` must not be empty."
    if not config.table:
        return "`table` must not be empty."
    faults = [_node_fault(node) for node in config.flat] + [_condition_fault(one) for one in config.conditions]
    if config.priority.td_error.flat_source_index < 0:
        faults.append(f"`td_error.flat_source_index` must be >= 0 but got {config.priority.td_error.flat_source_index}.")
    return next(filter(None, faults), None)


def _node_fault(node: Any) -> str | None:
    if node.flat_source_index < 0:
        return f"`flat_source_index` must be >= 0 but got {node.flat_source_index}."
    has_start, has_stop = node.HasField("start"), node.HasField("stop")
    if not (has_start or has_stop):
        return "At least one of `start` and `stop` must be specified."
    if has_start and node.start >= 0:
        return f"`start` must be < 0 but got {node.start}."
    if has_stop and node.stop > 0:
        return f"`stop` must be <= 0 but got {node.stop}."
    if has_stop and not has_start and node.stop == 0:
        return f"`stop` must be < 0 when `start` isn't set but got {node.stop}."
    if has_start and has_stop and node.stop <= node.start:
        return f"`stop` ({node.stop}) must be > `start` ({node.start}) when both are specified."
    if node.HasField("step") and not has_start:
        return "`step` must only be set when `start` is set."
    if node.HasField("step") and node.step <= 0:
        return f"`step` must be > 0 but got {node.step}."
    return None


def _condition_fault(condition: Any) -> str | None:
    left, comparison = condition.WhichOneof("left"), condition.WhichOneof("cmp")
    if left is None:
        return "Conditions must specify a value for `left`."
    if condition.flat_source_index < 0:
        return f"flat_source_index must be >= 0 but got {condition.flat_source_index}."
    if comparison is None:
        return "Conditions must specify a value for `cmp`."
    if comparison == "mod_eq" and condition.mod_eq.mod <= 0:
        return f"`mod_eq.mod` must be > 0 but got {condition.mod_eq.mod}."
    if comparison == "mod_eq" and condition.mod_eq.eq < 0:
        return f"`mod_eq.eq` must be >= 0 but got {condition.mod_eq.eq}."
    if left == "is_end_episode" and (comparison != "eq" or condition.eq != 1 or condition.inverse):
        return "Condition must use `eq=1` when using `is_end_episode`."
    return None


__getattr__, __dir__ = _borrowed.lend(
    globals(),
    "Any Callable NewType Optional Sequence",
    Config="reverb.cc.patterns_pb2:StructuredWriterConfig",
    ConditionProto="reverb.cc.patterns_pb2:Condition",
    copy="copy",
    datetime="datetime",
    errors="reverb.errors",
    nested_structure_coder="tensorflow.python.saved_model.nested_structure_coder",
    patterns_pb2="reverb.cc.patterns_pb2",
    pybind="reverb.pybind",
    reverb_types="reverb.reverb_types",
    tensor_shape="tensorflow.python.framework.tensor_shape",
    tensor_spec="tensorflow.python.framework.tensor_spec",
    tree="tree",
)
