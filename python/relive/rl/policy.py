"""The policy of a trained agent, which can act and be saved."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

from relive import _native, nest
from relive._numbers import count
from relive.errors import DataLossError
from relive.rl import _state
from relive.rl.specs import DiscreteArraySpec
from relive.specs import ArraySpec


@final
class Policy:
    """The policy of a trained agent, which acts without exploring. ``policy(observation)`` returns the likeliest
    action, or the action with the highest value: a number if actions are discrete, otherwise an array.
    :meth:`exploring` returns a policy that draws its actions.

    Saved policies are safetensors files, which Rust programs can also read (``relive_rl::SavedPolicy``). Their metadata
    ``relive.policy`` contains, in JSON, the agent, its settings, and the environment's specs. Policies can be pickled.
    """

    __slots__ = ("_agent", "_is_known_without_memory", "_native", "_parts", "_ranks", "_seed")

    def __init__(self, native: _native.Policy, agent: Any = None) -> None:
        self._native = native
        leaves = native.observations()
        self._parts, self._ranks = [path for path, _, _ in leaves], [len(shape) for _, _, shape in leaves]
        # The agent that recreates the policy, unless it is a Rust agent.
        self._agent = agent
        # The seed of a policy that explores.
        self._seed: int | None = None
        self._is_known_without_memory: bool | None = None

    def __call__(self, observation: Any) -> Any:
        """Returns the action, or the first of several equally good actions.

        Args:
          observation: as in training: arrays with the same shapes. If it is a mapping, its keys must be those of the
            environment's observations; other structures need only have the same order of leaves. A batch is one nest of
            arrays with the batch as leading dimension; the action for each observation is then a row of the result,
            ``[batch, …]``.

        The policies of recurrent agents have memory, and those of custom agents may have memory, so they act for one
        observation at a time. For several environments, use a copy of such a policy for each (``copy.deepcopy``).

        Discrete actions are counted from 0, as in the environment's spec: if a ``gymnasium.spaces.Discrete`` has a
        ``start``, add it. :func:`relive.rl.evaluate` does so.

        Raises:
          ValueError: different shapes, different keys, or a different number of leaves; an empty batch, or a batch for a
            policy that may have memory.
          TypeError: the values have the wrong type.
        """
        observation = self._expected(observation)
        batch = self._observations_of(observation)
        if batch is not None:
            return self._actions(batch)
        action = self._native.act(observation)
        is_number = isinstance(action, np.ndarray) and action.ndim == 0 and np.issubdtype(action.dtype, np.integer)
        return int(action) if is_number else action

    def exploring(self, seed: int = 0) -> Policy:
        """Returns a policy with the same weights that explores like an actor that has just begun: it draws its actions,
        with this seed. The policy of an agent whose exploration decays over the steps of a run, such as DQN with
        ``epsilon_decay_steps``, begins this decay. A copy of the returned policy draws the same actions again; a file
        contains only the weights.

        Raises:
          TypeError: the seed is not a whole number.
          ValueError: the seed is out of range.
        """
        return _exploring(self.to_bytes(), self._agent, count("seed", seed))

    def reset(self) -> None:
        """Starts an episode at the next observation: a recurrent policy resets its memory. For other policies, the call
        has no effect."""
        self._native.reset()

    def values(self, observation: Any) -> npt.NDArray[np.float32]:
        """Returns the value of each action, for agents such as DQN that learn action values: for one observation,
        ``[actions]``, or for a batch, ``[batch, actions]``.

        The observations of a batch are one nest of arrays with the batch as leading dimension. The call has no effect on
        later actions: a recurrent policy uses its memory of the episode so far for each observation, and keeps it. The
        policy of a custom agent keeps its memory if it has ``state()`` and ``restore()``.

        Raises:
          ValueError: the agent has no action values; otherwise as :meth:`__call__`.
          TypeError: as :meth:`__call__`.
        """
        observation = self._expected(observation)
        batch = self._observations_of(observation)
        if batch is None:
            return self._values(observation)
        values = [self._values(each) for each in batch]
        return np.stack(values) if values else np.zeros((0, self.num_actions or 0), np.float32)

    def _actions(self, batch: list[Any]) -> Any:
        """Returns the actions for the observations of a batch."""
        if not batch:
            raise ValueError("the batch has no observations")
        if len(batch) > 1 and not self._has_no_memory():
            raise ValueError(
                f"got a batch of {len(batch)} observations, but a policy of {self.agent} may have memory, so it acts for one observation at "
                "a time: for several environments, use a copy of the policy for each (copy.deepcopy); if it has no memory, call it for each "
                "observation"
            )
        return nest.map_structure(lambda *rows: np.stack(rows), *[self._native.act(each) for each in batch])

    def _has_no_memory(self) -> bool:
        """Returns whether the policy is known to act for each observation alone."""
        if self._is_known_without_memory is None:
            made = getattr(type(self._agent), "policy", None)
            is_own = self._agent is None or str(getattr(made, "__module__", "")).startswith("relive.rl.torch.")
            self._is_known_without_memory = is_own and not self._description()["settings"].get("lstm_units")
        return self._is_known_without_memory

    def _description(self) -> dict[str, Any]:
        """Returns the agent, its settings, and the environment's specs, as in a file."""
        file = self.to_bytes()
        header = json.loads(file[8 : 8 + int.from_bytes(file[:8], "little")])
        description: dict[str, Any] = json.loads(header["__metadata__"]["relive.policy"])
        return description

    def _expect_like_training(self, called: str, observations: Any, actions: Any) -> None:
        """Checks that an environment has observations and actions of the same shapes, and as many discrete actions, as
        the environment of the training. Data types, bounds and names may differ.

        Args:
          called: the environment's name in messages.
          observations: the nest of specs of its observations.
          actions: the nest of specs of its actions.
        """
        own = [(np.dtype(dtype), tuple(shape)) for _, dtype, shape in self._native.observations()]
        given = [(spec.dtype, spec.shape) for spec in nest.flatten(observations)]
        leaf = self._description()["actions"].get("leaf")
        if [shape for _, shape in own] != [shape for _, shape in given] or not _are_alike(leaf, self.num_actions, actions):
            expected = _actions_text(self.num_actions, None if leaf is None else tuple(leaf["shape"]))
            got = _actions_text(getattr(actions, "num_values", None), actions.shape if isinstance(actions, ArraySpec) else None)
            raise ValueError(
                f"the policy was trained with {_observations_text(own)} and {expected}, but {called} has {_observations_text(given)} and {got}; "
                "evaluate the policy in an environment with the same shapes and actions as in its training, with the same wrappers"
            )

    def _observations_of(self, observation: Any) -> list[Any] | None:
        """Returns the observations of a batch, or ``None`` for a single observation."""
        if isinstance(observation, np.ndarray) and self._ranks == [observation.ndim]:
            return None
        leaves = nest.flatten(observation)
        if len(leaves) != len(self._ranks) or any(np.ndim(leaf) != rank + 1 for leaf, rank in zip(leaves, self._ranks)):
            return None
        counts = {len(leaf) for leaf in leaves}
        if len(counts) != 1:
            raise ValueError(f"the leaves of a batch must have the same leading dimension, but these have {sorted(counts)}")
        return [nest.unflatten_as(observation, [leaf[number] for leaf in leaves]) for number in range(counts.pop())]

    def _values(self, observation: Any) -> npt.NDArray[np.float32]:
        # A custom agent's policy acts to return its values, and its state is restored afterwards.
        with _state.within_a_call():
            return self._native.values(observation)

    def _expected(self, observation: Any) -> Any:
        """Returns an observation after a check that it has the parts that the policy was trained with."""
        if not isinstance(observation, Mapping):
            # As in training, a list of numbers is an array.
            is_list = self._parts == [""] and isinstance(observation, (list, tuple))
            return np.asarray(observation) if is_list and not self._is_nest(observation) else observation
        got = [nest.path_text(path) for path, _ in nest.flatten_with_path(observation)]
        if got != self._parts:
            expected = "a single array" if self._parts == [""] else f"the parts {self._parts}"
            raise ValueError(f"observation: the policy was trained with {expected}, but this one has the parts {got}")
        return observation

    def _is_nest(self, observation: Any) -> bool:
        """Returns whether a list is a structure around an observation or a batch, rather than its numbers."""
        leaves, (_, _, shape) = nest.flatten(observation), self._native.observations()[0]
        return any(np.ndim(leaf) for leaf in leaves) or (len(leaves) == 1 and not shape)

    @property
    def agent(self) -> str:
        """The name of the policy's agent."""
        return self._native.agent()

    @property
    def num_actions(self) -> int | None:
        """The number of actions, or ``None`` if actions are not discrete."""
        return self._native.num_actions()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a file atomically.

        Raises:
          OSError: the file cannot be written.
        """
        self._native.save(os.fspath(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, agent: Any = None) -> Policy:
        """Loads a policy from a file. A policy of a custom agent requires that agent, which recreates it from the
        weights in the file.

        Raises:
          OSError: the file cannot be read.
          DataLossError: the file is damaged.
          ValueError: the file does not contain a policy.
        """
        path = os.fspath(path)
        try:
            return cls(_native.Policy.load(path, _bridged(agent)), agent)
        except DataLossError as error:
            with open(path, "rb") as file:
                _expect_no_archive(path, file.read(4), error)
            raise

    def to_bytes(self) -> bytes:
        """Returns the policy as bytes, in the format of :meth:`save`."""
        return self._native.to_bytes()

    @classmethod
    def from_bytes(cls, file: bytes, *, agent: Any = None) -> Policy:
        """Loads a policy from bytes in the format of :meth:`load`."""
        try:
            return cls(_native.Policy.from_bytes(file, _bridged(agent)), agent)
        except DataLossError as error:
            _expect_no_archive("the file", file[:4], error)
            raise

    def __reduce__(self) -> tuple[Any, ...]:
        if self._seed is not None:
            return _exploring, (self.to_bytes(), self._agent, self._seed)
        return _unpickled, (self.to_bytes(), self._agent)

    def __repr__(self) -> str:
        leaves = ", ".join(
            f"{path + ': ' if path else ''}{dtype}{list(dims)}" for path, dtype, dims in self._native.observations()
        )
        actions = "" if self.num_actions is None else f", actions={self.num_actions}"
        return f"Policy(agent={self.agent!r}, observations=({leaves}){actions})"


def _are_alike(leaf: Mapping[str, Any] | None, num_actions: int | None, actions: Any) -> bool:
    """Returns whether an environment's actions have the shape and the number of the recorded actions, which are a leaf,
    or a nest (``None``). The parts of nests are not compared."""
    if leaf is None or not isinstance(actions, ArraySpec):
        return leaf is None and not isinstance(actions, ArraySpec)
    if num_actions is None:
        return tuple(leaf["shape"]) == actions.shape and not isinstance(actions, DiscreteArraySpec)
    return actions.shape == () and actions.dtype.kind in "iu" and getattr(actions, "num_values", num_actions) == num_actions


def _actions_text(num_actions: int | None, shape: tuple[int | None, ...] | None) -> str:
    if num_actions is not None:
        return f"{num_actions} discrete actions"
    return "actions of several parts" if shape is None else f"actions of the shape {shape}"


def _observations_text(leaves: Sequence[tuple[Any, Any]]) -> str:
    return f"observations {', '.join(f'{dtype} {shape}' for dtype, shape in leaves)}"


def _expect_no_archive(called: str, start: bytes, damage: DataLossError) -> None:
    """Checks that a file that seems damaged is not a zip archive of another library."""
    if start == b"PK\x03\x04":
        raise ValueError(
            f"{called} is not a policy file, but a zip archive, such as a model of Stable-Baselines3 or a file of torch.save; only files "
            "of Policy.save can be loaded"
        ) from damage


def _unpickled(file: bytes, agent: Any) -> Policy:
    return Policy.from_bytes(file, agent=agent)


def _exploring(file: bytes, agent: Any, seed: int) -> Policy:
    policy = Policy(_native.Policy.exploring(file, _bridged(agent), seed), agent)
    policy._seed = seed
    return policy


def _bridged(agent: Any) -> Any:
    if agent is None:
        return None
    from relive.rl._own import AgentBridge

    return AgentBridge(agent)
