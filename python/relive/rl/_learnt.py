"""The results of a learner, in the extension's form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from relive._numbers import count
from relive.rl._weights import as_array, called
from relive.rl.contracts import Learnt


class Results:
    """Checks what a learner's ``learn()`` returns. All errors name the learner."""

    def __init__(self, learner: Any) -> None:
        self._called = f"{called(learner)}.learn()"

    def of(self, output: Learnt, items: int, keys: Any) -> tuple[int, int, dict[str, float], Any]:
        """Returns the numbers of gradient steps and of samples, the metrics, and the keys with their new priorities.

        Args:
          output: the result of :meth:`learnt`.
          items: the number of items in the batch.
          keys: the keys of these items; ``None`` if they have no priorities.

        Raises:
          TypeError: a value of the wrong type.
          ValueError: a value out of range, or priorities that do not fit the batch.
        """
        metrics = {str(name): self._number(name, value) for name, value in output.metrics.items()}
        steps, samples = self._count("steps", output.steps), items if output.samples is None else self._count("samples", output.samples)
        if output.priorities is None:
            return steps, samples, metrics, None
        if keys is None:
            raise ValueError(f"{self._called} returned priorities, but a rollout has none")
        priorities = self._priorities(output.priorities)
        if priorities.shape != (items,):
            raise ValueError(f"{self._called} returned priorities of the shape {priorities.shape}, but the batch has {items} items")
        return steps, samples, metrics, (keys, priorities)

    def learnt(self, returned: Any) -> Learnt:
        """Returns what ``learn()`` returned as a ``Learnt``."""
        if returned is None or isinstance(returned, Mapping):
            return Learnt(returned or {})
        if not isinstance(returned, Learnt):
            raise TypeError(
                f"{self._called} returned {type(returned).__name__}, but it must return a mapping of numbers to log, an rl.Learnt, or None"
            )
        if not isinstance(returned.metrics, Mapping):
            raise TypeError(f"{self._called} returned the metrics {returned.metrics!r}, but they must be a mapping of numbers to log")
        return returned

    def _priorities(self, given: Any) -> Any:
        try:
            priorities = as_array(given)
        except (TypeError, ValueError) as error:
            kind = ValueError if isinstance(error, ValueError) else TypeError
            raise kind(f"{self._called}: priorities: {error}") from error
        if priorities.dtype.kind not in "fiub":
            raise TypeError(f"{self._called} returned priorities of the type {priorities.dtype}, but they must be numbers")
        invalid = priorities[~(np.isfinite(priorities) & (priorities >= 0))]
        if invalid.size:
            raise ValueError(f"{self._called} returned the priority {invalid.flat[0]}, but priorities must be finite and at least 0")
        return priorities

    def _count(self, name: str, value: Any) -> int:
        return count(f"Learnt.{name} from {self._called}", value)

    def _number(self, name: Any, value: Any) -> float:
        try:
            return float(value)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{self._called} returned {value!r} for {name!r}, but it must be a number: {error}") from error
