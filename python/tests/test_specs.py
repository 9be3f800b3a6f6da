"""Array specs, and objects that are accepted as array specs."""

import pickle
import types
from typing import Any, NamedTuple

import numpy as np
import pytest

from relive import specs
from relive.specs import ArraySpec, BoundedArraySpec


def fake(module: str, class_name: str, **attributes: Any) -> Any:
    """Returns an object with the attributes of another package's class."""
    return type(class_name, (), {"__module__": module, **attributes})()


class TestArraySpec:
    def test_normalizes(self) -> None:
        spec = ArraySpec([2, None, np.int64(3)], "float32", "x")
        assert spec == ArraySpec((2, None, 3), np.float32, "x")
        assert (spec.shape, spec.dtype, spec.name) == ((2, None, 3), np.dtype("float32"), "x")
        assert hash(spec) == hash(ArraySpec((2, None, 3), np.float32, "x"))
        assert repr(spec) == "ArraySpec(shape=(2, None, 3), dtype=float32, name='x')"

    def test_is_frozen(self) -> None:
        with pytest.raises(AttributeError):
            ArraySpec((), "int8").name = "other"  # type: ignore[misc]

    @pytest.mark.parametrize("dtype", [str, bytes, "U4", "S3", object, np.dtype("O")])
    def test_all_strings_are_objects(self, dtype: Any) -> None:
        assert ArraySpec((), dtype).dtype == np.dtype(object)

    @pytest.mark.parametrize("shape", [None, types.SimpleNamespace(rank=None)])
    def test_unknown_rank(self, shape: Any) -> None:
        assert ArraySpec(shape, "int8").shape is None

    def test_one_number_is_a_shape(self) -> None:
        assert ArraySpec(3, "int8").shape == (3,)

    @pytest.mark.parametrize("dtype", ["datetime64[s]", "V3", "m8[s]", np.longdouble])
    def test_unsupported_dtypes_are_refused(self, dtype: Any) -> None:
        with pytest.raises(ValueError, match="cannot have the data type"):
            ArraySpec((), dtype)

    @pytest.mark.parametrize("dtype", [None, "nonsense", 3])
    def test_no_types(self, dtype: Any) -> None:
        with pytest.raises(TypeError):
            ArraySpec((), dtype)

    def test_negative_size(self) -> None:
        with pytest.raises(ValueError, match="got -1"):
            ArraySpec((2, -1), "int8")

    @pytest.mark.parametrize("shape", ["ab", (1.5,), object()])
    def test_no_shape(self, shape: Any) -> None:
        with pytest.raises(TypeError, match="not a shape"):
            ArraySpec(shape, "int8")

    @pytest.mark.parametrize(
        ("shape", "dtype", "fits"),
        [
            ((2, 3), "float32", True),
            ((None, 3), "float32", True),
            (None, "float32", True),
            ((9, 3), "float32", True),
            ((2, 4), "float32", False),
            ((2,), "float32", False),
            ((2, 3), "float64", False),
        ],
    )
    def test_accepts(self, shape: Any, dtype: str, fits: bool) -> None:
        assert ArraySpec((None, 3), "float32").accepts(shape, dtype) is fits

    def test_crosses_processes(self) -> None:
        for spec in (ArraySpec((None,), "int8", "x"), BoundedArraySpec((2,), "int8", 0, [1, 2], "x")):
            assert pickle.loads(pickle.dumps(spec)) == spec


