"""The rules of the environment contract."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relive import _native
from relive.rl._bridge import Bridge
from relive.rl._sources import Source
from relive.rl.specs import expect_one_agent


class ContractError(AssertionError):
    """An environment violates a rule of dm_env's contract.

    ``rule`` names the rule, and ``detail`` the violation.
    """

    def __init__(self, rule: str, detail: str) -> None:
        super().__init__(f"{rule}: {detail}")
        self.rule = rule
        self.detail = detail


def check_environment(make: Callable[[int], Any]) -> None:
    """Tests an environment against dm_env's contract, with a few thousand random actions.

    Episodes are FIRST, MID, …, LAST; a step before the first reset or after a LAST is a reset. Observations, rewards
    and discounts match their specs. The same seed and actions produce the same episodes, independently of other
    environments.

    Args:
      make: a function that takes a seed and returns a new environment with Gymnasium's or dm_env's interface;
        deterministic environments can ignore the seed. The seed is passed as ``seed=`` if the function has this
        parameter, otherwise as its first argument if the function requires one.

    Raises:
      ContractError: the environment violates a rule.
      TypeError: the result is not an environment, is a vector or has several agents, or its values are not supported;
        the error names their path.
      Exception: the environment raised an exception.
    """
    if isinstance(make, str) or not callable(make) or hasattr(make, "step"):
        raise TypeError(f"make must be a function from a seed to a new environment, got {make!r}")
    source = Source(make)
    broken = _native.check_environment(lambda seed: _single(source, seed).without_rules())
    if broken is not None:
        raise ContractError(*broken)


def _single(source: Source, seed: int) -> Bridge:
    """Returns a new environment, after a check that it occupies one row."""
    bridge = source.rows(0, [seed], 0, False)
    try:
        for environment in bridge._owned:
            expect_one_agent(environment)
        if bridge.rows != 1:
            raise TypeError(f"{bridge.called} is a vector of {bridge.rows} environments; make must return one of them")
    except BaseException:
        bridge.close()
        raise
    return bridge
