"""Agents whose settings are defined in the Rust library; ``relive rl agents NAME`` prints these settings."""

from __future__ import annotations

import json
import math
from typing import Any, ClassVar, NoReturn, TypeVar

import numpy as np

from relive import _native
from relive.rl._agent import Agent
from relive.rl._setting_names import expect_known
from relive.rl._settings import UNCLIPPED, as_json, merged

A = TypeVar("A", bound="NamedAgent")


class _Named:
    """Converts an agent's settings to the extension's form."""

    __slots__ = ("agent", "_text")

    def __init__(self, agent: str, text: str) -> None:
        self.agent = agent
        self._text = text

    def _json(self) -> str:
        return self._text


class NamedAgent(Agent[Any]):
    """An agent with its settings; omitted settings have their defaults.

    A group of settings is passed as a mapping, which changes only the given entries:
    ``DQfD(demonstrations={"episodes": 10})``. ``max_abs_reward``, if the agent has this setting, may be ``None`` or
    infinite: rewards are then not clipped.

    Args:
      settings: the settings, by name.

    Raises:
      TypeError: an argument without a name.
      ValueError: a setting does not exist, has the wrong type, or is out of range.
    """

    _name: ClassVar[str]
    # The value of ``max_abs_reward`` that disables clipping.
    _unclipped: ClassVar[float | None] = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "_name" in vars(cls):
            cls.__doc__ = f"{cls.__doc__}\n\n    Settings are passed by name. All of them, with their defaults: ``rl.{cls.__name__}().settings``."

    def __init__(self, *unnamed: NoReturn, **settings: Any) -> None:
        if unnamed:
            name = type(self).__name__
            raise TypeError(
                f"the first argument of {name} is {unnamed[0]!r}, but all arguments of {name} have names; give settings by name, also those "
                f"of the network: {name}(hidden=(64, 64)); give the environment to train()"
            )
        if "max_abs_reward" in settings and _is_unbounded(settings["max_abs_reward"]):
            settings["max_abs_reward"] = self._unclipped
        try:
            text = _native.agent_settings(self._name, as_json(settings))
        except ValueError:
            known = json.loads(_native.agent_settings(self._name, "{}"))
            expect_known(type(self).__name__, settings, known, error=ValueError)
            raise
        self.config = _Named(self._name, text)

    @property
    def settings(self) -> dict[str, Any]:
        """A copy of all settings, by name."""
        settings: dict[str, Any] = json.loads(self.config._json())
        return settings

    @classmethod
    def for_environment(cls: type[A], name: str, **settings: Any) -> A:
        """Returns the agent with tuned settings; see :meth:`Agent.for_environment`."""
        return cls(**merged(json.loads(_native.agent_for_environment(cls._name, name)), settings))

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.settings)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.settings.items())})"

    def _num_environments(self, actors: int) -> int:
        return max(1, actors, int(self.settings.get("num_envs", 1)))


def _is_unbounded(value: Any) -> bool:
    return value is None or (isinstance(value, (float, np.floating)) and value == math.inf)


def _again(agent: type[Any], settings: dict[str, Any]) -> Any:
    return agent(**settings)


class ApeX(NamedAgent):
    """Ape-X DQN (Horgan et al. 2018): each actor explores to a different degree. For discrete actions."""

    _name = "apex"
    _unclipped = UNCLIPPED


class APPO(NamedAgent):
    """Asynchronous PPO with V-trace: actors do not wait for the learner. For discrete and continuous actions."""

    _name = "appo"


class BC(NamedAgent):
    """Behavioral cloning of recorded episodes. For discrete actions and bounded continuous actions."""

    _name = "bc"


class BCQ(NamedAgent):
    """Batch-constrained Q-learning (Fujimoto et al. 2019b): offline, restricted to likely actions. For discrete
    actions."""

    _name = "bcq"


class CQL(NamedAgent):
    """Conservative Q-learning from recorded episodes (Kumar et al. 2020). For bounded continuous actions."""

    _name = "cql"


class CRR(NamedAgent):
    """Critic-regularized regression from recorded episodes (Wang et al. 2020). For bounded continuous actions."""

    _name = "crr"


class IQL(NamedAgent):
    """Implicit Q-learning from recorded episodes (Kostrikov et al. 2022). For bounded continuous actions."""

    _name = "iql"


class TD3BC(NamedAgent):
    """TD3 with a behavioral-cloning term, offline (Fujimoto and Gu 2021). For bounded continuous actions."""

    _name = "td3-bc"


class D4PG(NamedAgent):
    """DDPG with a distribution of returns (Barth-Maron et al. 2018). For bounded continuous actions."""

    _name = "d4pg"


class DDPG(NamedAgent):
    """Deep deterministic policy gradient (Lillicrap et al. 2016). For bounded continuous actions."""

    _name = "ddpg"


class DMPO(NamedAgent):
    """MPO with a distribution of returns. For bounded continuous actions."""

    _name = "dmpo"


class DQfD(NamedAgent):
    """DQN that also learns from demonstrations (Hester et al. 2018). For discrete actions."""

    _name = "dqfd"
    _unclipped = UNCLIPPED


class IMPALA(NamedAgent):
    """Actor-critic with actors that do not wait for the learner, corrected by V-trace (Espeholt et al. 2018). For discrete
    and continuous actions."""

    _name = "impala"


class MCTS(NamedAgent):
    """Tree search in the environment or a learned model, guided by a network, as in AlphaZero. For discrete actions."""

    _name = "mcts"


class MPO(NamedAgent):
    """Maximum a posteriori policy optimization (Abdolmaleki et al. 2018). For bounded continuous actions."""

    _name = "mpo"


class R2D2(NamedAgent):
    """Recurrent Q-learning (Kapturowski et al. 2019). For discrete actions.

    >>> result = R2D2.for_environment("memory_len/3").train("memory_len/3", steps=3_500)  # doctest: +SKIP
    """

    _name = "r2d2"


class R2D3(NamedAgent):
    """R2D2 that also learns from demonstrations (Paine et al. 2019). For discrete actions."""

    _name = "r2d3"


class Rainbow(NamedAgent):
    """DQN with a distribution of returns, noisy networks and a duelling head (Hessel et al. 2018). For discrete
    actions."""

    _name = "rainbow"
    _unclipped = UNCLIPPED


class TD3(NamedAgent):
    """Twin delayed DDPG (Fujimoto et al. 2018). For bounded continuous actions."""

    _name = "td3"
