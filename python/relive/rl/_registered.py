"""Environments of Gymnasium, by their identifiers."""

from __future__ import annotations

import importlib
from typing import Any

from relive import _native


class Registered:
    """A function that creates the environment that Gymnasium has under an identifier."""

    def __init__(self, identifier: str) -> None:
        self._identifier = identifier

    def __call__(self) -> Any:
        import gymnasium

        return gymnasium.make(self._identifier)


def registered(name: str) -> Registered | None:
    """Returns the function that creates Gymnasium's environment with this name, or ``None`` for a native environment's
    name.

    Raises:
      ValueError: no environment has this name.
    """
    try:
        _native.expect_environment(name)
    except ValueError as error:
        unknown = error
    else:
        return None
    try:
        import gymnasium
    except ImportError:
        raise ValueError(f"{unknown}; Gymnasium is not installed: pip install gymnasium") from None
    # As in ``gymnasium.make``, a module that registers the environment may come first: ``module:identifier``.
    module, _, identifier = name.rpartition(":")
    try:
        if module:
            importlib.import_module(module)
        gymnasium.spec(identifier)
    except (gymnasium.error.Error, ImportError, TypeError) as error:
        raise ValueError(
            f"Gymnasium has no environment {name!r}: {error}; if a module registers it, name the module first, as in "
            f"'ale_py:ALE/Pong-v5'. It is not a native environment either: {unknown}"
        ) from error
    return Registered(name)
