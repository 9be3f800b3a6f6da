"""Functions that receive the steps and batches of a run, in the extension's form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from relive.batches import Batch
from relive.rl._shown import Batches, Rollouts
from relive.rl.rollout import Rollout
from relive.rl.specs import EnvironmentSpec

OnStep = Callable[[Rollout], object]
"""Receives a worker's latest steps."""

OnBatch = Callable[[Any, dict[str, float]], object]
"""Receives the learner's batch and its metrics."""


class Hook:
    """A function that is called with rollouts or batches.

    Raises:
      TypeError: the value is not callable.
    """

    def __init__(self, name: str, function: Any, discount: float | None = None) -> None:
        if not callable(function):
            raise TypeError(f"{name} is {function!r}, but it must be a function")
        self._function, self._discount = function, discount
        self._rollouts: Rollouts | None = None
        self._batches: list[Batches] = []

    def begin(self, specs: tuple[Any, ...]) -> None:
        """Receives the environment's specs before the first rollout."""
        self._rollouts = Rollouts(EnvironmentSpec(*specs))

    def rollout(self, **fields: Any) -> Rollout:
        """Builds the rollout for the function."""
        assert self._rollouts is not None, "call begin() first"
        return self._rollouts.rollout(**fields)

    def batches(self, shown: list[Any]) -> Batch | tuple[Batch, ...]:
        """Builds the batch for the function or, if there are several tables, a batch for each table."""
        while len(self._batches) < len(shown):
            self._batches.append(Batches(self._discount))
        batches = tuple(table.batch(one) for table, one in zip(self._batches, shown, strict=False))
        return batches[0] if len(batches) == 1 else batches

    def __call__(self, *seen: Any) -> None:
        """Calls the function."""
        self._function(*seen)


def hooks_of(agent: Any, on_step: OnStep | None, on_batch: OnBatch | None) -> Mapping[str, Any]:
    """Returns the hooks of an agent's run, in the extension's form."""
    return {
        "on_step": None if on_step is None else Hook("on_step", on_step),
        "on_batch": None if on_batch is None else Hook("on_batch", on_batch, _discount_of(agent)),
    }


def _discount_of(agent: Any) -> float | None:
    """Returns γ, if the agent has one."""
    # A custom agent may have attributes `config` and `settings` of its own.
    if not hasattr(agent, "_for_extension"):
        return getattr(getattr(agent, "experience", None), "discount", None)
    settings = getattr(agent, "settings", None)
    return getattr(agent.config, "discount", None) if settings is None else settings.get("discount")
