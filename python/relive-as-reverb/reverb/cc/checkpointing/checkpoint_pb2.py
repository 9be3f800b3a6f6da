"""The messages of `checkpoint.proto`, made when they are first asked for."""

from typing import Any

from relive.cc.checkpointing import checkpoint_pb2 as _messages


def __getattr__(name: str) -> Any:
    return getattr(_messages, name)


def __dir__() -> list[str]:
    return dir(_messages)
