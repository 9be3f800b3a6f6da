"""One run of Stable-Baselines3 with the settings of a case. Prints steps per second and per second of processor time, of the whole of `learn`."""

from __future__ import annotations

import json
import sys
import time

import torch
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env


def ppo(settings: dict) -> BaseAlgorithm:
    envs = make_vec_env("CartPole-v1", n_envs=8, seed=1)
    return PPO("MlpPolicy", envs, n_steps=settings["num_steps"], batch_size=settings["minibatch_size"], n_epochs=settings["epochs"],
               gamma=settings["discount"], gae_lambda=settings["gae_lambda"], learning_rate=settings["learning_rate"],
               device="cpu", seed=1)


def sac(settings: dict) -> BaseAlgorithm:
    return SAC("MlpPolicy", "Pendulum-v1", learning_rate=settings["learning_rate"], gamma=settings["discount"],
               learning_starts=settings["min_replay_size"], batch_size=settings["batch_size"],
               policy_kwargs={"net_arch": [256, 256]}, device="cpu", seed=1)


def main() -> None:
    agent, steps, threads, settings = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
    torch.set_num_threads(threads)
    model = {"ppo": ppo, "sac": sac}[agent](settings)
    began = time.perf_counter(), time.process_time()
    model.learn(steps)
    seconds = time.perf_counter() - began[0], time.process_time() - began[1]
    print(*(model.num_timesteps / took for took in seconds))


if __name__ == "__main__":
    main()
