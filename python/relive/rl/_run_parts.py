"""The parts of a run: the agent, the environments, the data, and other processes."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

from relive.rl._given import SourceBridge, is_source
from relive.rl._own import in_extension_form
from relive.rl._run_options import Checked
from relive.rl._sources import COUNTS, Source, expect_enough, is_environment, source_of
from relive.rl._torch_threads import TorchThreads


@dataclasses.dataclass(frozen=True)
class Parts:
    """The parts of a run, as the extension takes them."""

    agent: Any
    environments: Any
    evaluation_environment: Any
    """``None`` if evaluations have no environment of their own."""
    data: Any
    """A data set, or ``None``; batches of a user's own source reach the agent directly."""
    supervisor: Any

    @classmethod
    def of(cls, agent: Any, env: Any, evaluation_env: Any, data: Any, checked: Checked, closing: contextlib.ExitStack) -> Parts:
        """Connects the parts. ``closing`` ends those that this call starts."""
        is_saved = checked.checkpoints is not None
        if isinstance(data, (list, tuple)):
            raise TypeError(f"data is a {type(data).__name__}, but it must be a data set, or an iterator of batches, such as "
                            "iter(data); for several files, give pyarrow.dataset.dataset(paths)")
        data, batches = (None, SourceBridge(data, is_saved=is_saved)) if is_source(data) else (data, None)
        native, number = for_extension(
            agent,
            checked.actors,
            is_saved=is_saved or checked.learners > 1,
            source=batches,
            torch_threads=TorchThreads(has_actors=checked.actors > 0, learners=checked.learners),
        )
        evaluates = checked.evaluation is not None and evaluation_env is None
        environments = source_of(env, acts_here=checked.acts_here or evaluates)
        expect_enough(env, number, is_shared=checked.actors <= 1 and not evaluates and checked.acts_here)
        if evaluation_env is env and is_environment(env):
            raise TypeError("evaluation_env is the environment of the training, but evaluations need their own; give another environment, a "
                            "name or a function")
        evaluation_environment = None if evaluation_env is None else source_of(evaluation_env)
        for source in (environments, evaluation_environment):
            if isinstance(source, Source):
                closing.callback(source.close)
        supervisor = _supervisor(agent, env, checked)
        if supervisor is not None:
            closing.callback(supervisor.close)
        return cls(native, environments, evaluation_environment, data, supervisor)


def for_extension(
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


def _supervisor(agent: Any, env: Any, checked: Checked) -> Any:
    """Returns the object that starts the run's other processes, if there are any."""
    workers = _workers(agent, env, checked)
    if checked.learners == 1:
        return workers
    from relive.rl._learners import Learners

    return Learners(workers, agent, env, checked.learners)


def _workers(agent: Any, env: Any, checked: Checked) -> Any:
    """Returns the object that starts the workers, if they are processes."""
    if checked.acts_here:
        return None
    # Imported here, since few programs need these modules.
    if checked.on == "processes":
        from relive.rl._local_workers import Processes
        from relive.rl._workers import Supervisor

        return Supervisor(Processes(agent, env), checked.actors)
    from relive.ray import Workers

    workers = checked.on if isinstance(checked.on, Workers) else Workers()
    return workers._supervisor(workers._launcher(agent, env), checked.actors)
