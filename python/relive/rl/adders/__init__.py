"""Adders turn the steps of an episode into items of a table: Acme's adders, based on this package's client.

>>> adder = NStepTransitionAdder(client, n_step=5, discount=0.99)  # doctest: +SKIP
>>> adder.add_first(environment.reset())  # doctest: +SKIP
>>> adder.add(action, environment.step(action))  # doctest: +SKIP

Time steps can be dm_env's, this package's, or any objects with the same fields. Arguments with Acme's names have Acme's
meaning. As in Acme, items, their signatures and the arguments of priority functions are named tuples:
:class:`Transition`, or :class:`Step` for sequences and episodes.
"""

from relive.rl.adders.base import DEFAULT_PRIORITY_TABLE, Adder, PriorityFn, PriorityFnInput, Step, Transition
from relive.rl.adders.episode import EpisodeAdder
from relive.rl.adders.n_step import NStepTransitionAdder, n_step_return
from relive.rl.adders.sequence import EndBehavior, SequenceAdder
from relive.rl.adders.structured import (
    StructuredAdder,
    create_n_step_transition_config,
    create_sequence_config,
    create_step_spec,
    n_step_from_trajectory,
)
from relive.rl.adders.wrappers import ForkingAdder, IgnoreExtrasAdder

__all__ = [
    "DEFAULT_PRIORITY_TABLE",
    "Adder",
    "EndBehavior",
    "EpisodeAdder",
    "ForkingAdder",
    "IgnoreExtrasAdder",
    "NStepTransitionAdder",
    "PriorityFn",
    "PriorityFnInput",
    "SequenceAdder",
    "Step",
    "StructuredAdder",
    "Transition",
    "create_n_step_transition_config",
    "create_sequence_config",
    "create_step_spec",
    "n_step_from_trajectory",
    "n_step_return",
]
