"""The message classes of ``reverb/cc/patterns.proto``, made when they are first asked for."""

from __future__ import annotations

from typing import Any

from relive import _protos


def __getattr__(name: str) -> Any:
    return _protos.attribute(_protos.PATTERNS, name)


def __dir__() -> list[str]:
    return sorted(_protos.names(_protos.PATTERNS))
