"""Invalid arguments of the trajectory store, and accepted arguments of other types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from relive import errors, gpu

X, ACTIONS = np.zeros(2, np.float32), np.zeros(2, np.int64)
NOW = {"x": gpu.Window()}


def store(**options: Any) -> gpu.Store:
    made = gpu.Store({"x": "float32", "action": "int64"}, **{"capacity": 4, "max_steps": 5, **options})
    made.insert({"x": X, "action": ACTIONS})
    return made


def test_lists_are_converted_to_the_dtype_of_their_column() -> None:
    with store() as made:
        place = made.insert({"x": [0.1, float("nan")], "action": [np.float64(3.0), 4]})
        batch = made.collect([place.index], {"x": gpu.Window(-2, 2), "action": gpu.Window(-2, 2)})
        np.testing.assert_array_equal(batch.data["x"], np.array([[0.1, np.nan]], np.float32))
        assert batch.data["action"].tolist() == [[3, 4]]
        made.insert({"x": [np.float64(0.5), np.float64(0.5)], "action": (1, 2)})


@pytest.mark.parametrize(
    ("trajectory", "text"),
    [
        ({"x": [0.5, 1e300], "action": ACTIONS}, "values of 'x' of float64 do not fit float32"),
        ({"x": [16_777_217, 0], "action": ACTIONS}, "values of 'x' of int64 do not fit float32"),
        ({"x": X, "action": [0.5, 1.0]}, "values of 'action' of float64 do not fit int64"),
        ({"x": X, "action": [1j, 0]}, "values of 'action' of complex128 do not fit int64"),
        ({"x": ["0.5", "1"], "action": ACTIONS}, "'x' has values of <U3, which are not numbers"),
        ({"x": [[0.5], 0.5], "action": ACTIONS}, "the list for 'x' is not an array"),
        ({"x": np.zeros(2), "action": ACTIONS}, "the array has the data type float64, but the column has float32"),
        ({"x": None, "action": ACTIONS}, r"has None for 'x'; give an array \[steps, …\] of float32"),
        ([1, 2], r"the trajectory is a list; give a mapping from the names of the columns, \['x', 'action'\]"),
    ],
)
def test_invalid_trajectories_are_refused(trajectory: Any, text: str) -> None:
    with store() as made, pytest.raises(errors.InvalidArgumentError, match=text):
        made.insert(trajectory)


def test_out_of_range_numbers_are_refused_in_data_sets_and_steps() -> None:
    with store() as made:
        with pytest.raises(errors.InvalidArgumentError, match="episode 0: values of 'observations' of float64 do not fit float32"):
            gpu.Store({"observations": "float32"}, capacity=1, max_steps=1).insert_dataset({"observations": np.array([1e300]), "terminals": [1]})
        with made.writer() as writer:
            made.scan()
            with pytest.raises(errors.DeadlineExceededError):
                writer.begin(timeout=0.0)
            made.scan()
            writer.begin(timeout=0.0)
            with pytest.raises(errors.InvalidArgumentError, match="the step: values of 'x' of float64 do not fit float32"):
                writer.write({"x": 1e300})


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda made: made.loader(2.5, NOW), "batch_size is 2.5; it must be a whole number"),
        (lambda made: made.loader(2, NOW, prefetch="1"), "prefetch is '1'; it must be a whole number"),
        (lambda made: made.loader(2, NOW, max_weight=float("inf")), "max_weight is inf"),
        (lambda made: made.insert({"x": X, "action": ACTIONS}, "length"), "weight is 'length'; give a number"),
        (lambda made: made.insert({"x": X, "action": ACTIONS}, timeout=None), "timeout is None"),
        (lambda made: made.insert_dataset({"observations": X, "terminals": X}, weight="len"), "weight is 'len'; give a number, or 'length'"),
        (lambda made: gpu.Store({1: "float32"}, capacity=1, max_steps=1), "columns has the name 1; names are strings"),
        (lambda made: gpu.Store({"x": "float32"}, capacity=1.5, max_steps=1), "capacity is 1.5; it must be a whole number"),
        (lambda made: gpu.Window(0.5), "offset is 0.5; it must be a whole number"),
        (lambda made: gpu.Window(dtype="float8"), "dtype is 'float8'; it must be 'float16', 'bfloat16'"),
        (lambda made: gpu.Weighted(float("nan")), "alpha of Weighted is nan; it must be a finite number between 0 and 16"),
        (lambda made: gpu.Prioritized(beta=-0.5), "beta of Prioritized is -0.5"),
        (lambda made: gpu.attach("relive-test-nobody", columns={"x": "float32"}), "give both columns and max_steps"),
        (lambda made: gpu.Store.load("nowhere", removal="fifo", capacity=1), "removal is 'fifo'; give the function that the store had"),
    ],
)
def test_invalid_arguments_are_refused(call: Callable[[gpu.Store], object], text: str) -> None:
    with store() as made, pytest.raises(errors.InvalidArgumentError, match=text):
        call(made)


def test_windows_in_bfloat16_by_name() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    with store() as made:
        window = gpu.Window(dtype="bfloat16")
        assert window.dtype == np.dtype(ml_dtypes.bfloat16)
        assert made.collect([0], {"x": window}, steps=[0]).data["x"].dtype == ml_dtypes.bfloat16


def test_a_writer_without_a_trajectory_names_the_call_to_make() -> None:
    calls: list[Callable[[gpu.Writer], object]] = [
        lambda writer: writer.finish(), lambda writer: writer.write({"x": 1.0}), lambda writer: writer.append({"x": 1.0, "action": 1}),
        lambda writer: writer.ask("x"),
    ]
    with store() as made, made.writer() as writer:
        for call in calls:
            with pytest.raises(errors.InvalidArgumentError, match=r"writer 0 has no trajectory; call begin\(\) first, also after each finish\(\)"):
                call(writer)
        with pytest.raises(errors.DeadlineExceededError):
            writer.begin(timeout=0.0)
        made.scan()
        writer.begin()
        writer.append({"x": 1.0, "action": 1})
        writer.finish()
        for call in calls:
            with pytest.raises(errors.InvalidArgumentError, match=r"call begin\(\) first, also after each finish\(\)"):
                call(writer)


ABOVE = "trajectory 1 has the weight 70000, which is above max_weight, 65536; give the loader max_weight="


def test_too_large_weights_are_reported_with_max_weight() -> None:
    with store() as made:
        made.insert({"x": X, "action": ACTIONS}, weight=70_000)
        with pytest.raises(errors.InvalidArgumentError, match=ABOVE):
            made.loader(2, NOW, sampling="weighted")
        assert next(made.loader(2, NOW, sampling="weighted", max_weight=70_000.0))
        made.update_weights([1], [1.0])
        with made.loader(2, NOW, sampling="weighted", prefetch=0) as loader:
            next(loader)
            made.update_weights([1], [70_000.0])
            with pytest.raises(errors.InvalidArgumentError, match=ABOVE):
                next(loader)
            made.update_weights([1], [2.0])
            next(loader)


@pytest.mark.parametrize("sampling", ["uniform", "fifo", "lifo"])
def test_draws_independent_of_weights_accept_any_weight(sampling: str) -> None:
    with store() as made:
        made.insert({"x": X, "action": ACTIONS}, weight=1e30)
        made.insert({"x": X, "action": ACTIONS}, weight=0.0)
        batch = next(made.loader(2, NOW, sampling=sampling, seed=1))
        assert set(batch.indices.tolist()) <= {0, 1}
        if sampling == "uniform":
            assert batch.probabilities.tolist() == [0.5, 0.5]


def test_episodes_need_no_rewards() -> None:
    data = {"observations": np.zeros((5, 2)), "actions": np.arange(5), "timeouts": [0, 1, 0, 0, 1], "infos/goal": np.zeros(5)}
    with gpu.Store.of_dataset(data) as made:
        assert sorted(made.columns) == ["actions", "observations", "timeouts"] and len(made) == 2
    with pytest.raises(errors.InvalidArgumentError, match="no ends of episodes; add an array terminals or timeouts"):
        gpu.Store.of_dataset({"observations": np.zeros(5), "actions": np.arange(5)})
    for terminals, value in (([0, 0, np.nan, 0, 1], "nan"), (np.array([0, 0, 2, 0, 1]), "2")):
        with pytest.raises(ValueError, match=f"array `terminals`: row 2 has {value}"):
            gpu.Store.of_dataset({"observations": np.zeros(5), "terminals": terminals})
    with pytest.raises(errors.InvalidArgumentError, match="no .'infos/goal'.*Arrays with names other than D4RL's, such as infos, are not "
                                                          "read"):
        gpu.Store({"infos/goal": "float64"}, capacity=2, max_steps=3).insert_dataset(data)
