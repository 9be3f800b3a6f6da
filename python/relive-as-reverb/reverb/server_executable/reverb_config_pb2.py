"""The messages of `reverb_config.proto`, made when they are first asked for."""

from typing import Any

from relive import _protos
from relive.server_executable import reverb_config_pb2 as _messages

# Programs put TensorFlow's messages into these, so both have to come from one pool.
_protos.share_with_tensorflow()


def __getattr__(name: str) -> Any:
    return getattr(_messages, name)


def __dir__() -> list[str]:
    return dir(_messages)
