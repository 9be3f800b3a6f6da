"""Stores of trajectories for the tests of `relive.gpu`."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from relive import gpu
from relive.specs import ArraySpec

COLUMNS: dict[str, Any] = {
    "observation": ("uint8", (2, 3)), "action": "int64", "reward": ArraySpec((), "float32"), "done": "bool",
    "small": ("int8", (2,)),
}
MAX_STEPS = 20


def trajectory(length: int, seed: int) -> dict[str, npt.NDArray[Any]]:
    rng = np.random.default_rng(seed)
    return {
        "observation": rng.integers(0, 256, (length, 2, 3), np.uint8),
        "action": rng.integers(-(2**60), 2**60, length),
        "reward": rng.normal(size=length).astype(np.float32),
        "done": rng.random(length) < 0.5,
        "small": rng.integers(-128, 128, (length, 2), np.int8),
    }


def simple(**options: Any) -> gpu.Store:
    """Returns a store of one number per step."""
    return gpu.Store({"x": "float32"}, **{"capacity": 4, "max_steps": 5, **options})


def put(store: gpu.Store, value: float, weight: float = 1.0, length: int = 3) -> gpu.Inserted:
    return store.insert({"x": np.full(length, value, np.float32)}, weight)


def survivors(store: gpu.Store) -> list[float]:
    there = np.flatnonzero(store.weights())
    return sorted(store.collect(there, {"x": gpu.Window(-1, 1)}).data["x"][:, 0].tolist())


def written(arrays: dict[str, Any], ending: str, folder: pathlib.Path) -> Any:
    """Returns the arrays as a data set of the given kind. Tables consist of parts of four rows."""
    path = folder / f"data{ending}"
    if ending == "mapping":
        return arrays
    if ending == ".npz":
        np.savez_compressed(path, **arrays)
    elif ending == ".hdf5":
        with pytest.importorskip("h5py").File(path, "w") as file:
            file.update(arrays)
    elif ending == ".safetensors":
        pytest.importorskip("safetensors.numpy").save_file(arrays, path)
    else:
        parquet, feather = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow.feather")
        table = pytest.importorskip("pyarrow").table({name: list(array) for name, array in arrays.items()})
        if ending == ".parquet":
            parquet.write_table(table, path, row_group_size=4)
        else:
            feather.write_feather(table, path, chunksize=4)
    return path