class TestBoundedArraySpec:
    def test_bounds_have_the_dtype(self) -> None:
        spec = BoundedArraySpec((2,), "int8", 0, [1.0, 2.0])
        assert spec.minimum.dtype == spec.maximum.dtype == np.int8
        assert spec.maximum.tolist() == [1, 2]
        assert not spec.maximum.flags.writeable

    def test_equality_looks_at_bounds(self) -> None:
        assert BoundedArraySpec((), "int8", 0, 1) == BoundedArraySpec((), "int8", 0, 1)
        assert BoundedArraySpec((), "int8", 0, 1) != BoundedArraySpec((), "int8", 0, 2)
        assert BoundedArraySpec((), "int8", 0, 1) != ArraySpec((), "int8")
        assert ArraySpec((), "int8") != BoundedArraySpec((), "int8", 0, 1)

    def test_texts_are_short(self) -> None:
        equal = BoundedArraySpec((2, 2), "uint8", np.zeros((2, 2)), 255, "pixels")
        assert repr(equal) == "BoundedArraySpec(shape=(2, 2), dtype=uint8, minimum=0, maximum=255, name='pixels')"
        few = BoundedArraySpec((2,), "float32", [0.5, -np.inf], [np.inf, np.nan])
        assert repr(few) == "BoundedArraySpec(shape=(2,), dtype=float32, minimum=[ 0.5 -inf], maximum=[inf nan], name=None)"
        many = BoundedArraySpec((100,), "int64", np.arange(100), 100)
        assert repr(many) == "BoundedArraySpec(shape=(100,), dtype=int64, minimum=[ 0 1 ... 98 99], maximum=100, name=None)"
        images = BoundedArraySpec((4, 84, 84, 3), "float32", 0, np.arange(84.0).reshape(1, 84, 1, 1) + np.ones((4, 1, 84, 3)))
        assert len(repr(images)) < 300 and "..." in repr(images)
        assert "minimum=[]" in repr(BoundedArraySpec((0,), "int8", [], 1))

    def test_is_an_array_spec(self) -> None:
        assert isinstance(BoundedArraySpec((), "int8", 0, 1).with_name("n"), BoundedArraySpec)
        assert isinstance(BoundedArraySpec((), "int8", 0, 1), ArraySpec)


