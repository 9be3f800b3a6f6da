"""Custom agents in the extension's form, with leaves in lists."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from relive import nest
from relive.rl import _shown, _state
from relive.rl._actions import ActionLeaves
from relive.rl._given import SourceBridge, samples_of
from relive.rl._learnt import Results
from relive.rl._torch_threads import TorchThreads
from relive.rl._weights import Unchanged, as_array, called, flattened, nested
from relive.rl.contracts import Learnt, PolicyContext
from relive.rl.experience import Given, Rollouts, Sequences, Transitions, for_extension
from relive.rl.specs import EnvironmentSpec
from relive.specs import ArraySpec

T = TypeVar("T")

_log = logging.getLogger("relive")

# Seeds have 63 bits, since JAX accepts no larger seeds.
_SEEDS = 2**63 - 1

# Settings that are larger arrays are represented by their hash.
_MOST_NUMBERS = 1000


def in_extension_form(
    agent: Any, actors: int = 1, *, is_saved: bool = False, source: SourceBridge | None = None, torch_threads: TorchThreads
) -> tuple[Any, int]:
    """Returns an agent in the extension's form, and the number of environments that it needs with this many actors; the
    other arguments are those of :class:`AgentBridge`."""
    if hasattr(agent, "_for_extension"):
        native, environments = agent._for_extension(actors)
        return native, int(environments)
    bridge = AgentBridge(agent, is_saved=is_saved, source=source, torch_threads=torch_threads)
    return bridge, max(bridge.experience["environments"], 1)


class AgentBridge:
    """An agent, in the extension's form.

    Args:
      agent: the agent.
      is_saved: whether the run is saved.
      source: the source of batches, if the learner does not learn from the agent's experience.
      torch_threads: the limits for PyTorch's threads; by default none.

    Raises:
      TypeError: the agent lacks a method, or its experience is of an unknown kind.
    """

    def __init__(
        self, agent: Any, *, is_saved: bool = False, source: SourceBridge | None = None, torch_threads: TorchThreads | None = None
    ) -> None:
        if isinstance(agent, type):
            raise TypeError(f"the agent is the class {agent.__name__}, but it must be an instance, such as {agent.__name__}()")
        _expect_methods(agent, "an agent", "policy", "learner")
        experience: Any = getattr(agent, "experience", None) if source is None else Given()
        if source is None and not isinstance(experience, (Rollouts, Transitions, Sequences)):
            raise TypeError(
                f"{called(agent)}.experience is {experience!r}, but it must be rl.Rollouts(…), rl.Transitions(…) or rl.Sequences(…), the "
                "experience that the learner learns from"
            )
        self._agent, self._is_saved, self.source = agent, is_saved, source
        self.torch_threads = torch_threads or TorchThreads(has_actors=False)
        self.name = str(getattr(agent, "name", None) or type(agent).__name__)
        self.experience = for_extension(experience)
        experience = {f"experience.{name}": value for name, value in self.experience.items()}
        self.settings = [(name, _text(value)) for name, value in {**_settings(agent), **experience}.items()]

    def policy(self, specs: tuple[Any, ...], explores: bool, seeds: list[int], first: int, of: int) -> PolicyBridge:
        """Creates a policy for these rows."""
        spec = EnvironmentSpec(*specs)
        context = PolicyContext(explores, tuple(seed & _SEEDS for seed in seeds), first, of)
        return PolicyBridge(self._agent.policy(spec, context), spec, self.torch_threads if explores else None)

    def learner(self, specs: tuple[Any, ...], seed: int) -> LearnerBridge:
        """Creates the learner."""
        spec = EnvironmentSpec(*specs)
        self.torch_threads.limit_learner()
        learner = self._agent.learner(spec, seed & _SEEDS)
        return LearnerBridge(learner, spec, self, is_saved=self._is_saved)


class PolicyBridge:
    """A policy in the form that the extension calls."""

    def __init__(self, policy: Any, spec: EnvironmentSpec, torch_threads: TorchThreads | None) -> None:
        _expect_methods(policy, "a policy", "act", "load")
        self._policy, self.called, self._torch_threads = policy, called(policy), torch_threads
        # Whether a call that must not have an effect can restore the policy's state.
        self._keeps_state = all(callable(getattr(policy, name, None)) for name in ("state", "restore"))
        self.extras = _extras(policy)
        self._names = sorted(self.extras)
        _, self._fill = nest.filler(spec.observations)
        self._is_one = isinstance(spec.actions, ArraySpec)
        self._leaves = ActionLeaves(spec.actions)

    def act(self, observations: list[Any], starts: Any) -> tuple[list[Any], list[Any]]:
        """Returns the leaves of the actions and of the extras."""
        self._limit_threads()
        answer, extras = self._policy.act(self._fill(observations), starts), []
        if self._names:
            if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], Mapping)):
                raise TypeError(
                    f"{called(self._policy)}.act() returned {type(answer).__name__}, but a policy with extras must return a pair: the "
                    f"actions, and a mapping of {', '.join(self._names)}"
                )
            answer, output = answer
            if sorted(output) != self._names:
                raise ValueError(f"{called(self._policy)}.act() returned the extras {sorted(output)}, but it has {self._names}")
            extras = [self._array(f"extras[{name!r}]", output[name]) for name in self._names]
        elif self._is_one and isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], Mapping):
            raise TypeError(
                f"{called(self._policy)}.act() returned a pair of actions and extras, but the policy has no extras; give it an attribute "
                f"extras, a mapping of names to data types, such as {{{', '.join(f'{name!r}: np.float32' for name in sorted(answer[1]))}}}"
            )
        return [self._array("the actions", leaf) for leaf in self._flattened(answer)], extras

    def _flattened(self, actions: Any) -> list[Any]:
        """Returns the leaves of the actions, in the order of the spec."""
        if self._is_one or actions is None:
            return [actions]
        try:
            return self._leaves.of(actions)
        except (TypeError, ValueError) as error:
            raise _kind(error)(f"{called(self._policy)}.act() returned unexpected actions: {error}") from error

    def _array(self, what: str, value: Any) -> Any:
        if value is None:
            raise TypeError(f"{called(self._policy)}.act() returned None for {what}, but it must return an array with a row for each "
                            "observation")
        try:
            array = as_array(value)
        except (TypeError, ValueError) as error:
            raise _kind(error)(f"{called(self._policy)}.act(): {what}: {error}") from error
        if array.dtype.hasobject:
            raise TypeError(f"{called(self._policy)}.act() returned an array of objects for {what}, but it must be an array of numbers")
        return array

    def load(self, weights: dict[str, Any]) -> None:
        """Loads weights, which all policies share; they are read-only."""
        self._limit_threads()
        for array in weights.values():
            array.flags.writeable = False
        self._policy.load(nested(weights))

    def _limit_threads(self) -> None:
        if self._torch_threads is not None:
            self._torch_threads.limit_actor()

    def save(self) -> bytes:
        """Returns the state to resume from, which is empty if there is none."""
        if _state.is_within_a_call():
            return self._undoable(self._encoded, "state()") or b""
        return self._encoded() if hasattr(self._policy, "state") else b""

    def restore(self, state: bytes) -> None:
        """Restores a state."""
        if not state:
            return
        if _state.is_within_a_call():
            self._undoable(lambda: self._decoded(state), "restore()")
        else:
            self._decoded(state)

    def _encoded(self) -> bytes:
        return _state.encode(self._policy.state())

    def _decoded(self, state: bytes) -> None:
        self._policy.restore(_state.decode(state))

    def _undoable(self, call: Callable[[], T], name: str) -> T | None:
        """Saves or restores the state around a call of :meth:`Policy.values`, which also works without a state."""
        if not self._keeps_state:
            return None
        try:
            return call()
        except Exception as error:
            self._keeps_state = False
            _log.warning("%s.%s failed, so values() may change the actions that follow, unless the policy has no memory: %s: %s",
                         self.called, name, type(error).__name__, error)
            return None


class LearnerBridge:
    """A learner, in the extension's form."""

    def __init__(self, learner: Any, spec: EnvironmentSpec, agent: AgentBridge, *, is_saved: bool) -> None:
        _expect_methods(learner, "a learner", "learn", "weights")
        if is_saved:
            _expect_methods(learner, "a learner of a run that is saved", "state", "restore")
        self._learner, self.called, self._source, self._torch_threads = learner, called(learner), agent.source, agent.torch_threads
        # Whether the log must tell that priorities have no effect, once the learner returns some.
        self._is_uniform = agent.experience.get("priority_exponent") is None
        self._results, self._unchanged = Results(learner), Unchanged(called(learner))
        self._rollouts, self._batches = _shown.Rollouts(spec), _shown.Batches(agent.experience.get("discount"))

    def learn_rollout(self, **fields: Any) -> Any:
        """Learns from a rollout."""
        rollout = self._rollouts.rollout(**fields)
        return self._learnt(self._learn(rollout), rollout.env_steps, None)

    def learn_batches(self, batches: list[Any]) -> Any:
        """Learns from a batch of a table."""
        batch = self._batches.batch(*batches)
        output = self._learn(batch)
        if output.priorities is not None and self._is_uniform:
            self._is_uniform = False
            _log.warning("%s.learn() returned priorities, but its batches are sampled uniformly, so they have no effect; for prioritized "
                         "replay, set priority_exponent in the agent's experience", self.called)
        return self._learnt(output, len(batch.info.key), batch.info.key)

    def learn_given(self, batch: Any) -> Any:
        """Learns from a batch that was passed to the run."""
        output = self._learn(batch)
        if output.priorities is not None and self._source is not None:
            # Not converted to numpy, since the source may keep its weights on a GPU.
            self._source.reweigh(batch, output.priorities)
            output = dataclasses.replace(output, priorities=None)
        return self._learnt(output, samples_of(batch), None)

    def _learn(self, experience: Any) -> Learnt:
        # PyTorch may have been imported since the learner was created.
        self._torch_threads.limit_learner(self._learner)
        return self._results.learnt(self._learner.learn(experience))

    def _learnt(self, output: Learnt, items: int, keys: Any) -> tuple[int, int, dict[str, float], Any]:
        results = self._results.of(output, items, keys)
        self._unchanged.learn(results[0])
        return results

    def expect_shared(self) -> None:
        """Raises an exception if the learner does not support runs of several learners."""
        if not callable(getattr(self._learner, "share", None)):
            raise TypeError(
                f"{called(self._learner)} has no method share(rank, ranks, address), which several learners need to average their "
                "gradients; add the method, or use learners=1"
            )

    def share(self, rank: int, ranks: int) -> None:
        """Connects the learner to the other learners."""
        self._learner.share(rank, ranks, f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}")

    def weights(self) -> list[tuple[str, Any]]:
        """Returns the weights for policies: arrays by path."""
        weights = flattened(self._learner.weights(), called(self._learner))
        self._unchanged.publish(weights)
        return weights

    def save(self) -> bytes:
        """Returns the state to resume from, which is empty if there is none."""
        return _state.encode(self._learner.state()) if hasattr(self._learner, "state") else b""

    def restore(self, state: bytes) -> None:
        """Restores a state.

        Raises:
          ValueError: the learner does not accept the state.
        """
        decoded = self._decoded(state)
        try:
            self._learner.restore(decoded)
        except Exception as error:
            raise ValueError(
                f"{self.called}.restore() refused the saved state ({type(error).__name__}: {error}). If the learner or its networks have "
                "changed since the run was saved, use another checkpoint_dir for a new run"
            ) from error

    def warm_start(self, state: bytes) -> None:
        """Begins with the state of an earlier run's learner."""
        begin = getattr(self._learner, "warm_start", None)
        if begin is None:
            _expect_methods(self._learner, "a learner of a run with a warm start", "restore")
            begin = self._learner.restore
        begin(self._decoded(state))

    def _decoded(self, state: bytes) -> Any:
        if not state:
            raise ValueError(f"the run was saved without a state of {called(self._learner)}")
        return _state.decode(state)


