"""The parts of a custom agent: a policy that acts, a learner that learns, and an agent that creates both.

These are protocols, not base classes: any object with the methods works. ``relive.rl.run`` runs such an agent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from relive.rl.experience import Experience
from relive.rl.specs import EnvironmentSpec


@dataclasses.dataclass(frozen=True)
class PolicyContext:
    """The environments in which a policy acts: the rows of one worker."""

    explores: bool
    """Whether the policy acts to collect experience; otherwise it is being evaluated."""
    seeds: tuple[int, ...]
    """One seed for each row, below 2**63. All randomness of the row should derive from it."""
    first: int
    """The index of the first row among the rows of all workers."""
    of: int
    """The number of rows of all workers together."""

    @property
    def rows(self) -> int:
        """The number of environments in which the policy acts at once."""
        return len(self.seeds)

    def rng(self) -> np.random.Generator:
        """Returns a random generator for all rows together."""
        return np.random.default_rng(self.seeds)


@runtime_checkable
class Policy(Protocol):
    """Acts in all rows of a worker at once.

    A policy with outputs besides actions, such as log-probabilities or a recurrent state, declares them in an attribute
    ``extras``: a mapping from names to data types, or to pairs of a data type and a shape without rows. The learner
    receives the extras with its batches.

    A policy that draws random numbers or has memory needs ``state()`` and ``restore(state)`` to continue identically
    from a checkpoint. ``state()`` returns numbers, strings and arrays in nested dicts and lists.
    """

    def act(self, observations: Any, starts: npt.NDArray[np.bool_]) -> Any:
        """Returns the actions ``[rows, …]`` for observations ``[rows, …]``; with ``extras``, a pair of the actions and
        a mapping of the extras.

        ``starts`` marks the rows in which an episode starts; the policy resets its memory of these rows. In a rollout,
        ``Rollout.begins`` marks the same observations; ``Rollout.starts`` marks the steps before them.
        """
        ...

    def load(self, weights: Any) -> None:
        """Loads the result of :meth:`Learner.weights`: numpy arrays in the same nested mappings. The arrays are shared
        and read-only."""
        ...


@runtime_checkable
class Learner(Protocol):
    """Learns from batches.

    A run with a checkpoint folder needs ``state()`` and ``restore(state)``, as in :class:`Policy`;
    ``relive.rl.torch.Learner`` implements both.

    A run with several learners also needs ``share(rank, ranks, address)``. It is called once in each process, after
    ``restore`` and before the first batch. After that, all learners must apply the mean of their gradients, either with
    ``torch.distributed`` (its ``env://`` variables are set), or with ``rl.AllReduce(rank, ranks, address)``.
    """

    def learn(self, batch: Any) -> Mapping[str, float] | Learnt | None:
        """Learns from a batch: a :class:`relive.rl.Rollout`, or a :class:`relive.Batch` of transitions or sequences.

        Returns numbers to log, by name, or a :class:`Learnt`.
        """
        ...

    def weights(self) -> Any:
        """Returns the weights for the policies: arrays in nested mappings, such as a ``state_dict()``."""
        ...


@runtime_checkable
class Agent(Protocol):
    """Creates a policy and a learner, and defines the experience to learn from.

    The attribute ``name`` is used in files and messages; the default is the name of the class. A run is resumed only if
    the agent's settings are unchanged: the fields of a dataclass, or a mapping ``settings``.
    """

    @property
    def experience(self) -> Experience:
        """The experience of the learner: :class:`relive.rl.Rollouts`, :class:`relive.rl.Transitions` or
        :class:`relive.rl.Sequences`."""
        ...

    def policy(self, spec: EnvironmentSpec, context: PolicyContext) -> Policy:
        """Returns a policy for a worker or for evaluation."""
        ...

    def learner(self, spec: EnvironmentSpec, seed: int) -> Learner:
        """Returns the learner of a run; ``seed`` is below 2**63."""
        ...


@dataclasses.dataclass
class Learnt:
    """The result of :meth:`Learner.learn`, if it is more than numbers to log."""

    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Numbers to log, by name."""
    priorities: Any = None
    """New priorities of the batch's items, ``[B]``."""
    steps: int = 1
    """The number of gradient steps."""
    samples: int | None = None
    """The number of items, or steps of a rollout, that these gradient steps used, counting repeated uses; by default
    the batch's."""
