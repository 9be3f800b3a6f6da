"""Runs of agents, in Rust and in Python."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from relive import _native
from relive.rl._given import is_source
from relive.rl._hooks import OnBatch, OnEvaluation, OnStep, hooks_of
from relive.rl._progress import Display, Shown, display_of
from relive.rl._reports import Reports
from relive.rl._run_options import Checked, On, checked_loggers, supports
from relive.rl._run_parts import Parts
from relive.rl._sources import name_of
from relive.rl._torch_threads import release_pool
from relive.rl._training import Progress, TrainingResult
from relive.rl.datasets import path_of
from relive.rl.loggers import Logger
from relive.rl.policy import Policy

if TYPE_CHECKING:
    from relive.ray import Workers
    from relive.rl.contracts import Agent


def run(
    agent: Agent | Any,
    env: Any,
    *,
    steps: int | None = None,
    on: On | Workers | None = None,
    actors: int | None = None,
    learners: int = 1,
    seed: int = 1,
    learner_steps: int | None = None,
    data: Any = None,
    timeout: float | None = None,
    evaluate_every: int | None = None,
    evaluation_episodes: int = 10,
    evaluation_env: Any = None,
    checkpoint_dir: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 10_000,
    warm_start: str | os.PathLike[str] | None = None,
    loggers: Iterable[Logger] = (),
    progress: bool | Display | Progress | None = None,
    on_step: OnStep | None = None,
    on_batch: OnBatch | None = None,
    on_evaluation: OnEvaluation | None = None,
) -> TrainingResult:
    """Trains an agent in an environment.

    A named environment runs in Rust, without the interpreter. An environment in Python is called by a thread of the
    run, once per step of all its rows. Ctrl-C ends the run at its next step with a ``KeyboardInterrupt``, whose attribute
    ``result`` is the :class:`TrainingResult` so far. A second Ctrl-C ends the run without waiting for this step, and
    without a result.

    The agent determines the number of environments, which are divided among its workers. A Gymnasium vector
    (``gymnasium.vector``, or :class:`relive.rl.vector.ProcessVectorEnv`) counts as one environment per row, and a
    PettingZoo parallel environment as one environment per agent.

    Args:
      agent: an agent in Rust, such as ``rl.DQN()``, or a custom agent: see ``relive.rl.contracts.Agent``.
      env: the name of a native environment, such as ``"catch/0"``, or of any other that Gymnasium has, such as
        ``"LunarLander-v3"``; an environment with Gymnasium's or dm_env's interface; a vector of Gymnasium environments;
        a PettingZoo parallel environment (its agents must have the same spaces, and share the policy); a class of one of
        these, which is called without arguments, or with ``seed=`` if it has that parameter; a function that takes a
        seed and returns one of these; or a list of functions without arguments, each of which creates one, as for
        ``gymnasium.vector``. A ready-made environment is not closed, and works only with one worker and without
        evaluations; otherwise pass a name or a function.
      steps: the number of environment steps of all actors together. The run ends with the rollout that reaches this
        number. Not available with ``data``.
      on: where workers run. ``"serial"``: one thread alternates between acting and learning, and the same seed
        reproduces the same run. ``"threads"``: ``actors`` threads act alongside the learner thread. ``"processes"``:
        ``actors`` processes act. They start as in :mod:`multiprocessing`: the agent and the environment are pickled,
        and the program must be guarded with ``if __name__ == "__main__":``. In a notebook, functions and classes of its
        cells are sent with the package cloudpickle. ``"ray"``, or :class:`relive.ray.Workers`: ``actors`` Ray actors
        act. The default is threads if there are actors.
      actors: the number of workers in addition to the learner thread; by default 2 with threads, processes and Ray.
      learners: the number of learners that share one set of weights, including this process; the other learners are
        processes on this machine, which start as with ``on="processes"``. With several learners, ``actors`` must be at
        least 1; it is then 2 by default. Rollouts are divided among the learners; with a replay table, each learner
        samples its own batches.
      seed: the seed of all randomness, except for the initial state of a given environment.
      learner_steps: the number of learner steps after which the run ends, if it reaches this number before ``steps``.
      data: the data to learn from instead of acting; needs ``learner_steps``: a folder of recorded episodes
        (``relive rl record``), a file in D4RL's layout as numpy's ``savez`` or HDF5 (with h5py), a Minari data set, or
        a mapping of such arrays. The environment is then only used for evaluations. See :func:`relive.rl.arrays_of`. To
        resume the run, give the same data: its episodes are compared, not its path or its format. A custom agent also
        learns from an iterator of batches, such as a ``relive.gpu.Loader``: its learner receives each batch unchanged,
        and its ``Learnt.priorities`` are the new weights of the store's trajectories.
      timeout: the number of seconds after which the run ends early, with its current result and without a last
        evaluation.
      evaluate_every: the number of steps between evaluations without exploration.
      evaluation_episodes: the number of episodes of an evaluation. In a parallel environment, the episodes of all agents
        count, and each agent plays equally many.
      evaluation_env: the environment of the evaluations, as in ``env``; by default ``env``. It must have the same
        observations and actions, and usually lacks the wrappers that help to learn, such as one that clips rewards.
      checkpoint_dir: the folder for the checkpoints that are written during the run and at its end; not a bucket. The
        run resumes from a checkpoint there if it has the same environment, seed, settings and ``data``. Python
        environments, and environments of threads and processes, reset when a run resumes; Python environments are also
        created anew after each checkpoint of a run in one thread. Everything else continues unchanged. ``on`` and
        ``actors`` may differ. If the last checkpoint cannot be written, the exception has the attribute ``result``.
      checkpoint_every: the number of steps between checkpoints. In one thread with Python environments, a checkpoint
        waits until as many episodes have ended since the last one as there are environments, but for at most nine
        intervals.
      warm_start: the ``checkpoint_dir`` of an earlier run, or one of its checkpoint files. A new run begins with the
        learner (networks, optimizer, statistics) of that run. The earlier run had the same agent, observations and
        actions, and networks of the same shapes; other settings, the environment and the seed may differ. Steps,
        schedules and the replay table begin anew. Without effect on a run that resumes from its own ``checkpoint_dir``.
      loggers: loggers that receive every episode and, at intervals, the learner's reports: see ``relive.rl.loggers``.
        They are closed at the end of the call, also after an error, except if one of them is not a logger.
      progress: the display of the run's progress: ``"line"`` on stderr, a ``"tqdm"`` or ``"rich"`` progress bar, which
        requires the package of that name, or ``"notebook"``, a curve of the returns that Jupyter redraws at most once a
        second. ``True`` is the curve in Jupyter and the line elsewhere; this is the default in Jupyter and if stderr is
        a terminal. ``False``: none. A function is called with the newest episode, up to twenty times per second.
      on_step: a function that receives the latest steps of a worker, as a :class:`relive.rl.Rollout`, before they are
        stored or learned from: one step in each of its environments if the agent has a replay table, otherwise a whole
        rollout. It is not called during evaluations, or if the workers are processes. Several threads call it one at a
        time.
      on_batch: a function that receives each batch after the learner has learned from it, and a mapping of the
        learner's metrics. The batch is a :class:`relive.Batch`, or for agents without a replay table a
        :class:`relive.rl.Rollout`; with demonstrations it is a pair: the agent's own batch, and the demonstrations. Its
        arrays are copies. It is not called for A3C, because A3C's workers compute the gradients.
      on_evaluation: a function that receives each evaluation as a :class:`relive.rl.Evaluation`, and the policy that was
        evaluated, for example to save the best one. If it returns ``True``, the run ends as at its last step: it writes
        its checkpoint and returns its result.

    Raises:
      TypeError: the environment is of an unsupported kind, or has unsupported values; the error names their path. An
        agent, a policy or a learner lacks a method; the error names it. ``loggers`` is not a list of loggers.
      ValueError: a setting that is out of range, an unknown name, actions that the agent does not support, a checkpoint
        from another run, an observation or a reward that is NaN or infinite; or arrays from a policy with an unexpected
        shape or data type.
      ImportError: the package of a display, or of the data, is not installed.
      Exception: the environment, the agent, a logger, ``progress`` or a hook raised an exception.
    """
    options = {name: value for name, value in locals().items() if name not in ("agent", "env", "loggers")}
    loggers = checked_loggers(loggers)
    result: dict[str, Any] | None = None
    own = None if hasattr(agent, "_for_extension") else agent
    again = None
    try:
        with contextlib.ExitStack() as closing:
            for logger in loggers:
                closing.callback(logger.close)
            checked = Checked.of(options)
            if is_source(data) and on_batch is not None:
                raise ValueError("on_batch sees batches from tables, but this run has its own source of batches; inspect them in the learner")
            parts = Parts.of(agent, env, evaluation_env, data, checked, closing)
            display = display_of(progress, checked.steps, checked.learner_steps)
            if display is not None:
                closing.callback(display.close)
                loggers.append(display)
            if checked.checkpoints is not None:
                again = functools.partial(_resumed, agent, env, {**options, "checkpoint_dir": checked.checkpoints[0]})
            result = _train(agent, env, checked, parts, loggers, options)
            if isinstance(display, Shown):
                display.complete({name: result[name] for name in ("env_steps", "learner_steps")})
    except BaseException as error:
        # An interrupt, or a logger that failed, possibly when it was closed.
        found = vars(error).pop("_relive_result", result)
        if found is not None:
            vars(error)["result"] = TrainingResult.of(Policy(found["policy"], own), found, again)
        raise
    return TrainingResult.of(Policy(result["policy"], own), result, again)


def _train(
    agent: Any, env: Any, checked: Checked, parts: Parts, loggers: list[Logger], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Trains the agent, and returns the extension's result. An error that a worker has caused is the worker's error."""
    progress = options["progress"]
    try:
        release_pool()
        with path_of(parts.data) as path:
            return _native.train_agent(
                parts.agent,
                parts.environments,
                name=name_of(env),
                steps=checked.steps,
                seed=checked.seed,
                actors=checked.actors,
                learners=checked.learners,
                learner_steps=checked.learner_steps,
                data=path,
                timeout=checked.timeout,
                evaluation=checked.evaluation,
                evaluation_environment=parts.evaluation_environment,
                checkpoints=checked.checkpoints,
                warm_start=checked.warm_start,
                progress=progress if callable(progress) else None,
                reports=Reports(loggers) if loggers else None,
                supervisor=parts.supervisor,
                **hooks_of(agent, options["on_step"], options["on_batch"], options["on_evaluation"]),
            )
    except Exception as error:
        # Caught here, since a further frame would make the extension's errors look like those of Python code.
        if parts.supervisor is not None:
            parts.supervisor.raise_failure(after=error)
        raise


def _resumed(agent: Any, env: Any, options: dict[str, Any], **changed: Any) -> TrainingResult:
    """Continues a run with these options, some of which have changed."""
    options = {**options, **changed}
    # If the new kind of workers does not support the previous number of actors, its default is used.
    if "actors" not in changed and not supports(options["on"], options["actors"]):
        options["actors"] = None
    return run(agent, env, **options)
