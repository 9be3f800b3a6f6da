"""Replay buffers with simple steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from relive import ReplayBuffer


def step(number: int) -> dict[str, Any]:
    return {
        "observation": np.full(4, number, np.float32),
        "action": number % 3,
        "reward": np.float32(number),
        "next_observation": np.full(4, number + 1, np.float32),
        "done": number % 10 == 9,
    }


def filled(count: int = 50, capacity: int = 100, **arguments: Any) -> ReplayBuffer:
    buffer = ReplayBuffer(capacity, **arguments)
    for number in range(count):
        buffer.add(step(number))
    return buffer


def rewards(buffer: ReplayBuffer) -> list[float]:
    """Returns the rewards of all transitions, in order of insertion."""
    client = buffer.server.localhost_client()
    keys = [item.key for item in client.items("replay")]
    samples = client.get_items("replay", keys)
    return [float(sample.data["reward"]) for sample in samples if sample is not None]


def priorities(buffer: ReplayBuffer) -> list[float]:
    """Returns the priorities of all transitions, in order of insertion."""
    len(buffer)
    return [item.priority for item in buffer.server.localhost_client().items("replay")]
