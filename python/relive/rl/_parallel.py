"""PettingZoo's parallel environments as rows of a run, one for each agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relive import nest
from relive.rl import _faults
from relive.rl._answers import FIRST, LAST, MID, Answers
from relive.rl.gymnasium_adapters import first_actions
from relive.rl.specs import DISCOUNTS, REWARDS, EnvironmentSpec, as_arrays, difference, normalized


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
      TypeError: agents take turns, or have different spaces; a space is not supported, or no function of an agent.
      ValueError: the environment has no agents.
    """

    def __init__(self, environment: Any, seed: int) -> None:
        expect_parallel(environment)
        called = _faults.name_of(environment)
        self._environment = environment
        self._seed: int | None = seed
        self._agents = list(environment.possible_agents)
        if not self._agents:
            raise ValueError(f"{called} has no agents: possible_agents is empty, but it must contain every agent that can take part")
        self.environment = environment
        self.rows = self.agents = len(self._agents)
        self.who = self.called = called
        self.spec = self._spec_of(self._agents[0])
        for agent in self._agents[1:]:
            spec = self._spec_of(agent)
            if spec != self.spec:
                raise TypeError(
                    f"{self._agents[0]!r} and {agent!r} have different spaces, but one policy acts for all agents: "
                    f"{difference(self.spec, spec)}; give them the same spaces, for instance with a wrapper that pads observations and "
                    "actions, and declares bounds that include those of all agents"
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
            listed = self._listed()
            for row, agent in enumerate(self._agents):
                self._wait_or_begin(row, agent, observations, listed, answers)
        except _faults.WRONG as error:
            raise _faults.wrong(self.who, "reset", error) from error
        changed = next((agent for agent in self._agents if self._spec_of(agent) != self.spec), None)
        if changed is not None:
            raise ValueError(f"{self.who}: the spaces of agent {changed!r} have changed, but they must not change during a run")
        if not any(self._present.values()):
            raise ValueError(f"{self.who} started without agents: reset() returned observations of {list(observations)}, agents are "
                             f"{self._environment.agents}")

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
        listed = self._listed()
        stayed: dict[Any, str] = {}
        for row, agent in enumerate(self._agents):
            if not self._present[agent]:
                self._wait_or_begin(row, agent, observations, listed, answers)
                continue
            is_terminated, is_truncated = _has_ended(terminated, agent, "terminated"), _has_ended(truncated, agent, "truncated")
            reward = _of(rewards, agent, "rewards")
            if agent in listed and (is_terminated or is_truncated):
                stayed[agent] = "has terminated" if is_terminated else "was truncated"
            ends = is_terminated or is_truncated or agent not in listed
            if agent in observations:
                answers.see(row, as_arrays(self.spec.observations, observations[agent]))
            elif not ends:
                raise ValueError(f"there is no observation of {agent!r}, which is still one of its agents; the observations are of "
                                 f"{list(observations)}")
            answers.put(row, LAST if ends else MID, reward, 0.0 if is_terminated else 1.0)
            self._present[agent] = not ends
        # Many environments change `agents` only in the reset if all agents end in the same step.
        if stayed and any(self._present.values()):
            agent, how = next(iter(stayed.items()))
            raise ValueError(
                f"{agent!r} {how}, but is still in agents while others continue: {list(listed)}; remove an agent from agents in the step "
                "in which it ends, and add it again if it returns"
            )

    def _listed(self) -> Any:
        """Returns the environment's ``agents`` after a check that the run knows them."""
        listed = self._environment.agents
        unknown = next((agent for agent in listed if agent not in self._present), None)
        if unknown is not None:
            raise ValueError(f"agents contains {unknown!r}, which is not one of possible_agents: {self._agents}; possible_agents must "
                             "contain every agent that can take part")
        return listed

    def _wait_or_begin(self, row: int, agent: Any, observations: Mapping[Any, Any], listed: Any, answers: Answers) -> None:
        self._present[agent] = agent in observations and agent in listed
        answers.put(row, FIRST, None, None)
        if self._present[agent]:
            answers.see(row, as_arrays(self.spec.observations, observations[agent]))

    def _acted(self, actions: list[Any], row: int) -> Any:
        return self._fill_action([leaf[row] + first if first else leaf[row] for leaf, first in zip(actions, self._first_actions[row])])


def expect_parallel(environment: Any) -> None:
    """Checks that an environment with several agents has the interface of PettingZoo's parallel environments.

    Raises:
      TypeError: agents take turns, or a space is not a function of an agent.
    """
    called = _faults.name_of(environment)
    if hasattr(environment, "agent_iter"):
        raise TypeError(
            f"in {called} agents take turns; pettingzoo.utils.aec_to_parallel can convert some such environments to parallel ones, and "
            "pettingzoo.utils.turn_based_aec_to_parallel can convert the others: all agents then choose an action in each step, but only "
            "the agent whose turn it is acts; or write an environment of Gymnasium for one agent, which plays the other agents' turns"
        )
    for name in ("observation_space", "action_space"):
        if not callable(getattr(environment, name, None)):
            raise TypeError(
                f"{called} has possible_agents, as PettingZoo's parallel environments, but its {name} is not a function from an agent to "
                "its space; an environment with dicts of spaces, such as RLlib's MultiAgentEnv, needs a small wrapper: a "
                "pettingzoo.ParallelEnv whose observation_space(agent) and action_space(agent) return the spaces of one agent"
            )


def _of(values: Any, agent: Any, name: str) -> Any:
    """Returns the value of an agent that took part in the step."""
    try:
        return values[agent]
    except KeyError:
        raise ValueError(f"{name} has no value for {agent!r}, which took part in the step; its keys are {list(values)}") from None


def _has_ended(flags: Any, agent: Any, name: str) -> bool:
    # An empty mapping says that no agent has ended.
    is_empty = isinstance(flags, Mapping) and not flags
    return not is_empty and _faults.flag(_of(flags, agent, name), f"{name} of {agent!r}")
