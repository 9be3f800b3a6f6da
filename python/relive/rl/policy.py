"""What an agent has learned, to act by and to keep."""

from __future__ import annotations

import os
from typing import Any, final

import numpy as np
import numpy.typing as npt

from relive import _native, nest


@final
class Policy:
    """The greedy policy of a trained network. ``policy(observation)`` is the number of the action, counted from 0.

    Saved policies are safetensors files, which Rust programs read, too (``relive_rl::dqn::Policy``). The metadata
    ``relive.policy`` says in JSON what the network is made for and of. Policies can be pickled.
    """

    __slots__ = ("_native",)

    def __init__(self, native: _native.Policy) -> None:
        self._native = native

    def __call__(self, observation: Any) -> int:
        """The action of the greatest value, the first of them if there are several.

        Args:
          observation: as in training: arrays of the same shapes, in any structure with the same order of leaves.

        Raises:
          ValueError: other shapes, or another number of leaves.
          TypeError: values that are not of the same kind.
        """
        return self._native.act(observation)

    def values(self, observation: Any) -> npt.NDArray[np.float32]:
        """The value of each action, of one observation, ``[actions]``, or of a batch of them, ``[batch, actions]``.

        The observations of a batch are one nest of arrays, whose leading dimension they are.

        Raises:
          As :meth:`__call__`.
        """
        shapes = [tuple(shape) for _, _, shape in self._native.shape()["observations"]]
        leaves = nest.flatten(observation)
        if len(leaves) != len(shapes) or any(np.ndim(leaf) != len(shape) + 1 for leaf, shape in zip(leaves, shapes)):
            return self._native.values(observation)
        counts = {len(leaf) for leaf in leaves}
        if len(counts) != 1:
            raise ValueError(f"the leaves of a batch have the same leading dimension, but these have {sorted(counts)}")
        (count,) = counts
        one = [nest.unflatten_as(observation, [leaf[number] for leaf in leaves]) for number in range(count)]
        values = [self._native.values(each) for each in one]
        return np.stack(values) if values else np.zeros((0, self.num_actions), np.float32)

    @property
    def num_actions(self) -> int:
        """How many actions there are."""
        return int(self._native.shape()["actions"])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a file, which is there whole or not at all.

        Raises:
          OSError: it cannot be written.
        """
        self._native.save(os.fspath(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Policy:
        """The policy in a file.

        Raises:
          OSError: it cannot be read.
          DataLossError: it is damaged.
          ValueError: it is no policy.
        """
        return cls(_native.Policy.load(os.fspath(path)))

    def to_bytes(self) -> bytes:
        """What :meth:`save` writes."""
        return self._native.to_bytes()

    @classmethod
    def from_bytes(cls, file: bytes) -> Policy:
        """What :meth:`load` reads."""
        return cls(_native.Policy.from_bytes(file))

    def __reduce__(self) -> tuple[Any, ...]:
        return Policy.from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        shape = self._native.shape()
        leaves = ", ".join(
            f"{path + ': ' if path else ''}{dtype}{list(dims)}" for path, dtype, dims in shape["observations"]
        )
        return f"Policy(observations=({leaves}), actions={shape['actions']}, hidden={shape['hidden']})"


@final
class SavedPolicy:
    """What an agent other than DQN has learned. ``policy(observation)`` is the likeliest action: a number where actions are discrete, otherwise
    an array.

    Saved policies are safetensors files, which Rust programs read, too (``relive_rl::plan::SavedPolicy``). The metadata
    ``relive.policy`` says in JSON which agent it is of, with which settings. Policies can be pickled.
    """

    __slots__ = ("_native",)

    def __init__(self, native: _native.SavedPolicy) -> None:
        self._native = native

    def __call__(self, observation: Any) -> Any:
        """The action.

        Args:
          observation: as in training: arrays of the same shapes, in any structure with the same order of leaves.

        Raises:
          ValueError: other shapes, or another number of leaves.
          TypeError: values that are not of the same kind.
        """
        action = self._native.act(observation)
        is_number = isinstance(action, np.ndarray) and action.ndim == 0 and np.issubdtype(action.dtype, np.integer)
        return int(action) if is_number else action

    @property
    def agent(self) -> str:
        """The name of its agent."""
        return self._native.agent()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a file, which is there whole or not at all.

        Raises:
          OSError: it cannot be written.
        """
        self._native.save(os.fspath(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SavedPolicy:
        """The policy in a file.

        Raises:
          OSError: it cannot be read.
          ValueError: it is damaged, or no policy of such an agent.
        """
        return cls(_native.SavedPolicy.load(os.fspath(path)))

    def to_bytes(self) -> bytes:
        """What :meth:`save` writes."""
        return self._native.to_bytes()

    @classmethod
    def from_bytes(cls, file: bytes) -> SavedPolicy:
        """What :meth:`load` reads."""
        return cls(_native.SavedPolicy.from_bytes(file))

    def __reduce__(self) -> tuple[Any, ...]:
        return SavedPolicy.from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        return f"SavedPolicy(agent={self.agent!r})"
