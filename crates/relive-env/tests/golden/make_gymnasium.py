"""Writes gymnasium.json: trajectories of Gymnasium's classic control tasks. Needs gymnasium 1.4.0 and numpy 2."""

import json
import pathlib

import gymnasium
import numpy as np

TASKS = ["CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"]
SEEDS = (0, 1, 42)
DETAILED_STEPS = 60
STEPS = 20_000
HASH_EVERY = 1_000


class Fnv:
    """FNV-1a of 64 bits."""

    def __init__(self):
        self.value = 0xCBF29CE484222325

    def add(self, data):
        for byte in data:
            self.value = ((self.value ^ byte) * 0x100000001B3) % 2**64


def actions(environment, seed):
    """Actions from the seed's legacy stream: whole numbers, or numbers in [-2.2, 2.2), which can be out of bounds."""
    stream = np.random.RandomState(seed)
    count = getattr(environment.action_space, "n", None)
    while True:
        yield int(stream.randint(count)) if count else np.array([stream.uniform(-2.2, 2.2)], dtype=np.float32)


def trajectory(task, seed):
    """Hashes the results of steps, but not of resets: Acrobot's resets return cosines that numpy computes in
    float32."""
    environment = gymnasium.make(task)
    observation, _ = environment.reset(seed=seed)
    rows, hashes, returns, episode = [[observation.tolist()]], [], [], 0.0
    digest = Fnv()
    total = 0
    for step, action in zip(range(STEPS), actions(environment, seed)):
        observation, reward, terminated, truncated, _ = environment.step(action)
        episode += float(reward)
        row = [observation.tolist(), float(reward), bool(terminated), bool(truncated)]
        digest.add(observation.astype("<f4").tobytes())
        digest.add(np.array(float(reward), dtype="<f8").tobytes())
        if terminated or truncated:
            total += 1
            returns.append(episode)
            episode = 0.0
            observation, _ = environment.reset()
            row.append(observation.tolist())
        if step < DETAILED_STEPS:
            rows.append(row)
        if (step + 1) % HASH_EVERY == 0:
            hashes.append(f"{digest.value:016x}")
    return {"task": task, "seed": seed, "rows": rows, "hashes": hashes, "episodes": total, "returns": returns[:50]}


document = [trajectory(task, seed) for task in TASKS for seed in SEEDS]
target = pathlib.Path(__file__).with_name("gymnasium.json")
target.write_text("[\n" + ",\n".join(json.dumps(entry) for entry in document) + "\n]\n")
