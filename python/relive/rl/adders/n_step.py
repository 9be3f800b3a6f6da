"""N-step transitions."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from relive import nest
from relive.client import Client
from relive.rl.adders.base import EpisodeWriter, PriorityFn, Transition, as_extras_spec, single_precision
from relive.rl.specs import EnvironmentSpec


def n_step_return(rewards: Sequence[Any], discounts: Sequence[Any], additional_discount: float) -> tuple[Any, Any]:
    """Returns the n-step reward and discount in float32.

    For rewards r₁ … r_k, discounts d₁ … d_k and the additional discount g, the reward is
    r₁ + g·d₁·r₂ + g²·d₁d₂·r₃ + … and the discount g^(k-1)·d₁⋯d_k. The learner applies the remaining power of g: its
    target is reward + g·discount·V. Rewards and discounts may be arrays, which are broadcast against each other.
    """
    g = np.float32(additional_discount)
    reward: Any = np.float32(0.0)
    discount: Any = np.float32(1.0)
    for index, (one_reward, one_discount) in enumerate(zip(rewards, discounts, strict=True)):
        if index:
            discount = discount * g
        reward = reward + discount * np.asarray(one_reward, np.float32)
        discount = discount * np.asarray(one_discount, np.float32)
    return reward, discount


class NStepTransitionAdder:
    """Writes transitions over up to ``n_step`` steps.

    Each step adds a transition from the observation ``n_step`` steps earlier, or from the start of the episode. The end
    of an episode also adds the transitions over fewer steps. An episode of T steps yields T + min(n_step, T) - 1 items.
    :func:`n_step_return` computes rewards and discounts.

    Args:
      client: the client for the server.
      n_step: the number of steps that a transition covers.
      discount: the agent's own discount, g.
      priority_fns: for each table, a function that returns an item's priority, given the item's values; ``None`` means
        priority 1. The default is one table, ``"priority_table"``.
      max_in_flight_items: the number of items that may be unconfirmed; ``None``: no bound.
    """

    def __init__(
        self,
        client: Client,
        n_step: int,
        discount: float,
        *,
        priority_fns: Mapping[str, PriorityFn | None] | None = None,
        max_in_flight_items: int | None = None,
    ) -> None:
        if n_step < 1:
            raise ValueError(f"n_step must be at least 1, got {n_step}")
        self._rows = EpisodeWriter(client, n_step, priority_fns, max_in_flight_items)
        self._discount = discount
        self._steps: collections.deque[tuple[Any, Any]] = collections.deque(maxlen=n_step)

    def add_first(self, timestep: Any) -> None:
        """Starts an episode."""
        self.reset()
        self._rows.begin(timestep)

    def add(self, action: Any, next_timestep: Any, extras: Any = ()) -> None:
        """Adds an action and the resulting step."""
        self._rows.add(action, next_timestep, extras)
        self._steps.append((next_timestep.reward, next_timestep.discount))
        self._write(behind=0)
        if not next_timestep.last():
            return
        behind = 0
        self._steps.popleft()
        while self._steps:
            # Each transition has its own values, in a separate row.
            self._rows.append({})
            behind += 1
            self._write(behind)
            self._steps.popleft()
        self.reset()

    def reset(self) -> None:
        """Drops the current episode."""
        self._steps.clear()
        if self._rows.rows or self._rows.is_open:
            self._rows.end()

    def _write(self, behind: int) -> None:
        """Creates an item of the steps in the window, which ends ``behind`` rows before the newest row."""
        rewards, discounts = zip(*self._steps, strict=True)
        reward, discount = n_step_return(rewards, discounts, self._discount)
        self._rows.append_partial({"n_step_return": reward, "total_discount": discount})
        end = -1 - behind
        start = end - len(self._steps)
        history = self._rows.history

        def step(name: str, position: int) -> Any:
            return nest.map_structure(lambda column: column[position], history[name])

        self._rows.create(
            Transition(
                observation=step("observation", start),
                action=step("action", start),
                reward=step("n_step_return", -1),
                discount=step("total_discount", -1),
                next_observation=step("observation", end),
                extras=step("extras", start) if "extras" in history else (),
            )
        )

    @classmethod
    def signature(cls, environment_spec: EnvironmentSpec, extras_spec: Any = ()) -> Any:
        """Returns the signature of a table for these items."""
        rewards, discounts = single_precision(environment_spec)
        spec = Transition(
            environment_spec.observations,
            environment_spec.actions,
            rewards,
            discounts,
            environment_spec.observations,
            as_extras_spec(extras_spec),
        )._asdict()
        return spec if nest.flatten(extras_spec) else {name: part for name, part in spec.items() if name != "extras"}