class TestAsSpec:
    def test_arrays(self) -> None:
        made = specs.as_spec({"a": np.zeros((2, 3), np.uint8), "b": (np.float32(1), np.array(["x"]))})
        assert made == {"a": ArraySpec((2, 3), "uint8"), "b": (ArraySpec((), "float32"), ArraySpec((1,), object))}

    def test_own_specs_are_returned_unchanged(self) -> None:
        spec = BoundedArraySpec((), "int8", 0, 1)
        assert specs.as_spec([spec])[0] is spec

    def test_named_tuples_stay(self) -> None:
        class Pair(NamedTuple):
            a: Any
            b: Any

        made = specs.as_spec(Pair(np.zeros(1), [np.int8(0)]))
        assert type(made) is Pair

    def test_tensorflow(self) -> None:
        dtype = types.SimpleNamespace(as_numpy_dtype=np.float32)
        leaf = fake("tensorflow.python.framework.tensor", "TensorSpec", shape=(None, 2), dtype=dtype, name="x")
        assert specs.as_spec(leaf) == ArraySpec((None, 2), "float32", "x")
        assert specs.is_tensorflow_spec(leaf)

    def test_tensorflows_other_specs_are_refused(self) -> None:
        leaf = fake("tensorflow.python.ops.ragged", "RaggedTensorSpec", shape=(2,), dtype=np.int8, value_type=int)
        with pytest.raises(ValueError, match=r"at \('a',\).*TensorSpec is the only"):
            specs.as_spec({"a": leaf})

    def test_dm_env(self) -> None:
        from dm_env import specs as dm_specs
        made = specs.as_spec(
            [dm_specs.Array((2,), np.float32, "a"), dm_specs.BoundedArray((), np.int8, 0, 3), dm_specs.DiscreteArray(4)]
        )
        assert made[0] == ArraySpec((2,), "float32", "a")
        assert made[1] == BoundedArraySpec((), "int8", 0, 3)
        assert (made[2].minimum, made[2].maximum, made[2].shape) == (0, 3, ())
        assert specs.as_spec(dm_specs.StringArray((2,))).dtype == np.dtype(object)

    def test_gymnasium(self) -> None:
        from gymnasium import spaces
        made = specs.as_spec(
            spaces.Dict(
                box=spaces.Box(-1, 1, (2,), np.float32),
                parts=spaces.Tuple([spaces.Discrete(3, start=2), spaces.MultiBinary(4), spaces.MultiDiscrete([2, 5])]),
            )
        )
        assert made["box"] == BoundedArraySpec((2,), "float32", [-1, -1], [1, 1])
        discrete, binary, several = made["parts"]
        assert discrete == BoundedArraySpec((), "int64", 2, 4)
        assert binary == BoundedArraySpec((4,), "int8", 0, 1)
        assert several == BoundedArraySpec((2,), "int64", [0, 0], [1, 4])

    def test_spaces_without_a_shape(self) -> None:
        from gymnasium import spaces
        with pytest.raises(ValueError, match=r"\('t',\).*Text has no fixed shape"):
            specs.as_spec({"t": spaces.Text(5)})

    def test_torch(self) -> None:
        import torch
        made = specs.as_spec({"a": torch.zeros(2, 3, device="meta"), "b": torch.zeros((), dtype=torch.bool)})
        assert made == {"a": ArraySpec((2, 3), "float32"), "b": ArraySpec((), "bool")}

    def test_torch_dtypes_are_recognized_without_import(self) -> None:
        dtype = type("dtype", (), {"__module__": "torch", "__str__": lambda _: "torch.int64"})()
        assert specs.as_dtype(dtype) == np.dtype("int64")

    def test_jax(self) -> None:
        import jax
        assert specs.as_spec(jax.ShapeDtypeStruct((2,), np.float32)) == ArraySpec((2,), "float32")

    @pytest.mark.parametrize("leaf", [1, 2.5, "x", b"x", None, np.float32, object()])
    def test_no_specs(self, leaf: Any) -> None:
        with pytest.raises(ValueError, match=r"the spec at \('a', 1\)"):
            specs.as_spec({"a": [ArraySpec((), "int8"), leaf]})

    def test_an_invalid_spec_is_refused(self) -> None:
        with pytest.raises(ValueError, match="Unsupported signature spec: x; the spec cannot be understood"):
            specs.as_spec("x")

    @pytest.mark.parametrize("structure", [None, (), {}, [], {"a": []}])
    def test_no_leaves_are_no_signature(self, structure: Any) -> None:
        assert specs.as_signature(structure) is None


def test_texts() -> None:
    assert specs.shape_text((None, 3)) == "[?,3]"
    assert specs.shape_text(()) == "[]"
    assert specs.shape_text(None) == "<unknown>"
    texts = [specs.dtype_text(np.dtype(name)) for name in ("float32", "float64", "float16", "object", "uint8", "bool")]
    assert texts == ["float", "double", "half", "string", "uint8", "bool"]


@pytest.mark.parametrize(
    ("minimum", "maximum", "kind", "said"),
    [
        (5, 1, ValueError, "minimum must not be above maximum, got 5 and 1"),
        ([0, 2], [1, 1], ValueError, "minimum must not be above maximum"),
        ([1, 2, 3], 5, ValueError, r"minimum has the shape \(3,\), but it must be one that can be broadcast to \(2,\)"),
        (0, [[1, 1]], ValueError, r"maximum has the shape \(1, 2\)"),
        (None, 5, TypeError, "minimum is None, but it must be a number or an array"),
        (0, 2**80, ValueError, "maximum is 1208925819614629174706176, which int32 cannot represent"),
    ],
)
def test_bounds_that_no_array_can_have_are_refused(minimum: Any, maximum: Any, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said):
        BoundedArraySpec((2,), "int32", minimum, maximum)


def test_unusual_bounds_of_other_programs_are_read() -> None:
    received = BoundedArraySpec._received((2,), "float32", 5, 1, "a")
    assert (received.minimum, received.maximum, received.with_name("b").name) == (5, 1, "b")
    assert BoundedArraySpec((None, 2), "float32", np.zeros((3, 1)), [1, 1]).shape == (None, 2)
