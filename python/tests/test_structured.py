"""Patterns, conditions, priorities, signatures of patterns, and the writer."""

import collections
import gc
import subprocess
import sys
from typing import Any, NamedTuple

import numpy as np
import pytest
from google.protobuf import text_format

import relive
from relive import structured, structured_writer
from relive.cc import patterns_pb2
from relive.specs import ArraySpec
from relive.structured_writer import Condition

STEP = {"a": np.zeros(3, np.float32), "b": {"c": np.int32(0), "d": [1, 2]}}
SPEC = {
    "a": ArraySpec((3,), "float32"),
    "b": {"c": ArraySpec((), "int32"), "d": [ArraySpec((), "int64"), ArraySpec((4,), "int64")]},
}
REF = structured.create_reference_step(STEP)


class Pair(NamedTuple):
    second: Any
    first: Any


def one_line(message: Any) -> str:
    return text_format.MessageToString(message, as_one_line=True)


def parse(text: str) -> Any:
    return text_format.Parse(text, patterns_pb2.StructuredWriterConfig())


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


@pytest.fixture
def server() -> Any:
    with relive.Server([relive.Table.queue("table", 100)], host="127.0.0.1") as server:
        yield server


def items(server: relive.Server) -> list[Any]:
    client = server.localhost_client()
    count = client.server_info(timeout=10)["table"].current_size
    samples = client.sample("table", count, emit_timesteps=False, timeout=10) if count else ()
    return [sample.data for sample in samples]


