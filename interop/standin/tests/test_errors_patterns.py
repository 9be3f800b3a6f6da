"""Errors of `StructuredWriter`, its configurations, `infer_signature` and `PatternDataset`."""

from __future__ import annotations

import numpy as np
import pytest
import reverb
import tensorflow as tf
from raising import check, raises
from reverb.cc import patterns_pb2
from support_tables import STEP, config, queue

structured = reverb.structured_writer
Condition, Node, Priority = patterns_pb2.Condition, patterns_pb2.PatternNode, patterns_pb2.Priority

SPEC = {"a": tf.TensorSpec([2], tf.float32), "b": {"c": tf.TensorSpec([], tf.int64)}}


def structured_writer(serve, *configs):
    configs = configs or [config(lambda s: {"x": s["a"][-2:]})]
    return serve(queue(), queue("other")).structured_writer(list(configs))


def steps(number=4):
    return tf.data.Dataset.from_tensor_slices({"a": np.zeros((number, 2), np.float32), "b": {"c": np.arange(number)}})


@raises(ValueError, "Flattened data has an unexpected length, got 1 but wanted 2.")
def test_steps_of_another_length(serve):
    writer = structured_writer(serve)
    writer.append({"a": 1, "b": {"c": 2}})
    writer.append({"a": 1})


@raises(ValueError, "Tensor of wrong dtype provided for column 0 (path=('a',)). Got double but expected float.")
def test_dtype_float(serve):
    writer = structured_writer(serve)
    writer.append({"a": np.float32(1), "b": {"c": 2}})
    writer.append({"a": 1.0, "b": {"c": 2}})


@raises(
    ValueError,
    "Tensor of incompatible shape provided for column 0 (path=('a',)). Got [2,4] which is " "incompatible with [2,3].",
)
def test_shape(serve):
    writer = structured_writer(serve)
    writer.append({"a": np.zeros((2, 3)), "b": {"c": 2}})
    writer.append({"a": np.zeros((2, 4)), "b": {"c": 2}})


@raises(
    RuntimeError,
    "A value for column 0 was provided by multiple Append/AppendPartial calls in the same step. This"
    " should never happen so please contact the Reverb team if you encounter this error.",
)
def test_a_field_set_twice(serve):
    writer = structured_writer(serve)
    writer.append({"a": 1, "b": {"c": None}}, partial_step=True)
    writer.append({"a": 1, "b": {"c": 2}})


@raises(TypeError, "Append(): incompatible function arguments.…")
def test_no_tensor(serve):
    writer = structured_writer(serve)
    writer.append({"a": object(), "b": {"c": None}})


@raises(ValueError, "block_until_num_items must be >= 0, got -1")
def test_flush_negative(serve):
    structured_writer(serve).flush(-1)


@raises(RuntimeError, "Priority table nowhere was not found")
def test_unknown_table(serve):
    writer = structured_writer(serve, config(lambda s: {"x": s["a"][-1]}, "nowhere"))
    writer.append({"a": 1, "b": {"c": 2}})
    writer.flush()


@raises(ValueError, "Invalid configuration at position 0: `flat` must not be empty.")
def test_config_none(serve):
    structured_writer(serve, patterns_pb2.StructuredWriterConfig())


@raises(ValueError, "Invalid configuration at position 0: `flat` must not be empty.")
def test_config_no_flat(serve):
    structured_writer(
        serve, patterns_pb2.StructuredWriterConfig(table="queue", priority=structured.constant_priority_fn(1.0))
    )


@raises(AttributeError, "…")
def test_not_config(serve):
    structured_writer(serve, "x")


@raises(ValueError, "Key must be int or slice by got x (type <class 'str'>).")
def test_reference_key():
    structured.create_reference_step(STEP)["a"]["x"]


@raises(ValueError, "Key must be int or slice by got 1.5 (type <class 'float'>).")
def test_reference_key_float():
    structured.create_reference_step(STEP)["a"][1.5]


@raises(ValueError, "At least one config must be provided.")
def test_infer_none():
    structured.infer_signature([], SPEC)


