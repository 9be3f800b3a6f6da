"""Custom agents in PyTorch: helpers for weights, states and batches, and DQN, PPO and SAC with replaceable parts."""

from relive.rl.torch._adam import Adam
from relive.rl.torch._choices import Categorical
from relive.rl.torch._dqn import DQN, double_q_loss
from relive.rl.torch._parts import Learner, Policy, Stateful, load, step, tensors, update_target
from relive.rl.torch._ppo import PPO, clipped_surrogate_loss
from relive.rl.torch._sac import SAC, squared_critic_loss

__all__ = [
    "Adam",
    "Categorical",
    "DQN",
    "Learner",
    "PPO",
    "Policy",
    "SAC",
    "Stateful",
    "clipped_surrogate_loss",
    "double_q_loss",
    "load",
    "squared_critic_loss",
    "step",
    "tensors",
    "update_target",
]
