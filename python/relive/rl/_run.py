"""Runs of agents, in Rust and in Python."""

from __future__ import annotations

import contextlib
import functools
import numbers
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from relive import _native
from relive._numbers import count
from relive.rl._given import SourceBridge, is_source
from relive.rl._hooks import OnBatch, OnStep, hooks_of
from relive.rl._own import in_extension_form
from relive.rl._progress import Display, Shown, display_of
from relive.rl._reports import Reports
from relive.rl._sources import COUNTS, Source, expect_enough, name_of, source_of
from relive.rl._torch_threads import TorchThreads, release_pool
from relive.rl._training import Progress, TrainingResult
from relive.rl.datasets import path_of
from relive.rl.loggers import Logger
from relive.rl.policy import Policy

if TYPE_CHECKING:
    from relive.ray import Workers
    from relive.rl._workers import Launcher
    from relive.rl.contracts import Agent


On = Literal["serial", "threads", "processes", "ray"]


class RunOptions(TypedDict, total=False):
    """The keyword arguments of :func:`run`."""

    steps: int | None
    on: On | Workers | None
    actors: int | None
    learners: int
    seed: int
    learner_steps: int | None
    data: Any
    timeout: float | None
    evaluate_every: int | None
    evaluation_episodes: int
    checkpoint_dir: str | os.PathLike[str] | None
    checkpoint_every: int
    loggers: Iterable[Logger]
    progress: bool | Display | Progress | None
    on_step: OnStep | None
    on_batch: OnBatch | None


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
    checkpoint_dir: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 10_000,
    loggers: Iterable[Logger] = (),
    progress: bool | Display | Progress | None = None,
    on_step: OnStep | None = None,
    on_batch: OnBatch | None = None,
) -> TrainingResult:
    """Trains an agent in an environment.

    A named environment runs in Rust, without the interpreter. An environment in Python is called by a thread of the
    run, once per step of all its rows; Ctrl-C then ends the run at its next step. A second Ctrl-C ends the run without
    waiting for this step.

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
        and the program must be guarded with ``if __name__ == "__main__":``. ``"ray"``, or :class:`relive.ray.Workers`:
        ``actors`` Ray actors act. The default is threads if there are actors.
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
      evaluation_episodes: the number of episodes of an evaluation.
      checkpoint_dir: the folder for the checkpoints that are written during the run and at its end; not a bucket. The
        run resumes from a checkpoint there if it has the same environment, seed, settings and ``data``. Python
        environments, and environments of threads and processes, reset when a run resumes, and after each checkpoint of
        a run in one thread; everything else continues unchanged. ``on`` and ``actors`` may differ.
      checkpoint_every: the number of steps between checkpoints.
      loggers: loggers that receive every episode and, at intervals, the learner's reports: see ``relive.rl.loggers``.
        They are closed at the end of the call, also after an error, except if one of them is not a logger.
      progress: the display of the run's progress: ``"line"`` on stderr, a ``"tqdm"`` or ``"rich"`` progress bar, which
        requires the package of that name, or ``"notebook"``, a curve of the returns that Jupyter redraws once a second.
        ``True`` is the curve in Jupyter and the line elsewhere; this is the default in Jupyter and if stderr is a
        terminal. ``False``: none. A function is called with the newest episode, up to twenty times per second.
      on_step: a function that receives the latest steps of a worker, as a :class:`relive.rl.Rollout`, before they are
        stored or learned from: one step in each of its environments if the agent has a replay table, otherwise a whole
        rollout. It is not called during evaluations, or if the workers are processes. Several threads call it one at a
        time.
      on_batch: a function that receives each batch after the learner has learned from it, and a mapping of the
        learner's metrics. The batch is a :class:`relive.Batch`, or for agents without a replay table a
        :class:`relive.rl.Rollout`; with demonstrations it is a pair: the agent's own batch, and the demonstrations. Its
        arrays are copies. It is not called for A3C, because A3C's workers compute the gradients.

    Raises:
      TypeError: the environment is of an unsupported kind, or has unsupported values; the error names their path. An
        agent, a policy or a learner lacks a method; the error names it. ``loggers`` is not a list of loggers.
      ValueError: a setting that is out of range, an unknown name, actions that the agent does not support, a checkpoint
        from another run, an observation or a reward that is NaN or infinite; or arrays from a policy with an unexpected
        shape or data type.
      ImportError: the package of a display, or of the data, is not installed.
      Exception: the environment, the agent, a logger, ``progress`` or a hook raised an exception.
    """
    options = {name: value for name, value in locals().items() if name not in ("agent", "env", "steps", "loggers")}
    loggers = _loggers(loggers)
    with contextlib.ExitStack() as closing:
        for logger in loggers:
            closing.callback(logger.close)
        steps = _steps(steps, learner_steps, data)
        learners = _learners(learners, on, data)
        seed, actors = count("seed", seed), _actors(on, 2 if actors is None and learners > 1 else actors)
        if learners > 1 and not actors:
            raise ValueError(f"learners is {learners}, but it must be 1 without actors: a single thread that acts and learns cannot wait for "
                             "other learners")
        if learner_steps is not None:
            learner_steps = count("learner_steps", learner_steps, 1)
        _expect_seconds(timeout)
        folder, checkpoint_every = _folder(checkpoint_dir), count("checkpoint_every", checkpoint_every, 1)
        evaluation_episodes = count("evaluation_episodes", evaluation_episodes, 1)
        if evaluate_every is not None:
            evaluate_every = count("evaluate_every", evaluate_every, 1)
        data, batches = (None, SourceBridge(data, is_saved=checkpoint_dir is not None)) if is_source(data) else (data, None)
        if batches is not None and on_batch is not None:
            raise ValueError("on_batch sees batches from tables, but this run has its own source of batches; inspect them in the learner")
        torch_threads = TorchThreads(has_actors=actors > 0, learners=learners)
        native, environments = _for_extension(
            agent, actors, is_saved=checkpoint_dir is not None or learners > 1, source=batches, torch_threads=torch_threads
        )
        source = source_of(env, acts_here=on in (None, "serial", "threads") or evaluate_every is not None)
        expect_enough(env, environments, is_shared=actors <= 1 and evaluate_every is None and on in (None, "serial", "threads"))
        if isinstance(source, Source):
            closing.callback(source.close)
        supervisor = _supervisor(agent, env, on, actors, learners)
        if supervisor is not None:
            closing.callback(supervisor.close)
        display = display_of(progress, steps, learner_steps)
        if display is not None:
            closing.callback(display.close)
            loggers.append(display)
        try:
            release_pool()
            with path_of(data) as path:
                result = _native.train_agent(
                    native,
                    source,
                    name=name_of(env),
                    steps=steps,
                    seed=seed,
                    actors=actors,
                    learners=learners,
                    learner_steps=learner_steps,
                    data=path,
                    timeout=timeout,
                    evaluation=None if evaluate_every is None else (evaluate_every, evaluation_episodes),
                    checkpoints=None if folder is None else (folder, checkpoint_every),
                    progress=progress if callable(progress) else None,
                    reports=Reports(loggers) if loggers else None,
                    supervisor=supervisor,
                    **hooks_of(agent, on_step, on_batch),
                )
            if isinstance(display, Shown):
                display.complete({name: result[name] for name in ("env_steps", "learner_steps")})
        except Exception as error:
            if supervisor is not None:
                supervisor.raise_failure(after=error)
            raise
    own = None if hasattr(agent, "_for_extension") else agent
    again = functools.partial(_resumed, agent, env, options) if checkpoint_dir is not None else None
    return TrainingResult.of(Policy(result["policy"], own), result, again)


