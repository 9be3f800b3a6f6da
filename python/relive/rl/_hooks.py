"""Functions that receive the steps, batches and evaluations of a run, in the form that the extension expects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any

import numpy as np

from relive.batches import Batch
from relive.rl._shown import Batches, Rollouts
from relive.rl.evaluation import Evaluation
from relive.rl.experience import Sequences
from relive.rl.policy import Policy
from relive.rl.rollout import Rollout
from relive.rl.specs import EnvironmentSpec

OnStep = Callable[[Rollout], object]
"""Receives a worker's latest steps."""

OnBatch = Callable[[Any, dict[str, float]], object]
"""Receives the learner's batch and its metrics."""


OnEvaluation = Callable[[Evaluation, Policy], "bool | None"]
"""Receives an evaluation and the evaluated policy; ``True`` ends the run."""


class Hook:
    """A function that is called with rollouts or batches.

    Attributes:
      rows: the smallest number of rows to which items of a batch are padded.

    Raises:
      TypeError: the value is not callable.
    """

    def __init__(self, name: str, function: Any, discount: float | None = None, rows: int = 0) -> None:
        self._function, self._discount, self.rows = _function(name, function), discount, rows
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


class EvaluationHook:
    """A function that is called with evaluations.

    Raises:
      TypeError: the value is not callable.
    """

    def __init__(self, function: Any, own: Any) -> None:
        self._function, self._own = _function("on_evaluation", function), own

    def __call__(self, returns: list[float], lengths: list[int], env_steps: int, learner_steps: int, policy: Any) -> bool:
        """Calls the function, and returns whether the run should end.

        Raises:
          TypeError: the function returned something else.
        """
        found = np.array(returns)
        evaluation = Evaluation(found, np.array(lengths, np.int64), float(found.mean()), None, env_steps, learner_steps)
        is_over = self._function(evaluation, Policy(policy, self._own))
        if not isinstance(is_over, (bool, np.bool_, NoneType)):
            raise TypeError(f"on_evaluation returned {is_over!r}, but it must return True to end the run, or False or None to continue")
        return bool(is_over)


def _function(name: str, given: Any) -> Any:
    if not callable(given):
        raise TypeError(f"{name} is {given!r}, but it must be a function")
    return given


def hooks_of(
    agent: Any, on_step: OnStep | None, on_batch: OnBatch | None, on_evaluation: OnEvaluation | None
) -> Mapping[str, Any]:
    """Returns the hooks of an agent's run, in the form that the extension expects."""
    own = None if hasattr(agent, "_for_extension") else agent
    return {
        "on_step": None if on_step is None else Hook("on_step", on_step),
        "on_batch": None if on_batch is None else Hook("on_batch", on_batch, _discount_of(agent), _rows_of(agent)),
        "on_evaluation": None if on_evaluation is None else EvaluationHook(on_evaluation, own),
    }


def _discount_of(agent: Any) -> float | None:
    """Returns γ, if the agent has one."""
    # A custom agent may have attributes `config` and `settings` of its own.
    if not hasattr(agent, "_for_extension"):
        return getattr(getattr(agent, "experience", None), "discount", None)
    discount: float | None = agent.settings.get("discount")
    return discount


def _rows_of(agent: Any) -> int:
    """Returns the number of rows to which a custom agent's batches are padded."""
    experience = getattr(agent, "experience", None)
    return experience.length if isinstance(experience, Sequences) else 0