class TestWriter:
    def writer(self, server: relive.Server, pattern: Any, *conditions: Any, **options: Any) -> Any:
        config = structured.create_config(pattern, "table", conditions, **options)
        return server.localhost_client().structured_writer([config])

    def test_items_follow_the_pattern(self, server: relive.Server) -> None:
        step = structured.create_reference_step({"x": None, "y": None})
        with self.writer(server, {"b": step["y"][-1], "a": step["x"][-2:]}) as writer:
            for number in range(4):
                writer.append({"x": np.float32(number), "y": -number})
        written = items(server)
        assert [columns[0].tolist() for columns in written] == [[0, 1], [1, 2], [2, 3]]
        assert [columns[1].tolist() for columns in written] == [-1, -2, -3]

    def test_strides_select_the_named_steps(self, server: relive.Server) -> None:
        # dm-reverb stores neighboring rows instead.
        step = structured.create_reference_step([None])
        with self.writer(server, [step[0][-5::2]]) as writer:
            for number in range(5):
                writer.append([number])
        assert [columns[0].tolist() for columns in items(server)] == [[0, 2, 4]]

    def test_conditions(self, server: relive.Server) -> None:
        step = structured.create_reference_step([None])
        with self.writer(server, [step[0][-1]], Condition.step_index() % 3 == 1) as writer:
            for number in range(8):
                writer.append([number])
        assert [columns[0].tolist() for columns in items(server)] == [1, 4, 7]

    def test_conditions_on_data_and_end(self, server: relive.Server) -> None:
        data = Condition.data([None])
        step = structured.create_reference_step([None])
        configs = [
            structured.create_config([step[0][-1]], "table", [data[0] >= 3]),
            structured.create_config([step[0][-2:]], "table", [Condition.is_end_episode()]),
        ]
        writer = server.localhost_client().structured_writer(configs)
        for number in range(5):
            writer.append([number])
        writer.end_episode()
        assert [columns[0].tolist() for columns in items(server)] == [3, 4, [3, 4]]

    def test_partial_steps(self, server: relive.Server) -> None:
        step = structured.create_reference_step([None, None])
        writer = self.writer(server, [step[0][-1], step[1][-1]])
        assert not writer.step_is_open
        writer.append([1, None], partial_step=True)
        assert writer.step_is_open
        writer.append([None, 2])
        assert not writer.step_is_open
        writer.flush()
        assert [[column.tolist() for column in columns] for columns in items(server)] == [[1, 2]]

    def test_steps_without_values_apply_no_pattern(self, server: relive.Server) -> None:
        step = structured.create_reference_step({"a": None, "b": None})
        due = Condition.steps_since_applied() >= 3
        with self.writer(server, {"x": step["a"][-1]}, due) as writer:
            for value in (1, None, None, 4, 5, 6):
                writer.append({"a": value, "b": 0})
        with self.writer(server, {"x": step["a"][-2]}, Condition.is_end_episode()) as writer:
            writer.append({"a": 7, "b": 0})
            writer.append({"a": None, "b": 0})
            writer.end_episode()
        assert [columns[0].tolist() for columns in items(server)] == [5]

    def test_td_error(self, server: relive.Server) -> None:
        step = structured.create_reference_step([None])
        priority = structured.td_error(0.75, [None], lambda one: one[0])
        with self.writer(server, [step[0][-2:]], priority=priority) as writer:
            writer.append([np.float64(-4)])
            writer.append([np.float64(2)])
        sample = next(server.localhost_client().sample("table", emit_timesteps=False, timeout=10))
        assert sample.info.priority == 0.75 * 4 + 0.25 * 3

    @pytest.mark.parametrize(
        ("dtype", "shape", "steps"), [(np.int64, (2,), 2), (np.float32, (3,), 2), (np.float32, (2, 1), 2)], ids=["dtype", "steps", "rank"]
    )
    def test_items_match_the_signature(self, dtype: Any, shape: tuple[int, ...], steps: int) -> None:
        table = relive.Table.queue("typed", 10, signature={"x": ArraySpec(shape, dtype)})
        with relive.Server([table]) as server:
            for client in (server.localhost_client(), relive.Client(f"localhost:{server.port}")):
                step = structured.create_reference_step({"a": None})
                writer = client.structured_writer([structured.create_config({"x": step["a"][-steps:]}, "typed")])
                for step in range(3):
                    # Nothing of the step is stored, so that it may be corrected.
                    with pytest.raises(ValueError, match="signature"):
                        writer.append({"a": np.float32(step)})
                writer.end_episode(timeout_ms=10_000)
                writer.close()
                assert client.server_info()["typed"].current_size == 0

    def test_steps_of_classes_with_their_own_constructors(self, server: relive.Server) -> None:
        class Made(dict[str, Any]):
            def __init__(self, length: int) -> None:
                super().__init__({"x": np.full(length, length)})

        step = structured.create_reference_step({"x": None})
        writer = self.writer(server, step["x"][-1])
        for _ in range(2):
            writer.append(Made(3))
        writer.flush(timeout_ms=10_000)
        assert server.localhost_client().server_info()["table"].current_size == 2

    def test_an_unknown_table(self, server: relive.Server) -> None:
        step = structured.create_reference_step(None)
        for client in (server.localhost_client(), relive.Client(f"localhost:{server.port}")):
            writer = client.structured_writer([structured.create_config(step[-1], "nowhere")])
            with pytest.raises(ValueError, match="nowhere"):
                writer.append(np.float32(1))

    @pytest.mark.parametrize("value", [np.float32(1), np.array([1, 2]), np.uint64(2**63), "1"], ids=["float", "vector", "large", "string"])
    def test_values_that_a_condition_cannot_use(self, server: relive.Server, value: Any) -> None:
        step = {"obs": None, "reward": None}
        reference = structured.create_reference_step(step)
        condition = structured.Condition.data(step)["reward"] >= 1
        config = structured.create_config({"x": reference["obs"][-1]}, "table", conditions=[condition])
        writer = server.localhost_client().structured_writer([config])
        with pytest.raises(ValueError, match=r"column 'reward' is .*; a condition needs one integer below 2\*\*63 or one bool per step"):
            writer.append({"obs": 1, "reward": value})

    def test_other_structure(self, server: relive.Server) -> None:
        writer = self.writer(server, [REF["a"][-1]])
        with pytest.raises(TypeError):
            writer.append({"refused": object()})
        writer.append(STEP)
        with pytest.raises(ValueError, match=r"the structure \{a, b: \{c, d: \{0, 1\}\}\}, but this one has \{0\}; all steps must"):
            writer.append([1])
        with pytest.raises(ValueError, match=r"but this one has \{a, b: \{d: \{0, 1\}, e\}\}"):
            writer.append({**STEP, "b": {"d": STEP["b"]["d"], "e": STEP["b"]["c"]}})
        writer.append(STEP)
        writer.flush(timeout_ms=10_000)
        assert server.localhost_client().server_info()["table"].current_size == 2

    def test_other_dtype(self, server: relive.Server) -> None:
        writer = self.writer(server, [REF["a"][-1], REF["b"]["d"][1][-1]])
        writer.append(STEP)
        said = (
            r"^Tensor of wrong dtype provided for column 3 \(path=\('b', 'd', 1\)\)\. Got float64 but expected int64\.$"
        )
        with pytest.raises(ValueError, match=said):
            writer.append({**STEP, "b": {"c": np.int32(0), "d": [1, 2.5]}})

    def test_other_shape(self, server: relive.Server) -> None:
        writer = self.writer(server, [REF["a"][-1]])
        writer.append(STEP)
        said = (
            r"^Tensor of incompatible shape provided for column 0 \(path=\('a',\)\)\. "
            r"Got \(4, 1\) which is incompatible with \(3,\)\.$"
        )
        with pytest.raises(ValueError, match=said):
            writer.append({**STEP, "a": np.zeros((4, 1), np.float32)})

    def test_no_tensor(self, server: relive.Server) -> None:
        with pytest.raises(TypeError):
            self.writer(server, [REF["a"][-1]]).append({**STEP, "a": object()})

    def test_field_twice_in_a_step(self, server: relive.Server) -> None:
        step = structured.create_reference_step([None])
        writer = self.writer(server, [step[0][-1]])
        writer.append([1], partial_step=True)
        with pytest.raises(RuntimeError, match="already set in this step"):
            writer.append([1])

    def test_a_garbage_collected_structured_writer_writes_its_items(self, server: relive.Server) -> None:
        step = structured.create_reference_step([None])
        writer = self.writer(server, [step[0][-1]])
        writer.append([1])
        del writer
        gc.collect()
        assert server.localhost_client().server_info()["table"].current_size == 1

    def test_an_unknown_table_is_reported_by_flush(self, server: relive.Server) -> None:
        step = structured.create_reference_step([None])
        config = structured.create_config([step[0][-1]], "other")
        writer = server.localhost_client().structured_writer([config])
        with pytest.raises(RuntimeError, match="other"):  # noqa: PT012
            writer.append([1])
            writer.flush(timeout_ms=10_000)

    def test_flush_arguments(self, server: relive.Server) -> None:
        writer = self.writer(server, [REF["a"][-1]])
        with pytest.raises(ValueError, match="block_until_num_items must be >= 0"):
            writer.flush(-1)

    def test_flush_times_out(self) -> None:
        with relive.Server([relive.Table.queue("table", 1)], host="127.0.0.1") as server:
            step = structured.create_reference_step([None])
            writer = self.writer(server, [step[0][-1]])
            for number in range(2):
                writer.append([number])
            with pytest.raises(relive.DeadlineExceededError):
                writer.flush(timeout_ms=10)
            with pytest.raises(relive.DeadlineExceededError):
                writer.end_episode(timeout_ms=0)
            writer.close()

    def test_closed(self, server: relive.Server) -> None:
        writer = self.writer(server, [REF["a"][-1]])
        writer.close()
        writer.close()
        with pytest.raises(RuntimeError, match="closed"):
            writer.append(STEP)


