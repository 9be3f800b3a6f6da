"""Behavioural cloning from a store of trajectories in shared memory.

    python behaviour_cloning.py                             # imitates who always catches the ball
    python behaviour_cloning.py catch/0 --data FOLDER       # as `relive rl record` has recorded it

The store draws episodes by their lengths and a step of each, so that all steps of the data are drawn alike.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from relive import gpu, rl
from relive.rl import recorded


def catch(observation: Any) -> int:
    """Moves the paddle, the last row, below the ball."""
    ball = int(observation[:-1].sum(0).argmax()) if observation[:-1].any() else int(observation[-1].argmax())
    return int(np.sign(ball - int(observation[-1].argmax()))) + 1


def expert_episodes(count: int, seed: int) -> list[recorded.Episode]:
    environment = rl.make("catch/0", seed=seed)
    return [recorded.play(environment, catch) for _ in range(count)]


def network(spec: Any, width: int = 64) -> nn.Module:
    inputs = int(np.prod(spec.observations.shape))
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, spec.actions.num_values))


def train(data: Any, environment: Any, *, steps: int, seed: int, device: str = "cpu") -> nn.Module:
    """A network that does what was done in the data."""
    torch.manual_seed(seed)
    module = network(rl.make_environment_spec(environment)).to(device)
    optimizer = torch.optim.Adam(module.parameters(), 1e-3)
    now = {"observations": gpu.Window(), "actions": gpu.Window()}
    with gpu.Store.of_dataset(data, weight="length") as store:
        with store.loader(64, now, sampling="weighted", seed=seed, framework="torch", device=device) as loader:
            for _, batch in zip(range(steps), loader, strict=False):
                logits = module(batch.data["observations"].float())
                loss = F.cross_entropy(logits, batch.data["actions"].flatten().long())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    return module.cpu()


def mean_return(module: nn.Module, environment: Any, *, episodes: int) -> float:
    @torch.no_grad()
    def act(observation: Any) -> int:
        return int(module(torch.as_tensor(observation, dtype=torch.float32)[None]).argmax())

    return float(np.mean([recorded.play(environment, act).rewards.sum() for _ in range(episodes)]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("environment", nargs="?", default="catch/0")
    parser.add_argument("--data", help="anything that Store.insert_dataset takes by its path")
    parser.add_argument("--steps", type=int, default=1000, help="of the optimiser")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    torch.set_num_threads(1)
    environment = rl.make(options.environment, seed=options.seed)
    data = options.data or expert_episodes(100, options.seed)
    module = train(data, environment, steps=options.steps, seed=options.seed, device=options.device)
    print(f"mean return of 50 episodes: {mean_return(module, environment, episodes=50):.2f}")


if __name__ == "__main__":
    main()
