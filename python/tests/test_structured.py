"""Patterns, their conditions and their priorities."""

from typing import Any

import numpy as np
import pytest
from structured_steps import REF, STEP, Pair, one_line, parse

from relive import structured
from relive.cc import patterns_pb2
from relive.structured_writer import Condition


class TestReferenceSteps:
    @pytest.mark.parametrize(
        ("node", "wanted"),
        [
            (REF["a"][-1], "stop: -1"),
            (REF["a"][np.int64(-2)], "stop: -2"),
            (REF["a"][-2:], "start: -2"),
            (REF["b"]["c"][-4:-1:2], "flat_source_index: 1 start: -4 stop: -1 step: 2"),
            (REF["b"]["d"][1][-3:0], "flat_source_index: 3 start: -3 stop: 0"),
        ],
    )
    def test_indexing(self, node: Any, wanted: str) -> None:
        assert isinstance(node, patterns_pb2.PatternNode)
        assert one_line(node) == wanted

    @pytest.mark.parametrize("key", ["a", (1, 2), None, ..., [1], 1.5])
    def test_other_keys(self, key: Any) -> None:
        with pytest.raises(ValueError, match="Key must be int or slice by got"):
            REF["a"][key]

    @pytest.mark.parametrize("key", [slice(None), slice(None, -2), slice(None, 3), slice(None, None, 2)])
    def test_slices_without_a_start(self, key: slice) -> None:
        # dm-reverb interprets x[:-2] as x[-2].
        with pytest.raises(ValueError, match="needs a start"):
            REF["a"][key]

    @pytest.mark.parametrize("key", [slice("a", None), slice(-2.5, None)])
    def test_slices_with_non_integers_are_refused(self, key: slice) -> None:
        with pytest.raises(TypeError):
            REF["a"][key]

    def test_transform(self) -> None:
        pattern = structured.pattern_from_transform(STEP, lambda step: {"z": step["a"][-1], "w": step["b"]["c"][-2:]})
        assert {key: one_line(node) for key, node in pattern.items()} == {
            "z": "stop: -1",
            "w": "flat_source_index: 1 start: -2",
        }


class TestCreateConfig:
    def test_defaults(self) -> None:
        config = structured.create_config({"x": REF["a"][-3:], "y": (REF["b"]["c"][-1],)}, "table")
        assert isinstance(config, patterns_pb2.StructuredWriterConfig)
        assert config.table == "table"
        assert [one_line(node) for node in config.flat] == ["start: -3", "flat_source_index: 1 stop: -1"]
        assert config.priority.constant_fn.value == 1.0
        assert not config.conditions

    def test_conditions_and_priority(self) -> None:
        config = structured.create_config(
            [REF["a"][-1]],
            "table",
            conditions=(Condition.step_index() >= 2, Condition.is_end_episode()),
            priority=structured.constant_priority_fn(2),
        )
        assert [one_line(condition) for condition in config.conditions] == [
            "step_index: true ge: 2",
            "is_end_episode: true eq: 1",
        ]
        assert config.priority.constant_fn.value == 2

    @pytest.mark.parametrize("leaf", [None, 3, REF["a"]])
    def test_other_leaves(self, leaf: Any) -> None:
        with pytest.raises(TypeError, match=r"\('x', 0\) must be a PatternNode"):
            structured.create_config({"x": [leaf]}, "table")

    def test_other_conditions_and_priorities(self) -> None:
        with pytest.raises(TypeError, match="condition at position 0 must be a Condition"):
            structured.create_config([REF["a"][-1]], "table", [Condition.step_index()])
        with pytest.raises(TypeError, match="the priority must be a Priority"):
            structured.create_config([REF["a"][-1]], "table", priority=1.0)


