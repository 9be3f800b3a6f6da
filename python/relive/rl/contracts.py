"""What an agent of one's own consists of: a policy that acts, a learner that learns, and an agent that makes both.

None of these is a base class: any object with the methods will do. ``relive.rl.run`` runs such an agent.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from relive.rl.experience import Experience
from relive.rl.specs import EnvironmentSpec


@dataclasses.dataclass(frozen=True)
class Seat:
    """Where a policy acts: in the rows of one worker's environments."""

    explores: bool
    """Whether it acts to learn; otherwise it shows what was learned."""
    seeds: tuple[int, ...]
    """One for each row, below 2**63: everything random there should follow from it."""
    first: int
    """The number of the first row among those of all workers."""
    of: int
    """Rows of all workers together."""

    @property
    def rows(self) -> int:
        """Environments that are acted in at once."""
        return len(self.seeds)

    def rng(self) -> np.random.Generator:
        """A generator of random numbers for all rows together."""
        return np.random.default_rng(self.seeds)


class Policy(Protocol):
    """Acts in all rows of a worker at once.

    A policy that tells more than actions, such as log-probabilities or a recurrent state, names it in an attribute ``extras``: a mapping from names
    to data types, or to pairs of a data type and a shape without rows. The learner gets them with its batches.

    To be resumed from a checkpoint with the same numbers, a policy that draws random numbers or remembers something has ``state()``, which gives
    numbers, strings and arrays in nested dicts and lists, and ``restore(state)``.
    """

    def act(self, observations: Any, starts: npt.NDArray[np.bool_]) -> Any:
        """The actions ``[rows, …]`` for observations ``[rows, …]``; with ``extras`` a pair of the actions and a mapping of these.

        ``starts`` says which rows begin an episode with their observation: what is remembered of the row is to be forgotten.
        """
        ...

    def load(self, weights: Any) -> None:
        """Takes over what :meth:`Learner.weights` has given, as numpy arrays in the same nested mappings. The arrays are shared: they are read only."""
        ...


class Learner(Protocol):
    """Learns from batches.

    A run with a checkpoint folder needs ``state()`` and ``restore(state)``, as :class:`Policy` has them; ``relive.rl.torch.Learner`` brings both.

    A run with several learners needs ``share(rank, ranks, address)`` as well, which is called once in each process, before the first batch and after
    ``restore``. From then on all must make the same steps by the mean of their gradients: by ``torch.distributed``, whose ``env://`` variables are set,
    or by ``rl.AllReduce(rank, ranks, address)``.
    """

    def learn(self, batch: Any) -> Mapping[str, float] | Learnt | None:
        """Learns from a batch: a :class:`relive.rl.Rollout`, or a :class:`relive.Batch` of transitions or sequences.

        Gives numbers to be logged, by name, or a :class:`Learnt`.
        """
        ...

    def weights(self) -> Any:
        """What policies act by: arrays in nested mappings, such as a ``state_dict()``."""
        ...


class Agent(Protocol):
    """Makes a policy and a learner, and says what is learned from.

    An attribute ``name`` is used in files and messages; the name of the class unless it is there. Settings that a run is resumed with, and no other,
    are the fields of a dataclass, or a mapping ``settings``.
    """

    @property
    def experience(self) -> Experience:
        """What the learner gets: :class:`relive.rl.Rollouts`, :class:`relive.rl.Transitions` or :class:`relive.rl.Sequences`."""
        ...

    def policy(self, spec: EnvironmentSpec, seat: Seat) -> Policy:
        """A policy for a worker, or for evaluations."""
        ...

    def learner(self, spec: EnvironmentSpec, seed: int) -> Learner:
        """The learner of a run; ``seed`` is below 2**63."""
        ...


@dataclasses.dataclass
class Learnt:
    """What :meth:`Learner.learn` tells, where it is more than numbers to be logged."""

    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Numbers to be logged, by name."""
    priorities: Any = None
    """New priorities of the batch's items, ``[B]``."""
    steps: int = 1
    """Gradient steps that were made."""
    samples: int | None = None
    """Items, or steps of a rollout, that they were made from, each counted as often as it was used; those of the batch unless set."""
