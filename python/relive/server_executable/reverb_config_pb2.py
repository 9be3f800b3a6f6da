"""The message classes of ``reverb/server_executable/reverb_config.proto``, created when they are first used."""

from __future__ import annotations

from typing import Any

from relive import _protos


def __getattr__(name: str) -> Any:
    return _protos.attribute(_protos.CONFIG, name)


def __dir__() -> list[str]:
    return sorted(_protos.names(_protos.CONFIG))
