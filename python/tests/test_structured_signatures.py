"""Signatures of items that patterns produce."""

from typing import Any

import pytest
from structured_steps import REF, SPEC, Pair, parse

from relive import structured
from relive.specs import ArraySpec


def infer(patterns: list[Any], step_spec: Any = SPEC, tables: str = "tttt") -> Any:
    configs = [structured.create_config(pattern, table) for pattern, table in zip(patterns, tables, strict=False)]
    return structured.infer_signature(configs, step_spec)


class TestInferSignature:
    def test_shapes_and_names(self) -> None:
        made = infer([{"x": REF["a"][-3:], "y": (REF["b"]["c"][-1], REF["b"]["d"][0][-2:])}])
        assert made == {
            "x": ArraySpec((3, 3), "float32", "x"),
            "y": (ArraySpec((), "int32", "y/0"), ArraySpec((2,), "int64", "y/1")),
        }

    def test_containers(self) -> None:
        made = infer([Pair(REF["a"][-1], [REF["a"][-2:], (REF["a"][-1],)])])
        assert type(made).__name__ == "Pair"
        assert made.second == ArraySpec((3,), "float32", "second")
        assert made.first == [ArraySpec((2, 3), "float32", "first/0"), (ArraySpec((3,), "float32", "first/1/0"),)]
        assert infer([REF["a"][-2:]]) == ArraySpec((2, 3), "float32", "")

    @pytest.mark.parametrize(
        ("key", "rows"),
        [
            (slice(-4, -1), 3),
            (slice(-4, None, 2), 2),
            # dm-reverb 0.14.0 rounds down, later versions up.
            (slice(-5, None, 2), 3),
            (slice(-5, -2, 2), 2),
            (slice(-5, None, 3), 2),
            (slice(-4, -2, 2), 1),
        ],
    )
    def test_rows_of_slices(self, key: slice, rows: int) -> None:
        assert infer([{"x": REF["a"][key]}])["x"].shape == (rows, 3)

    def test_different_lengths(self) -> None:
        assert infer([{"x": REF["a"][-3:]}, {"x": REF["a"][-4:]}])["x"].shape == (None, 3)

    def test_unknown_sizes(self) -> None:
        spec = {**SPEC, "a": ArraySpec((None, 4), "float32")}
        assert infer([{"x": REF["a"][-2:]}], spec)["x"].shape == (2, None, 4)
        spec = {**SPEC, "a": ArraySpec(None, "float32")}
        assert infer([{"x": REF["a"][-2:]}], spec)["x"].shape is None

    def test_without_a_structure(self) -> None:
        config = parse("table: 't' flat { flat_source_index: 1 stop: -1 } flat { start: -2 }")
        assert structured.infer_signature([config], SPEC) == [
            ArraySpec((), "int32", "0"),
            ArraySpec((2, 3), "float32", "1"),
        ]

    @pytest.mark.tensorflow
    def test_tensorflow_specs_give_tensorflow_signatures(self) -> None:
        import tensorflow as tf
        spec = {"a": tf.TensorSpec([3], tf.float32), "b": {"c": tf.TensorSpec([], tf.int32), "d": [SPEC["a"]] * 2}}
        assert infer([{"x": REF["a"][-2:]}], spec) == {"x": tf.TensorSpec([2, 3], tf.float32, "x")}
        with pytest.raises(ValueError, match=r"Got \[tf.float32, tf.int32\]"):
            infer([{"x": REF["a"][-2:]}, {"x": REF["b"]["c"][-2:]}], spec)

    # Existing programs compare these three error texts word by word.
    def test_no_configs(self) -> None:
        with pytest.raises(ValueError, match=r"^At least one config must be provided\.$"):
            structured.infer_signature([], SPEC)

    @pytest.mark.parametrize("configs", ["x", 5, [5]])
    def test_no_list_of_configurations(self, configs: Any) -> None:
        with pytest.raises(TypeError, match="configs must be a list of configurations"):
            structured.infer_signature(configs, SPEC)

    def test_several_tables(self) -> None:
        with pytest.raises(
            ValueError, match=r"^All configs must target the same table but provided configs included aa, t, zz\.$"
        ):
            infer([{"x": REF["a"][-1]}] * 3, tables=["t", "zz", "aa"])  # type: ignore[arg-type]

    def test_several_structures(self) -> None:
        with pytest.raises(ValueError, match=r"^All configs must have exactly the same pattern_structure\.$"):
            infer([{"x": REF["a"][-1]}, [REF["a"][-1]]])

    def test_several_dtypes(self) -> None:
        with pytest.raises(ValueError, match=r"multiple dtypes at \('x', 0\)\. Got \[float32, int32\]"):
            infer([{"x": [REF["a"][-2:]]}, {"x": [REF["b"]["c"][-2:]]}])

    @pytest.mark.parametrize("other", [REF["b"]["d"][1][-2:], REF["b"]["d"][0][-1]])
    def test_incompatible_shapes(self, other: Any) -> None:
        spec = {**SPEC, "a": ArraySpec((3,), "int64")}
        with pytest.raises(ValueError, match=r"incompatible shapes at \('x',\)\. Got \[\(2, 3\), \("):
            infer([{"x": REF["a"][-2:]}, {"x": other}], spec)

    def test_a_too_short_step_is_refused(self) -> None:
        with pytest.raises(IndexError, match="column 3 of a step of 1"):
            infer([{"x": REF["b"]["d"][1][-2:]}], [ArraySpec((), "int8")])
