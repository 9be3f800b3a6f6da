"""Invalid arguments of the trajectory store, and accepted arguments of other types."""

from __future__ import annotations

import os
import pathlib
import re
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
        (lambda made: made.loader(2.5, NOW), "batch_size is 2.5, but it must be a whole number"),
        (lambda made: made.loader(2, NOW, prefetch="1"), "prefetch is '1', but it must be a whole number"),
        (lambda made: made.loader(2, NOW, max_weight=float("inf")), "max_weight is inf"),
        (lambda made: made.insert({"x": X, "action": ACTIONS}, "length"), "weight is 'length'; give a number"),
        (lambda made: made.insert({"x": X, "action": ACTIONS}, []), r"weight is \[\]; give a number"),
        (lambda made: made.insert({"x": X, "action": ACTIONS}, 10**400), "the weight is inf"),
        (lambda made: made.insert({"x": X, "action": ACTIONS}, np.complex64(1)), "weight is .*; give a number"),
        (lambda made: made.insert({"x": X, "action": ACTIONS}, timeout=None), "timeout is None"),
        (lambda made: made.insert({"x": X, "action": ACTIONS}, timeout=10**400), "timeout is 1000.*; it must be a finite number"),
        (lambda made: gpu.Store({"x": "float32"}, capacity=1, max_steps=1, huge_pages=1), "huge_pages must be True or False, got 1"),
        (lambda made: gpu.Network(host=None), "host is None; it must be a string"),
        (lambda made: gpu.Network(host="a", port=0.5), "port is 0.5, but it must be a whole number"),
        (lambda made: gpu.Network(host="a", listen=5), "listen is 5; it must be a string"),
        (lambda made: gpu.Network(host="a", shared_memory="no"), "shared_memory must be True or False, got 'no'"),
        (lambda made: gpu.Network(host="a", timeout="x"), "timeout is 'x'; it must be above 0 seconds"),
        (lambda made: gpu.LocalGroup("g", 0.5, 1), "rank is 0.5, but it must be a whole number"),
        (lambda made: gpu.LocalGroup("g", 0, 1.5), "ranks is 1.5, but it must be a whole number"),
        (lambda made: gpu.LocalGroup(None, 0, 1), "name is None; it must be a string"),
        (lambda made: gpu.LocalGroup("g", 0, 1, timeout="x"), "timeout is 'x'; it must be above 0 seconds"),
        (lambda made: made.insert_dataset({"observations": X, "terminals": X}, weight="len"), "weight is 'len'; give a number, or 'length'"),
        (lambda made: gpu.Store({1: "float32"}, capacity=1, max_steps=1), "the name of a column is 1; it must be a string"),
        (lambda made: gpu.Store({"x": "float32"}, capacity=1.5, max_steps=1), "capacity is 1.5, but it must be a whole number"),
        (lambda made: gpu.Store({"x": "float32"}, capacity=True, max_steps=1), "capacity is True, but it must be a whole number"),
        (lambda made: gpu.Store({"x": "float32"}, capacity=1, max_steps=1, readers=0), "readers is 0; it must be 1 to 1024"),
        (lambda made: gpu.Store({"x": "float32"}, capacity=1, max_steps=1, writers=-1), "writers is -1; it must be 0 to 65536"),
        (lambda made: gpu.Store({"\udc80": "float32"}, capacity=1, max_steps=1), r"the name of a column is '\\udc80', which UTF-8 cannot encode"),
        (lambda made: gpu.Store({"x": "float32"}, capacity=1, max_steps=1, name="/x"), "name is '/x'; it must be a name without slashes"),
        (lambda made: gpu.attach("/x"), "name is '/x'; it must be a name without slashes"),
        (lambda made: gpu.attach("x", rank=-1), "rank is -1; it must be 0 to"),
        (lambda made: gpu.attach_writer("x", rank=1.5), "rank is 1.5, but it must be a whole number"),
        (lambda made: gpu.Store.of_dataset({"observations": X, "terminals": X}, weight=-1, capacity=1 << 40), "weight is -1"),
        (lambda made: gpu.Store.load("nowhere", name="/x"), "name is '/x'; it must be a name without slashes"),
        (lambda made: gpu.Store.load("nowhere", readers=0), "readers is 0; it must be 1 to 1024"),
        (lambda made: made.loader(2, {1: gpu.Window()}), "the name of a window is 1; it must be a string"),
        (lambda made: gpu.Window(dtype="float32", scale=float("nan")), "scale is nan; it must be finite"),
        (lambda made: made.collect([0], {"x": gpu.Window(value=1e39)}), r"the padding value 1e\+39 of window 'x' is too large for float32"),
        (lambda made: made.loader(1, {"x": gpu.Window(value=7e4, dtype="float16")}), r"the padding value 70000.0 of window 'x' is too large for float16"),
        (lambda made: made.update_weights([[0]], [1.0]), r"indices has the shape \(1, 1\); it must be one-dimensional"),
        (lambda made: made.update_weights([0], [[1.0]]), r"weights has the shape \(1, 1\); it must be one-dimensional"),
        (lambda made: gpu.Window(0.5), "offset is 0.5, but it must be a whole number"),
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


