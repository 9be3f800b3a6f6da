"""One run of Stable-Baselines3 with the settings from a case. Prints steps per second, steps per second of processor
time, and memory in MiB, for the whole of `learn`."""

from __future__ import annotations

import json
import sys
import time

import torch
from frames import pong, resident_mib, tell
from stable_baselines3 import DQN, PPO, SAC
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


def dqn(settings: dict) -> BaseAlgorithm:
    return DQN("CnnPolicy", pong(), learning_rate=settings["learning_rate"], gamma=settings["discount"], buffer_size=settings["max_replay_size"],
               learning_starts=settings["min_replay_size"], batch_size=settings["batch_size"], train_freq=settings["train_freq"],
               target_update_interval=settings["train_freq"] * settings["target_update_period"], exploration_initial_eps=settings["epsilon"],
               exploration_final_eps=settings["epsilon"], device="cpu", seed=1)


def main() -> None:
    agent, steps, threads, settings = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
    torch.set_num_threads(threads)
    before = resident_mib()
    model = {"ppo": ppo, "sac": sac, "dqn": dqn}[agent](settings)
    began = time.perf_counter(), time.process_time()
    model.learn(steps)
    seconds = time.perf_counter() - began[0], time.process_time() - began[1]
    tell(model.num_timesteps, seconds, before)


if __name__ == "__main__":
    main()
