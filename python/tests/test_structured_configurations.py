"""Configurations of structured writers, as messages and as plain values."""

import collections
import subprocess
import sys
from typing import Any

import pytest
from structured_steps import REF, STEP, parse

import relive
from relive import structured, structured_writer
from relive.cc import patterns_pb2
from relive.structured_writer import Condition

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


def test_arguments_of_a_wrong_type_are_refused_by_name() -> None:
    pattern: Any = {"a": REF["a"][-1]}
    for table in (5, None):
        with pytest.raises(TypeError, match=f"table must be a string, got {table}"):
            structured.create_config(pattern, table)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="conditions must be a list of conditions, got 5"):
        structured.create_config(pattern, "t", 5)  # type: ignore[arg-type]
    pattern["b"] = pattern
    with pytest.raises(ValueError, match="at most 64 levels deep"):
        structured.create_config(pattern, "t")


def test_configurations_have_types() -> None:
    assert structured.Config is patterns_pb2.StructuredWriterConfig
    assert structured.ConditionProto is patterns_pb2.Condition
    with pytest.raises(AttributeError, match="has no attribute 'Conf'"):
        _ = structured.Conf
