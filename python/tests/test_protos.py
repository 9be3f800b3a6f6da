"""dm-reverb's message types, and tables created from them."""

import importlib
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, text_format

import relive
from relive import _protos, _structured_value, rate_limiters, selectors
from relive.server_executable import reverb_config_pb2, server_from_proto
from relive.specs import ArraySpec, BoundedArraySpec

MODULES = {
    "relive.cc.schema_pb2": "reverb/cc/schema.proto",
    "relive.cc.patterns_pb2": "reverb/cc/patterns.proto",
    "relive.cc.checkpointing.checkpoint_pb2": "reverb/cc/checkpointing/checkpoint.proto",
    "relive.server_executable.reverb_config_pb2": "reverb/server_executable/reverb_config.proto",
}


class Pair(NamedTuple):
    second: Any
    first: Any


@pytest.mark.parametrize(("module", "file"), MODULES.items())
def test_modules(module: str, file: str) -> None:
    found = importlib.import_module(module)
    assert found.DESCRIPTOR.name == file
    assert found.DESCRIPTOR.package == "deepmind.reverb"
    for name in found.DESCRIPTOR.message_types_by_name:
        assert getattr(found, name).DESCRIPTOR.full_name == f"deepmind.reverb.{name}"
        assert name in dir(found)
    with pytest.raises(AttributeError, match="no message 'Nonsense'"):
        found.Nonsense  # noqa: B018


def test_fields_match_dm_reverb() -> None:
    """Compares with a list generated from the descriptors of dm-reverb 0.14.0."""
    ours = [line for file in MODULES.values() for line in fields(_protos.names(file)["DESCRIPTOR"])]
    theirs = (Path(__file__).parent / "dm_reverb_fields.txt").read_text().splitlines()
    assert sorted(ours) == theirs


def fields(descriptor: Any) -> Iterator[str]:
    """Yields a line for each field of each message of a file."""
    file = descriptor_pb2.FileDescriptorProto()
    descriptor.CopyToProto(file)
    messages = [(message.name, message) for message in file.message_type]
    while messages:
        path, message = messages.pop()
        messages += [(f"{path}.{nested.name}", nested) for nested in message.nested_type]
        for field in message.field:
            oneof = f" in {message.oneof_decl[field.oneof_index].name}" if field.HasField("oneof_index") else ""
            yield f"{file.name} {path}.{field.name} = {field.number}: {kind(field)}{oneof}"


def kind(field: Any) -> str:
    scalar = field.Type.Name(field.type).removeprefix("TYPE_").lower()
    repeated = "repeated " if field.label == field.LABEL_REPEATED else ""
    return repeated + (field.type_name.removeprefix(".") or scalar)


def test_the_default_pool_stays_clean() -> None:
    _protos.message(_protos.SCHEMA, "TableInfo")
    with pytest.raises(KeyError):
        descriptor_pool.Default().FindFileByName("reverb/cc/schema.proto")


def test_messages_cross_processes() -> None:
    options = _protos.message(_protos.SCHEMA, "KeyDistributionOptions")(fifo=True)
    heap = type(options).Heap(min_heap=True)
    for message in (options, heap):
        back = pickle.loads(pickle.dumps(message))
        assert back == message
        assert type(back) is type(message)


