"""The message classes of ``reverb/cc/schema.proto``, created when they are first used."""

from __future__ import annotations

from typing import Any

from relive import _protos


def __getattr__(name: str) -> Any:
    return _protos.attribute(_protos.SCHEMA, name)


def __dir__() -> list[str]:
    return sorted(_protos.names(_protos.SCHEMA))