def _kind(error: Exception) -> type[Exception]:
    return ValueError if isinstance(error, ValueError) else TypeError


def _expect_methods(value: Any, what: str, *names: str) -> None:
    for name in names:
        if not callable(getattr(value, name, None)):
            raise TypeError(f"{called(value)} cannot be {what}, because it has no method {name}()")


def _extras(policy: Any) -> dict[str, ArraySpec]:
    given = getattr(policy, "extras", {})
    if not isinstance(given, Mapping):
        raise TypeError(f"{called(policy)}.extras is {given!r}, but it must be a mapping of names to data types, such as {{'value': np.float32}}")
    return {name: _extra(policy, name, value) for name, value in given.items()}


def _extra(policy: Any, name: str, given: Any) -> ArraySpec:
    if isinstance(given, ArraySpec):
        return given
    dtype, shape = given if isinstance(given, tuple) else (given, ())
    try:
        return ArraySpec(shape, np.dtype(dtype), name)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{called(policy)}.extras[{name!r}] is {given!r}, but it must be a data type, or a pair of a data type and a shape: {error}"
        ) from error


def _settings(agent: Any) -> dict[str, Any]:
    given = getattr(agent, "settings", None)
    if isinstance(given, Mapping):
        return dict(given)
    if not dataclasses.is_dataclass(agent):
        return {}
    return {field.name: getattr(agent, field.name) for field in dataclasses.fields(agent) if field.name != "experience"}


def _text(value: Any) -> str:
    """Returns a setting as JSON, which is the same in each process."""
    try:
        return json.dumps(value, default=_as_json)
    except (ValueError, RecursionError):
        # The value contains itself.
        return json.dumps(type(value).__qualname__)


def _as_json(value: Any) -> Any:
    """Returns a value that JSON can represent: the whole value if possible, otherwise its name or type."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, np.ndarray) and value.size > _MOST_NUMBERS:
        # The bytes of objects are their addresses, which differ from process to process.
        digest = hashlib.sha256(b"" if value.dtype.hasobject else value.tobytes()).hexdigest()
        return f"{value.dtype} {value.shape} {digest}"
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, (set, frozenset)):
        return sorted(map(_text, value))
    if isinstance(value, (os.PathLike, np.dtype)):
        return str(value)
    return getattr(value, "__qualname__", type(value).__qualname__)
