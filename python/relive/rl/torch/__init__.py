"""Agents of one's own in PyTorch: what they share, weights, states and batches; and a DQN of which one thing can be changed."""

from relive.rl.torch._dqn import DQN, double_q_loss
from relive.rl.torch._parts import Learner, Policy, Stateful, load, step, tensors, update_target

__all__ = ["DQN", "Learner", "Policy", "Stateful", "double_q_loss", "load", "step", "tensors", "update_target"]
