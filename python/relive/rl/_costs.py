"""The cost of a run, and a forecast of its speed on a cluster."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from relive import _native
from relive._numbers import count
from relive.rl._run_parts import for_extension
from relive.rl._sources import name_of, source_of
from relive.rl._torch_threads import TorchThreads

# The bandwidth of a 10 Gbit/s network, in bytes per second.
_NETWORK = 1.25e9


@dataclass(frozen=True, kw_only=True)
class TableRate:
    """The traffic of a table of the agent."""

    name: str
    inserts_per_s: float
    bytes_per_s: float
    samples_per_s: float


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The forecast of a run.

    Attributes:
      env_steps_per_s: environment steps per second, over all workers.
      learner_steps_per_s: learner steps per second.
      tables: the traffic of the agent's tables.
      sent_bytes_per_s: bytes per second of experience from workers to the learner's machine.
      weights_bytes_per_s: bytes per second of weights from the learner's machine to workers.
      busy_processors: the number of processors that the run keeps busy, over all machines.
      uses: the utilization of each resource, from 0 to 1, highest first.
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
        """The resource that limits the run's speed."""
        return next(iter(self.uses))


@dataclass(frozen=True)
class Costs:
    """The costs of the parts of a run, measured on a machine by :meth:`measure`.

    >>> costs = Costs.measure(rl.PPO(), "CartPole-v1")  # doctest: +SKIP
    >>> costs.predict(nodes=4, actors=64, envs=64).env_steps_per_s  # doctest: +SKIP
    """

    _json: str = field(repr=False)

    @classmethod
    def measure(cls, agent: Any, env: Any, *, seconds: float = 3.0) -> Costs:
        """Runs an agent for a few seconds, with one worker that is connected like a worker in another process, and
        measures the processor time of each thread.

        Args:
          agent: as for :func:`relive.rl.run`.
          env: as for :func:`relive.rl.run`; it must be possible to create it more than once.
          seconds: the duration of the measurement, once the learner has started.

        Raises:
          ValueError: the learner has not started within two minutes; the system, unlike Linux, does not report the
            processor time of threads; or :func:`relive.rl.run` rejects an argument.
          Exception: the environment or the agent raised an exception.
        """
        if not seconds > 0.0:
            raise ValueError(f"seconds must be above 0, got {seconds!r}")
        native, _ = for_extension(agent, 1, is_saved=False, torch_threads=TorchThreads(has_actors=True))
        return cls(_native.measure_costs(native, source_of(env), name_of(env), float(seconds)))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Costs:
        """Loads costs from a file written by :meth:`save` or ``relive rl plan --costs``, possibly on another machine.

        Raises:
          OSError: the file cannot be read.
          ValueError: the file has no costs in this version's format.
        """
        return cls(_native.load_costs(os.fspath(path)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the costs to a file."""
        _native.save_costs(self._json, os.fspath(path))

    def as_dict(self) -> dict[str, Any]:
        """Returns all measurements; times are in processor seconds, most of them per environment step."""
        costs: dict[str, Any] = json.loads(self._json)
        return costs

    def predict(
        self, *, nodes: int = 1, actors: int, envs: int | None = None, cpus: float | None = None, network: float = _NETWORK
    ) -> Prediction:
        """Forecasts the speed of the run on machines like the measured one.

        Args:
          nodes: the number of machines, including the learner's.
          actors: the number of workers on all machines together.
          envs: the number of environments of all workers together; by default one for each worker.
          cpus: the number of processors of each machine; by default the same as the measured machine.
          network: the bandwidth to and from the learner's machine, in bytes per second.

        Raises:
          ValueError: the arguments describe an impossible cluster.
        """
        actors = count("actors", actors, 1)
        size = (count("nodes", nodes, 1), actors, actors if envs is None else count("envs", envs, 1))
        prediction = json.loads(_native.predict_costs(self._json, size, None if cpus is None else float(cpus), float(network)))
        tables = tuple(TableRate(**table) for table in prediction.pop("tables"))
        uses = {use["what"]: use["share"] for use in prediction.pop("uses")}
        return Prediction(tables=tables, uses=uses, **prediction)
