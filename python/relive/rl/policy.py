"""What an agent has learned, to act by and to keep."""

from __future__ import annotations

import os
from typing import Any, final

import numpy as np
import numpy.typing as npt

from relive import _native, nest


@final
class Policy:
    """What an agent has learned, which acts without exploring. ``policy(observation)`` is the likeliest action, or that of the greatest value: a number
    where actions are discrete, otherwise an array.

    Saved policies are safetensors files, which Rust programs read, too (``relive_rl::SavedPolicy``). The metadata ``relive.policy`` says in JSON
    which agent it is of, with which settings, and what the environment gave and took. Policies can be pickled.
    """

    __slots__ = ("_agent", "_native")

    def __init__(self, native: _native.Policy, agent: Any = None) -> None:
        self._native = native
        # The agent that makes the policy anew, if it is none of Rust.
        self._agent = agent

    def __call__(self, observation: Any) -> Any:
        """The action. Of several that are equally good it is the first.

        Args:
          observation: as in training: arrays of the same shapes, in any structure with the same order of leaves.

        Raises:
          ValueError: other shapes, or another number of leaves.
          TypeError: values that are not of the same kind.
        """
        action = self._native.act(observation)
        is_number = isinstance(action, np.ndarray) and action.ndim == 0 and np.issubdtype(action.dtype, np.integer)
        return int(action) if is_number else action

    def reset(self) -> None:
        """Begins an episode with the next observation: a policy with a memory forgets what it has seen. Others have nothing to forget."""
        self._native.reset()

    def values(self, observation: Any) -> npt.NDArray[np.float32]:
        """The value of each action by an agent that learns such values, as DQN does: of one observation, ``[actions]``, or of a batch of them,
        ``[batch, actions]``.

        The observations of a batch are one nest of arrays, whose leading dimension they are.

        Raises:
          ValueError: the agent has no values of actions; as :meth:`__call__`.
          TypeError: as :meth:`__call__`.
        """
        shapes = [tuple(shape) for _, _, shape in self._native.observations()]
        leaves = nest.flatten(observation)
        if len(leaves) != len(shapes) or any(np.ndim(leaf) != len(shape) + 1 for leaf, shape in zip(leaves, shapes)):
            return self._native.values(observation)
        counts = {len(leaf) for leaf in leaves}
        if len(counts) != 1:
            raise ValueError(f"the leaves of a batch have the same leading dimension, but these have {sorted(counts)}")
        (count,) = counts
        one = [nest.unflatten_as(observation, [leaf[number] for leaf in leaves]) for number in range(count)]
        values = [self._native.values(each) for each in one]
        return np.stack(values) if values else np.zeros((0, self.num_actions or 0), np.float32)

    @property
    def agent(self) -> str:
        """The name of its agent."""
        return self._native.agent()

    @property
    def num_actions(self) -> int | None:
        """How many actions there are; ``None`` where they are no numbers."""
        return self._native.num_actions()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a file, which is there whole or not at all.

        Raises:
          OSError: it cannot be written.
        """
        self._native.save(os.fspath(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, agent: Any = None) -> Policy:
        """The policy in a file. One of an agent of your own needs that agent, which makes the policy for the weights in the file.

        Raises:
          OSError: it cannot be read.
          DataLossError: it is damaged.
          ValueError: it is no policy.
        """
        return cls(_native.Policy.load(os.fspath(path), _bridged(agent)), agent)

    def to_bytes(self) -> bytes:
        """What :meth:`save` writes."""
        return self._native.to_bytes()

    @classmethod
    def from_bytes(cls, file: bytes, *, agent: Any = None) -> Policy:
        """What :meth:`load` reads."""
        return cls(_native.Policy.from_bytes(file, _bridged(agent)), agent)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.to_bytes(), self._agent)

    def __repr__(self) -> str:
        leaves = ", ".join(
            f"{path + ': ' if path else ''}{dtype}{list(dims)}" for path, dtype, dims in self._native.observations()
        )
        actions = "" if self.num_actions is None else f", actions={self.num_actions}"
        return f"Policy(agent={self.agent!r}, observations=({leaves}){actions})"


def _unpickled(file: bytes, agent: Any) -> Policy:
    return Policy.from_bytes(file, agent=agent)


def _bridged(agent: Any) -> Any:
    if agent is None:
        return None
    from relive.rl._own import AgentBridge

    return AgentBridge(agent)
