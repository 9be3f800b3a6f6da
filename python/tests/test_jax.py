"""relive.jax: arrays over the gathered memory; and access from any framework through DLPack."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import relive
import relive.jax
import torch
import torch.utils.dlpack

NUM_ITEMS = 32


@pytest.fixture(scope="module")
def server() -> Iterator[relive.Server]:
    table = relive.Table(
        name="replay",
        sampler=relive.selectors.Uniform(),
        remover=relive.selectors.Fifo(),
        max_size=1_000,
        rate_limiter=relive.rate_limiters.MinSize(1),
        signature=relive.specs.as_spec({**step(0), "text": relive.ArraySpec((), object)}),
    )
    with relive.Server([table]) as server, server.localhost_client().trajectory_writer(1) as writer:
        for index in range(NUM_ITEMS):
            writer.append(step(index))
            writer.create_item("replay", 1.0, {name: column[-1] for name, column in writer.history.items()})
        writer.flush()
        yield server


def step(index: int) -> dict[str, Any]:
    return {
        "frame": np.full((3, 5), index, np.float32),
        "byte": np.uint8(index),
        "long": np.int64(index),
        "small": np.full(7, index, ml_dtypes.bfloat16),
        "text": f"step {index}",
    }


@pytest.fixture
def client(server: relive.Server) -> relive.Client:
    return server.localhost_client()


def numpy_batch(client: relive.Client, batch_size: int = 8) -> relive.Batch:
    with client.batches("replay", batch_size, max_batches=1) as batches:
        return next(batches)


def test_batches_are_jax_arrays(client: relive.Client) -> None:
    batches = list(relive.jax.batches(client, "replay", 8, max_batches=3))
    assert len(batches) == 3
    for info, data, lengths in batches:
        assert lengths is None
        assert isinstance(data["frame"], jax.Array)
        assert data["frame"].shape == (8, 3, 5)
        assert data["frame"].dtype == jnp.float32
        assert data["small"].dtype == jnp.bfloat16
        np.testing.assert_array_equal(data["frame"][:, 2, 4], data["byte"])
        np.testing.assert_array_equal(data["small"][:, 6].astype(jnp.float32), data["byte"])
        assert isinstance(info.probability, jax.Array)


def test_keys_and_strings_stay_numpy(client: relive.Client) -> None:
    info, data, _ = next(relive.jax.batches(client, "replay", 8))
    assert isinstance(info.key, np.ndarray)
    assert info.key.dtype == np.uint64
    client.update_priorities("replay", info.key, jnp.ones(8))
    assert [text.decode() for text in data["text"]] == [f"step {index}" for index in data["byte"]]


def test_64_bit_columns_use_the_default_width_of_jax(client: relive.Client) -> None:
    data = next(relive.jax.batches(client, "replay", 8)).data
    assert data["long"].dtype == jax.dtypes.canonicalize_dtype(np.int64)
    np.testing.assert_array_equal(data["long"], data["byte"])


@pytest.mark.parametrize("column", ["frame", "byte", "small"])
def test_arrays_on_the_cpu_use_the_memory_of_the_batch(client: relive.Client, column: str) -> None:
    batch = numpy_batch(client)
    converted = relive.jax.to_jax(batch, device=jax.devices("cpu")[0])
    assert converted.data[column].unsafe_buffer_pointer() == batch.data[column].ctypes.data


def test_an_array_keeps_its_values_while_later_batches_come(client: relive.Client) -> None:
    iterator = relive.jax.batches(client, "replay", 16)
    first = next(iterator).data["frame"]
    values = np.array(first)
    gc.collect()
    later = {float(next(iterator).data["frame"].sum()) for _ in range(100)}
    np.testing.assert_array_equal(first, values)
    assert len(later) > 1


def test_a_device_can_be_chosen(client: relive.Client) -> None:
    device = jax.devices()[-1]
    data = next(relive.jax.batches(client, "replay", 4, device=device)).data
    assert data["frame"].devices() == {device}


def test_a_batch_can_be_passed_to_a_jitted_function(client: relive.Client) -> None:
    total = jax.jit(lambda frames: frames.sum())
    data = next(relive.jax.batches(client, "replay", 4)).data
    assert float(total(data["frame"])) == float(data["byte"].sum()) * 15


def test_numbers_out_of_range(client: relive.Client) -> None:
    with pytest.raises(ValueError, match="batch_size"):
        relive.jax.batches(client, "replay", 0)


def pointer(array: Any) -> int:
    if isinstance(array, np.ndarray):
        return array.ctypes.data
    return array.data_ptr() if isinstance(array, torch.Tensor) else array.unsafe_buffer_pointer()


@pytest.mark.parametrize("from_dlpack", [np.from_dlpack, torch.utils.dlpack.from_dlpack, jnp.from_dlpack])
def test_dlpack_shares_the_memory_and_keeps_it(client: relive.Client, from_dlpack: Callable[[Any], Any]) -> None:
    with client.batches("replay", 16) as batches:
        column = next(batches).data["frame"]
        values, address = column.copy(), column.ctypes.data
        shared = from_dlpack(column)
        assert pointer(shared) == address
        del column
        gc.collect()
        # The pool would reuse free memory.
        addresses = {next(batches).data["frame"].ctypes.data for _ in range(50)}
    assert address not in addresses
    np.testing.assert_array_equal(np.asarray(shared), values)


def test_memory_is_reused_once_unreferenced(client: relive.Client) -> None:
    with client.batches("replay", 16) as batches:
        shared = jnp.from_dlpack(next(batches).data["frame"])
        address = shared.unsafe_buffer_pointer()
        del shared
        gc.collect()
        assert address in {next(batches).data["frame"].ctypes.data for _ in range(50)}


def test_columns_are_aligned_for_xla(client: relive.Client) -> None:
    data = numpy_batch(client, batch_size=3).data
    assert all(array.ctypes.data % 64 == 0 for name, array in data.items() if name != "text")
