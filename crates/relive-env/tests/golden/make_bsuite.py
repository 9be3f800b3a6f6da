"""Writes bsuite.json: totals of random play in bsuite's environments. Needs bsuite 0.3.6 and numpy 1.26."""

import json
import pathlib

import numpy as np
from bsuite.environments import bandit, catch, cartpole, deep_sea, discounting_chain, memory_chain, mountain_car
from bsuite.environments import umbrella_chain
from bsuite.experiments.cartpole_swingup import cartpole_swingup
from bsuite.utils import wrappers

EPISODES = 1_000
SEED = 5
ACTION_SEED = 17

ENVIRONMENTS = {
    "bandit": lambda: bandit.SimpleBandit(3),
    "catch": lambda: catch.Catch(seed=SEED),
    "catch_noise": lambda: wrappers.RewardNoise(catch.Catch(seed=SEED), 0.3, SEED),
    "catch_scale": lambda: wrappers.RewardScale(catch.Catch(seed=SEED), 30.0, SEED),
    "cartpole": lambda: cartpole.Cartpole(seed=SEED),
    "cartpole_swingup": lambda: cartpole_swingup.CartpoleSwingup(0.25, x_reward_threshold=0.75, seed=SEED),
    "mountain_car": lambda: mountain_car.MountainCar(seed=SEED),
    "deep_sea": lambda: deep_sea.DeepSea(10, seed=SEED, mapping_seed=42),
    "deep_sea_small": lambda: deep_sea.DeepSea(4, seed=SEED, mapping_seed=42),
    "deep_sea_stochastic": lambda: deep_sea.DeepSea(12, deterministic=False, seed=SEED, mapping_seed=42),
    "discounting_chain": lambda: discounting_chain.DiscountingChain(3),
    "memory_len": lambda: memory_chain.MemoryChain(7, seed=SEED),
    "memory_size": lambda: memory_chain.MemoryChain(2, num_bits=12, seed=SEED),
    "umbrella": lambda: umbrella_chain.UmbrellaChain(20, n_distractor=14, seed=SEED),
}


class Fnv:
    """FNV-1a of 64 bits, over 32-bit words for speed."""

    def __init__(self):
        self.value = 0xCBF29CE484222325

    def add(self, words):
        for word in words:
            self.value = ((self.value ^ word) * 0x100000001B3) % 2**64


def play(name, make):
    """Plays, and hashes every observation and reward."""
    environment, stream = make(), np.random.RandomState(ACTION_SEED)
    count = environment.action_spec().num_values
    steps, total_return, digest = 0, 0.0, Fnv()
    for _ in range(EPISODES):
        timestep = environment.reset()
        digest.add(timestep.observation.astype("<f4").view("<u4").ravel().tolist())
        while not timestep.last():
            timestep = environment.step(int(stream.randint(count)))
            steps += 1
            total_return += float(timestep.reward)
            digest.add(timestep.observation.astype("<f4").view("<u4").ravel().tolist())
            digest.add(np.array([float(timestep.reward)], dtype="<f8").view("<u4").tolist())
    info = {key: float(value) for key, value in environment.bsuite_info().items()}
    totals = {"name": name, "episodes": EPISODES, "steps": steps, "total_return": total_return}
    return totals | {"info": info, "hash": f"{digest.value:016x}"}


target = pathlib.Path(__file__).with_name("bsuite_totals.json")
entries = [play(name, make) for name, make in ENVIRONMENTS.items()]
target.write_text("[\n" + ",\n".join(json.dumps(entry) for entry in entries) + "\n]\n")