@raises(ValueError, "All configs must have exactly the same pattern_structure.")
def test_infer_structures():
    structured.infer_signature([config(lambda s: {"x": s["a"][-1]}), config(lambda s: {"y": s["a"][-1]})], SPEC)


@raises(ValueError, "All configs must target the same table but provided configs included a, b.")
def test_infer_tables():
    structured.infer_signature(
        [config(lambda s: {"x": s["a"][-1]}, "b"), config(lambda s: {"x": s["a"][-1]}, "a")], SPEC
    )


@raises(ValueError, "Configs produce trajectories with multiple dtypes at ('x',). Got [tf.float32, tf.int64].")
def test_infer_dtypes():
    structured.infer_signature([config(lambda s: {"x": s["a"][-1]}), config(lambda s: {"x": s["b"]["c"][-1]})], SPEC)


@raises(
    ValueError,
    "Configs produce trajectories with incompatible shapes at ('x',). Got [TensorShape([2]), " "TensorShape([1, 2])].",
)
def test_infer_shapes():
    structured.infer_signature([config(lambda s: {"x": s["a"][-1]}), config(lambda s: {"x": s["a"][-1:]})], SPEC)


@raises(
    ValueError,
    "Configs produce trajectories with incompatible shapes at ('x',). Got [TensorShape([2, 2]), "
    "TensorShape([1, 3])].",
)
def test_infer_shapes_of_items():
    structured.infer_signature(
        [config(lambda s: {"x": s["a"][-2:]}), config(lambda s: {"x": s["b"]["c"][-1:]})],
        {"a": tf.TensorSpec([2], tf.float32), "b": {"c": tf.TensorSpec([3], tf.float32)}},
    )


@raises(
    ValueError,
    "Invalid `is_end_of_episode`. `is_end_of_episode` must return `bool`, but its return type is "
    "TensorSpec(shape=(), dtype=tf.int64, name=None).",
)
def test_dataset_end_type():
    reverb.PatternDataset(steps(), [config(lambda s: {"x": s["a"][-2:]})], True, lambda s: s["b"]["c"])


@raises(
    ValueError,
    "Invalid `is_end_of_episode`. `is_end_of_episode` must return `bool`, but its return type is "
    "TensorSpec(shape=(2,), dtype=tf.bool, name=None).",
)
def test_dataset_end_shape():
    reverb.PatternDataset(steps(), [config(lambda s: {"x": s["a"][-2:]})], True, lambda s: s["a"] > 1)


@raises(ValueError, "At least one config must be provided.")
def test_dataset_none():
    reverb.PatternDataset(steps(), [], True, lambda s: False)


@raises(ValueError, "All configs must target the same table but provided configs included a, b.")
def test_dataset_tables():
    reverb.PatternDataset(
        steps(),
        [config(lambda s: {"x": s["a"][-2:]}, "a"), config(lambda s: {"x": s["a"][-2:]}, "b")],
        True,
        lambda s: False,
    )


@pytest.mark.parametrize(
    ("fault", "transform"),
    [
        ("`start` must be < 0 but got 1.", lambda s: s["a"][1:]),
        ("`start` must be < 0 but got 0.", lambda s: s["a"][0:]),
        ("`stop` (-2) must be > `start` (-1) when both are specified.", lambda s: s["a"][-1:-2]),
        ("`stop` (-1) must be > `start` (-1) when both are specified.", lambda s: s["a"][-1:-1]),
        ("`step` must be > 0 but got -1.", lambda s: s["a"][-2::-1]),
        ("`step` must be > 0 but got 0.", lambda s: s["a"][-2::0]),
        ("`stop` must be <= 0 but got 1.", lambda s: s["a"][1]),
        ("`stop` must be < 0 when `start` isn't set but got 0.", lambda s: s["a"][0]),
        ("`stop` must be <= 0 but got 1.", lambda s: s["a"][-2:1]),
        ("`step` must only be set when `start` is set.", lambda _: Node(stop=-1, step=2)),
        ("`step` must only be set when `start` is set.", lambda _: Node(stop=-1, step=0)),
        ("`flat_source_index` must be >= 0 but got -1.", lambda _: Node(flat_source_index=-1)),
        ("`flat_source_index` must be >= 0 but got -1.", lambda _: Node(flat_source_index=-1, stop=1, step=0)),
    ],
)
def test_patterns_of_configurations(serve, fault, transform):
    with pytest.raises(ValueError) as raised:
        structured_writer(serve, config(lambda s: {"x": s["b"]["c"][-1]}), config(transform))
    check(raised.value, ValueError, f"Invalid configuration at position 1: {fault}")


