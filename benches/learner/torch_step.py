"""The workloads of `learner_step` in eager PyTorch, written in the usual way. Prints the median and the tenth
percentile in microseconds."""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from torch.nn import functional

BATCHES = 8
Step = Callable[[int], None]


def batches(make: Callable[[np.random.Generator], tuple[np.ndarray, ...]]) -> list[tuple[np.ndarray, ...]]:
    rng = np.random.default_rng(1)
    return [make(rng) for _ in range(BATCHES)]


def normals(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32)


def mlp(inputs: int, hidden: int, actions: int, batch: int) -> Step:
    network = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, actions))
    optimizer = torch.optim.Adam(network.parameters())
    data = batches(lambda rng: (normals(rng, batch, inputs), rng.integers(0, actions, batch), normals(rng, batch)))

    def step(index: int) -> None:
        x, taken, targets = map(torch.from_numpy, data[index])
        q = network(x).gather(1, taken[:, None])[:, 0]
        loss = functional.huber_loss(q, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def conv() -> Step:
    network = nn.Sequential(
        nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1), nn.ReLU(),
        nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 6))
    target = copy.deepcopy(network)
    optimizer = torch.optim.Adam(network.parameters())

    def pictures(rng: np.random.Generator) -> np.ndarray:
        return rng.integers(0, 256, (32, 4, 84, 84), dtype=np.uint8)

    data = batches(lambda rng: (pictures(rng), pictures(rng), rng.integers(0, 6, 32), normals(rng, 32)))

    def step(index: int) -> None:
        before, after, taken, rewards = map(torch.from_numpy, data[index])
        with torch.no_grad():
            targets = rewards + 0.99 * target(after.float() / 255).max(1).values
        q = network(before.float() / 255).gather(1, taken[:, None])[:, 0]
        loss = functional.huber_loss(q, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def lstm() -> Step:
    steps, batch, inputs, units, outputs = 20, 32, 64, 128, 8
    recurrent, head = nn.LSTM(inputs, units), nn.Linear(units, outputs)
    optimizer = torch.optim.Adam([*recurrent.parameters(), *head.parameters()])
    data = batches(lambda rng: (normals(rng, steps, batch, inputs), normals(rng, steps, batch, outputs)))

    def step(index: int) -> None:
        x, y = map(torch.from_numpy, data[index])
        loss = functional.mse_loss(head(recurrent(x)[0]), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def act() -> Step:
    """Takes 100 greedy actions, one by one."""
    network = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
    data = batches(lambda rng: (normals(rng, 1, 8),))

    def step(index: int) -> None:
        with torch.no_grad():
            for offset in range(100):
                network(torch.from_numpy(data[(index + offset) % BATCHES][0])).argmax(1).item()

    return step


WORKLOADS: dict[str, Callable[[], Step]] = {
    "mlp64": lambda: mlp(8, 64, 4, 32),
    "mlp256": lambda: mlp(32, 256, 8, 256),
    "conv": conv,
    "lstm": lstm,
    "act64": act,
}


def main() -> None:
    torch.set_num_threads(1)
    step, steps = WORKLOADS[sys.argv[1]](), int(sys.argv[2])
    times = []
    for index in range(steps + steps // 5 + 2):
        begin = time.perf_counter()
        step(index % BATCHES)
        times.append((time.perf_counter() - begin) * 1e6)
    measured = sorted(times[-steps:])
    print(f"{measured[steps // 2]:.3f} {measured[steps // 10]:.3f}")


if __name__ == "__main__":
    main()
