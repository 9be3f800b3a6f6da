"""Behavioral cloning from a store of trajectories in shared memory.

    python behavior_cloning.py                             # imitates a player that always catches the ball
    python behavior_cloning.py CartPole-v1 --data FOLDER   # a recording by `relive rl record`
    python behavior_cloning.py Hopper-v5 --data FILE.hdf5  # a D4RL file; Gymnasium creates the environment

The store draws episodes in proportion to their lengths and one step of each, so that all steps of the data are equally
likely.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from relive import gpu, rl
from relive.rl import recorded

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from environments import made, parser_of  # noqa: E402


def catch(observation: Any) -> int:
    """Moves the paddle, which is in the last row, below the ball."""
    ball = int(observation[:-1].sum(0).argmax()) if observation[:-1].any() else int(observation[-1].argmax())
    return int(np.sign(ball - int(observation[-1].argmax()))) + 1


def expert_episodes(count: int, seed: int) -> list[recorded.Episode]:
    environment = rl.make("catch/0", seed=seed)
    return [recorded.play(environment, catch) for _ in range(count)]


def network(spec: Any, width: int = 64) -> nn.Module:
    inputs = int(np.prod(spec.observations.shape))
    outputs = getattr(spec.actions, "num_values", None) or int(np.prod(spec.actions.shape))
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, outputs))


def train(data: Any, environment: Any, *, steps: int, seed: int, device: str = "cpu") -> nn.Module:
    """Trains a network to imitate the actions in the data."""
    torch.manual_seed(seed)
    spec = rl.make_environment_spec(environment)
    module = network(spec).to(device)
    optimizer = torch.optim.Adam(module.parameters(), 1e-3)
    now = {"observations": gpu.Window(), "actions": gpu.Window()}
    with gpu.Store.of_dataset(data, weight="length") as store:
        with store.loader(64, now, sampling="weighted", seed=seed, framework="torch", device=device) as loader:
            for _, batch in zip(range(steps), loader, strict=False):
                outputs, actions = module(batch.data["observations"].float()), batch.data["actions"]
                if hasattr(spec.actions, "num_values"):
                    loss = F.cross_entropy(outputs, actions.flatten().long())
                else:
                    loss = F.mse_loss(outputs, actions.float().flatten(1))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    return module.cpu()


def mean_return(module: nn.Module, environment: Any, *, episodes: int) -> float:
    actions = rl.make_environment_spec(environment).actions

    @torch.no_grad()
    def act(observation: Any) -> Any:
        outputs = module(torch.as_tensor(observation, dtype=torch.float32).reshape(1, -1))[0]
        if hasattr(actions, "num_values"):
            return int(outputs.argmax())
        shaped = outputs.numpy().reshape(actions.shape)
        return np.clip(shaped, actions.minimum, actions.maximum) if hasattr(actions, "minimum") else shaped

    return float(np.mean([recorded.play(environment, act).rewards.sum() for _ in range(episodes)]))


def main() -> None:
    parser = parser_of(__doc__, steps=1000)
    options = parser.parse_args()
    if options.data is None and not options.environment.startswith("catch/"):
        parser.error("give --data: without it the episodes are those of a player that knows catch/0 only")
    torch.set_num_threads(1)
    environment = made(options.environment, options.seed)
    data = options.data or expert_episodes(100, options.seed)
    module = train(data, environment, steps=options.steps, seed=options.seed, device=options.device)
    print(f"mean return of 50 episodes: {mean_return(module, environment, episodes=50):.2f}")


if __name__ == "__main__":
    main()
