"""Python environments in the extension's form: many environments at once, each in its own row, with leaves in lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from relive import nest
from relive.rl import _faults
from relive.rl._answers import FIRST, LAST, MID, Answers
from relive.rl.gymnasium_adapters import GymEnvironment
from relive.rl.specs import EnvironmentSpec, difference, for_extension, make_environment_spec
from relive.rl.wrappers import innermost

_NAMES = ("FIRST", "MID", "LAST")


class Part(Protocol):
    """Environments that are stepped together, each in its own row. After the end of an episode, the environment resets
    at the next step, which is FIRST."""

    rows: int
    agents: int
    """The number of agents whose episodes are parts of the same game."""
    spec: EnvironmentSpec
    called: str
    """The part's name in messages."""
    who: str
    """The part's name in messages, with its number if there are several parts."""
    environment: Any
    """The object that is stepped."""

    def reset(self, answers: Answers) -> None:
        """Starts an episode in each row."""

    def step(self, actions: list[Any], answers: Answers) -> None:
        """Takes one step in each row, with the leaves of the actions ``[rows, …]``."""


class Single:
    """A single environment with dm_env's interface, which occupies one row."""

    rows = agents = 1

    def __init__(self, environment: Any) -> None:
        self.spec = make_environment_spec(environment)
        self._environment = environment
        # The adapter itself reports the original environment's violations.
        self.adapter = environment if isinstance(environment, GymEnvironment) else None
        self.environment = environment if self.adapter is None else self.adapter.environment
        self.who = self.called = _faults.name_of(innermost(environment))
        self._spaces = None if self.adapter is not None else _faults.Spaces(environment, "observation_spec", "action_spec")
        _, self._fill_action = nest.filler(self.spec.actions)
        # A step before the first reset is a reset.
        self._last_type = LAST
        # Whether this part resets after the end of an episode, and checks step types and discounts. The adapter does.
        self.checks_rules = self.adapter is None

    def reset(self, answers: Answers) -> None:
        """Starts an episode."""
        time_step = self._environment.reset()
        if self._spaces is not None:
            self._spaces.expect_same(self.who)
        self._put(time_step, "reset", answers)

    def step(self, actions: list[Any], answers: Answers) -> None:
        """Takes one step, or resets after the end of an episode, because not all environments reset themselves."""
        if self.checks_rules and self._last_type == LAST:
            self.reset(answers)
        else:
            self._put(self._environment.step(self._fill_action([leaf[0] for leaf in actions])), "step", answers)

    def _put(self, time_step: Any, method: str, answers: Answers) -> None:
        try:
            given, reward, discount, observation = time_step
            step_type = int(given)
            answers.put(0, step_type, reward, discount)
            if self.checks_rules:
                self._expect_next(step_type, method)
                _faults.expect_discount(answers.discounts[0])
            answers.see(0, observation)
        except _faults.WRONG as error:
            raise _faults.wrong(self.who, method, error) from error

    def _expect_next(self, step_type: int, method: str) -> None:
        """Checks that a step type may follow the last one."""
        last, self._last_type = self._last_type, step_type
        if step_type not in (FIRST, MID, LAST):
            raise ValueError(f"the step type is {step_type}, but it must be FIRST (0), MID (1) or LAST (2)")
        if method == "reset" and step_type != FIRST:
            raise ValueError(f"the step type is {_NAMES[step_type]}, but a reset begins an episode with FIRST")
        if method == "step" and last == FIRST and step_type == FIRST:
            raise ValueError("FIRST follows FIRST: an episode has at least one step after its reset")


class Bridge:
    """Combines parts for the extension.

    Args:
      parts: the parts.
      owned: the environments to close with the bridge.

    Raises:
      ValueError: the parts have different specs.
    """

    def __init__(self, parts: Sequence[Part], owned: Sequence[Any] = ()) -> None:
        self._owned = owned
        spec = parts[0].spec
        for number, part in enumerate(parts):
            if part.spec != spec:
                raise ValueError(
                    f"environment {number} has a different spec than the first: {difference(part.spec, spec)}; all environments of a run "
                    "must have the same spec"
                )
        self.rows, self.called = sum(part.rows for part in parts), parts[0].called
        agents = {part.agents for part in parts}
        self.agents = agents.pop() if len(agents) == 1 else 1
        self.specs = for_extension(spec)
        self._answers = Answers(spec, self.rows)
        self._parts: list[tuple[Part, slice, Answers]] = []
        first = 0
        for part in parts:
            rows = slice(first, first + part.rows)
            self._parts.append((part, rows, self._answers.part(rows)))
            first += part.rows

    def reset(self) -> tuple[Any, Any, Any, list[Any]]:
        """Returns step types, rewards, discounts and the leaves of the observations."""
        for part, _, answers in self._parts:
            part.reset(answers)
        return self._answer()

    def step(self, actions: list[Any]) -> tuple[Any, Any, Any, list[Any]]:
        """Takes a step with the actions, which are passed as leaves, and returns the same values as :meth:`reset`."""
        for part, rows, answers in self._parts:
            part.step([leaf[rows] for leaf in actions], answers)
        return self._answer()

    def without_rules(self) -> Bridge:
        """Passes on what the environments return, even if it breaks the rules, which the caller checks."""
        for part, _, _ in self._parts:
            if isinstance(part, Single):
                part.checks_rules = False
        return self

    def owns(self, environment: Any) -> bool:
        """Returns whether the bridge will close this environment."""
        return any(environment is owned for owned in self._owned)

    def close(self) -> None:
        """Closes the environments that the bridge owns."""
        owned, self._owned = self._owned, ()
        for part, _, _ in self._parts:
            if any(part.environment is environment for environment in owned):
                _faults.close(part.environment, part.who)

    def _answer(self) -> tuple[Any, Any, Any, list[Any]]:
        answers = self._answers
        return answers.step_types, answers.rewards, answers.discounts, answers.observations
