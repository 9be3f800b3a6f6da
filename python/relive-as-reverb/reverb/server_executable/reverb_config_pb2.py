"""The messages of `reverb_config.proto`, created when they are first used."""

from typing import Any

from relive import _protos
from relive.server_executable import reverb_config_pb2 as _messages

from reverb import _borrowed

# Programs use TensorFlow's messages inside these messages, so all messages must come from the same pool.
_protos.share_with_tensorflow()

_borrow, _borrowed_names = _borrowed.lend(
    globals(),
    reverb_dot_cc_dot_checkpointing_dot_checkpoint__pb2="reverb.cc.checkpointing.checkpoint_pb2",
)


def __getattr__(name: str) -> Any:
    return _borrow(name) if name in _borrowed_names() else getattr(_messages, name)


def __dir__() -> list[str]:
    return sorted({*dir(_messages), *_borrowed_names()})