class TestUnpackPattern:
    @pytest.mark.parametrize(
        "pattern",
        [
            REF["a"][-1],
            [REF["a"][-1], (REF["b"]["c"][-2:],)],
            {"x": REF["a"][-3:], "y": (REF["b"]["c"][-1], REF["b"]["d"][0][-2:])},
        ],
    )
    def test_inverse_of_create_config(self, pattern: Any) -> None:
        assert structured.unpack_pattern(structured.create_config(pattern, "table")) == pattern

    def test_named_tuples(self) -> None:
        made = structured.unpack_pattern(structured.create_config(Pair(REF["a"][-1], [REF["a"][-2:]]), "table"))
        assert type(made).__name__ == "Pair"
        assert made.second == REF["a"][-1]

    def test_without_a_structure(self) -> None:
        made = structured.unpack_pattern(parse("flat { flat_source_index: 1 }"))
        assert type(made) is list
        assert one_line(made[0]) == "flat_source_index: 1"


class TestConditions:
    @pytest.mark.parametrize(
        ("make", "wanted"),
        [
            (lambda x: x == 2, "eq: 2"),
            (lambda x: x != 2, "eq: 2 inverse: true"),
            (lambda x: x >= 2, "ge: 2"),
            (lambda x: x > 2, "ge: 3"),
            (lambda x: x < 2, "ge: 2 inverse: true"),
            (lambda x: x <= 2, "ge: 3 inverse: true"),
            (lambda x: x % 3 == 1, "mod_eq { mod: 3 eq: 1 }"),
            (lambda x: x % 3 != 1, "mod_eq { mod: 3 eq: 1 } inverse: true"),
            (lambda x: 2 == x, "eq: 2"),  # noqa: SIM300
            (lambda x: 2 < x, "ge: 3"),  # noqa: SIM300
            (lambda x: x == np.int64(3), "eq: 3"),
            (lambda x: x == True, "eq: 1"),  # noqa: E712
        ],
    )
    def test_comparisons(self, make: Any, wanted: str) -> None:
        assert one_line(make(Condition.step_index())) == f"step_index: true {wanted}"

    def test_operands(self) -> None:
        assert one_line(Condition.steps_since_applied() == 0) == "steps_since_applied: true eq: 0"
        assert one_line(Condition.is_end_episode()) == "is_end_episode: true eq: 1"
        data = Condition.data(STEP)
        assert one_line(data["a"] == 1) == "eq: 1 flat_source_index: 0"
        assert one_line(data["b"]["d"][1] % 2 == 1) == "mod_eq { mod: 2 eq: 1 } flat_source_index: 3"

    @pytest.mark.parametrize("value", [1.5, "a", None, 3.0])
    def test_only_integers(self, value: Any) -> None:
        for compare in (lambda: Condition.step_index() == value, lambda: Condition.step_index() >= value):
            with pytest.raises(TypeError):
                compare()

    @pytest.mark.parametrize(
        "make",
        [
            lambda x: x % 0,
            lambda x: x % -1,
            lambda x: x % 4 % 2,
            lambda x: x % 3 == -1,
            # dm-reverb ignores the remainder here.
            lambda x: x % 3 > 1,
            lambda x: x % 3 <= 1,
            lambda x: x == 2**40,
        ],
    )
    def test_invalid_conditions_are_refused(self, make: Any) -> None:
        with pytest.raises(ValueError):  # noqa: PT011
            make(Condition.step_index())


class TestPriorities:
    def test_constant(self) -> None:
        assert structured.constant_priority_fn(3).constant_fn.value == 3.0
        with pytest.raises(TypeError):
            structured.constant_priority_fn("a")  # type: ignore[arg-type]

    def test_td_error(self) -> None:
        made = structured.td_error(0.9, STEP, lambda step: step["b"]["d"][1])
        assert one_line(made) == "td_error { max_priority_weight: 0.9 flat_source_index: 3 }"

    @pytest.mark.parametrize("weight", [-0.1, 1.1, float("nan")])
    def test_weight_out_of_range(self, weight: float) -> None:
        with pytest.raises(ValueError, match="from 0 to 1"):
            structured.td_error(weight, STEP, lambda step: step["a"])

    def test_no_leaf(self) -> None:
        with pytest.raises(TypeError, match="one leaf"):
            structured.td_error(0.5, STEP, lambda step: step["b"])
