"""The messages of `schema.proto`, created when they are first used."""

from typing import Any

from relive.cc import schema_pb2 as _messages

from reverb import _borrowed

_borrow, _borrowed_names = _borrowed.lend(
    globals(),
    google_dot_protobuf_dot_timestamp__pb2="google.protobuf.timestamp_pb2",
    tensorflow_dot_core_dot_framework_dot_tensor__pb2="tensorflow.core.framework.tensor_pb2",
    tensorflow_dot_core_dot_protobuf_dot_struct__pb2="tensorflow.core.protobuf.struct_pb2",
)


def __getattr__(name: str) -> Any:
    return _borrow(name) if name in _borrowed_names() else getattr(_messages, name)


def __dir__() -> list[str]:
    return sorted({*dir(_messages), *_borrowed_names()})