GOOD = "table: 't' flat { start: -1 }"


@pytest.mark.parametrize(
    "text",
    [
        "table: 't'",
        "flat { stop: -1 }",
        "table: 't' flat {}",
        "table: 't' flat { stop: 1 }",
        "table: 't' flat { start: 1 }",
        "table: 't' flat { start: -2 stop: -3 }",
        "table: 't' flat { start: -2 stop: 1 }",
        "table: 't' flat { stop: -1 step: 2 }",
        "table: 't' flat { start: -1 step: 0 }",
        "table: 't' flat { start: -1 flat_source_index: -1 }",
        GOOD + "conditions { eq: 1 }",
        GOOD + "conditions { step_index: true }",
        GOOD + "conditions { step_index: true mod_eq { mod: 0 eq: 1 } }",
        GOOD + "conditions { step_index: true mod_eq { mod: 2 eq: -1 } }",
        GOOD + "conditions { is_end_episode: true eq: 0 }",
        GOOD + "conditions { is_end_episode: true eq: 1 inverse: true }",
        GOOD + "conditions { is_end_episode: true ge: 1 }",
    ],
)
def test_invalid_configurations_are_named(text: str) -> None:
    client = relive.Client("localhost:1")
    with pytest.raises(ValueError, match="Invalid configuration at position 1: "):
        client.structured_writer([parse(GOOD), parse(text)])


def test_no_configurations() -> None:
    with pytest.raises(ValueError, match="at least one"):
        relive.Client("localhost:1").structured_writer([])


def test_configurations_as_plain_values() -> None:
    config = structured.create_config(
        {"a": REF["a"][-4:-1:2], "b": REF["b"]["c"][-1]},
        "table",
        [Condition.data(STEP)["b"]["c"] % 3 != 1, Condition.steps_since_applied() < 5],
        structured.td_error(0.5, STEP, lambda step: step["a"]),
    )
    assert structured_writer._config_to_native(config) == {
        "table": "table",
        "structure": {"a": 0, "b": 0},
        "nodes": [(0, -4, -1, 2), (1, None, -1, None)],
        "priority": ("td_error", 0.5, 0),
        "conditions": [("data", 1, "mod_eq", [3, 1], True), ("steps_since_applied", None, "ge", [5], True)],
    }


def test_messages_from_dm_reverbs_descriptors_are_accepted() -> None:
    code = (
        "from google.protobuf import descriptor_pb2, descriptor_pool, message_factory\n"
        "import relive\n"
        "from relive import _native, structured\n"
        "pool = descriptor_pool.DescriptorPool()\n"
        "for file in descriptor_pb2.FileDescriptorSet.FromString(_native.file_descriptor_set()).file:\n"
        "    pool.AddSerializedFile(file.SerializeToString())\n"
        "kind = message_factory.GetMessageClass(pool.FindMessageTypeByName('deepmind.reverb.PatternNode'))\n"
        "config = structured.create_config([kind(stop=-1)], 'table')\n"
        "assert config.flat[0].stop == -1\n"
        "relive.Client('localhost:1').structured_writer([config])\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_ordered_dicts() -> None:
    pattern = collections.OrderedDict(z=REF["a"][-1], b=REF["a"][-2:])
    assert dict(structured.unpack_pattern(structured.create_config(pattern, "t"))) == dict(pattern)


def test_configurations_have_types() -> None:
    assert structured.Config is patterns_pb2.StructuredWriterConfig
    assert structured.ConditionProto is patterns_pb2.Condition
    with pytest.raises(AttributeError, match="has no attribute 'Conf'"):
        _ = structured.Conf
