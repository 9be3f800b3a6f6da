"""N-step transitions."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from relive import nest
from relive.client import Client
from relive.rl.adders.base import PriorityFn, Transition, as_extras_spec, single_precision
from relive.rl.adders.rows import EpisodeWriter, RowAdder
from relive.rl.specs import EnvironmentSpec
from relive.specs import ArraySpec


def n_step_return(rewards: Sequence[Any], discounts: Sequence[Any], additional_discount: float) -> tuple[Any, Any]:
    """Returns the n-step reward and discount in float32.

    For rewards r₁ … r_k, discounts d₁ … d_k and the additional discount g, the reward is
    r₁ + g·d₁·r₂ + g²·d₁d₂·r₃ + … and the discount g^(k-1)·d₁⋯d_k. The learner applies the remaining power of g: its
    target is reward + g·discount·V. Rewards and discounts may be arrays, which are broadcast against each other, or
    nests of arrays; a single reward or discount applies to each leaf of the other's nest.

    Raises:
      ValueError: no steps, or nests with different structures.
    """
    g = np.float32(additional_discount)
    if len(rewards) == 0:
        raise ValueError("an n-step return needs the reward and the discount of at least one step, but there are none")
    if not nest.is_nested(rewards[0]) and not nest.is_nested(discounts[0]):
        return _return_of_leaf(rewards, discounts, g)
    steps = [_broadcast_nests(*step) for step in zip(rewards, discounts, strict=True)]
    # A row for each leaf, with the values of all steps.
    earned, continued = (list(zip(*(nest.flatten(step[part]) for step in steps), strict=True)) for part in (0, 1))
    leaves = [_return_of_leaf(*values, g) for values in zip(earned, continued, strict=True)]
    reward, discount = (nest.unflatten_as(steps[0][0], [leaf[part] for leaf in leaves]) for part in (0, 1))
    return reward, discount


def _return_of_leaf(rewards: Sequence[Any], discounts: Sequence[Any], g: np.float32) -> tuple[Any, Any]:
    # The first discount already determines the shape, so that items over any number of steps have the same shape.
    reward: Any = np.zeros(np.broadcast(rewards[0], discounts[0]).shape, np.float32)[()]
    discount: Any = np.float32(1.0)
    for index, (one_reward, one_discount) in enumerate(zip(rewards, discounts, strict=True)):
        if index:
            discount = discount * g
        reward = reward + discount * np.asarray(one_reward, np.float32)
        discount = discount * np.asarray(one_discount, np.float32)
    return reward, discount


def _broadcast_nests(reward: Any, discount: Any) -> tuple[Any, Any]:
    """Returns both with the same structure: a single value is repeated for each leaf of the other."""
    if not nest.is_nested(discount):
        return reward, nest.map_structure(lambda _: discount, reward)
    if not nest.is_nested(reward):
        return nest.map_structure(lambda _: reward, discount), discount
    nest.assert_same_structure(reward, discount, names=("the reward", "the discount"))
    return reward, discount


class NStepTransitionAdder(RowAdder):
    """Writes transitions over up to ``n_step`` steps.

    Each step adds a transition from the observation ``n_step`` steps earlier, or from the start of the episode. The end
    of an episode also adds the transitions over fewer steps. An episode of T steps yields T + min(n_step, T) - 1 items.
    :func:`n_step_return` computes rewards and discounts.

    Args:
      client: the client for the server.
      n_step: the number of steps that a transition covers.
      discount: the agent's own discount, g.
      priority_fns: for each table, a function that returns an item's priority, given the item with arrays as its values
        (:class:`Transition` here, :class:`Step` in the adders of sequences and episodes); ``None`` means priority 1.
        The default is one table, ``"priority_table"``.
      max_in_flight_items: the number of items that may be unconfirmed, by default 5; with more, :meth:`add` waits, for
        example for a rate limiter. ``None``: no bound.
    """

    def __init__(
        self,
        client: Client,
        n_step: int,
        discount: float,
        *,
        priority_fns: Mapping[str, PriorityFn | None] | None = None,
        max_in_flight_items: int | None = 5,
    ) -> None:
        if n_step < 1:
            raise ValueError(f"n_step must be at least 1, got {n_step}")
        super().__init__(EpisodeWriter(client, n_step, priority_fns, max_in_flight_items))
        self._discount = discount
        self._steps: collections.deque[tuple[Any, Any]] = collections.deque(maxlen=n_step)

    def add_first(self, timestep: Any) -> None:
        """Starts an episode."""
        self.reset()
        self._rows.begin(timestep)

    def add(self, action: Any, next_timestep: Any, extras: Any = ()) -> None:
        """Adds an action and the resulting step.

        Raises:
          ValueError: the reward and the discount are nests with different structures, or have shapes that cannot be
            broadcast.
        """
        step = _broadcast_nests(next_timestep.reward, next_timestep.discount)
        nest.map_structure(np.broadcast, *step)
        self._rows.add(action, next_timestep, extras)
        # Copies, since the environment may reuse its arrays.
        self._steps.append(nest.map_structure(lambda value: np.array(value, np.float32), step))
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

    def reset(self, timeout_ms: int | None = None) -> None:
        super().reset(timeout_ms)
        self._steps.clear()

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
        """Returns the signature of a table for these items, a :class:`Transition`."""
        rewards, discounts = _broadcast_nests(*single_precision(environment_spec))
        return Transition(
            environment_spec.observations,
            environment_spec.actions,
            nest.map_structure(_broadcast_spec, rewards, discounts),
            discounts,
            environment_spec.observations,
            as_extras_spec(extras_spec),
        )


def _broadcast_spec(reward: ArraySpec, discount: ArraySpec) -> ArraySpec:
    shapes = [[size or 0 for size in spec.shape or ()] for spec in (reward, discount)]
    return ArraySpec(np.broadcast_shapes(*shapes), reward.dtype, reward.name)
