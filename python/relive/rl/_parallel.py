"""PettingZoo's parallel environments as rows of a run, one for each agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relive import nest
from relive.rl import _faults
from relive.rl._answers import FIRST, LAST, MID, Answers
from relive.rl.gymnasium_adapters import first_actions
from relive.rl.specs import DISCOUNTS, REWARDS, EnvironmentSpec, as_arrays, normalized


def is_parallel(value: Any) -> bool:
    """Returns whether the value is a multi-agent environment rather than a class."""
    return not isinstance(value, type) and hasattr(value, "possible_agents")


class Parallel:
    """A parallel environment of PettingZoo, in which one policy acts for all agents.

    If an agent leaves early, its episode ends. Until the agent returns, its row contains FIRST steps, from which
    nothing is learned. This usually happens when the other agents' episodes have also ended and the environment resets.

    Args:
      environment: the environment; all its agents have the same spaces.
      seed: the seed of the first reset.

    Raises:
      TypeError: agents take turns, or have different spaces; or a space is not supported.
    """

    def __init__(self, environment: Any, seed: int) -> None:
        if hasattr(environment, "agent_iter"):
            raise TypeError(f"in {environment!r} agents take turns; pettingzoo.utils.aec_to_parallel can convert some such environments "
                            "to parallel ones")
        self._environment = environment
        self._seed: int | None = seed
        self._agents = list(environment.possible_agents)
        self.environment, self.rows = environment, len(self._agents)
        self.who = self.called = type(environment).__qualname__
        self.spec = self._spec_of(self._agents[0])
        for agent in self._agents[1:]:
            if self._spec_of(agent) != self.spec:
                raise TypeError(
                    f"{self._agents[0]!r} and {agent!r} have different spaces, but one policy acts for all agents; give them the same "
                    "spaces, for instance with a wrapper that pads observations and actions"
                )
        # Spaces that differ only in their first action have the same spec.
        self._first_actions = [nest.flatten(first_actions(environment.action_space(agent))) for agent in self._agents]
        _, self._fill_action = nest.filler(self.spec.actions)
        # The agents that are in an episode.
        self._present = dict.fromkeys(self._agents, False)

    def _spec_of(self, agent: Any) -> EnvironmentSpec:
        observations = normalized(self._environment.observation_space(agent), f"observation of {agent}")
        actions = normalized(self._environment.action_space(agent), f"action of {agent}")
        return EnvironmentSpec(observations, actions, REWARDS, DISCOUNTS)

    def reset(self, answers: Answers) -> None:
        """Starts an episode for all agents."""
        seed, self._seed = self._seed, None
        answer = self._environment.reset(seed=seed)
        try:
            observations, _ = _faults.beginning(answer)
            for row, agent in enumerate(self._agents):
                self._wait_or_begin(row, agent, observations, answers)
        except _faults.WRONG as error:
            raise _faults.wrong(self.who, "reset", error) from error
        changed = next((agent for agent in self._agents if self._spec_of(agent) != self.spec), None)
        if changed is not None:
            raise ValueError(f"{self.who}: the spaces of agent {changed!r} have changed, but they must not change during a run")
        if not any(self._present.values()):
            raise ValueError(f"{self._environment!r} started without agents: reset() returned observations of {sorted(observations)}, "
                             f"agents are {self._environment.agents}")

    def step(self, actions: list[Any], answers: Answers) -> None:
        """Takes one step for each present agent, or resets if no agent is present."""
        if not any(self._present.values()):
            self.reset(answers)
            return
        chosen = {agent: self._acted(actions, row) for row, agent in enumerate(self._agents) if self._present[agent]}
        answer = self._environment.step(chosen)
        try:
            self._take(answer, answers)
        except _faults.WRONG as error:
            raise _faults.wrong(self.who, "step", error) from error

    def _take(self, answer: Any, answers: Answers) -> None:
        """Writes the result of a step."""
        observations, rewards, terminated, truncated, _ = _faults.transition(answer)
        for row, agent in enumerate(self._agents):
            if not self._present[agent]:
                self._wait_or_begin(row, agent, observations, answers)
                continue
            is_terminated = _faults.flag(terminated.get(agent, False), f"terminated of {agent!r}")
            is_truncated = _faults.flag(truncated.get(agent, False), f"truncated of {agent!r}")
            ends = is_terminated or is_truncated or agent not in self._environment.agents
            if agent in observations:
                answers.see(row, as_arrays(self.spec.observations, observations[agent]))
            elif not ends:
                raise ValueError(f"step() of {self._environment!r} returned no observation of {agent!r}, which is still one of its agents")
            answers.put(row, LAST if ends else MID, rewards.get(agent, 0.0), 0.0 if is_terminated else 1.0)
            self._present[agent] = not ends

    def _wait_or_begin(self, row: int, agent: Any, observations: Mapping[Any, Any], answers: Answers) -> None:
        self._present[agent] = agent in observations and agent in self._environment.agents
        answers.put(row, FIRST, None, None)
        if self._present[agent]:
            answers.see(row, as_arrays(self.spec.observations, observations[agent]))

    def _acted(self, actions: list[Any], row: int) -> Any:
        return self._fill_action([leaf[row] + first if first else leaf[row] for leaf, first in zip(actions, self._first_actions[row])])