def _resumed(agent: Any, env: Any, options: dict[str, Any], **changed: Any) -> TrainingResult:
    """Continues a run with these options, some of which have changed."""
    options = {**options, **changed}
    # If the new kind of workers does not support the previous number of actors, its default is used.
    if "actors" not in changed and not _supports(options["on"], options["actors"]):
        options["actors"] = None
    return run(agent, env, **options)


def _loggers(given: Any) -> list[Logger]:
    """Returns the loggers, after a check of their methods."""
    found: list[Any] = list(given) if isinstance(given, Iterable) else [None]
    if not all(callable(getattr(logger, name, None)) for logger in found for name in ("write", "close")):
        raise TypeError(f"loggers must be a list of loggers, such as [loggers.JSONL(path)], but got {given!r}")
    for logger in found:
        if hasattr(logger, "mark") and not hasattr(logger, "truncate"):
            raise TypeError(f"{type(logger).__qualname__} has the method mark, but lacks truncate, with which a resumed run removes the "
                            "entries after its last checkpoint")
    return found


def _steps(steps: int | None, learner_steps: int | None, data: Any) -> int:
    if data is None:
        if steps is None:
            raise TypeError("give steps, or data and learner_steps")
        return count("steps", steps, 1)
    if steps is not None or learner_steps is None:
        raise ValueError("a run that learns from data does not act; give learner_steps instead of steps")
    return 0


