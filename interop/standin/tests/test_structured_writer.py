"""Patterns and `StructuredWriter`."""

from __future__ import annotations

import numpy as np
import pytest
import reverb
import tensorflow as tf

structured = reverb.structured
Condition = structured.Condition

_STEP = {"a": np.float32(0), "b": {"c": np.zeros(2, np.int64)}}


@pytest.fixture
def client(serve):
    return serve(reverb.Table.queue("queue", 1000), reverb.Table.queue("other", 1000))


def _config(transform, table="queue", step=_STEP, **options):
    return structured.create_config(structured.pattern_from_transform(step, transform), table, **options)


def _write(client, configs, steps=5, end=True):
    writer = client.structured_writer(configs)
    for number in range(steps):
        writer.append({"a": np.float32(number), "b": {"c": np.full(2, number, np.int64)}})
    writer.end_episode() if end else writer.flush()
    return writer


def _items(client, table="queue"):
    size = client.server_info(timeout=5)[table].current_size
    return [sample for sample in client.sample(table, size, emit_timesteps=False)] if size else []


def _first_columns(client, table="queue"):
    return [sample.data[0].tolist() for sample in _items(client, table)]


def test_items_of_patterns(client):
    configs = [
        _config(lambda step: {"last": step["a"][-1], "two": step["b"]["c"][-2:]}),
        _config(lambda step: [step["a"][-3:-1], step["a"][-4::2]], "other"),
    ]
    _write(client, configs)
    first = _items(client)
    assert [sample.data[0].item() for sample in first] == [1, 2, 3, 4]
    assert first[0].data[1].tolist() == [[0, 0], [1, 1]]
    second = _items(client, "other")
    assert [[column.tolist() for column in sample.data] for sample in second] == [[[1, 2], [0, 2]], [[2, 3], [1, 3]]]


@pytest.mark.parametrize(
    ("conditions", "wanted"),
    [
        ([Condition.step_index() >= 3], [3, 4]),
        ([Condition.step_index() == 2], [2]),
        ([Condition.step_index() != 2], [0, 1, 3, 4]),
        ([Condition.step_index() < 2], [0, 1]),
        ([Condition.step_index() <= 2], [0, 1, 2]),
        ([Condition.step_index() > 3], [4]),
        ([Condition.step_index() % 2 == 1], [1, 3]),
        ([Condition.steps_since_applied() >= 2], [1, 3]),
        ([Condition.is_end_episode()], [4]),
        ([Condition.step_index() >= 1, Condition.step_index() <= 3], [1, 2, 3]),
    ],
)
def test_conditions(client, conditions, wanted):
    _write(client, [_config(lambda step: step["a"][-1], conditions=conditions)])
    assert _first_columns(client) == wanted


def test_a_condition_on_data(client):
    step = {"a": np.float32(0), "flag": np.int64(0)}
    condition = Condition.data(step)["flag"] >= 1
    writer = client.structured_writer([_config(lambda step: step["a"][-1], step=step, conditions=[condition])])
    for number in range(6):
        writer.append({"a": np.float32(number), "flag": np.int64(number % 3 == 0)})
    writer.flush()
    assert _first_columns(client) == [0, 3]


def test_priorities(client):
    step = {"a": np.float32(0), "td": np.float32(0)}
    priority = structured.td_error(0.75, step, lambda step: step["td"])
    configs = [
        _config(lambda step: {"a": step["a"][-2:], "td": step["td"][-2:]}, step=step, priority=priority),
        _config(lambda step: step["a"][-1], "other", step=step, priority=structured.constant_priority_fn(3.5)),
    ]
    writer = client.structured_writer(configs)
    for number in range(3):
        writer.append({"a": np.float32(number), "td": np.float32(-2 * number)})
    writer.flush()
    assert [sample.info.priority for sample in _items(client)] == [0.75 * 2 + 0.25 * 1, 0.75 * 4 + 0.25 * 3]
    assert [sample.info.priority for sample in _items(client, "other")] == [3.5] * 3


def test_partial_steps(client):
    writer = client.structured_writer([_config(lambda step: [step["a"][-1], step["b"]["c"][-1]])])
    assert not writer.step_is_open
    writer.append({"a": np.float32(1), "b": {"c": None}}, partial_step=True)
    assert writer.step_is_open
    writer.append({"a": None, "b": {"c": np.ones(2, np.int64)}})
    assert not writer.step_is_open
    writer.flush()
    assert _first_columns(client) == [1]


