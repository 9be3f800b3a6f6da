"""Runs of agents: one way for those in Rust and for one's own."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from relive import _native
from relive.rl._given import SourceBridge, is_source
from relive.rl._hooks import OnBatch, OnStep, hooks_of
from relive.rl._own import AgentBridge
from relive.rl._progress import Display, Shown, display_of
from relive.rl._reports import Reports
from relive.rl._settings import count
from relive.rl._sources import expect_enough, name_of, source_of
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
    """Has an agent learn by acting in an environment.

    A named environment runs in Rust, beside the interpreter. One in Python is called from a thread of the run, once for a step of all its rows;
    Ctrl-C then ends the run at its next step. A second Ctrl-C does not wait for that.

    An agent acts in as many environments as it says, which are shared out among its workers. A vector of Gymnasium (``gymnasium.vector``, or
    :class:`relive.rl.vector.ProcessVectorEnv`) is as many as it has rows, a parallel environment of PettingZoo as many as it has agents.

    Args:
      agent: one in Rust, such as ``rl.DQN()``, or one of your own: see ``relive.rl.contracts.Agent``.
      env: a name, such as ``"catch/0"``; an environment of Gymnasium, or with dm_env's interface; a vector of Gymnasium's environments; a parallel
        environment of PettingZoo, whose agents have the same spaces and share the policy; a class of one of these, which is made without arguments, or
        with ``seed=`` if it has that; a function from a seed to one of these; or a list of functions
        without arguments, each of which makes one, as ``gymnasium.vector`` has it. What is given ready-made is not closed, and serves one worker without
        evaluations: for the others there are functions.
      steps: steps in the environment, of all actors together. The run ends with the rollout that reaches the number. Not with ``data``.
      on: ``"serial"``: one thread acts and learns in turn, and the same seed gives the same run. ``"threads"``: ``actors`` threads act beside the
        one that learns. ``"processes"``: so many processes do, which begin as those of :mod:`multiprocessing` do: agent and environment are pickled,
        and a program begins with ``if __name__ == "__main__":``. ``"ray"``, or what :class:`relive.ray.Workers` says: so many actors of a cluster of
        Ray do. By default threads if there are actors.
      actors: how many act beside the thread that learns; with threads, processes and Ray 2 unless given.
      learners: how many learners share one set of weights, this process among them; the others are processes of this machine, which begin as those of
        ``on="processes"`` do. They need actors: 2 unless given. Rollouts are divided among them; of a replay table each samples batches of its own.
      seed: everything random follows from it, but for what a given environment has begun with.
      learner_steps: ends the run after so many steps of the learner, if that is earlier.
      data: what to learn from instead of acting; needs ``learner_steps``: a folder of recorded episodes (``relive rl record``), a file of D4RL's layout as
        numpy's ``savez`` or HDF5 (by h5py) has it, a data set of Minari, or a mapping of such arrays. The environment is that of the evaluations.
        See :func:`relive.rl.arrays_of`. An agent of your own also learns from an iterator of batches, such as a ``relive.gpu.Loader``: its learner
        gets each as it is, and its ``Learnt.priorities`` are the new weights of the store's trajectories.
      timeout: seconds after which the run ends early, with what it has by then.
      evaluate_every: steps from one evaluation without exploration to the next.
      evaluation_episodes: episodes of an evaluation.
      checkpoint_dir: the folder where the run is saved on its way and at its end, no bucket; it goes on from what is there, if that is of the same
        environment, seed and settings. Environments in Python, and those of threads and processes, begin anew then and after each checkpoint of a run in one
        thread; all else goes on as it was.
      checkpoint_every: steps from one checkpoint to the next.
      loggers: each gets every episode and, now and then, what the learner tells: see ``relive.rl.loggers``.
      progress: how the run is shown: ``"line"`` on stderr, a bar of ``"tqdm"`` or ``"rich"``, which need these packages, or ``"notebook"``, a curve of
        the returns that Jupyter draws anew once a second. ``True`` is the curve in Jupyter and the line elsewhere; unless something is given they are there
        in Jupyter and where stderr is a terminal. ``False``: nothing. A function gets the newest episode, up to twenty times per second.
      on_step: a function that gets what a worker has just done, as a :class:`relive.rl.Rollout`, before it is stored or learned from: a step in each of
        its environments where the agent has a replay table, a whole rollout otherwise. Not in evaluations, and not with processes. With several
        threads it is called by one at a time.
      on_batch: a function that gets each batch that the learner has learned from, and a mapping of the figures that it tells of it. The batch is a
        :class:`relive.Batch`, for agents without a replay table a :class:`relive.rl.Rollout`; with demonstrations a pair: the agent's own, and these. It has
        arrays of its own. Not for A3C, whose workers learn by themselves.

    Raises:
      TypeError: no environment, or values of it that are not supported; the error names their path. An agent, a policy or a learner that lacks a
        method; the error names it.
      ValueError: a setting out of its range, an unknown name, actions that the agent cannot take, a checkpoint of another run, an
        observation or a reward that is NaN or infinite; arrays of a policy of another shape or data type.
      ImportError: the package of a display, or of the data, is not installed.
      Exception: whatever the environment, the agent, a logger, ``progress`` or a hook raises.
    """
    options = {name: value for name, value in locals().items() if name not in ("agent", "env", "steps", "loggers")}
    steps = _steps(steps, learner_steps, data)
    learners = _learners(learners, on, data)
    seed, actors = count("seed", seed), _actors(on, 2 if actors is None and learners > 1 else actors)
    if learners > 1 and not actors:
        raise ValueError(f"learners is {learners}, but it must be 1 without actors: one thread that acts and learns in turn cannot wait for other learners")
    if learner_steps is not None:
        learner_steps = count("learner_steps", learner_steps, 1)
    checkpoint_every = count("checkpoint_every", checkpoint_every, 1)
    evaluation_episodes = count("evaluation_episodes", evaluation_episodes, 1)
    if evaluate_every is not None:
        evaluate_every = count("evaluate_every", evaluate_every, 1)
    data, batches = (None, SourceBridge(data, is_saved=checkpoint_dir is not None)) if is_source(data) else (data, None)
    if batches is not None and on_batch is not None:
        raise ValueError("on_batch sees batches of tables, and this run is given its own: look at them in the learner")
    native, environments = _for_extension(agent, actors, is_saved=checkpoint_dir is not None or learners > 1, source=batches)
    source = source_of(env)
    expect_enough(env, environments, is_shared=actors <= 1 and evaluate_every is None and on in (None, "serial", "threads"))
    display = display_of(progress, steps, learner_steps)
    loggers = [*loggers, *([] if display is None else [display])]
    supervisor = _supervisor(agent, env, on, actors, learners)
    try:
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
                checkpoints=None if checkpoint_dir is None else (os.fspath(checkpoint_dir), checkpoint_every),
                progress=progress if callable(progress) else None,
                reports=Reports(loggers) if loggers else None,
                supervisor=supervisor,
                **hooks_of(agent, on_step, on_batch),
            )
        if isinstance(display, Shown):
            display.complete({name: result[name] for name in ("env_steps", "learner_steps")})
    except Exception:
        if supervisor is not None:
            supervisor.raise_failure()
        raise
    finally:
        if supervisor is not None:
            supervisor.close()
        _close(loggers)
    own = None if hasattr(agent, "_for_extension") else agent
    again = functools.partial(run, agent, env, **options) if checkpoint_dir is not None else None
    return TrainingResult.of(Policy(result["policy"], own), result, again)


def _close(loggers: list[Logger]) -> None:
    """Closes all, also where one of them cannot be closed."""
    with contextlib.ExitStack() as closing:
        for logger in loggers:
            closing.callback(logger.close)


def _steps(steps: int | None, learner_steps: int | None, data: Any) -> int:
    if data is None:
        if steps is None:
            raise TypeError("a run needs steps, or data and learner_steps")
        return count("steps", steps, 1)
    if steps is not None or learner_steps is None:
        raise ValueError("a run that learns from data makes no steps in the environment: give learner_steps instead of steps")
    return 0


def _actors(on: Any, actors: int | None) -> int:
    if on not in (None, *get_args(On)) and not hasattr(on, "_launcher"):
        raise ValueError(f"on is {on!r}, but it must be 'serial', 'threads', 'processes', 'ray' or a relive.ray.Workers")
    number = count("actors", actors if actors is not None else 0 if on in (None, "serial") else 2)
    if on == "serial" and number:
        raise ValueError(f"actors is {number}, but on='serial' has none: one thread does everything")
    if on not in (None, "serial") and not number:
        raise ValueError(f"actors is 0, but on={on!r} needs at least 1")
    return number


def _learners(learners: int, on: Any, data: Any) -> int:
    learners = count("learners", learners, 1)
    if learners == 1:
        return learners
    if data is not None:
        raise ValueError(f"learners is {learners}, but it must be 1 for a run that learns from data, which it reads in one process")
    if on == "serial":
        raise ValueError(f"learners is {learners}, but it must be 1 with on='serial': one thread that acts and learns in turn cannot wait for other learners")
    return learners


def _for_extension(agent: Any, actors: int, *, is_saved: bool, source: SourceBridge | None = None) -> tuple[Any, int]:
    """The agent as the extension takes it, and in how many environments a run acts."""
    if hasattr(agent, "_for_extension"):
        if source is not None:
            raise TypeError(
                f"{type(agent).__name__} learns from transitions, and data is an iterator of batches: give a data set, such as a relive.gpu.Store"
            )
        native, environments = agent._for_extension(actors)
        return native, int(environments)
    bridge = AgentBridge(agent, is_saved=is_saved, source=source)
    return bridge, max(bridge.experience["environments"], actors, 1)


def _supervisor(agent: Any, env: Any, on: On | Workers | None, actors: int, learners: int) -> Any:
    """What starts the other processes of a run, if it has some."""
    workers = _workers(agent, env, on, actors)
    if learners == 1:
        return workers
    from relive.rl._learners import Learners

    return Learners(workers, agent, env, learners)


def _workers(agent: Any, env: Any, on: On | Workers | None, actors: int) -> Any:
    """What starts the workers where they are processes."""
    if on in (None, "serial", "threads"):
        return None
    # Few programs need what these import.
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
