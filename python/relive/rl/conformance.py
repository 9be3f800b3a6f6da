"""The rules that every environment keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relive import _native
from relive.rl._sources import Source


class ContractError(AssertionError):
    """An environment does not keep a rule of dm_env's contract.

    ``rule`` says which, ``detail`` where it is broken.
    """

    def __init__(self, rule: str, detail: str) -> None:
        super().__init__(f"{rule}: {detail}")
        self.rule = rule
        self.detail = detail


def check_environment(make: Callable[[int], Any]) -> None:
    """Tries an environment against dm_env's contract, with some thousand random actions.

    Episodes are FIRST, MID, …, LAST, and a step before the first or after a LAST is a reset; observations, rewards and discounts are as
    their specs say; the same seed and actions give the same episodes, whatever other environments do.

    Args:
      make: a function from a seed to a new environment, of Gymnasium or with dm_env's interface; one without randomness may ignore
        the seed.

    Raises:
      ContractError: a rule that is broken.
      TypeError: no environment, or values that are not supported; the error names their path.
      Exception: whatever the environment raises.
    """
    if isinstance(make, str) or not callable(make) or hasattr(make, "step"):
        raise TypeError(f"make must be a function from a seed to a new environment, not {make!r}")
    source = Source(make)
    broken = _native.check_environment(lambda seed: source.rows(0, [seed], 0, True))
    if broken is not None:
        raise ContractError(*broken)