def test_a_store_whose_data_set_does_not_fit_leaves_its_name_free() -> None:
    name = f"unfit-{os.getpid()}"
    data = {"observations": np.zeros(2), "terminals": np.ones(2)}
    with pytest.raises(errors.InvalidArgumentError, match="the data set has 2 episodes, but there is room for only 1") as caught:
        gpu.Store.of_dataset(data, capacity=1, name=name)
    with gpu.Store({"x": "float32"}, capacity=1, max_steps=1, name=name):
        del caught


@pytest.mark.parametrize("given", [[True], np.array([False, True]), [0.0], ["0"]])
def test_indices_are_whole_numbers(given: Any) -> None:
    """A mask of booleans would otherwise select the trajectories 0 and 1."""
    with store() as made:
        made.insert({"x": X, "action": ACTIONS})
        weights = made.weights()
        calls: list[Callable[[], object]] = [
            lambda: made.update_weights(given, [5.0] * len(given)), lambda: made.remove(given), lambda: made.collect(given, NOW),
            lambda: made.status(given[0]),
        ]
        for call in calls:
            with pytest.raises(TypeError, match=r"(indices has .*; it must have|index is .*, but it must be a) whole number"):
                call()
        with pytest.raises(TypeError, match="generations has"):
            made.remove([0], [True])
        np.testing.assert_array_equal(made.weights(), weights)
        assert len(made) == 2
        with pytest.raises(errors.NotFoundError, match="there is no trajectory -1; indices start at 0"):
            made.status(-1)


@pytest.mark.parametrize("number", [2**53 + 1, -(2**53) - 1, 2**63 - 1, 2**64 - 1])
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_integers_that_floats_cannot_represent_are_refused(number: int, dtype: str) -> None:
    with gpu.Store({"x": dtype}, capacity=1, max_steps=1) as made:
        with pytest.raises(errors.InvalidArgumentError, match=f"values of 'x' of u?int64 do not fit {dtype}"):
            made.insert({"x": [number]})
        made.insert({"x": [2**53]})
        assert made.collect([0], {"x": gpu.Window(-1, 1)}).data["x"][0, 0] == 2**53


@pytest.mark.parametrize(("dtype", "number"), [("int64", 2.0**63), ("uint64", 2.0**64), ("int4", 8.0), ("int4", 0.5), ("int8", float("nan"))])
def test_floats_that_integers_cannot_represent_are_refused(dtype: str, number: float) -> None:
    pytest.importorskip("ml_dtypes")
    with gpu.Store({"x": dtype}, capacity=1, max_steps=1) as made:
        with pytest.raises(errors.InvalidArgumentError, match=f"values of 'x' of float64 do not fit {dtype}"):
            made.insert({"x": [number]})


def test_tensors_may_have_a_gradient_or_bfloat16() -> None:
    torch = pytest.importorskip("torch")
    ml_dtypes = pytest.importorskip("ml_dtypes")
    half = torch.tensor([0.5, 2.0], dtype=torch.bfloat16)
    for dtype in ("bfloat16", torch.bfloat16, ml_dtypes.bfloat16):
        with gpu.Store({"x": dtype, "y": "float32"}, capacity=1, max_steps=2) as made:
            assert made.columns["x"].dtype == ml_dtypes.bfloat16
            made.insert({"x": half, "y": half.float().requires_grad_()})
            batch = made.collect([0], {"x": gpu.Window(-2, 2), "y": gpu.Window(-2, 2)}, framework="torch")
            assert batch.data["x"].dtype == torch.bfloat16
            assert batch.data["x"].tolist() == batch.data["y"].tolist() == [[0.5, 2.0]]
            made.update_weights(torch.tensor([0]), half[:1].clone().requires_grad_())
            assert made.weights().tolist() == [0.5]
            with made.loader(1, {"x": gpu.Window()}, prefetch=0) as loader:
                loader.update_weights(next(loader), torch.tensor([3.0], requires_grad=True))
            assert made.weights().tolist() == [3.0]
            with pytest.raises(errors.InvalidArgumentError, match='column "y": the array has the data type bfloat16'):
                made.insert({"x": half, "y": half})


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


def test_the_documentation_lists_every_counter() -> None:
    text = (pathlib.Path(__file__).resolve().parents[2] / "docs/gpu.md").read_text().split("## Metrics")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \| (.*) \|$", text, re.MULTILINE)
    with store() as made:
        placed = made.insert({"x": X, "action": ACTIONS})
        made.insert({"x": X, "action": ACTIONS})
        batch = made.collect([placed.index], {"x": gpu.Window(-9, 9, dtype="float64")})
        counters = made.metrics()
    assert {name for keys, _ in rows for name in re.findall(r"`(\w+)`", keys)} == counters.keys()
    (reasons,) = (meaning for keys, meaning in rows if keys == "`evictions`")
    assert set(re.findall(r"`(\w+)` \(", reasons)) == counters["evictions"].keys()
    assert (counters["inserted_rows"], counters["collects"], counters["collected_rows"]) == (3, 1, 1)
    assert counters["collected_bytes"] == batch.lengths[0] * X.itemsize, "without padding, and before the conversion"
    assert counters["collect_s"] > 0 and len(counters["ages"]) == 65 and sum(counters["ages"]) == counters["ages"][1] == 1
