"""Converts the extension's rollouts and batches to the form that learners and hooks receive."""

from __future__ import annotations

from typing import Any

from relive import nest
from relive._structures import Structure, packed
from relive.batches import Batch
from relive.replay_sample import SampleInfo
from relive.rl.rollout import Rollout
from relive.rl.specs import EnvironmentSpec


class Rollouts:
    """Rebuilds rollouts from their leaves, in the structures of an environment."""

    def __init__(self, spec: EnvironmentSpec) -> None:
        _, self._fill_observations = nest.filler(spec.observations)
        _, self._fill_actions = nest.filler(spec.actions)

    def rollout(self, *, observations: Any, actions: Any, extras: dict[str, Any], **answers: Any) -> Rollout:
        """Builds a rollout."""
        return Rollout(
            observations=self._fill_observations(observations), actions=self._fill_actions(actions), extras=extras, **answers
        )


class Batches:
    """Names the columns of a table's batches.

    Args:
      discount: γ, if any: the stored discount of a transition lacks one power of γ, since Rust agents multiply by γ
        when they learn.
    """

    def __init__(self, discount: float | None) -> None:
        self._discount = discount
        self._names: Any = None
        self._structure: Structure | None = None

    def batch(self, shown: tuple[Any, Any, Any, Any]) -> Batch:
        """Builds a batch from the extension's info, columns, lengths and names."""
        info, columns, lengths, names = shown
        if names is not self._names:
            self._names, self._structure = names, None if names is None else Structure(names, is_promised=True)
        ragged = None if lengths is None else packed(self._structure, lengths)
        batch = Batch(SampleInfo._make(info), packed(self._structure, columns), ragged)
        if self._discount is not None and isinstance(batch.data, dict) and "next_observation" in batch.data:
            batch.data["discount"] *= self._discount
        return batch