def _expect_seconds(timeout: Any) -> None:
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, numbers.Real)):
        raise TypeError(f"timeout is {timeout!r}, but it must be a number of seconds, or None")


def _folder(checkpoint_dir: Any) -> str | None:
    if checkpoint_dir is None:
        return None
    folder = os.fspath(checkpoint_dir) if isinstance(checkpoint_dir, (str, os.PathLike)) else None
    if not isinstance(folder, str):
        raise TypeError(f"checkpoint_dir is {checkpoint_dir!r}, but it must be the path of a folder, or None")
    if not folder:
        raise ValueError("checkpoint_dir is '', but it must be the path of a folder; '.' is the current folder")
    return folder


def _actors(on: Any, actors: int | None) -> int:
    if on not in (None, *get_args(On)) and not hasattr(on, "_launcher"):
        raise ValueError(f"on is {on!r}, but it must be 'serial', 'threads', 'processes', 'ray' or a relive.ray.Workers")
    number = count("actors", actors if actors is not None else 0 if on in (None, "serial") else 2)
    if not _supports(on, number):
        raise ValueError(
            f"actors is {number}, but on='serial' does not support actors: one thread acts and learns; omit actors, or give on='threads'"
            if number
            else f"actors is 0, but on={on!r} needs at least 1; omit actors for the default, or give on='serial' to act in the learner's thread"
        )
    return number


def _supports(on: Any, actors: int | None) -> bool:
    """Returns whether workers of this kind support this number of actors; without a kind, any number is supported."""
    return on is None or actors is None or (on == "serial") == (actors == 0)


def _learners(learners: int, on: Any, data: Any) -> int:
    learners = count("learners", learners, 1)
    if learners == 1:
        return learners
    if data is not None:
        raise ValueError(f"learners is {learners}, but it must be 1 for a run that learns from data, because only one process reads the "
                         "data")
    if on == "serial":
        raise ValueError(f"learners is {learners}, but it must be 1 with on='serial': a single thread that acts and learns cannot wait "
                         "for other learners")
    return learners


def _for_extension(
    agent: Any, actors: int, *, is_saved: bool, torch_threads: TorchThreads, source: SourceBridge | None = None
) -> tuple[Any, int]:
    """Returns the agent in the extension's form, and the number of environments of a run."""
    is_native = hasattr(agent, "_for_extension")
    if is_native and source is not None:
        raise TypeError(
            f"{type(agent).__name__} learns from transitions, but data is an iterator of batches; give a data set, such as a "
            "relive.gpu.Store"
        )
    native, environments = in_extension_form(agent, actors, is_saved=is_saved, source=source, torch_threads=torch_threads)
    if is_native:
        return native, environments
    if actors > environments > 1:
        raise ValueError(f"actors is {actors}, but {type(agent).__name__}.experience has {environments} environments, which the actors "
                         f"share; {COUNTS}")
    return native, max(environments, actors)


def _supervisor(agent: Any, env: Any, on: On | Workers | None, actors: int, learners: int) -> Any:
    """Returns the object that starts the run's other processes, if there are any."""
    workers = _workers(agent, env, on, actors)
    if learners == 1:
        return workers
    from relive.rl._learners import Learners

    return Learners(workers, agent, env, learners)


def _workers(agent: Any, env: Any, on: On | Workers | None, actors: int) -> Any:
    """Returns the object that starts the workers, if they are processes."""
    if on in (None, "serial", "threads"):
        return None
    # Imported here, since few programs need these modules.
    from relive.rl._workers import Supervisor

    launcher: Launcher
    if on == "processes":
        from relive.rl._local_workers import Processes

        launcher = Processes(agent, env)
    else:
        from relive.ray import Workers

        workers = on if isinstance(on, Workers) else Workers()
        return workers._supervisor(workers._launcher(agent, env), actors)
    return Supervisor(launcher, actors)