def test_items_do_not_span_episodes(client):
    writer = _write(client, [_config(lambda step: step["a"][-2:])], steps=3)
    writer.append(_STEP)
    writer.flush()
    assert _first_columns(client) == [[0, 1], [1, 2]]


def test_numbers_of_leaves_are_compared(client):
    writer = client.structured_writer([_config(lambda step: step["a"][-1])])
    writer.append(_STEP)
    # A dm-reverb writer waits forever if its server ends first.
    writer.flush()
    with pytest.raises(ValueError) as raised:
        writer.append({"a": np.float32(0)})
    assert str(raised.value).index("1") < str(raised.value).rindex("2")


@pytest.mark.parametrize(
    ("value", "got", "expected"),
    [(np.float64(0), "double", "float"), (np.zeros(3, np.float32), "[3]", "[]")],
)
def test_a_mismatched_step_is_refused(client, value, got, expected):
    writer = client.structured_writer([_config(lambda step: step["a"][-1])])
    writer.append(_STEP)
    # A dm-reverb writer waits forever if its server ends first.
    writer.flush()
    with pytest.raises(ValueError) as raised:
        writer.append({**_STEP, "a": value})
    text = str(raised.value)
    assert text.index("column 0 (path=('a',))") < text.index(got) < text.index(expected)


def test_unknown_tables_surface_on_flush_at_the_latest(client):
    writer = client.structured_writer([_config(lambda step: step["a"][-1], "nowhere")])
    with pytest.raises(RuntimeError, match="nowhere"):
        writer.append(_STEP)
        writer.flush()


def test_invalid_configurations_are_refused(client):
    with pytest.raises(ValueError):
        client.structured_writer([])
    for transform in (lambda step: step["a"][1:], lambda step: step["a"][-1:-2], lambda step: step["a"][-2::-1]):
        with pytest.raises(ValueError):
            client.structured_writer([_config(lambda step: step["a"][-1]), _config(transform)])
    with pytest.raises(ValueError):
        _config(lambda step: step["a"]["x"])
    with pytest.raises(ValueError):
        client.structured_writer([_config(lambda step: step["a"][-1], "")])


def test_unpack_pattern():
    config = _config(lambda step: {"x": step["a"][-3:-1], "y": (step["b"]["c"][-2],)})
    pattern = structured.unpack_pattern(config)
    assert sorted(pattern) == ["x", "y"]
    assert (pattern["x"].flat_source_index, pattern["x"].start, pattern["x"].stop) == (0, -3, -1)
    assert (pattern["y"][0].flat_source_index, pattern["y"][0].stop) == (1, -2)


_SPEC = {"a": tf.TensorSpec([], tf.float32), "b": {"c": tf.TensorSpec([2], tf.int64)}}


def test_infer_signature():
    configs = [
        _config(lambda step: {"x": step["a"][-3:-1], "y": [step["b"]["c"][-1]]}),
        _config(lambda step: {"x": step["a"][-2:], "y": [step["b"]["c"][-2]]}),
    ]
    signature = structured.infer_signature(configs, _SPEC)
    assert signature == {"x": tf.TensorSpec([2], tf.float32, "x"), "y": [tf.TensorSpec([2], tf.int64, "y/0")]}
    configs.append(_config(lambda step: {"x": step["a"][-1:], "y": [step["b"]["c"][-2]]}))
    signature = structured.infer_signature(configs, _SPEC)
    assert signature["x"] == tf.TensorSpec([None], tf.float32, "x")


@pytest.mark.parametrize(
    ("transforms", "tables", "evidence"),
    [
        ([], [], []),
        ([lambda s: {"x": s["a"][-1]}, lambda s: [s["a"][-1]]], ["queue"] * 2, []),
        ([lambda s: [s["a"][-1]]] * 2, ["queue", "other"], ["other", "queue"]),
        ([lambda s: {"x": s["a"][-1]}, lambda s: {"x": s["a"][-1:]}], ["queue"] * 2, ["('x',)"]),
        ([lambda s: {"x": s["a"][-2:]}, lambda s: {"x": s["b"]["c"][-1]}], ["queue"] * 2, ["('x',)", "float32", "int64"]),
    ],
    ids=["none", "structures", "tables", "ranks", "dtypes"],
)
def test_configurations_without_a_common_signature(transforms, tables, evidence):
    configs = [_config(transform, table) for transform, table in zip(transforms, tables, strict=True)]
    with pytest.raises(ValueError) as raised:
        structured.infer_signature(configs, _SPEC)
    text = str(raised.value)
    assert [part for part in evidence if part not in text] == []
