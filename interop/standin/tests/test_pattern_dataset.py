"""Items that are cut from a dataset of steps."""

from __future__ import annotations

import numpy as np
import pytest
import reverb
import tensorflow as tf

structured = reverb.structured


def _steps(episodes=2, length=4):
    """Steps that contain their episode and their position in it."""
    numbers = [100 * episode + place for episode in range(episodes) for place in range(length)]
    lasts = [place == length - 1 for _ in range(episodes) for place in range(length)]
    rows = {"number": np.array(numbers, np.int64), "pair": np.array([numbers, numbers], np.float32).T, "last": lasts}
    return tf.data.Dataset.from_tensor_slices(rows)


def _config(steps, transform, **options):
    pattern = structured.pattern_from_transform(steps.element_spec, transform)
    return structured.create_config(pattern, "items", **options)


def _is_last(step):
    return step["last"]


def _windows(dataset):
    return [item["window"].numpy().tolist() for item in dataset]


def test_windows_within_episodes():
    steps = _steps()
    config = _config(steps, lambda step: {"window": step["number"][-3:], "now": step["pair"][-1]})
    dataset = reverb.PatternDataset(steps, [config], True, _is_last)
    assert isinstance(dataset, tf.data.Dataset)
    assert dataset.element_spec["window"] == tf.TensorSpec([3], tf.int64)
    assert dataset.element_spec["now"] == tf.TensorSpec([2], tf.float32)
    items = list(dataset)
    assert _windows(items) == [[0, 1, 2], [1, 2, 3], [100, 101, 102], [101, 102, 103]]
    np.testing.assert_array_equal(items[0]["now"], [2, 2])


def test_windows_across_episodes():
    steps = _steps(length=3)
    config = _config(steps, lambda step: {"window": step["number"][-3:]})
    dataset = reverb.PatternDataset(steps, [config], False, _is_last)
    assert _windows(dataset) == [[0, 1, 2], [1, 2, 100], [2, 100, 101], [100, 101, 102]]
    # The steps are read again.
    assert len(_windows(dataset)) == 4


def test_conditions():
    steps = _steps(length=6)
    config = _config(
        steps,
        lambda step: {"window": step["number"][-2:]},
        conditions=[structured.Condition.step_index() % 3 == 0],
    )
    assert _windows(reverb.PatternDataset(steps, [config], True, _is_last)) == [[2, 3], [102, 103]]


@pytest.mark.parametrize(("column", "wanted"), [("number", [[102], [103]]), ("pair", [])])
def test_a_condition_on_a_column_that_is_not_one_integer_does_not_hold(column, wanted):
    steps = _steps()
    condition = structured.Condition.data(steps.element_spec)[column] >= 102
    config = _config(steps, lambda step: {"window": step["number"][-1:]}, conditions=[condition])
    assert _windows(reverb.PatternDataset(steps, [config], True, _is_last)) == wanted
    samples = reverb.pattern_dataset.pattern_dataset_with_info(steps, [config], True, _is_last)
    assert _windows(sample.data for sample in samples) == wanted


def test_several_patterns_of_one_structure():
    steps = _steps(episodes=1)
    configs = [_config(steps, lambda step, n=n: {"window": step["number"][-n:]}) for n in (1, 2)]
    dataset = reverb.PatternDataset(steps, configs, True, _is_last)
    assert dataset.element_spec == {"window": tf.TensorSpec([None], tf.int64)}
    assert _windows(dataset) == [[0], [1], [0, 1], [2], [1, 2], [3], [2, 3]]


def test_with_information():
    steps = _steps(episodes=1)
    config = _config(steps, lambda step: {"window": step["number"][-2:]})
    dataset = reverb.pattern_dataset.pattern_dataset_with_info(steps, [config], True, _is_last)
    samples = list(dataset)
    assert _windows(sample.data for sample in samples) == [[0, 1], [1, 2], [2, 3]]
    assert isinstance(samples[0], reverb.ReplaySample)
    assert [value.numpy() for value in samples[0].info] == [0, 0, 0, 0, 0]
    # Not the types of sampled information.
    assert [value.dtype for value in samples[0].info] == [tf.int32, tf.float32, tf.int32, tf.float32, tf.int32]


@pytest.mark.parametrize("endless", [False, True])
def test_cardinality(endless):
    steps = _steps(episodes=1)
    config = _config(steps, lambda step: {"window": step["number"][-2:]})
    dataset = reverb.PatternDataset(steps.repeat() if endless else steps, [config], True, _is_last)
    wanted = tf.data.INFINITE_CARDINALITY if endless else tf.data.UNKNOWN_CARDINALITY
    assert dataset.cardinality().numpy() == wanted
    assert _windows(dataset.take(2)) == [[0, 1], [1, 2]]


def test_the_end_of_an_episode_is_a_scalar_bool():
    steps = _steps()
    config = _config(steps, lambda step: {"window": step["number"][-2:]})
    for wrong in (lambda step: step["number"], lambda step: step["pair"] > 0):
        with pytest.raises(ValueError, match="is_end_of_episode"):
            reverb.PatternDataset(steps, [config], True, wrong)
