"""The base class of all agents."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from relive.rl._run import run
from relive.rl._setting_names import expect_known, expect_options, names_of
from relive.rl._settings import Settings, merged
from relive.rl._training import TrainingResult

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from relive.rl._run_options import RunOptions

A = TypeVar("A", bound="Agent[Any]")
C = TypeVar("C", bound=Settings)


class Agent(Generic[C]):
    """An agent with its settings.

    Args:
      config: the settings; by default the agent's defaults.
      overrides: settings by name, which override those of ``config``.

    Raises:
      TypeError: a setting that does not exist, or has the wrong type.
      ValueError: a setting that is out of range.
    """

    _config_type: type[C]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        settings = vars(cls).get("_config_type")
        if settings is not None:
            # What help() and notebooks show: the settings with their defaults.
            named = (parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in inspect.signature(settings).parameters.values())
            config = inspect.Parameter("config", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)
            cls.__signature__ = inspect.Signature([config, *named])  # type: ignore[attr-defined]
            cls.__doc__ = f"{cls.__doc__}\n    Settings are those of :class:`{settings.__name__}`."

    def __init__(self, config: C | None = None, **overrides: Any) -> None:
        self._expect_known(overrides)
        self._expect_config(config)
        self.config: C = dataclasses.replace(self._config_type() if config is None else config, **overrides)

    @classmethod
    def for_environment(cls: type[A], name: str, **settings: Any) -> A:
        """Returns the agent with tuned settings for a known environment, such as ``"CartPole-v1"``, otherwise with the
        defaults. The given settings, and the given entries of groups, take precedence."""
        cls._expect_known(settings)
        tuned = cls._config_type.for_environment(name)
        return cls(cls._config_type(**merged(dataclasses.asdict(tuned), settings)))

    @classmethod
    def _expect_known(cls, settings: Iterable[str]) -> None:
        expect_known(cls.__name__, settings, names_of(cls._config_type))

    @classmethod
    def _expect_config(cls, config: Any) -> None:
        if config is not None and not isinstance(config, cls._config_type):
            raise TypeError(
                f"the first argument of {cls.__name__} is {config!r}, but it must be a {cls._config_type.__name__}, or be omitted; give "
                f"settings by name, also those of the network: {cls.__name__}(hidden=(64, 64)); give the environment to train()"
            )

    @property
    def settings(self) -> dict[str, Any]:
        """A copy of all settings, by name. The same settings create the same agent: ``DQN(**agent.settings)``."""
        return dataclasses.asdict(self.config)

    def __eq__(self, other: object) -> bool:
        """Returns whether the other agent is of the same class, and has equal settings."""
        return isinstance(other, Agent) and other._key() == self._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[type[Any], str]:
        return type(self), self.config._json()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config!r})"

    def _num_environments(self, actors: int) -> int:
        """Returns the number of environments in a run."""
        raise NotImplementedError

    def _for_extension(self, actors: int) -> tuple[tuple[str, str], int]:
        """Returns the agent's name and settings in the extension's form, and the number of environments in a run."""
        return (self.config.agent, self.config._json()), self._num_environments(actors)

    def train(self, environment: Any, **options: Unpack[RunOptions]) -> TrainingResult:
        """Trains the agent in an environment by calling :func:`relive.rl.run`, which describes the options."""
        expect_options(type(self).__name__, options, self.settings)
        return run(self, environment, **options)
