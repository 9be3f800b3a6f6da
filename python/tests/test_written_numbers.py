"""Python's numbers in columns of another type, and one priority for many items."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import PATIENCE_S, uniform_table

import relive
from relive import structured

Serve = Callable[..., relive.Server]

STAND_IN = pathlib.Path(__file__).resolve().parents[1] / "relive-as-reverb"

FIRST = {"f64": 0.5, "f32": np.float32(0.5), "f16": np.float16(0.5), "i32": np.int32(3), "u8": np.uint8(3), "i64": 3, "flag": False}


@pytest.mark.parametrize("name, value, stored", [
    ("f64", -100, -100.0), ("f64", True, 1.0), ("f32", 2**40, 2.0**40), ("f16", 7, 7.0), ("i32", -7, -7), ("u8", 255, 255), ("i64", True, 1),
])
def test_whole_numbers_of_python_are_converted(serve: Serve, name: str, value: Any, stored: float) -> None:
    client = serve().localhost_client()
    with client.trajectory_writer(3) as writer:
        writer.append(FIRST)
        # The second step also has a new column.
        for more in ({}, {"more": 1.0}, {"more": 2}):
            writer.append({**FIRST, name: value, **more})
        column = writer.history[name]
        assert [column[at].numpy().tolist() for at in (-3, -2, -1)] == [stored] * 3
        assert column[-1].dtype == np.asarray(FIRST[name]).dtype
    with client.trajectory_writer(1) as writer:
        keys = [writer.append_item("table", 1.0, step) for step in (FIRST, {**FIRST, name: value})]
    _, item = client.get_items("table", keys)
    assert item is not None and item.data[name] == stored


@pytest.mark.parametrize("name, value", [
    ("f64", np.int64(1)), ("f64", np.bool_(True)), ("f64", np.array(1)), ("f64", [1]), ("f16", 100_000), ("i32", 2**31), ("u8", -1),
    ("u8", 1.0), ("i64", 0.5), ("flag", 1), ("f32", 0.5),
])
def test_other_values_keep_their_type(serve: Serve, name: str, value: Any) -> None:
    with serve().localhost_client().trajectory_writer(3) as writer:
        writer.append(FIRST)
        with pytest.raises(ValueError, match=rf"\(path=\('{name}',\)\) got (dtype|shape) "):
            writer.append({**FIRST, name: value})
        with pytest.raises(ValueError, match="got dtype int64, but expected float64"):
            writer.append_sequence({"f64": [1, 2]})
        assert writer.episode_steps == 1


def test_structured_writers_convert_them_as_well(serve: Serve) -> None:
    names = structured.create_reference_step({"reward": None, "x": [None, None]})
    config = structured.create_config({"reward": names["reward"][-1], "x": names["x"][1][-1]}, "table")
    client = serve().localhost_client()
    with client.structured_writer([config]) as writer:
        writer.append({"reward": 0.5, "x": (0, np.float32(1.5))})
        writer.append({"reward": -100, "x": (0, 2)})
        with pytest.raises(ValueError, match=r"^Tensor of wrong dtype provided for column 0 \(path=\('reward',\)\)\. Got int64 but expected float64"):
            writer.append({"reward": np.int64(1), "x": (0, np.float32(1.5))})
    samples = list(client.sample("table", num_samples=50, emit_timesteps=False, unpack_as_table_signature=True, timeout=30.0))
    assert {(float(sample.data["reward"]), float(sample.data["x"])) for sample in samples} == {(0.5, 1.5), (-100.0, 2.0)}


def test_the_module_reverb_refuses_them_like_dm_reverb() -> None:
    program = """
import reverb
server = reverb.Server([reverb.Table.queue("table", 2)])
client = server.localhost_client()
names = reverb.structured_writer.create_reference_step({"a": None})
config = reverb.structured_writer.create_config({"a": names["a"][-1]}, "table")
for writer in (client.trajectory_writer(3), client.structured_writer([config])):
    writer.append({"a": 0.5})
    try:
        writer.append({"a": -100})
    except ValueError as error:
        assert str(error).startswith("Tensor of wrong dtype provided for column"), error
    else:
        raise AssertionError
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(STAND_IN)]))},
    )
    assert done.returncode == 0, done.stderr


def test_one_priority_is_that_of_all_items(serve: Serve) -> None:
    client = serve(uniform_table("t")).localhost_client()
    with client.trajectory_writer(10) as writer:
        writer.append_sequence({"x": np.arange(10)})
        ends = np.arange(-7, 0)
        assert len(writer.create_window_items("t", 2.5, ends, length=4)) == 7
        assert len(writer.create_window_items("t", np.float32(2.5), [-1])) == 1
        assert len(writer.create_items("t", 2.5, [writer.history["x"][-2:]] * 3)) == 3
        for wrong in ([1.0], np.ones(1), np.ones(6)):
            with pytest.raises(ValueError, match=f"^create_window_items: {len(wrong)} priorities for 7 windows"):
                writer.create_window_items("t", wrong, ends, length=4)
        with pytest.raises(ValueError, match="^create_items: 1 priorities for 2 trajectories"):
            writer.create_items("t", [1.0], [writer.history["x"][-2:]] * 2)
    assert [item.priority for item in client.items("t")] == [2.5] * 11


def test_batches_of_items_of_different_lengths_name_the_argument(serve: Serve) -> None:
    client = serve(relive.Table.queue("t", 10)).localhost_client()
    with client.trajectory_writer(10) as writer:
        writer.append_sequence({"x": np.arange(10)})
        for length in (4, 2):
            writer.create_item("t", 1.0, writer.history["x"][-length:])
    with client.batches("t", 2, timeout=30.0) as batches, pytest.raises(ValueError, match=r"has 2 rows, but those before it have 4; .*pad=True"):
        next(batches)
