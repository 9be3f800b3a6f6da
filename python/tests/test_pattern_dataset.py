"""Items that are cut from sequences of steps."""

from typing import Any

import numpy as np
import pytest

import relive
from relive import pattern_dataset, structured
from relive.structured_writer import Condition

STEPS = [{"x": float(number), "end": number % 4 == 3} for number in range(9)]
REF = structured.create_reference_step(STEPS[0])
PAIRS = structured.create_config({"pair": [REF["x"][-2:]], "last": REF["x"][-1]}, "table")


def dataset(steps: Any = STEPS, configs: Any = (PAIRS,), respect: bool = True, end: Any = None) -> Any:
    return relive.PatternDataset(steps, list(configs), respect, end or (lambda step: step["end"]))


def pairs(items: Any) -> list[list[float]]:
    return [item["pair"][0].tolist() for item in items]


def test_items_stay_within_episodes() -> None:
    assert pairs(dataset()) == [[0, 1], [1, 2], [2, 3], [4, 5], [5, 6], [6, 7]]


def test_items_may_cross_episodes() -> None:
    assert pairs(dataset(respect=False)) == [[number, number + 1] for number in range(8)]


def test_structure() -> None:
    item = next(iter(dataset()))
    assert set(item) == {"pair", "last"}
    assert type(item["pair"]) is tuple
    assert (item["last"].shape, item["last"].dtype) == ((), np.float64)


def test_several_configs_in_order() -> None:
    whole = structured.create_config(
        {"pair": [REF["x"][-3:]], "last": REF["x"][-1]}, "table", [Condition.is_end_episode()]
    )
    assert pairs(dataset(STEPS[:5], [PAIRS, whole])) == [[0, 1], [1, 2], [2, 3], [1, 2, 3]]


def test_can_be_iterated_again_and_abandoned_early() -> None:
    made = dataset()
    assert next(iter(made))["last"] == 1.0
    assert pairs(made) == pairs(made)


def test_configs_are_not_changed() -> None:
    before = PAIRS.SerializeToString()
    list(dataset())
    # dm-reverb adds a condition to the configurations.
    assert PAIRS.SerializeToString() == before


def test_strides() -> None:
    config = structured.create_config({"pair": [REF["x"][-3::2]], "last": REF["x"][-1]}, "table")
    assert pairs(dataset(STEPS[:4], [config])) == [[0, 2], [1, 3]]


def test_no_steps() -> None:
    assert list(dataset([])) == []


def test_no_configs() -> None:
    with pytest.raises(ValueError, match="At least one config"):
        dataset(configs=[])


@pytest.mark.parametrize(
    ("pattern", "table", "said"), [([REF["x"][-1]], "table", "pattern_structure"), (None, "other", "same table")]
)
def test_mismatched_configs_are_refused(pattern: Any, table: str, said: str) -> None:
    other = structured.create_config(pattern or {"pair": [REF["x"][-1]], "last": REF["x"][-1]}, table)
    with pytest.raises(ValueError, match=said):
        dataset(configs=[PAIRS, other])


@pytest.mark.parametrize("end", [1, np.array([True]), "yes", None])
def test_a_non_boolean_end_is_refused(end: Any) -> None:
    with pytest.raises(ValueError, match="one boolean"):
        list(dataset(end=lambda _: end))


def test_steps_of_different_structures() -> None:
    with pytest.raises(ValueError, match=r"but this one has \{0\}; all steps must have the same names"):
        list(dataset([STEPS[0], [1.0]], end=lambda _: False))


def test_an_error_of_the_steps_is_propagated() -> None:
    def steps() -> Any:
        yield STEPS[0]
        raise OSError("torn")

    with pytest.raises(OSError, match="torn"):
        list(dataset(steps()))


def test_with_info() -> None:
    samples = list(
        pattern_dataset.pattern_dataset_with_info(STEPS, [PAIRS], True, lambda step: step["end"])
    )
    assert samples[0].info == relive.SampleInfo.zeros()
    assert pairs(sample.data for sample in samples) == pairs(dataset())


class TestTensorFlow:
    @pytest.mark.tensorflow
    def test_the_same_items(self) -> None:
        import tensorflow as tf
        made = dataset().as_tf_dataset()
        assert made.element_spec["last"] == tf.TensorSpec([], tf.float64)
        assert pairs(made.as_numpy_iterator()) == pairs(dataset())

    @pytest.mark.tensorflow
    def test_one_shot_steps_require_a_step_spec(self) -> None:
        with pytest.raises(ValueError, match="step_spec"):
            dataset(iter(STEPS)).as_tf_dataset()
