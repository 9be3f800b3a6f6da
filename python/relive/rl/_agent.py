"""What the classes of all agents have."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Generic, TypeVar

from relive import _native
from relive.rl import _bridge
from relive.rl._progress import Line
from relive.rl._settings import Settings, count
from relive.rl._training import Progress, TrainingResult
from relive.rl.datasets import path_of
from relive.rl.policy import Policy

C = TypeVar("C", bound=Settings)


class Agent(Generic[C]):
    """An agent with its settings.

    Args:
      config: the settings; the defaults unless given. Its class gives those for an environment: ``for_environment``.
      overrides: settings by their names, instead of those of ``config``.

    Raises:
      TypeError: a setting that there is not, or of another type.
      ValueError: a setting out of its range.
    """

    _config_type: type[C]

    def __init__(self, config: C | None = None, **overrides: Any) -> None:
        self.config: C = dataclasses.replace(self._config_type() if config is None else config, **overrides)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config!r})"

    def _num_environments(self, actors: int) -> int:
        """How many environments a run acts in."""
        raise NotImplementedError

    def train(
        self,
        environment: Any,
        *,
        steps: int | None = None,
        seed: int = 1,
        actors: int = 0,
        learner_steps: int | None = None,
        data: Any = None,
        timeout: float | None = None,
        evaluate_every: int | None = None,
        evaluation_episodes: int = 10,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        checkpoint_every: int = 10_000,
        progress: bool | Progress | None = None,
    ) -> TrainingResult:
        """Learns by acting in an environment.

        A named environment runs in Rust, beside the interpreter. One of Gymnasium, or with dm_env's interface, is called from a
        thread of the run; Ctrl-C then ends the run at its next step. A second Ctrl-C does not wait for that.

        Args:
          environment: a name, such as ``"catch/0"``; an environment of Gymnasium, or with dm_env's interface; or a function from
            a seed to one of these. A single environment is not closed, and serves a run of one environment without evaluations:
            for the others there is the function.
          steps: steps in the environment, of all actors together. The run ends with the rollout that reaches the number. Not with ``data``.
          seed: everything random follows from it, but for what a given environment has begun with. With no actors, the same seed gives the same run.
          actors: threads that act beside the one that learns; 0: one thread does both in turn.
          learner_steps: ends the run after so many steps of the learner, if that is earlier.
          data: what to learn from instead of acting; needs ``learner_steps``: a folder of recorded episodes (``relive rl record``), a file of D4RL's layout as
            numpy's ``savez`` or HDF5 (by h5py) has it, a data set of Minari, or a mapping of such arrays. The environment is that of the evaluations.
            See :func:`relive.rl.arrays_of`.
          timeout: seconds after which the run ends early, with what it has by then.
          evaluate_every: steps from one evaluation without exploration to the next.
          evaluation_episodes: episodes of an evaluation.
          checkpoint_dir: the folder where the run is saved on its way, no bucket; it goes on from what is there, if that is of the same
            environment, seed and settings. Without actors of their own, native environments only.
          checkpoint_every: steps from one checkpoint to the next.
          progress: a function that gets the newest episode, up to twenty times per second; ``True`` for a line on stderr,
            which is also there by default if stderr is a terminal; ``False`` for nothing.

        Raises:
          TypeError: no environment, or values of it that are not supported; the error names their path.
          ValueError: a setting out of its range, an unknown name, actions that the agent cannot take, a checkpoint of another run, an
            observation or a reward that is NaN or infinite.
          Exception: whatever the environment or ``progress`` raises.
        """
        if data is not None:
            if steps is not None or learner_steps is None:
                raise ValueError("a run that learns from data makes no steps in the environment: give learner_steps instead of steps")
            steps = 0
        elif steps is None:
            raise TypeError("train() needs steps, or data and learner_steps")
        steps, seed = count("steps", steps, 0 if data is not None else 1), count("seed", seed)
        if learner_steps is not None:
            learner_steps = count("learner_steps", learner_steps, 1)
        actors, checkpoint_every = count("actors", actors), count("checkpoint_every", checkpoint_every, 1)
        evaluation_episodes = count("evaluation_episodes", evaluation_episodes, 1)
        if evaluate_every is not None:
            evaluate_every = count("evaluate_every", evaluate_every, 1)
        shares = self._num_environments(actors) == 1 and evaluate_every is None
        line = Line.of(progress, steps)
        try:
            with path_of(data) as path:
                result = _native.train_agent(
                    self.config.agent,
                    self.config._json(),
                    _bridge.source_of(environment, shares=shares),
                    name=_bridge.name_of(environment),
                    steps=steps,
                    seed=seed,
                    actors=actors,
                    learner_steps=learner_steps,
                    data=path,
                    timeout=timeout,
                    evaluation=None if evaluate_every is None else (evaluate_every, evaluation_episodes),
                    checkpoints=None if checkpoint_dir is None else (os.fspath(checkpoint_dir), checkpoint_every),
                    progress=line or (progress if callable(progress) else None),
                )
        finally:
            if line is not None:
                line.close()
        return TrainingResult.of(Policy(result["policy"]), result)
