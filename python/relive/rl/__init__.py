"""Agents and environments.

>>> result = DQN(n_step=3).train("catch/0", steps=9_000)  # doctest: +SKIP
>>> result.mean_return_last_100, result.policy(observation)  # doctest: +SKIP

The agents, ``DQN``, ``PPO``, ``SAC``, ``R2D2`` and the others that ``relive rl agents`` lists, run in Rust. An
environment given by its identifier (``"catch/0"`` and the others of bsuite, ``"CartPole-v1"``, ``"Acrobot-v1"``,
``"MountainCar-v0"``, ``"MountainCarContinuous-v0"``, ``"Pendulum-v1"``, ``"control/cartpole-swingup"`` and the other
swing-ups, ``"pixels/catch"``) also runs in Rust, without the interpreter; ``make`` creates it for Python code. Any
other environment, from Gymnasium or with dm_env's interface, is stepped in Python. These packages are imported only if
they are used. The result of training is a ``Policy``, the same class for all agents.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from relive.rl import contracts, loggers
from relive.rl._costs import Costs, Prediction, TableRate
from relive.rl._run import run
from relive.rl._episodes import EpisodeLog
from relive.rl._training import TrainingResult, plot
from relive.rl.agents import (
    APPO,
    BC,
    BCQ,
    CQL,
    CRR,
    D4PG,
    DDPG,
    DMPO,
    IMPALA,
    IQL,
    MCTS,
    MPO,
    R2D2,
    R2D3,
    TD3,
    TD3BC,
    ApeX,
    DQfD,
    Rainbow,
)
from relive.rl._all_reduce import AllReduce
from relive.rl.atari import Atari
from relive.rl.conformance import ContractError, check_environment
from relive.rl.contracts import Learnt, PolicyContext
from relive.rl.dqn import DQN, DQNConfig
from relive.rl.environments import Environment, NativeEnvironment, make
from relive.rl.experience import Rollouts, Sequences, Transitions
from relive.rl.datasets import arrays_of, save_dataset
from relive.rl.evaluation import Evaluation, evaluate
from relive.rl.gymnasium_adapters import GymEnvironment, as_gymnasium
from relive.rl.on_policy import A2C, A2CConfig, A3C, A3CConfig, PPO, PPOConfig
from relive.rl.policy import Policy
from relive.rl.rollout import Rollout, minibatches
from relive.rl.sac import SAC, SACConfig
from relive.rl.specs import DiscreteArraySpec, EnvironmentSpec, make_environment_spec
from relive.rl.timestep import StepType, TimeStep, restart, termination, transition, truncation
from relive.rl.wrappers import CanonicalSpec, EnvironmentWrapper, SinglePrecision
from relive.rl.wrappers_episodes import ActionRepeat, DelayedReward, NoopStarts, StepLimit
from relive.rl.wrappers_observations import (
    OAR,
    ConcatObservation,
    ExpandScalar,
    FrameStacking,
    ObservationActionReward,
)

if TYPE_CHECKING:
    from relive.rl import adders, jax, recorded, torch, vector

__all__ = [
    "A2C",
    "A2CConfig",
    "A3C",
    "A3CConfig",
    "APPO",
    "ActionRepeat",
    "AllReduce",
    "ApeX",
    "Atari",
    "BC",
    "BCQ",
    "CQL",
    "CRR",
    "CanonicalSpec",
    "ConcatObservation",
    "ContractError",
    "Costs",
    "D4PG",
    "DDPG",
    "DMPO",
    "DQN",
    "DQNConfig",
    "DQfD",
    "DelayedReward",
    "DiscreteArraySpec",
    "Environment",
    "EnvironmentSpec",
    "EnvironmentWrapper",
    "EpisodeLog",
    "Evaluation",
    "ExpandScalar",
    "FrameStacking",
    "GymEnvironment",
    "IMPALA",
    "IQL",
    "Learnt",
    "MCTS",
    "MPO",
    "NativeEnvironment",
    "NoopStarts",
    "OAR",
    "ObservationActionReward",
    "PPO",
    "PPOConfig",
    "Policy",
    "Prediction",
    "R2D2",
    "R2D3",
    "Rainbow",
    "Rollout",
    "Rollouts",
    "SAC",
    "SACConfig",
    "PolicyContext",
    "Sequences",
    "SinglePrecision",
    "StepLimit",
    "StepType",
    "TD3",
    "TD3BC",
    "TableRate",
    "TimeStep",
    "TrainingResult",
    "Transitions",
    "adders",
    "arrays_of",
    "as_gymnasium",
    "check_environment",
    "contracts",
    "evaluate",
    "jax",
    "loggers",
    "make",
    "make_environment_spec",
    "minibatches",
    "plot",
    "recorded",
    "restart",
    "run",
    "save_dataset",
    "termination",
    "torch",
    "transition",
    "truncation",
    "vector",
]

# Names that many programs do not need; they are loaded at first use.
_LAZY_MODULES = frozenset({"adders", "jax", "recorded", "torch", "vector"})


# Hidden from type checkers, which would otherwise accept any name of this module.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _LAZY_MODULES:
            return importlib.import_module(f"relive.rl.{name}")
        raise AttributeError(f"module 'relive.rl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY_MODULES})