@pytest.mark.parametrize(
    ("fault", "condition"),
    [
        ("Conditions must specify a value for `left`.", Condition(eq=1)),
        ("Conditions must specify a value for `cmp`.", Condition(step_index=True)),
        ("Condition must use `eq=1` when using `is_end_episode`.", Condition(is_end_episode=True, eq=2)),
        ("Condition must use `eq=1` when using `is_end_episode`.", Condition(is_end_episode=True, ge=1)),
        ("Condition must use `eq=1` when using `is_end_episode`.", Condition(is_end_episode=True, eq=1, inverse=True)),
        ("flat_source_index must be >= 0 but got -1.", Condition(flat_source_index=-1)),
        ("`mod_eq.mod` must be > 0 but got 0.", Condition(step_index=True, mod_eq=Condition.ModuloEq(mod=0, eq=0))),
        ("`mod_eq.eq` must be >= 0 but got -1.", Condition(step_index=True, mod_eq=Condition.ModuloEq(mod=2, eq=-1))),
    ],
)
def test_conditions_of_configurations(serve, fault, condition):
    with pytest.raises(ValueError) as raised:
        structured_writer(serve, config(lambda s: {"x": s["a"][-2:]}, conditions=[condition]))
    check(raised.value, ValueError, f"Invalid configuration at position 0: {fault}")


@pytest.mark.parametrize(
    ("fault", "value"),
    [
        ("TD Error expects a scalar tensor", np.ones(3, np.float32)),
        ("TD Error expects a double/float/int tensor and it is 4", np.uint8(1)),
        ("TD Error expects a double/float/int tensor and it is 4", np.ones(3, np.uint8)),
        ("TD Error expects a double/float/int tensor and it is 7", "text"),
        ("TD Error expects a double/float/int tensor and it is 19", np.float16(1)),
    ],
)
def test_temporal_differences(serve, fault, value):
    priority = Priority(td_error={"max_priority_weight": 0.5, "flat_source_index": 0})
    writer = structured_writer(serve, config(lambda s: {"x": s["a"][-1:]}, priority=priority))
    with pytest.raises(ValueError) as raised:
        writer.append({"a": value, "b": {"c": 2}})
    check(raised.value, ValueError, fault)


def test_temporal_differences_of_no_column(serve, is_standin):
    if not is_standin:
        pytest.skip("dm-reverb's writer uses the priority 0")
    priority = Priority(td_error={"max_priority_weight": 0.5, "flat_source_index": -1})
    with pytest.raises(ValueError, match="`td_error.flat_source_index` must be >= 0 but got -1"):
        structured_writer(serve, config(lambda s: {"x": s["a"][-1:]}, priority=priority))


@raises(ValueError, "Invalid configuration at position 0: `table` must not be empty.")
def test_configuration_without_table(serve):
    structured_writer(serve, config(lambda s: {"x": s["a"][-1]}, table=""))


@pytest.mark.parametrize(("call", "name"), [("flush", "Flush"), ("end_episode", "End episode")])
def test_deadlines(serve, is_standin, call, name):
    if not is_standin:
        pytest.skip("dm-reverb's waits for ever, and holds the interpreter's lock meanwhile")
    client = serve(queue(size=1))
    writer = client.structured_writer([config(lambda s: {"x": s["a"][-1:]})])
    for _ in range(4):
        writer.append({"a": 1, "b": {"c": 2}})
    with pytest.raises(reverb.DeadlineExceededError) as raised:
        getattr(writer, call)(timeout_ms=200)
    text = f"{name} call did not complete within provided timeout of 0:00:00.200000"
    check(raised.value, reverb.DeadlineExceededError, text)
    for _ in client.sample("queue", 3):
        pass
