"""Calls that a store of trajectories refuses, and the error messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_stores import put, simple, survivors
from relive import errors, gpu

X = np.zeros(3, np.float32)


@pytest.mark.parametrize(
    ("given", "weight", "text"),
    [
        ({"x": X.astype(np.float64)}, 1.0, r"the array has the data type float64, but the column has float32; convert it with .astype"),
        ({"x": np.zeros((3, 2), np.float32)}, 1.0, r"\"x\": the array has shape \[3, 2\]"),
        ({"x": np.float32(1)}, 1.0, r"has shape \[\]"),
        ({"y": X}, 1.0, r"has no \['x'\] and has \['y'\]"),
        ({"x": np.zeros(6, np.float32)}, 1.0, r"a trajectory has 6 steps, but it must have 1 to 5"),
        ({"x": np.zeros(0, np.float32)}, 1.0, r"a trajectory has 0 steps"),
        ({"x": X}, float("nan"), r"the weight is NaN"),
        ({"x": X}, -1.0, r"the weight is -1"),
        ({"x": X}, 1e300, r"the weight is 1"),
    ],
)
def test_bad_trajectories_are_refused_before_any_eviction(given: Any, weight: float, text: str) -> None:
    store = simple(capacity=1)
    put(store, 7)
    with pytest.raises(errors.InvalidArgumentError, match=text):
        store.insert(given, weight)
    assert survivors(store) == [7]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda s: gpu.Store({"x": "float32"}, capacity=0, max_steps=1), ValueError, "capacity is 0"),
        (lambda s: gpu.Store({}, capacity=1, max_steps=1), ValueError, "0 columns"),
        (lambda s: gpu.Store({"x": "object"}, capacity=1, max_steps=1), ValueError, "no fixed size"),
        (lambda s: gpu.Store({"x": ("float32", (None,))}, capacity=1, max_steps=1), ValueError, "one fixed shape"),
        (lambda s: gpu.Store({"x": "float33"}, capacity=1, max_steps=1), ValueError, "column 'x' is 'float33'"),
        (lambda s: simple(removal="oldest"), ValueError, "removal is 'oldest'"),
        (lambda s: simple(removal=("max_times_sampled", 0)), ValueError, "at least 1"),
        (lambda s: s.loader(0, {"x": gpu.Window()}), ValueError, "batch_size is 0"),
        (lambda s: s.loader(1, {}), ValueError, "at least one"),
        (lambda s: s.loader(1, {"z": gpu.Window()}), errors.NotFoundError, "no column \"z\""),
        (lambda s: s.loader(1, {"x": gpu.Window()}, sampling="best"), ValueError, "sampling is 'best'"),
        (lambda s: s.loader(1, {"x": gpu.Window()}, steps="first"), ValueError, "'random' or 'last'"),
        (lambda s: s.loader(1, {"x": gpu.Window()}, framework="mxnet"), ValueError, "framework is 'mxnet'"),
        (lambda s: s.loader(1, {"x": gpu.Window()}, sampling=gpu.Weighted(alpha=-1)), ValueError, "alpha of Weighted is -1"),
        (lambda s: gpu.Window(0, 0), ValueError, "length is 0; it must be 1 to"),
        (lambda s: gpu.Window(value="a"), ValueError, "value is 'a'; it must be a number"),
        (lambda s: gpu.Window(value=2**53 + 1), ValueError, "value is 9007199254740993"),
        (lambda s: gpu.Window(dtype="float32", scale="a"), ValueError, "scale is 'a'"),
        (lambda s: gpu.Window(column=3), ValueError, "column is 3"),
        (lambda s: s.loader(1, {"x": gpu.Window()}, framework="torch", device="nonsense"), ValueError, "PyTorch has no such device"),
        (lambda s: s.collect([-1], {"x": gpu.Window()}), errors.NotFoundError, "there is no trajectory -1"),
        (lambda s: s.insert({"x": np.array(["a"])}), ValueError, "'x' has values of <U1, which are not numbers"),
        (lambda s: s.insert({"x": "hello"}), ValueError, "'x' has values of <U5"),
        (lambda s: gpu.Window(scale=2.0), ValueError, "without a dtype"),
        (lambda s: s.collect([0], {"x": gpu.Window()}, steps=[4]), ValueError, "step 4 of trajectory 0, which has 3"),
        (lambda s: s.collect([1], {"x": gpu.Window()}), errors.NotFoundError, "index 1"),
        (lambda s: s.update_weights([0], [np.nan]), ValueError, "weight is NaN"),
        (lambda s: s.update_weights([0, 0], [1.0]), ValueError, "1 weights for 2 indices"),
        (lambda s: s.update_weights([99], [1.0]), errors.NotFoundError, "index 99"),
        (lambda s: gpu.attach("relive-test-nobody-has-this"), errors.NotFoundError, "relive-test-nobody-has-this"),
    ],
)
def test_bad_arguments(call: Any, error: type[Exception], text: str) -> None:
    store = simple()
    put(store, 1)
    with pytest.raises(error, match=text) as raised:
        call(store)
    assert isinstance(raised.value, errors.ReverbError)


def test_a_closed_store_reports_that_it_is_closed() -> None:
    store = simple()
    store.close()
    with pytest.raises(errors.ClosedError, match="this store was closed"):
        put(store, 1)


def test_a_missing_device_is_refused() -> None:
    store = simple()
    reason = gpu.unavailable()
    if reason is None:
        assert store.loader(1, {"x": gpu.Window()}, device="cuda", framework="torch")
        return
    with pytest.raises(errors.UnavailableError, match="device is 'cuda', but no GPU can be used") as raised:
        store.loader(1, {"x": gpu.Window()}, device="cuda", framework="torch")
    assert reason in str(raised.value)
    with pytest.raises(errors.InvalidArgumentError, match="numpy supports only the CPU"):
        store.loader(1, {"x": gpu.Window()}, device="mps")
