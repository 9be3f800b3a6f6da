"""Windows contain the data that was inserted into a store of trajectories."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
from gpu_stores import COLUMNS, MAX_STEPS, put, simple, trajectory
from relive import gpu


@pytest.fixture(scope="module")
def filled() -> tuple[gpu.Store, list[dict[str, npt.NDArray[Any]]]]:
    store = gpu.Store(COLUMNS, capacity=16, max_steps=MAX_STEPS)
    all_of_them = [trajectory(1 + (seed * 7) % MAX_STEPS, seed) for seed in range(12)]
    for one in all_of_them:
        store.insert(one)
    return store, all_of_them


def naive(steps: npt.NDArray[Any], step: int, offset: int, length: int, pad: str, value: float, dtype: Any = None) -> npt.NDArray[Any]:
    """Computes a window step by step, as a reference."""
    dtype = steps.dtype if dtype is None else dtype
    there = [steps[t] for t in range(step + offset, step + offset + length) if 0 <= t < len(steps)]
    padding = [np.full(steps.shape[1:], value, dtype)] * (length - len(there))
    found = [np.asarray(row, dtype) for row in there]
    return np.stack(padding + found if pad == "head" else found + padding)


@pytest.mark.parametrize("pad", ["head", "tail"])
@pytest.mark.parametrize(
    ("offset", "length"), [(0, 1), (-4, 5), (-5, 5), (-1000, 1000), (1, 3), (-3, 8), (30, 4), (-60, 10), (-100, 90), (-25, 60)]
)
def test_windows_match_a_naive_loop(filled: Any, pad: Literal["head", "tail"], offset: int, length: int) -> None:
    store, written = filled
    windows = {name: gpu.Window(offset, length, pad=pad, value=1) for name in COLUMNS}
    rng = np.random.default_rng(0)
    indices = rng.integers(0, 12, 40)
    steps = np.array([rng.integers(0, len(written[index]["action"]) + 1) for index in indices])
    batch = store.collect(indices, windows, steps=steps)
    assert batch.steps.tolist() == steps.tolist()
    assert batch.lengths.tolist() == [len(written[index]["action"]) for index in indices]
    for name, array in batch.data.items():
        expected = np.stack([
            naive(written[index][name], step, offset, length, pad, 1) for index, step in zip(indices, steps, strict=True)
        ])
        assert array.dtype == expected.dtype
        np.testing.assert_array_equal(array, expected)
        counts = [sum(0 <= step + offset + i < len(written[index][name]) for i in range(length)) for index, step in zip(indices, steps, strict=True)]
        assert batch.valid[name].tolist() == counts


def test_a_window_ends_where_requested() -> None:
    """GEAR counts the end of a window from its start after truncation, and so returns steps from the future."""
    store = simple(max_steps=50)
    store.insert({"x": np.arange(50, dtype=np.float32)})
    batch = store.collect([0], {"x": gpu.Window(-10, 10, value=-1)}, steps=[5])
    assert batch.data["x"][0].tolist() == [-1] * 5 + [0, 1, 2, 3, 4]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_windows_of_another_type(filled: Any, dtype: str) -> None:
    store, written = filled
    windows = {"now": gpu.Window(-2, 3, dtype=dtype, scale=1 / 255, value=0.5, column="observation")}
    batch = store.collect([3], windows, steps=[1])
    expected = (written[3]["observation"][:2].astype(np.float32) * np.float32(1 / 255)).astype(dtype)
    assert batch.data["now"].dtype == dtype
    np.testing.assert_array_equal(batch.data["now"][0, 1:], expected)
    assert (batch.data["now"][0, 0] == 0.5).all()


def test_two_windows_of_one_column(filled: Any) -> None:
    store, written = filled
    windows = {"now": gpu.Window(column="action"), "then": gpu.Window(1, 1, column="action")}
    batch = store.collect([5], windows, steps=[0])
    assert [batch.data["now"].item(), batch.data["then"].item()] == written[5]["action"][:2].tolist()


def test_small_integers_keep_their_signs(filled: Any) -> None:
    """Defect 17 of GEAR: int8 and uint8 are swapped."""
    store, written = filled
    assert store.columns["small"].dtype == np.int8
    assert store.columns["observation"].dtype == np.uint8
    batch = store.collect([4], {"small": gpu.Window(-MAX_STEPS, MAX_STEPS, pad="tail")})
    np.testing.assert_array_equal(batch.data["small"][0, : batch.valid["small"][0]], written[4]["small"])


def test_non_contiguous_arrays_are_inserted(filled: Any) -> None:
    with gpu.Store(COLUMNS, capacity=1, max_steps=MAX_STEPS) as store:
        one = trajectory(10, 3)
        turned = {name: np.asfortranarray(np.repeat(array, 2, 0)[::2]) for name, array in one.items()}
        turned["action"] = one["action"].astype(">i8")
        store.insert(turned)
        batch = store.collect([0], {name: gpu.Window(-10, 10) for name in COLUMNS})
        for name in COLUMNS:
            np.testing.assert_array_equal(batch.data[name][0], one[name])


def test_length() -> None:
    """Defect 18 of GEAR: `len` fails."""
    store = simple()
    assert len(store) == 0 and store
    put(store, 1)
    assert (len(store), store.capacity, store.max_steps) == (1, 4, 5)


def test_batches_stay_valid_while_referenced() -> None:
    store = simple(capacity=64)
    for value in range(64):
        put(store, value)
    loader = store.loader(8, {"x": gpu.Window()}, prefetch=2)
    kept = [next(loader) for _ in range(20)]
    copies = [batch.data["x"].copy() for batch in kept]
    kept[0].data["x"][:] = -1
    for _ in range(20):
        next(loader)
    for batch, copy in zip(kept[1:], copies[1:], strict=True):
        np.testing.assert_array_equal(batch.data["x"], copy)
        np.testing.assert_array_equal(batch.data["x"][:, 0], batch.indices)
    loader.close()
    store.close()
    assert (kept[0].data["x"] == -1).all()


def test_frameworks_use_the_same_memory() -> None:
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")
    store = simple(capacity=1)
    put(store, 3)
    batch = next(store.loader(2, {"x": gpu.Window()}, framework="torch"))
    assert isinstance(batch.data["x"], torch.Tensor) and isinstance(batch.indices, np.ndarray)
    assert batch.data["x"].tolist() == [[3], [3]] and batch.lengths.dtype == torch.int64
    batch = next(store.loader(2, {"x": gpu.Window()}, framework="jax"))
    assert isinstance(batch.data["x"], jax.Array) and batch.data["x"].tolist() == [[3], [3]]
