"""The messages of `patterns.proto`, created when they are first used."""

from typing import Any

from relive.cc import patterns_pb2 as _messages

from reverb import _borrowed

_borrow, _borrowed_names = _borrowed.lend(
    globals(),
    tensorflow_dot_core_dot_protobuf_dot_struct__pb2="tensorflow.core.protobuf.struct_pb2",
)


def __getattr__(name: str) -> Any:
    return _borrow(name) if name in _borrowed_names() else getattr(_messages, name)


def __dir__() -> list[str]:
    return sorted({*dir(_messages), *_borrowed_names()})