@pytest.mark.tensorflow
def test_sharing_with_tensorflow() -> None:
    code = (
        "from relive import _protos\n"
        "assert _protos.share_with_tensorflow()\n"
        "from tensorflow.core.protobuf import struct_pb2\n"
        "from relive.cc import schema_pb2\n"
        "info = schema_pb2.TableInfo()\n"
        "info.signature.CopyFrom(struct_pb2.StructuredValue(none_value=struct_pb2.NoneValue()))\n"
        "assert _protos.share_with_tensorflow()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_sharing_protos_fails_once_a_message_exists() -> None:
    _protos.message(_protos.SCHEMA, "TableInfo")
    assert _protos.share_with_tensorflow() is False


class TestStructuredValues:
    SIGNATURE = {
        "list": [ArraySpec((None, 3), "float32", "x"), ArraySpec(None, object)],
        "tuple": (ArraySpec((), "bool"), {"inner": ArraySpec((0,), "float16")}),
        "pair": Pair(BoundedArraySpec((2,), "int8", [-1, 0], 5), BoundedArraySpec((), "float64", 0, 1, "n")),
    }

    def test_round_trip(self) -> None:
        message = _structured_value.encode_signature(self.SIGNATURE)
        again = type(message).FromString(message.SerializeToString())
        made = _structured_value.decode_signature(again)
        assert made == self.SIGNATURE
        assert type(made["list"]) is list
        assert type(made["tuple"]) is tuple
        assert type(made["pair"]).__name__ == "Pair"
        assert made["pair"]._fields == ("second", "first")

    @pytest.mark.parametrize("dtype", [">f4", ">i8", "<f8", ">u2"])
    def test_bounds_in_any_byte_order(self, dtype: str) -> None:
        found = _structured_value.decode_signature(_structured_value.encode_signature(BoundedArraySpec((2,), dtype, [1, 2], 3)))
        assert (found.minimum.tolist(), found.maximum.tolist()) == ([1, 2], 3)

    def test_bounds_of_strings(self) -> None:
        found = _structured_value.decode_signature(_structured_value.encode_signature(BoundedArraySpec((2,), "U5", ["a", b"b"], "z")))
        assert (found.minimum.tolist(), found.maximum.tolist()) == ([b"a", b"b"], b"z")
        with pytest.raises(ValueError, match="the bounds of strings must be strings, got 1"):
            _structured_value.encode_signature(BoundedArraySpec((2,), "U5", 1, 3))

    def test_equal_named_tuples_share_one_class(self) -> None:
        message = _structured_value.encode_signature(self.SIGNATURE)
        first, second = (_structured_value.decode_signature(message)["pair"] for _ in range(2))
        assert type(first) is type(second)

    def test_nothing(self) -> None:
        message = _protos.message(_protos.STRUCT, "StructuredValue")()
        assert _structured_value.decode_signature(message) is None

    def test_structures_without_leaves(self) -> None:
        structure = {"a": [1, (2,)], "b": Pair(3, [])}
        message = _structured_value.encode_structure(structure)
        filled = _structured_value.fill_structure(message, ["x", "y", "z"])
        assert filled == {"a": ["x", ("y",)], "b": ("z", [])}
        with pytest.raises(ValueError, match="3 leaves cannot be filled with 2 values"):
            _structured_value.fill_structure(message, ["x", "y"])

    @pytest.mark.parametrize(
        ("field", "dtype", "values"),
        [
            ("float_val", 1, [1.5, 2.5]),
            ("int_val", 4, [1, 2]),
            ("int64_val", 9, [1, 2]),
            ("bool_val", 10, [True, False]),
            ("half_val", 19, [0x3C00, 0x4000]),
            ("float_val", 1, [1.5]),
        ],
    )
    def test_bounds_as_tensorflow_writes_them(self, field: str, dtype: int, values: list[Any]) -> None:
        message = _protos.message(_protos.STRUCT, "StructuredValue")()
        spec = message.bounded_tensor_spec_value
        spec.dtype = dtype
        spec.shape.dim.add(size=2)
        for bound in (spec.minimum, spec.maximum):
            bound.dtype = dtype
            bound.tensor_shape.dim.add(size=2)
            getattr(bound, field).extend(values)
        made = _structured_value.decode_signature(message)
        wanted = [1.0, 2.0] if field == "half_val" else values * (2 // len(values))
        assert made.minimum.tolist() == made.maximum.tolist() == wanted

    @pytest.mark.parametrize("structure", [{1: ArraySpec((), "int8")}, {"a": {None: ArraySpec((), "int8")}}])
    def test_keys_must_be_strings(self, structure: Any) -> None:
        with pytest.raises(ValueError, match="must be strings"):
            _structured_value.encode_signature(structure)

    def test_other_leaves(self) -> None:
        message = _protos.message(_protos.STRUCT, "StructuredValue")(int64_value=3)
        with pytest.raises(ValueError, match="int64_value"):
            _structured_value.decode_signature(message)

    def test_unknown_type(self) -> None:
        message = _protos.message(_protos.STRUCT, "StructuredValue")()
        message.tensor_spec_value.dtype = 20
        with pytest.raises(ValueError, match="data type number 20"):
            _structured_value.decode_signature(message)


class TestTablesFromProto:
    TEXT = """
        table_name: "a" max_size: 5 max_times_sampled: 2
        sampler { %s } remover { fifo: true }
        rate_limiter { samples_per_insert: 1.5 min_size_to_sample: 2 min_diff: -1 max_diff: 5 }
    """

    def config(self, sampler: str = "fifo: true", text: str = TEXT) -> Any:
        return text_format.Parse(f"tables {{ {text % sampler} }}", reverb_config_pb2.ReverbServerConfig()).tables[0]

    @pytest.mark.parametrize(
        ("sampler", "wanted"),
        [
            ("fifo: true", selectors.Fifo()),
            ("lifo: true", selectors.Lifo()),
            ("uniform: true", selectors.Uniform()),
            ("heap { min_heap: true }", selectors.MinHeap()),
            ("heap {}", selectors.MaxHeap()),
            ("prioritized { priority_exponent: 0.5 }", selectors.Prioritized(0.5)),
        ],
    )
    def test_tables(self, sampler: str, wanted: Any) -> None:
        (table,) = server_from_proto.tables_from_proto([self.config(sampler)])
        assert isinstance(table, relive.Table)
        info = table.info
        assert (info.name, info.max_size, info.max_times_sampled) == ("a", 5, 2)
        assert (info.sampler, info.remover) == (wanted, selectors.Fifo())
        assert info.rate_limiter_info.max_diff == 5
        assert info.signature is None

    def test_signature_is_kept(self) -> None:
        config = self.config()
        signature = {"x": ArraySpec((2,), np.float32)}
        config.signature.CopyFrom(_structured_value.encode_signature(signature))
        (table,) = server_from_proto.tables_from_proto([config])
        assert table.info.structure == signature

    @pytest.mark.parametrize(
        ("sampler", "kind", "said"),
        [
            ("fifo: false", ValueError, "distribution=fifo but the associated boolean value is false"),
            ("uniform: false", ValueError, "distribution=uniform"),
            ("", NotImplementedError, "distribution=None"),
        ],
    )
    def test_invalid_selector_messages_are_refused(self, sampler: str, kind: type[Exception], said: str) -> None:
        with pytest.raises(kind, match=said):
            server_from_proto.tables_from_proto([self.config(sampler)])
        with pytest.raises(kind, match=said):
            server_from_proto.selector_from_proto(self.config(sampler).sampler)

    def test_limiter(self) -> None:
        made = server_from_proto.rate_limiter_from_proto(self.config().rate_limiter)
        assert made == rate_limiters.RateLimiter(1.5, 2, -1, 5)

    def test_an_invalid_limiter_message_is_refused(self) -> None:
        with pytest.raises(ValueError, match="samples_per_insert"):
            server_from_proto.rate_limiter_from_proto(type(self.config().rate_limiter)())

    def test_a_server_of_a_whole_configuration(self) -> None:
        text = f'port: 0 tables {{ {self.TEXT % "lifo: true"} }}'
        config = text_format.Parse(text, reverb_config_pb2.ReverbServerConfig())
        tables = server_from_proto.tables_from_proto(config.tables)
        with relive.Server(tables, port=config.port) as server:
            assert server.localhost_client().server_info(timeout=10)["a"].sampler == selectors.Lifo()
