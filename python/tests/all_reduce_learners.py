"""Members of rings that learn with PyTorch, each in its own process: ``all_reduce_learners.py MODE RANK RANKS ADDRESS``.
Each member prints its results as JSON."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from typing import Any

import numpy as np
import torch
from all_reduce_members import join
from relive import rl
from relive.rl import torch as rlt
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel


def rows() -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(5)
    return torch.from_numpy(rng.standard_normal((64, 6), dtype=np.float32)), torch.from_numpy(rng.standard_normal((64, 1), dtype=np.float32))


def regression(ring: rl.AllReduce) -> Any:
    """Learns from each ``ranks``-th row of a batch."""
    torch.manual_seed(ring.rank)
    module = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
    parameters = list(module.parameters())
    ring.broadcast([parameter.detach().numpy() for parameter in parameters])
    optimizer = torch.optim.Adam(parameters, 0.01)
    inputs, targets = (part[ring.rank :: ring.ranks] for part in rows())
    for _ in range(20):
        optimizer.zero_grad()
        nn.functional.mse_loss(module(inputs), targets).backward()
        ring.mean([parameter.grad.numpy() for parameter in parameters if parameter.grad is not None])
        optimizer.step()
    return [parameter.detach().numpy().ravel().tolist() for parameter in parameters]


class Policy(rlt.Policy):
    """Acts by logits."""

    def act(self, observations: Any, starts: Any) -> Any:
        return torch.distributions.Categorical(logits=self.module(torch.as_tensor(observations, dtype=torch.float32))).sample()


class Learner(rlt.Learner):
    """Learns together with other learners: with PyTorch's distributed training, or with a ring."""

    def __init__(self, module: nn.Module, ring: rl.AllReduce | None) -> None:
        self.module = module
        self.optimizer = torch.optim.Adam(module.parameters(), 0.01)
        self._ring = ring
        self._learning = module
        if ring is None:
            self._learning = DistributedDataParallel(module)
        else:
            ring.broadcast([parameter.detach().numpy() for parameter in module.parameters()])

    def learn(self, rollout: rl.Rollout) -> dict[str, float]:
        steps = rlt.tensors(rollout.steps(rewards=rollout.rewards))
        log_prob = torch.distributions.Categorical(logits=self._learning(steps["observations"])).log_prob(steps["actions"])
        self.optimizer.zero_grad()
        loss = -(log_prob * (steps["rewards"] - 0.5)).mean()
        loss.backward()
        if self._ring is not None:
            self._ring.mean([parameter.grad.numpy() for parameter in self.module.parameters() if parameter.grad is not None])
        self.optimizer.step()
        return {"loss": loss.item()}


class Agent:
    """Keeps its learner."""

    experience = rl.Rollouts(steps=16, environments=4)

    def __init__(self, ring: rl.AllReduce | None) -> None:
        self._ring = ring
        self.made: Learner | None = None

    def policy(self, spec: Any, context: Any) -> Policy:
        return Policy(nn.Linear(4, 2))

    def learner(self, spec: Any, seed: int) -> Learner:
        torch.manual_seed(seed)
        self.made = Learner(nn.Linear(4, 2), self._ring)
        return self.made


def agent(ring: rl.AllReduce | None, rank: int) -> Any:
    """Executes the run of this rank; returns a digest of its learner's final weights, and its episodes."""
    own = Agent(ring)
    result = rl.run(own, "CartPole-v1", steps=100_000, learner_steps=16, seed=rank + 1)
    assert own.made is not None
    weights = b"".join(parameter.detach().numpy().tobytes() for parameter in own.made.module.parameters())
    return {"weights": hashlib.sha256(weights).hexdigest(), "episodes": result.episodes.lengths.tolist(), "steps": result.learner_steps}


def main(mode: str, rank: int, ranks: int, address: str) -> None:
    if mode == "gloo":
        host, port = address.split(":")
        os.environ.update(MASTER_ADDR=host, MASTER_PORT=port)
        distributed.init_process_group("gloo", rank=rank, world_size=ranks)
        print(json.dumps(agent(None, rank)), flush=True)
        distributed.destroy_process_group()
    else:
        join(mode, rank, ranks, address, regression if mode == "regression" else lambda ring: agent(ring, rank))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
