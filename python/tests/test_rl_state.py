"""States of Python objects as bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relive.rl import _state


def test_states_round_trip() -> None:
    rng = np.random.default_rng(1)
    state = {
        "number": 3, "large": 2**127, "float": 0.1, "none": None, "flag": True, "text": "ä", "bytes": b"\x00\xff",
        "nested": [{1: (2, "x")}, []], "rng": rng.bit_generator.state, "empty": {},
        "array": np.arange(6, dtype=np.int16).reshape(2, 3), "scalar": np.float32(1.5),
    }
    found: Any = _state.decode(_state.encode(state))
    array, scalar = found.pop("array"), found.pop("scalar")
    assert array.dtype == np.int16 and (array == state.pop("array")).all()
    assert scalar.dtype == np.float32 and scalar == state.pop("scalar")
    assert found == state


@pytest.mark.parametrize("name", ["bfloat16", "float8_e5m2"])
def test_small_floats_keep_their_type(name: str) -> None:
    dtype = np.dtype(getattr(pytest.importorskip("ml_dtypes"), name))
    for array in (np.arange(6).reshape(2, 3).astype(dtype), np.array(0.5, dtype)):
        found = _state.decode(_state.encode({"a": array}))["a"]
        assert found.dtype == dtype and np.array_equal(found, array)


def test_unserializable_states_are_refused_with_their_path() -> None:
    with pytest.raises(TypeError, match=r"state\['a'\]\[1\] is <function"):
        _state.encode({"a": [1, len.__class__ and (lambda: None)]})


def test_damaged_states_are_reported() -> None:
    encoded = _state.encode({"a": np.arange(100)})
    for cut in (0, 5, 20, len(encoded) - 3):
        with pytest.raises(ValueError, match="damaged"):
            _state.decode(encoded[:cut])
