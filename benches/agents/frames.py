"""Preprocessed Pong, four frames of 84 by 84 bytes, and the network of Mnih et al. (2015), as in Stable-Baselines3."""

from __future__ import annotations

import sys
from typing import Any

import ale_py
import gymnasium
import torch
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation
from torch import nn

gymnasium.register_envs(ale_py)


def pong(seed: int = 1) -> gymnasium.Env[Any, Any]:
    env = gymnasium.make("ALE/Pong-v5", frameskip=1)
    env = FrameStackObservation(AtariPreprocessing(env, noop_max=30, frame_skip=4), 4)
    env.action_space.seed(seed)
    return env


class Nature(nn.Module):
    """The network, which returns the values of all actions."""

    def __init__(self, actions: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten(),
            nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, actions),
        )

    def forward(self, frames: torch.Tensor) -> Any:
        return self.layers(frames.float() / 255)


def q_loss(module: nn.Module, target: nn.Module, data: Any) -> Any:
    """Returns the loss of Mnih et al. (2015), as in Stable-Baselines3; all transitions have the same weight."""
    with torch.no_grad():
        goal = data["reward"] + data["discount"] * target(data["next_observation"]).max(1).values
    taken = module(data["observation"]).gather(1, data["action"][:, None]).squeeze(1)
    return nn.functional.smooth_l1_loss(taken, goal, reduction="none")


def resident_mib() -> float:
    """Returns the current memory use of the process."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024


def tell(steps: int, seconds: tuple[float, float], before_mib: float) -> None:
    """Prints the last line of a run: steps per second, steps per second of processor time, and the run's memory in
    MiB."""
    print(*(steps / took for took in seconds), resident_mib() - before_mib, file=sys.stdout)
