"""Values of all kinds, written by a trajectory writer and read back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import uniform_table
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from trajectories import Connect, Serve, data_of, fifo_table

import relive

DTYPES = st.one_of(
    arrays.integer_dtypes(endianness="="), arrays.unsigned_integer_dtypes(endianness="="),
    arrays.floating_dtypes(sizes=(16, 32, 64), endianness="="), arrays.complex_number_dtypes(sizes=(64, 128), endianness="="),
    arrays.boolean_dtypes(),
)


@st.composite
def steps(draw: st.DrawFn) -> list[np.ndarray]:
    """One column: some steps of one type and shape."""
    dtype = draw(DTYPES)
    shape = draw(arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    return draw(st.lists(arrays.arrays(dtype, shape), min_size=1, max_size=5))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=steps(), chunk_length=st.integers(1, 5), data=st.data())
def test_written_data_is_read_back(
    connect_once: relive.Client, values: list[np.ndarray], chunk_length: int, data: Any
) -> None:
    rows = data.draw(st.lists(st.integers(0, len(values) - 1), min_size=1, max_size=6))
    with connect_once.trajectory_writer(5, chunk_length=chunk_length) as writer:
        for value in values:
            writer.append(value)
        writer.create_item("table", 1.0, writer.history[rows])
    (found,) = data_of(connect_once)[0]
    expected = np.stack([values[row] for row in rows])
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.one_of(st.text(max_size=20), st.binary(max_size=20)), min_size=1, max_size=5))
def test_strings_are_read_back_as_bytes(connect_once: relive.Client, texts: list[str | bytes]) -> None:
    with connect_once.trajectory_writer(5) as writer:
        for text in texts:
            writer.append(text)
        writer.create_item("table", 1.0, writer.history[-len(texts):])
    (found,) = data_of(connect_once)[0]
    assert found.tolist() == [text.encode() if isinstance(text, str) else text for text in texts]


@pytest.fixture(params=["in-process", "tcp"])
def connect_once(request: pytest.FixtureRequest, serve: Serve) -> relive.Client:
    """One server for all examples: each item is read before the next item is written."""
    server = serve(fifo_table())
    return relive.Client(f"localhost:{server.port}", transport=request.param)


@pytest.mark.parametrize("value", [
    np.arange(6).reshape(2, 3).T, np.arange(10)[::2], np.array(1.5, ">f8"), np.arange(4, dtype=">i4"), np.float16(0.5),
    [[1, 2], [3, 4]], True, 3, 2**63, 1.25, np.True_, np.zeros((0, 3), np.float32),
], ids=str)
def test_all_kinds_of_values(connect: Connect, value: Any) -> None:
    client = connect()
    step = {"x": np.asarray(value)} if isinstance(value, list) else {"x": value}
    client.insert(step, {"table": 1.0})
    (found,) = data_of(client)[0]
    expected = np.asarray(value)
    assert found.dtype == expected.dtype.newbyteorder("=")
    np.testing.assert_array_equal(found[0], expected)


def test_values_of_jax(connect: Connect) -> None:
    import jax.numpy as jnp

    client = connect()
    client.insert([jnp.arange(3, dtype=jnp.bfloat16), jnp.float32(2)], {"table": 1.0})
    half, single = data_of(client)[0]
    assert half.dtype == jnp.bfloat16 and half[0].tolist() == [0, 1, 2] and single[0] == 2


@pytest.mark.parametrize("value", [
    np.datetime64("2020-01-01"), np.longdouble(1), object(), None, 2**64, -(2**63) - 1, np.array([object()]), {1, 2},
], ids=["date", "longdouble", "object", "None", "beyond-uint64", "below-int64", "array-of-objects", "set"])
def test_values_that_are_not_tensors_are_refused(connect: Connect, value: Any) -> None:
    with pytest.raises(TypeError, match="incompatible function arguments|None in the place of a tensor"):
        connect().insert([value], {"table": 1.0})


@pytest.mark.parametrize("name", ["float8_e5m2", "float8_e4m3fn", "bfloat16", "int4", "uint4"])
def test_scalars_of_ml_dtypes_keep_their_value(connect: Connect, name: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    client = connect(uniform_table(sampler=relive.selectors.Lifo()))
    with client.trajectory_writer(1) as writer:
        for number in (1, 2, 3):
            writer.append({"value": getattr(ml_dtypes, name)(number)})
            writer.create_item("table", 1.0, {"value": writer.history["value"][-1]})
            writer.flush()
            assert float(data_of(client)[0][0]) == number


def test_scalars_of_numpy_keep_type_and_value(connect: Connect) -> None:
    scalars = [np.float16(1.5), np.float32(-2), np.int8(-3), np.uint64(2**63), np.bool_(True), np.complex128(1 - 2j)]
    client = connect(uniform_table())
    with client.trajectory_writer(1) as writer:
        writer.append(scalars)
        writer.create_item("table", 1.0, [column[-1] for column in writer.history])
    for scalar, stored in zip(scalars, data_of(client)[0], strict=True):
        assert (stored.dtype, stored.shape, stored[()]) == (scalar.dtype, (), scalar)


def test_a_step_modified_while_being_read_is_refused(connect: Connect) -> None:
    array = np.arange(4.0)

    class Meddling:
        def __array__(self, *_: Any, **__: Any) -> Any:
            array.resize((1000,), refcheck=False)
            return np.zeros(1)

    writer = connect(uniform_table()).trajectory_writer(1)
    with pytest.raises(ValueError, match="changed while it was read"):
        writer.append({"a": array, "b": Meddling()})
