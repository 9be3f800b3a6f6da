"""What a run costs, and how fast it would be on a cluster."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from relive import _native
from relive.rl._run import _for_extension
from relive.rl._settings import count
from relive.rl._sources import name_of, source_of

# Bytes a second of a network of 10 Gbit/s.
_NETWORK = 1.25e9


@dataclass(frozen=True, kw_only=True)
class TableRate:
    """What goes through a table of the agent."""

    name: str
    inserts_per_s: float
    bytes_per_s: float
    samples_per_s: float


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What a run would come to.

    Attributes:
      env_steps_per_s: steps in the environment a second, of all workers together.
      learner_steps_per_s: steps of the learner a second.
      tables: what goes through the tables of the agent.
      sent_bytes_per_s: bytes a second of experience from workers to the learner's machine.
      weights_bytes_per_s: bytes a second of weights from there to workers.
      busy_processors: processors that the run keeps busy, those of all machines together.
      uses: how much is used of what there is, from 0 to 1, most first.
    """

    env_steps_per_s: float
    learner_steps_per_s: float
    tables: tuple[TableRate, ...]
    sent_bytes_per_s: float
    weights_bytes_per_s: float
    busy_processors: float
    uses: Mapping[str, float]

    @property
    def bottleneck(self) -> str:
        """What would have to be more for the run to be faster."""
        return next(iter(self.uses))


@dataclass(frozen=True)
class Costs:
    """What the parts of a run cost, as :meth:`measure` has found it on a machine.

    >>> costs = Costs.measure(rl.PPO(), "CartPole-v1")  # doctest: +SKIP
    >>> costs.predict(nodes=4, actors=64, envs=64).env_steps_per_s  # doctest: +SKIP
    """

    _json: str = field(repr=False)

    @classmethod
    def measure(cls, agent: Any, env: Any, *, seconds: float = 3.0) -> Costs:
        """Runs an agent for some seconds, with one worker behind a connection, and counts what each thread takes of a processor.

        Args:
          agent: as :func:`relive.rl.run` takes it.
          env: the same; one that can be made more than once.
          seconds: how long the run is measured, once its learner has begun.

        Raises:
          ValueError: the learner has not begun within two minutes; the system does not tell what threads take, as Linux does; what
            :func:`relive.rl.run` refuses.
          Exception: whatever the environment or the agent raises.
        """
        if not seconds > 0.0:
            raise ValueError(f"seconds must be above 0, got {seconds!r}")
        native, _ = _for_extension(agent, 1, is_saved=False)
        return cls(_native.measure_costs(native, source_of(env), name_of(env), float(seconds)))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Costs:
        """Reads costs from a file that :meth:`save` or ``relive rl plan --costs`` has written, as on another machine.

        Raises:
          OSError: it cannot be read.
          ValueError: it has no costs of this version.
        """
        return cls(_native.load_costs(os.fspath(path)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes them to a file."""
        _native.save_costs(self._json, os.fspath(path))

    def as_dict(self) -> dict[str, Any]:
        """All that was measured; times in seconds of a processor, most of them for each step in the environment."""
        costs: dict[str, Any] = json.loads(self._json)
        return costs

    def predict(
        self, *, nodes: int = 1, actors: int, envs: int | None = None, cpus: float | None = None, network: float = _NETWORK
    ) -> Prediction:
        """How fast the run would be on machines like the one where this was measured.

        Args:
          nodes: machines, the one that learns among them.
          actors: workers, all machines together.
          envs: environments of all workers together; one each unless given.
          cpus: processors of each machine; those of the machine where this was measured unless given.
          network: bytes a second that the network takes to and from the machine that learns.

        Raises:
          ValueError: a cluster that cannot be.
        """
        actors = count("actors", actors, 1)
        size = (count("nodes", nodes, 1), actors, actors if envs is None else count("envs", envs, 1))
        told = json.loads(_native.predict_costs(self._json, size, None if cpus is None else float(cpus), float(network)))
        tables = tuple(TableRate(**table) for table in told.pop("tables"))
        uses = {use["what"]: use["share"] for use in told.pop("uses")}
        return Prediction(tables=tables, uses=uses, **told)
